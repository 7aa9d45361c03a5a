//! SASLprep: passwords that look the same are the same (RFC 4013).

use crate::AccessError;

/// A password as SCRAM-SHA-256 salts it.
///
/// # Errors
/// Characters that no password may have.
pub fn prepare_password(password: &str) -> Result<String, AccessError> {
    match stringprep::saslprep(password) {
        Ok(prepared) => Ok(prepared.into_owned()),
        Err(error) => Err(AccessError::BadValue(format!("Error preflighting normalization: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(password: &str, expect: Option<&str>) {
        assert_eq!(prepare_password(password).ok().as_deref(), expect, "{password:?}");
    }

    /// RFC 4013, section 3.
    #[test]
    fn the_examples_of_the_rfc() {
        check("I\u{ad}X", Some("IX"));
        check("user", Some("user"));
        check("USER", Some("USER"));
        check("\u{aa}", Some("a"));
        check("\u{2168}", Some("IX"));
        check("\u{7}", None);
        check("\u{627}\u{31}", None);
    }
}
