//! What stands behind a backslash.

use regex_syntax::hir::ClassUnicode;

use super::class::{escaped_set, property};
use super::parse::{Item, Parsed, Parser, unsupported, written_bounds};
use super::tree::{Assertion, Node, OneCharacter};

const NO_SUCH_GROUP: &str = "reference to non-existent subpattern";

impl Parser<'_> {
    /// Outside of brackets, behind the backslash.
    pub(super) fn escape(&mut self) -> Parsed<Item> {
        let Some(letter) = self.next() else { return Err(r"\ at end of pattern".to_owned()) };
        let place = |assertion| Ok(Item::Place(Node::Assert(assertion)));
        match letter {
            'A' => place(Assertion::StartText),
            'z' => place(Assertion::EndText),
            'Z' => place(Assertion::EndTextOrLastLineEnd),
            'b' => place(Assertion::WordBoundary),
            'B' => place(Assertion::NotWordBoundary),
            'G' => Ok(Item::Place(Node::SearchStart)),
            'K' => Ok(Item::Place(Node::KeepOut)),
            'R' => Ok(Item::Node(Node::LineEnd)),
            'N' if self.is_any_but_line_end() => Ok(Item::Node(Node::One(OneCharacter::AnyButLineEnd))),
            'X' => Err(unsupported(r"\X")),
            'C' => Err(unsupported(r"\C")),
            'p' | 'P' => {
                let set = self.property(letter == 'P')?;
                self.one_of(&set)
            }
            '1'..='9' => self.number(letter),
            'k' => self.named_reference().map(Item::Node),
            'g' => self.any_reference().map(Item::Node),
            _ => match escaped_set(letter, self.unicode) {
                Some(set) => self.one_of(&set),
                None => self.escaped_character(letter).map(|character| self.literal(character)),
            },
        }
    }

    /// Whether the `\N` that was just read has no name.
    fn is_any_but_line_end(&self) -> bool {
        self.rest().strip_prefix('{').is_none_or(|behind| written_bounds(behind).is_some())
    }

    fn one_of(&mut self, set: &ClassUnicode) -> Parsed<Item> {
        self.count_ranges(set.ranges().len())?;
        Ok(Item::Node(Node::One(OneCharacter::of(set))))
    }

    /// Behind `\p` or `\P`.
    pub(super) fn property(&mut self, negated: bool) -> Parsed<ClassUnicode> {
        const MALFORMED: &str = r"malformed \P or \p sequence";
        let name = match self.peek() {
            Some('{') => {
                self.next();
                self.take_until('}').ok_or(MALFORMED)?
            }
            Some(letter) if letter.is_ascii_alphabetic() => {
                let rest = self.rest();
                self.skip(1);
                rest.get(..1).unwrap_or_default()
            }
            _ => return Err(MALFORMED.to_owned()),
        };
        property(name, negated)
    }

    /// A character that is written as an escape.
    pub(super) fn escaped_character(&mut self, letter: char) -> Parsed<char> {
        Ok(match letter {
            'a' => '\x07',
            'e' => '\x1b',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '0' => self.octal(letter, 2)?,
            'c' => match self.next() {
                None => return Err(r"\c at end of pattern".to_owned()),
                Some(control @ ' '..='~') => char::from(control.to_ascii_uppercase() as u8 ^ 0x40),
                Some(_) => return Err(r"\c must be followed by a printable ASCII character".to_owned()),
            },
            'x' if self.eat('{') => self.code(16, r"non-hex character in \x{} (closing brace missing?)")?,
            'x' => {
                let rest = self.rest();
                let digits = rest.bytes().take(2).take_while(u8::is_ascii_hexdigit).count();
                self.skip(digits);
                character_of(rest.get(..digits).unwrap_or_default(), 16)?
            }
            'o' if self.eat('{') => self.code(8, r"non-octal character in \o{} (closing brace missing?)")?,
            'o' => return Err(r"missing opening brace after \o".to_owned()),
            'N' if self.rest().starts_with("{U+") => {
                self.skip(3);
                self.code(16, r"non-hex character in \x{} (closing brace missing?)")?
            }
            'F' | 'L' | 'l' | 'N' | 'U' | 'u' => {
                return Err(r"PCRE2 does not support \F, \L, \l, \N{name}, \U, or \u".to_owned());
            }
            _ if letter.is_ascii_alphanumeric() => {
                return Err(r"unrecognized character follows \".to_owned());
            }
            _ => letter,
        })
    }

    /// Digits up to a closing brace.
    fn code(&mut self, base: u32, refusal: &str) -> Parsed<char> {
        let digits = self.take_until('}').ok_or(refusal)?;
        if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(base)) {
            return Err(refusal.to_owned());
        }
        character_of(digits, base)
    }

    /// An octal digit and at most so many further ones.
    fn octal(&mut self, first: char, further: usize) -> Parsed<char> {
        let rest = self.rest();
        let count = rest.bytes().take(further).take_while(|digit| matches!(digit, b'0'..=b'7')).count();
        self.skip(count);
        character_of(&format!("{first}{}", rest.get(..count).unwrap_or_default()), 8)
    }

    /// Numbers in brackets are characters.
    pub(super) fn octal_in_class(&mut self, first: char) -> Parsed<char> {
        if matches!(first, '8' | '9') { Ok(first) } else { self.octal(first, 2) }
    }

    /// `\1`; from 10 on a character where there are not so many groups.
    fn number(&mut self, first: char) -> Parsed<Item> {
        let rest = self.rest();
        let further = rest.bytes().take_while(u8::is_ascii_digit).count();
        let digits = format!("{first}{}", rest.get(..further).unwrap_or_default());
        self.has_references = true;
        let count = self.known.as_ref().map_or(usize::MAX, |known| known.count);
        let is_group = digits.parse::<usize>().is_ok_and(|number| number < 10 || number <= count);
        if is_group || first >= '8' {
            self.skip(further);
            let group = self.group_by_number("", &digits)?;
            return Ok(Item::Node(self.reference(group)));
        }
        self.octal(first, 2).map(|character| self.literal(character))
    }

    fn reference(&self, group: usize) -> Node {
        Node::Reference { group, folded: self.flags.case_insensitive }
    }

    pub(super) fn reference_by_name(&mut self, name: &str) -> Parsed<Node> {
        let group = self.group_by_name(name)?;
        Ok(self.reference(group))
    }

    /// The group of a name, whatever it is while groups are only counted.
    pub(super) fn group_by_name(&mut self, name: &str) -> Parsed<usize> {
        self.has_references = true;
        let Some(known) = &self.known else { return Ok(0) };
        Ok(*known.names.get(name).ok_or(NO_SUCH_GROUP)?)
    }

    /// The group of a number, which with a sign counts from here on; whatever it is while groups are only
    /// counted.
    pub(super) fn group_by_number(&mut self, sign: &str, digits: &str) -> Parsed<usize> {
        self.has_references = true;
        let Some(known) = &self.known else { return Ok(0) };
        let number: usize = digits.parse().map_err(|_| NO_SUCH_GROUP)?;
        let group = match sign {
            "" => Some(number),
            "+" => self.groups.count.checked_add(number).filter(|_| number > 0),
            "-" => (self.groups.count + 1).checked_sub(number).filter(|_| number > 0),
            _ => None,
        };
        Ok(group.filter(|group| (1..=known.count).contains(group)).ok_or(NO_SUCH_GROUP)?)
    }

    /// Behind `\k`.
    fn named_reference(&mut self) -> Parsed<Node> {
        const NO_NAME: &str = r"\k is not followed by a braced, angle-bracketed, or quoted name";
        let end = match self.next() {
            Some('<') => '>',
            Some('\'') => '\'',
            Some('{') => '}',
            _ => return Err(NO_NAME.to_owned()),
        };
        let name = self.name(end)?;
        self.reference_by_name(name)
    }

    /// Behind `\g`.
    fn any_reference(&mut self) -> Parsed<Node> {
        const NO_NAME: &str =
            "\\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number";
        if matches!(self.peek(), Some('<' | '\'')) {
            return Err(unsupported("recursion"));
        }
        let is_braced = self.eat('{');
        let sign = self.take_while(|byte| matches!(byte, b'+' | b'-'));
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        if digits.is_empty() {
            if !is_braced || !sign.is_empty() {
                return Err(NO_NAME.to_owned());
            }
            let name = self.name('}')?;
            return self.reference_by_name(name);
        }
        if is_braced && !self.eat('}') {
            return Err(NO_NAME.to_owned());
        }
        let group = self.group_by_number(sign, digits)?;
        Ok(self.reference(group))
    }
}

fn character_of(digits: &str, base: u32) -> Parsed<char> {
    let code = if digits.is_empty() { Ok(0) } else { u32::from_str_radix(digits, base) };
    match code {
        Ok(code) => char::from_u32(code).ok_or_else(|| match code {
            0xd800..=0xdfff => "disallowed Unicode code point (>= 0xd800 && <= 0xdfff)".to_owned(),
            _ => r"character code point value in \x{} or \o{} is too large".to_owned(),
        }),
        Err(_) => Err(r"character code point value in \x{} or \o{} is too large".to_owned()),
    }
}
