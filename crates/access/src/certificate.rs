//! The name that a certificate is made out to, as users of `$external` are called (RFC 2253), and whether it
//! is that of a member of the same set.
//!
//! Source: RFC 5280, section 4.1 (what a certificate is), X.690 (how it is written), RFC 2253, section 2.

/// Parts of a name that have a short one: object identifiers as they are written, and the names that OpenSSL
/// and MongoDB show.
const ATTRIBUTES: &[(&[u8], &str)] = &[
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 4], "SN"),
    (&[0x55, 4, 5], "serialNumber"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (&[0x55, 4, 12], "title"),
    (&[0x55, 4, 17], "postalCode"),
    (&[0x55, 4, 42], "GN"),
    (&[0x55, 4, 43], "initials"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1], "emailAddress"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25], "DC"),
    (&[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1], "UID"),
];

const INTEGER: u8 = 0x02;
const OBJECT_IDENTIFIER: u8 = 0x06;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0]`: the version, which the oldest certificates leave out.
const VERSION: u8 = 0xa0;
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const TELETEX_STRING: u8 = 0x14;
const IA5_STRING: u8 = 0x16;
const UNIVERSAL_STRING: u8 = 0x1c;
const BMP_STRING: u8 = 0x1e;

/// Who a certificate is made out to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateName {
    /// All parts, from the last one to the first.
    pub subject: String,
    /// Those that members of one set have in common, and nobody else: organisation, unit and domain
    /// components, sorted.
    pub domain: Vec<String>,
}

impl CertificateName {
    /// Whether it is that of a member of the set that a member with this name is of.
    ///
    /// Source: MongoDB manual 7.0, "Member Certificate Requirements".
    pub fn is_of_set_of(&self, member: &CertificateName) -> bool {
        !member.domain.is_empty() && self.domain == member.domain
    }
}

/// The subject of a certificate in DER. `None` for what is no certificate, or one that is made out to nobody.
pub fn certificate_name(certificate: &[u8]) -> Option<CertificateName> {
    let mut outer = DerReader(certificate);
    let mut signed = DerReader(DerReader(outer.take(SEQUENCE)?).take(SEQUENCE)?);
    signed.take_if(VERSION);
    signed.take(INTEGER)?;
    // The algorithm, the issuer, and from when to when.
    for _ in 0..3 {
        signed.take(SEQUENCE)?;
    }
    let mut subject = DerReader(signed.take(SEQUENCE)?);
    let mut parts = Vec::new();
    let mut domain = Vec::new();
    while !subject.0.is_empty() {
        let attributes = relative_name(subject.take(SET)?)?;
        let of_domain = |attribute: &&String| ["O=", "OU=", "DC="].iter().any(|of| attribute.starts_with(of));
        domain.extend(attributes.iter().filter(of_domain).cloned());
        parts.push(attributes.join("+"));
    }
    parts.reverse();
    domain.sort_unstable();
    (!parts.is_empty()).then(|| CertificateName { subject: parts.join(","), domain })
}

/// The attributes of one part: mostly a single one.
fn relative_name(set: &[u8]) -> Option<Vec<String>> {
    let mut set = DerReader(set);
    let mut attributes = Vec::new();
    while !set.0.is_empty() {
        let mut attribute = DerReader(set.take(SEQUENCE)?);
        let identifier = attribute.take(OBJECT_IDENTIFIER)?;
        let whole = attribute.0;
        let (tag, value) = attribute.take_any()?;
        let known = ATTRIBUTES.iter().find(|(known, _)| *known == identifier);
        attributes.push(match (known, text(tag, value)) {
            (Some((_, name)), Some(text)) => format!("{name}={}", escaped(&text)),
            (Some((_, name)), None) => format!("{name}=#{}", hexadecimal(whole)),
            (None, _) => format!("{}=#{}", dotted(identifier)?, hexadecimal(whole)),
        });
    }
    attributes.reverse();
    (!attributes.is_empty()).then_some(attributes)
}

fn text(tag: u8, value: &[u8]) -> Option<String> {
    match tag {
        UTF8_STRING | PRINTABLE_STRING | IA5_STRING => std::str::from_utf8(value).ok().map(str::to_owned),
        // As everybody writes it: Latin 1.
        TELETEX_STRING => Some(value.iter().map(|byte| char::from(*byte)).collect()),
        BMP_STRING => {
            let (units, rest) = value.as_chunks::<2>();
            let units: Vec<u16> = units.iter().map(|unit| u16::from_be_bytes(*unit)).collect();
            String::from_utf16(&units).ok().filter(|_| rest.is_empty())
        }
        UNIVERSAL_STRING => {
            let (units, rest) = value.as_chunks::<4>();
            let text = units.iter().map(|unit| char::from_u32(u32::from_be_bytes(*unit))).collect();
            Option::<String>::filter(text, |_| rest.is_empty())
        }
        _ => None,
    }
}

/// RFC 2253, section 2.4.
fn escaped(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    let mut escaped = String::with_capacity(text.len());
    for (position, letter) in text.chars().enumerate() {
        let is_special = matches!(letter, ',' | '+' | '"' | '\\' | '<' | '>' | ';')
            || (letter == ' ' && (position == 0 || position == last))
            || (letter == '#' && position == 0);
        match letter {
            '\0'..='\x1f' | '\x7f' => escaped.push_str(&format!("\\{:02X}", u32::from(letter))),
            _ if is_special => escaped.extend(['\\', letter]),
            _ => escaped.push(letter),
        }
    }
    escaped
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02X}")).collect()
}

/// `1.2.840…` of an identifier as it is written.
fn dotted(identifier: &[u8]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in identifier {
        number = number.checked_mul(128)?.checked_add(u64::from(byte & 0x7f))?;
        if byte & 0x80 == 0 {
            match numbers.is_empty() {
                true => numbers.extend([(number / 40).min(2), number - 40 * (number / 40).min(2)]),
                false => numbers.push(number),
            }
            number = 0;
        }
    }
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    (!numbers.is_empty()).then(|| numbers.join("."))
}

/// What is left of some bytes in DER.
struct DerReader<'d>(&'d [u8]);

impl<'d> DerReader<'d> {
    /// The next element's kind and contents.
    fn take_any(&mut self) -> Option<(u8, &'d [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, mut rest) = rest.split_first()?;
        let length = match first {
            0..=0x7f => usize::from(first),
            // More than four bytes of length are no certificate's, and none is DER's.
            0x81..=0x84 => {
                let (bytes, behind) = rest.split_at_checked(usize::from(first & 0x7f))?;
                rest = behind;
                bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte))
            }
            _ => return None,
        };
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, contents))
    }

    fn take(&mut self, wanted: u8) -> Option<&'d [u8]> {
        let (tag, contents) = self.take_any()?;
        (tag == wanted).then_some(contents)
    }

    /// Passes over an element of this kind, if it is the next one.
    fn take_if(&mut self, wanted: u8) {
        if self.0.first() == Some(&wanted) {
            self.take_any();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, contents: &[u8]) -> Vec<u8> {
        let length = contents.len();
        let mut bytes = vec![tag];
        match length {
            0..=0x7f => bytes.push(length as u8),
            _ => bytes.extend([0x82, (length >> 8) as u8, length as u8]),
        }
        bytes.extend_from_slice(contents);
        bytes
    }

    /// Identifier, kind and value.
    type TestAttribute<'a> = (&'a [u8], u8, &'a [u8]);

    /// A certificate as far as it is read, made out to parts of `(identifier, tag, value)`.
    fn certificate(parts: &[&[TestAttribute<'_>]]) -> Vec<u8> {
        let attribute = |(identifier, tag, value): &TestAttribute<'_>| {
            element(SEQUENCE, &[element(OBJECT_IDENTIFIER, identifier), element(*tag, value)].concat())
        };
        let part =
            |part: &&[TestAttribute<'_>]| element(SET, &part.iter().flat_map(attribute).collect::<Vec<u8>>());
        let subject = element(SEQUENCE, &parts.iter().flat_map(part).collect::<Vec<u8>>());
        let others = element(SEQUENCE, &[]);
        let signed = [
            element(VERSION, &element(INTEGER, &[2])),
            element(INTEGER, &[1]),
            others.clone(),
            others.clone(),
            others,
            subject,
            element(SEQUENCE, b"the key and what follows"),
        ];
        element(SEQUENCE, &[element(SEQUENCE, &signed.concat()), b"the signature".to_vec()].concat())
    }

    fn cn(value: &[u8]) -> [TestAttribute<'_>; 1] {
        [(CN, UTF8_STRING, value)]
    }

    const CN: &[u8] = &[0x55, 4, 3];
    const O: &[u8] = &[0x55, 4, 10];

    #[test]
    fn parts_from_the_last_to_the_first_with_what_is_special_escaped() {
        let check = |parts: &[&[TestAttribute<'_>]], expect: Option<&str>| {
            let found = certificate_name(&certificate(parts)).map(|name| name.subject);
            assert_eq!(found.as_deref(), expect);
        };
        check(&[&[(O, PRINTABLE_STRING, b"Heddle")], &cn(b"client")], Some("CN=client,O=Heddle"));
        check(&[&[(O, UTF8_STRING, b"a"), (CN, UTF8_STRING, b"b")]], Some("CN=b+O=a"));
        check(&[&cn("Grün, \"Blau\"".as_bytes())], Some("CN=Grün\\, \\\"Blau\\\""));
        check(&[&cn(b" #x ")], Some("CN=\\ #x\\ "));
        check(&[&cn(b"#x\x01")], Some("CN=\\#x\\01"));
        check(&[&[(CN, BMP_STRING, &[0, b'a', 1, 0x42])]], Some("CN=ał"));
        check(&[&[(CN, TELETEX_STRING, &[0xfc])]], Some("CN=ü"));
        check(&[&[(CN, 0x03, &[0, 1])]], Some("CN=#03020001"));
        check(&[&[(&[0x2a, 0x86, 0x48, 3], UTF8_STRING, b"x")]], Some("1.2.840.3=#0C0178"));
        check(&[&cn(&[b'x'; 300])], Some(&format!("CN={}", "x".repeat(300))));
        check(&[], None);
    }

    #[test]
    fn members_have_organisation_unit_and_domain_in_common() {
        const OU: &[u8] = &[0x55, 4, 11];
        let of = |parts: &[(&'static [u8], &'static [u8])]| {
            let parts: Vec<_> = parts.iter().map(|(kind, value)| [(*kind, UTF8_STRING, *value)]).collect();
            let parts: Vec<&[TestAttribute<'_>]> = parts.iter().map(|part| part.as_slice()).collect();
            certificate_name(&certificate(&parts)).expect("a name")
        };
        let first = of(&[(O, b"Heddle"), (OU, b"db"), (CN, b"one")]);
        let second = of(&[(CN, b"two"), (OU, b"db"), (O, b"Heddle")]);
        assert!(first.is_of_set_of(&second) && second.is_of_set_of(&first));
        for other in [
            of(&[(O, b"Heddle"), (CN, b"one")]),
            of(&[(O, b"Heddle"), (OU, b"db"), (OU, b"db"), (CN, b"one")]),
            of(&[(O, b"db"), (OU, b"Heddle"), (CN, b"one")]),
        ] {
            assert!(!first.is_of_set_of(&other) && !other.is_of_set_of(&first), "{other:?}");
        }
        let nobody = of(&[(CN, b"one")]);
        assert!(!nobody.is_of_set_of(&nobody), "or everybody would be a member");
    }

    #[test]
    fn what_is_no_certificate_has_no_subject() {
        let whole = certificate(&[&[(O, UTF8_STRING, b"Heddle")], &[(CN, UTF8_STRING, b"client")]]);
        // Up to the end of the subject something is missing or another thing.
        for cut in 0..whole.len() - 40 {
            assert_eq!(certificate_name(&whole[..cut]), None, "{cut} bytes");
        }
        for position in 0..whole.len() {
            for value in [0, 0x7f, 0x80, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[position] = value;
                // Whatever comes of it, it comes.
                certificate_name(&changed);
            }
        }
    }
}
