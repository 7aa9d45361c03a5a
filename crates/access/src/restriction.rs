//! `authenticationRestrictions`: from where a user may log in, and at which addresses of the server.
//!
//! Source: MongoDB manual 7.0, "Authentication Restrictions".

use crate::AccessError;
use document::{Document, RawArray, RawDocument, RawValue, Value};
use std::net::IpAddr;

/// A range of addresses: one, or `address/bits`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRange {
    text: String,
    address: IpAddr,
    bits: u32,
}

impl AddressRange {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then(|| AddressRange { text: text.to_owned(), address, bits })
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        // Zero bits shift everything out.
        let same = |own: u128, other: u128, width: u32| match width - self.bits {
            shift if shift >= 128 => true,
            shift => own >> shift == other >> shift,
        };
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same(u32::from(own).into(), u32::from(other).into(), u32::BITS)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => same(own.into(), other.into(), u128::BITS),
            _ => false,
        }
    }
}

/// The two ends of a connection that logs in. That of a Unix socket has no addresses.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoginEnds {
    /// From where it comes.
    pub client: Option<IpAddr>,
    /// Where it was accepted.
    pub server: Option<IpAddr>,
}

/// Addresses that a login is held to; an empty list holds it to nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LoginRestriction {
    client_source: Vec<AddressRange>,
    server_address: Vec<AddressRange>,
}

impl LoginRestriction {
    /// Reads a list of them.
    ///
    /// # Errors
    /// Unknown fields, what is no address.
    pub fn parse_list(list: RawArray<'_>) -> Result<Vec<Self>, AccessError> {
        let one = |value: RawValue<'_>| match value {
            RawValue::Document(restriction) => LoginRestriction::parse(restriction),
            _ => Err(AccessError::BadValue("an authentication restriction has to be an object".to_owned())),
        };
        list.iter().map(one).collect()
    }

    fn parse(restriction: RawDocument<'_>) -> Result<Self, AccessError> {
        let mut parsed = LoginRestriction::default();
        for element in restriction {
            let place = match element.name() {
                "clientSource" => &mut parsed.client_source,
                "serverAddress" => &mut parsed.server_address,
                name => {
                    return Err(AccessError::BadValue(format!(
                        "Unknown field '{name}' in an authentication restriction"
                    )));
                }
            };
            let RawValue::Array(ranges) = element.value() else {
                return Err(AccessError::BadValue(format!("'{}' has to be an array", element.name())));
            };
            for range in ranges.iter() {
                let text = range.as_str().unwrap_or_default();
                let range = AddressRange::parse(text)
                    .ok_or_else(|| AccessError::BadValue(format!("'{text}' is no address or CIDR range")))?;
                place.push(range);
            }
        }
        Ok(parsed)
    }

    /// The restrictions in a stored document.
    pub(crate) fn stored(document: RawDocument<'_>) -> Result<Vec<Self>, AccessError> {
        match document.get("authenticationRestrictions") {
            Some(RawValue::Array(list)) => LoginRestriction::parse_list(list),
            _ => Ok(Vec::new()),
        }
    }

    /// As it is stored and shown.
    pub fn to_document(&self) -> Document {
        let mut document = Document::new();
        for (name, ranges) in [("clientSource", &self.client_source), ("serverAddress", &self.server_address)]
        {
            let texts: Vec<Value> = ranges.iter().map(|range| Value::from(range.text.as_str())).collect();
            if !texts.is_empty() {
                document.push(name, texts);
            }
        }
        document
    }

    /// Whether a login by this connection is within it, with both of its ends. Addresses that are not known,
    /// those of Unix sockets, are within no list.
    pub fn allows(&self, ends: LoginEnds) -> bool {
        let is_within = |ranges: &[AddressRange], address: Option<IpAddr>| {
            let is_in_one = |address| ranges.iter().any(|range| range.contains(address));
            ranges.is_empty() || address.is_some_and(is_in_one)
        };
        is_within(&self.client_source, ends.client) && is_within(&self.server_address, ends.server)
    }
}

/// Whether one of the alternatives lets a login pass; without any, it passes.
pub fn login_allowed(list: &[LoginRestriction], ends: LoginEnds) -> bool {
    list.is_empty() || list.iter().any(|restriction| restriction.allows(ends))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, address: &str, expect: bool) {
        let range = AddressRange::parse(range).expect("a range");
        assert_eq!(range.contains(address.parse().expect("an address")), expect, "{address} in {range:?}");
    }

    #[test]
    fn ranges_hold_the_addresses_with_their_first_bits() {
        check("10.1.2.3", "10.1.2.3", true);
        check("10.1.2.3", "10.1.2.4", false);
        check("10.1.0.0/16", "10.1.255.9", true);
        check("10.1.0.0/16", "10.2.0.1", false);
        check("0.0.0.0/0", "203.0.113.9", true);
        check("10.0.0.0/8", "::ffff:10.9.9.9", true);
        check("2001:db8::/32", "2001:db8:1::1", true);
        check("2001:db8::/32", "2001:db9::1", false);
        check("::/0", "2001:db9::1", true);
        check("::/0", "10.0.0.1", false);
        assert_eq!(AddressRange::parse("10.0.0.0/33"), None);
        assert_eq!(AddressRange::parse("example.com"), None);
    }

    #[test]
    fn a_login_is_within_a_restriction_with_both_of_its_ends() {
        let stored = document::doc! { "authenticationRestrictions": [
            { "clientSource": ["10.0.0.0/8"], "serverAddress": ["10.0.0.1", "192.0.2.0/24"] },
            { "serverAddress": ["127.0.0.1"] },
        ] };
        let list = LoginRestriction::stored(stored.to_buf().as_raw()).expect("restrictions");
        let shown: Vec<Value> = list.iter().map(|one| one.to_document().into()).collect();
        assert_eq!(Some(&Value::from(shown)), stored.get("authenticationRestrictions"));
        let check = |client: &str, server: &str| {
            let ends = LoginEnds { client: client.parse().ok(), server: server.parse().ok() };
            login_allowed(&list, ends)
        };
        assert!(check("10.1.1.1", "10.0.0.1") && check("10.1.1.1", "192.0.2.9"));
        assert!(!check("10.1.1.1", "10.0.0.2"), "another address of the server");
        assert!(!check("11.1.1.1", "10.0.0.1"), "another client");
        assert!(check("11.1.1.1", "127.0.0.1") && check("11.1.1.1", "::ffff:127.0.0.1"));
        assert!(!check("10.1.1.1", "a socket"), "no address is in no list");
    }
}
