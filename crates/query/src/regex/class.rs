//! Sets of characters: classes in brackets, and escapes that stand for one.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use super::parse::{COLLATING, Parsed, Parser};
use super::tree::OneCharacter;

/// `\h`
const HORIZONTAL_SPACE: &str = r"[\t \u{A0}\u{1680}\u{180E}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}]";
/// `\v`
const VERTICAL_SPACE: &str = r"[\n\x0B\x0C\r\u{85}\u{2028}\u{2029}]";
/// Classes with a name that have other members where characters are those of Unicode.
const NAMED_UNICODE: [(&str, &str); 12] = [
    ("alpha", r"\p{L}"),
    ("lower", r"\p{Ll}"),
    ("upper", r"\p{Lu}"),
    ("alnum", r"[\p{L}\p{N}]"),
    ("space", r"\s"),
    ("blank", HORIZONTAL_SPACE),
    ("cntrl", r"\p{Cc}"),
    ("digit", r"\p{Nd}"),
    ("graph", r"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}]"),
    ("print", r"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Cf}\p{Zs}]"),
    ("punct", r"[\p{P}$+<=>^`|~]"),
    ("word", r"\w"),
];
const NAMED: [&str; 14] = [
    "alpha", "lower", "upper", "alnum", "ascii", "blank", "cntrl", "digit", "graph", "print", "punct",
    "space", "word", "xdigit",
];

/// What is written as the engine's own syntax knows it; `None` where it is nothing there.
fn known(written: &str) -> Option<ClassUnicode> {
    match regex_syntax::parse(written).ok()?.kind() {
        HirKind::Class(Class::Unicode(set)) => Some(set.clone()),
        HirKind::Class(Class::Bytes(set)) => set.to_unicode_class(),
        HirKind::Literal(text) => {
            let character = std::str::from_utf8(&text.0).ok()?.chars().next()?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(character, character)]))
        }
        _ => None,
    }
}

fn well_known(written: &str) -> ClassUnicode {
    known(written).expect("each constant is a set of characters")
}

fn negated_if(mut set: ClassUnicode, negated: bool) -> ClassUnicode {
    if negated {
        set.negate();
    }
    set
}

/// What an escape with this letter stands for, but `\p`; `None` where it is no set.
pub(super) fn escaped_set(letter: char, unicode: bool) -> Option<ClassUnicode> {
    let set = match (letter.to_ascii_lowercase(), unicode) {
        ('d', true) => well_known(r"\d"),
        ('d', false) => well_known("[0-9]"),
        ('w', true) => well_known(r"\w"),
        ('w', false) => well_known("[0-9A-Za-z_]"),
        ('s', true) => well_known(r"\s"),
        ('s', false) => well_known(r"[\t\n\x0B\x0C\r ]"),
        ('h', _) => well_known(HORIZONTAL_SPACE),
        ('v', _) => well_known(VERTICAL_SPACE),
        _ => return None,
    };
    Some(negated_if(set, letter.is_ascii_uppercase()))
}

/// What `\p{name}` stands for.
pub(super) fn property(name: &str, mut negated: bool) -> Parsed<ClassUnicode> {
    let mut name = name;
    if let Some(rest) = name.strip_prefix('^') {
        negated = !negated;
        name = rest;
    }
    let written = match name {
        "L&" => r"[\p{Lu}\p{Ll}\p{Lt}]".to_owned(),
        "Xan" => r"[\p{L}\p{N}]".to_owned(),
        "Xwd" => r"[\p{L}\p{N}_]".to_owned(),
        "Xsp" | "Xps" => r"\s".to_owned(),
        _ if name.chars().all(|part| part.is_alphanumeric() || "_- =:".contains(part)) => {
            // The name of a script is that of all characters that it is written with.
            let script = format!(r"\p{{scx={name}}}");
            if known(&script).is_some() { script } else { format!(r"\p{{{name}}}") }
        }
        _ => return Err(r"malformed \P or \p sequence".to_owned()),
    };
    let set = known(&written).ok_or(r"unknown property after \P or \p")?;
    Ok(negated_if(set, negated))
}

/// One thing in brackets.
enum Member {
    Character(char),
    /// Whatever the case.
    Set(ClassUnicode),
}

impl Parser<'_> {
    /// What stands in brackets, behind the first one.
    pub(super) fn class(&mut self) -> Parsed<OneCharacter> {
        const INVALID_RANGE: &str = "invalid range in character class";
        let negated = self.eat('^');
        // What is written has both cases where cases do not matter, what an escape stands for has not.
        let (mut written, mut sets) = (Vec::new(), Vec::new());
        let mut is_first = true;
        while let Some(member) = self.member(is_first)? {
            is_first = false;
            self.leave_quotation();
            // A hyphen in front of the last bracket stands for itself.
            let is_range = !self.is_quoting() && self.peek() == Some('-') && !self.rest().starts_with("-]");
            match member {
                Member::Set(_) if is_range => return Err(INVALID_RANGE.to_owned()),
                Member::Set(set) => {
                    self.count_ranges(set.ranges().len())?;
                    sets.extend_from_slice(set.ranges());
                }
                Member::Character(only) if !is_range => {
                    written.push(ClassUnicodeRange::new(only, only));
                }
                Member::Character(first) => {
                    self.eat('-');
                    let last = match self.member(true)? {
                        Some(Member::Character(last)) => last,
                        _ => return Err(INVALID_RANGE.to_owned()),
                    };
                    if last < first {
                        return Err("range out of order in character class".to_owned());
                    }
                    written.push(ClassUnicodeRange::new(first, last));
                }
            }
        }
        let mut written = ClassUnicode::new(written);
        if self.flags.case_insensitive {
            written.try_case_fold_simple().map_err(|error| error.to_string())?;
        }
        let mut set = ClassUnicode::new(sets);
        set.union(&written);
        let set = negated_if(set, negated);
        self.count_ranges(set.ranges().len())?;
        Ok(OneCharacter::of(&set))
    }

    /// The next one in brackets; `None` behind the last one.
    fn member(&mut self, is_first: bool) -> Parsed<Option<Member>> {
        loop {
            self.leave_quotation();
            let Some(character) = self.next() else {
                return Err("missing terminating ] for character class".to_owned());
            };
            if self.quoted(character) {
                continue;
            }
            return match character {
                _ if self.is_quoting() => Ok(Some(Member::Character(character))),
                ']' if !is_first => Ok(None),
                ' ' | '\t' if self.flags.extended_classes => continue,
                '[' => self.named().map(Some),
                '\\' => self.escaped_member().map(Some),
                _ => Ok(Some(Member::Character(character))),
            };
        }
    }

    /// `[:name:]`, or a bracket that stands for itself.
    fn named(&mut self) -> Parsed<Member> {
        let Some((kind, name)) = self.posix_name() else { return Ok(Member::Character('[')) };
        if kind != ':' {
            return Err(COLLATING.to_owned());
        }
        self.skip(name.len() + ":name:]".len() - "name".len());
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        if !NAMED.contains(&name) {
            return Err("unknown POSIX class name".to_owned());
        }
        let of_unicode = NAMED_UNICODE.iter().find(|(known, _)| self.unicode && *known == name);
        let mut set = match of_unicode {
            Some((_, written)) => well_known(written),
            None => well_known(&format!("[[:{name}:]]")),
        };
        // Without cases these two are all letters, but of all scripts they are not.
        if self.flags.case_insensitive && !self.unicode && matches!(name, "upper" | "lower") {
            set = well_known("[A-Za-z]");
        }
        Ok(Member::Set(negated_if(set, negated)))
    }

    fn escaped_member(&mut self) -> Parsed<Member> {
        let Some(letter) = self.next() else { return Err(r"\ at end of pattern".to_owned()) };
        Ok(match letter {
            'b' => Member::Character('\x08'),
            'N' if !self.rest().starts_with("{U+") => {
                return Err(r"\N is not supported in a class".to_owned());
            }
            'A' | 'B' | 'C' | 'G' | 'K' | 'R' | 'X' | 'Z' | 'k' | 'z' => {
                return Err("escape sequence is invalid in character class".to_owned());
            }
            'p' | 'P' => Member::Set(self.property(letter == 'P')?),
            '0'..='9' => Member::Character(self.octal_in_class(letter)?),
            _ => match escaped_set(letter, self.unicode) {
                Some(set) => Member::Set(set),
                None => Member::Character(self.escaped_character(letter)?),
            },
        })
    }
}
