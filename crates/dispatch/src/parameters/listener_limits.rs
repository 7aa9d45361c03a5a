//! The form of `net.listenerMaxIncomingConnections`: a number of connections for each of some listeners.

/// Reads `127.0.0.1=100, /run/heddle.sock=20`.
///
/// # Errors
/// A sentence about the part that cannot be.
pub fn parse_listener_limits(text: &str) -> Result<Vec<(&str, usize)>, String> {
    let mut limits: Vec<(&str, usize)> = Vec::new();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let Some((listener, number)) = part.split_once('=') else {
            return Err(format!("'{part}' is no pair: expected an address, '=' and a number"));
        };
        let (listener, number) = (listener.trim(), number.trim());
        let Some(number) = number.parse().ok().filter(|number| *number > 0) else {
            return Err(format!("'{number}' is no number from 1 on"));
        };
        if listener.is_empty() {
            return Err(format!("'{part}' names no address"));
        }
        if limits.iter().any(|(known, _)| *known == listener) {
            return Err(format!("'{listener}' is there twice"));
        }
        limits.push((listener, number));
    }
    Ok(limits)
}

/// As [`parse_listener_limits`], for the table.
pub(super) fn check(text: &str) -> Result<(), String> {
    parse_listener_limits(text).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&[(&str, usize)], &str>) {
        let found = parse_listener_limits(text);
        assert_eq!(found.as_deref().map_err(String::as_str), expect, "{text}");
    }

    #[test]
    fn each_listener_has_one_number() {
        check("", Ok(&[]));
        check("127.0.0.1=100, /run/h.sock=1", Ok(&[("127.0.0.1", 100), ("/run/h.sock", 1)]));
        check("::1=7,", Ok(&[("::1", 7)]));
        check("100", Err("'100' is no pair: expected an address, '=' and a number"));
        check("a=0", Err("'0' is no number from 1 on"));
        check("a=-1", Err("'-1' is no number from 1 on"));
        check("=1", Err("'=1' names no address"));
        check("a=1,a=2", Err("'a' is there twice"));
    }
}
