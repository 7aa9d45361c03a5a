//! The keys that the members of a set have in common: the text of `security.keyFile`.
//!
//! A member logs in at another one as a user logs in, as `__system` of `local`, whose password is the key.
//!
//! Source: MongoDB manual 7.0, "Internal/Membership Authentication", "Keyfiles"; its messages are those of
//! `mongod`.

use crate::scram::{Mechanism, ScramCredentials};
use crate::user::AccessUser;
use crate::{AccessError, UserName};
use base64ct::{Base64, Encoding};
use std::sync::Arc;

/// Characters of a key.
const LENGTHS: std::ops::RangeInclusive<usize> = 6..=1024;
/// One that counts and one that did before, or will: more are not needed to change them member by member.
const KEYS_MAX: usize = 2;

/// The keys; the first one is that of a member's own logins.
#[derive(Clone, PartialEq, Eq)]
pub struct MemberKeys(Vec<String>);

impl std::fmt::Debug for MemberKeys {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "MemberKeys({})", self.0.len())
    }
}

impl MemberKeys {
    /// Reads the text of a file, `path`: one key, whose white space counts for nothing, or a list in YAML,
    /// each item `- key`, or each in quotes.
    ///
    /// # Errors
    /// No key, too many, characters that are not base64, a key that is too short or too long.
    pub fn parse(text: &str, path: &str) -> Result<Self, AccessError> {
        let keys = listed(text).unwrap_or_else(|| vec![text.split_whitespace().collect()]);
        for key in &keys {
            let is_base64 = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=');
            if let Some(wrong) = key.chars().find(|c| !is_base64(*c)) {
                return Err(AccessError::BadValue(format!("invalid char in key file {path}: {wrong}")));
            }
            if !LENGTHS.contains(&key.len()) {
                let length = key.len();
                return Err(AccessError::BadValue(format!(
                    "security key in {path} has length {length}, must be between 6 and 1024 chars"
                )));
            }
        }
        match keys.len() {
            1..=KEYS_MAX => Ok(MemberKeys(keys)),
            count => Err(AccessError::BadValue(format!(
                "Only two keys are supported in the security key file, {count} are specified in {path}"
            ))),
        }
    }

    /// The text of a file with one key, that of these random bytes: 4 to 768 of them.
    pub fn text_of(random: &[u8]) -> String {
        let text = format!("{}\n", Base64::encode_string(random));
        assert!(LENGTHS.contains(&(text.len() - 1)), "{} bytes make no key", random.len());
        text
    }

    /// The keys, as passwords.
    pub fn passwords(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Who shows that it has a key. Takes milliseconds.
    pub fn user(&self, salt: &[u8], iterations: u32) -> MemberUser {
        let mechanism = MemberUser::MECHANISM;
        let credentials = self.passwords().map(|key| ScramCredentials::new(mechanism, key, salt, iterations));
        let mut credentials: Vec<ScramCredentials> = credentials.collect();
        let others = credentials.split_off(1);
        let user = Arc::new(AccessUser::of_member(credentials.first()));
        MemberUser { user, others }
    }
}

/// A list of keys, where the text is one.
fn listed(text: &str) -> Option<Vec<String>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let lines: Vec<&str> = lines.filter(|line| *line != "---").collect();
    let is_item = |line: &&str| line.starts_with("- ") || line.starts_with(['"', '\'']);
    let is_list = !lines.is_empty() && lines.iter().all(is_item);
    let unquoted = |line: &str| {
        let key = line.strip_prefix("- ").unwrap_or(line).trim();
        let inner = ['"', '\''].iter().find_map(|quote| key.strip_prefix(*quote)?.strip_suffix(*quote));
        inner.unwrap_or(key).to_owned()
    };
    is_list.then(|| lines.into_iter().map(unquoted).collect())
}

/// `__system` of `local`: another member of the set.
#[derive(Debug, Clone)]
pub struct MemberUser {
    /// As any other user, with the first key for a password.
    pub user: Arc<AccessUser>,
    /// What checks the other keys.
    pub others: Vec<ScramCredentials>,
}

impl MemberUser {
    /// How members show each other that they have the key.
    pub const MECHANISM: Mechanism = Mechanism::ScramSha256;

    /// Its name.
    pub fn name() -> UserName {
        UserName::new("__system", "local")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<&[&str], &str>) {
        let keys = MemberKeys::parse(text, "FILE").map_err(|error| error.to_string());
        let keys = keys.map(|keys| keys.passwords().map(str::to_owned).collect::<Vec<_>>());
        let expect = expect.map(|keys| keys.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>());
        assert_eq!(keys, expect.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn a_file_has_one_key_or_two() {
        check("abc\n def\t+/=\n", Ok(&["abcdef+/="]));
        check("---\n- abcdef\n- ghijkl\n", Ok(&["abcdef", "ghijkl"]));
        check("# of May\n\"abcdef\"\n'ghijkl'\n", Ok(&["abcdef", "ghijkl"]));
        check("- 'abcdef'", Ok(&["abcdef"]));
        let long = "x".repeat(1024);
        check(&long, Ok(&[&long]));
    }

    #[test]
    fn what_is_no_key_is_refused_in_the_words_of_mongod() {
        let length = |length: usize| {
            format!("security key in FILE has length {length}, must be between 6 and 1024 chars")
        };
        check("", Err(&length(0)));
        check("abcde", Err(&length(5)));
        check(&"x".repeat(1025), Err(&length(1025)));
        check("abc-def", Err("invalid char in key file FILE: -"));
        check("abcdéf", Err("invalid char in key file FILE: é"));
        check(
            "- abcdef\n- abcdef\n- abcdef",
            Err("Only two keys are supported in the security key file, 3 are specified in FILE"),
        );
    }

    #[test]
    fn a_made_key_is_one() {
        for length in [4, 32, 768] {
            let text = MemberKeys::text_of(&vec![0xfb; length]);
            let keys = MemberKeys::parse(&text, "FILE").expect("a key");
            assert_eq!(keys.passwords().next(), Some(text.trim_end()));
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        let keys = MemberKeys::parse("secretsecret", "FILE").expect("a key");
        assert!(!format!("{keys:?}{:?}", keys.user(b"salt", 4_096)).contains("secretsecret"));
    }
}
