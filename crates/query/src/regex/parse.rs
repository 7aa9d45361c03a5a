//! From the text of a pattern to its tree, as PCRE2 reads it: what MongoDB's patterns are.
//!
//! ```text
//!  alternatives ─▶ sequence ─▶ item, quantified ─┬─▶ group, options ─▶ alternatives
//!                                                ├─▶ class (`class.rs`)
//!                                                └─▶ escape (`escape.rs`)
//! ```
//! A reference may stand in front of its group, and what a number means depends on how many groups there
//! are: where there is one, the pattern is read a second time with what was found at the first.

use hashbrown::HashMap;

use super::tree::{Assertion, Node, OneCharacter, Tree};

/// Parentheses within each other.
const MAX_DEPTH: usize = 128;
/// The largest number of a quantifier.
const MAX_REPEATS: usize = 65_535;
/// Ranges of all classes together, of eight bytes each.
const MAX_RANGES: usize = 1 << 18;

/// Something of a pattern, or what is wrong with the pattern.
pub(super) type Parsed<T> = Result<T, String>;

/// Options that hold from a place on, up to the end of the group.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) case_insensitive: bool,
    multi_line: bool,
    dot_all: bool,
    extended: bool,
    pub(super) extended_classes: bool,
    no_capture: bool,
    ungreedy: bool,
}

impl Flags {
    /// `None` for a letter that is none.
    fn with(mut self, letter: char, on: bool) -> Option<Flags> {
        *match letter {
            'i' => &mut self.case_insensitive,
            'm' => &mut self.multi_line,
            's' => &mut self.dot_all,
            'x' => {
                self.extended_classes &= on;
                &mut self.extended
            }
            'n' => &mut self.no_capture,
            'U' => &mut self.ungreedy,
            _ => return None,
        } = on;
        Some(self)
    }
}

/// The groups of a pattern.
#[derive(Debug, Default)]
pub(super) struct Groups<'p> {
    pub(super) count: usize,
    pub(super) names: HashMap<&'p str, usize>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Parser<'p> {
    pattern: &'p str,
    place: usize,
    pub(super) flags: Flags,
    /// Whether characters are those of Unicode for `\w` and the like.
    pub(super) unicode: bool,
    /// Between `\Q` and `\E`.
    quoting: bool,
    depth: usize,
    ranges: usize,
    /// Those that began so far.
    pub(super) groups: Groups<'p>,
    /// All, when the pattern is read a second time.
    pub(super) known: Option<Groups<'p>>,
    pub(super) has_references: bool,
}

/// What one thing in a sequence is.
pub(super) enum Item {
    /// Options: nothing to match.
    Nothing,
    /// A place, which cannot be repeated.
    Place(Node),
    Node(Node),
}

pub(super) const NOT_REPEATABLE: &str = "quantifier does not follow a repeatable item";
const UNCLOSED: &str = "missing closing parenthesis";

pub(super) const COLLATING: &str = "POSIX collating elements are not supported";

/// What is known to PCRE2 and not here.
pub(super) fn unsupported(what: &str) -> String {
    format!("{what} is not supported")
}

/// Reads a pattern. Options: `i` (case), `m` (lines), `s` (dot matches line ends), `x` (extended), `u` (no
/// effect: text is UTF-8).
pub(super) fn parse(pattern: &str, options: &str) -> Parsed<Tree> {
    let mut flags = Flags::default();
    for option in options.chars().filter(|option| *option != 'u') {
        flags = flags.with(option, true).ok_or_else(|| format!("invalid option {option}"))?;
    }
    let (pattern, unicode) = without_settings(pattern);
    let mut first = Parser::new(pattern, flags, unicode, None);
    let root = first.whole()?;
    if !first.has_references {
        return Ok(Tree { root, groups: first.groups.count, unicode });
    }
    let mut second = Parser::new(pattern, flags, unicode, Some(first.groups));
    let root = second.whole()?;
    Ok(Tree { root, groups: second.groups.count, unicode })
}

/// The pattern without what it says of Unicode at its beginning, and whether classes are to be those of it.
fn without_settings(mut pattern: &str) -> (&str, bool) {
    let mut unicode = false;
    loop {
        if let Some(rest) = pattern.strip_prefix("(*UCP)") {
            (pattern, unicode) = (rest, true);
        } else if let Some(rest) = pattern.strip_prefix("(*UTF)") {
            pattern = rest;
        } else {
            return (pattern, unicode);
        }
    }
}

impl<'p> Parser<'p> {
    fn new(pattern: &'p str, flags: Flags, unicode: bool, known: Option<Groups<'p>>) -> Self {
        Parser {
            pattern,
            place: 0,
            flags,
            unicode,
            quoting: false,
            depth: 0,
            ranges: 0,
            groups: Groups::default(),
            known,
            has_references: false,
        }
    }

    pub(super) fn rest(&self) -> &'p str {
        self.pattern.get(self.place..).expect("a place is between two characters")
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let character = self.peek()?;
        self.place += character.len_utf8();
        Some(character)
    }

    pub(super) fn eat(&mut self, wanted: char) -> bool {
        let is_there = self.peek() == Some(wanted);
        if is_there {
            self.place += wanted.len_utf8();
        }
        is_there
    }

    /// Past so many bytes, which are whole characters.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.place += bytes;
    }

    /// What comes first that these bytes are, and past it.
    pub(super) fn take_while(&mut self, holds: impl Fn(u8) -> bool) -> &'p str {
        let rest = self.rest();
        let count = rest.bytes().take_while(|byte| byte.is_ascii() && holds(*byte)).count();
        self.place += count;
        rest.get(..count).expect("these are ASCII")
    }

    /// What comes up to this character, and past both; `None` where that does not come.
    pub(super) fn take_until(&mut self, end: char) -> Option<&'p str> {
        let (before, _) = self.rest().split_once(end)?;
        self.place += before.len() + end.len_utf8();
        Some(before)
    }

    pub(super) fn is_quoting(&self) -> bool {
        self.quoting
    }

    /// Whether the character that was just read begins or ends a quotation, which then is read as well.
    pub(super) fn quoted(&mut self, character: char) -> bool {
        let mark = if self.quoting { 'E' } else { 'Q' };
        let is_mark = character == '\\' && self.eat(mark);
        self.quoting ^= is_mark;
        is_mark
    }

    /// Past ends of quotations that are here, and past empty ones: what follows is about what stands before.
    pub(super) fn leave_quotation(&mut self) {
        loop {
            if self.rest().starts_with("\\E") {
                self.quoting = false;
            } else if self.quoting || !self.rest().starts_with("\\Q\\E") {
                break;
            }
            self.skip(2);
        }
    }

    pub(super) fn count_ranges(&mut self, ranges: usize) -> Parsed<()> {
        self.ranges += ranges;
        if self.ranges > MAX_RANGES {
            return Err("regular expression is too large".to_owned());
        }
        Ok(())
    }

    fn whole(&mut self) -> Parsed<Node> {
        let root = self.alternatives()?;
        match self.peek() {
            None => Ok(root),
            Some(_) => Err("unmatched closing parenthesis".to_owned()),
        }
    }

    /// Up to a closing parenthesis or the end.
    fn alternatives(&mut self) -> Parsed<Node> {
        let first = self.sequence()?;
        if self.peek() != Some('|') {
            return Ok(first);
        }
        let mut branches = vec![first];
        while self.eat('|') {
            branches.push(self.sequence()?);
        }
        Ok(Node::Alternation(branches))
    }

    fn sequence(&mut self) -> Parsed<Node> {
        let mut parts = Vec::new();
        loop {
            self.skip_comments()?;
            let Some(character) = self.peek() else { break };
            if !self.quoting && matches!(character, '|' | ')') {
                break;
            }
            self.next();
            if self.quoted(character) {
                continue;
            }
            let item = if self.quoting { self.literal(character) } else { self.item(character)? };
            match item {
                Item::Nothing => {}
                Item::Place(node) => parts.push(self.quantified(node, false)?),
                Item::Node(node) => parts.push(self.quantified(node, true)?),
            }
        }
        Ok(match parts.len() {
            0 => Node::Empty,
            1 => parts.pop().expect("there is one"),
            _ => Node::Concat(parts),
        })
    }

    /// Past comments, and past spaces where they mean nothing.
    fn skip_comments(&mut self) -> Parsed<()> {
        loop {
            self.leave_quotation();
            if self.quoting {
                break;
            }
            if self.rest().starts_with("(?#") {
                self.take_until(')').ok_or("missing ) after (?# comment")?;
                continue;
            }
            match self.peek() {
                Some(space) if self.flags.extended && is_pattern_space(space) => {
                    self.next();
                }
                Some('#') if self.flags.extended => {
                    let comment = self.rest();
                    self.skip(comment.find('\n').map_or(comment.len(), |end| end + 1));
                }
                _ => break,
            }
        }
        Ok(())
    }

    pub(super) fn literal(&self, character: char) -> Item {
        Item::Node(Node::One(OneCharacter::literal(character, self.flags.case_insensitive)))
    }

    fn item(&mut self, character: char) -> Parsed<Item> {
        let flags = self.flags;
        Ok(match character {
            '.' if flags.dot_all => Item::Node(Node::One(OneCharacter::Any)),
            '.' => Item::Node(Node::One(OneCharacter::AnyButLineEnd)),
            '^' if flags.multi_line => Item::Place(Node::Assert(Assertion::StartLine)),
            '^' => Item::Place(Node::Assert(Assertion::StartText)),
            '$' if flags.multi_line => Item::Place(Node::Assert(Assertion::EndLine)),
            '$' => Item::Place(Node::Assert(Assertion::EndTextOrLastLineEnd)),
            '(' => self.group()?,
            '[' => match self.posix_name() {
                Some((':', _)) => {
                    return Err("POSIX named classes are supported only within a class".to_owned());
                }
                Some(_) => return Err(COLLATING.to_owned()),
                None => Item::Node(Node::One(self.class()?)),
            },
            '\\' => self.escape()?,
            '*' | '+' | '?' => return Err(NOT_REPEATABLE.to_owned()),
            '{' if written_bounds(self.rest()).is_some() => return Err(NOT_REPEATABLE.to_owned()),
            _ => self.literal(character),
        })
    }

    /// How often what was just read is to be there.
    fn quantified(&mut self, child: Node, is_repeatable: bool) -> Parsed<Node> {
        self.skip_comments()?;
        if self.quoting {
            return Ok(child);
        }
        let (least, most) = match self.peek() {
            Some('*') => (0, usize::MAX),
            Some('+') => (1, usize::MAX),
            Some('?') => (0, 1),
            Some('{') => match written_bounds(self.rest().get(1..).unwrap_or_default()) {
                None => return Ok(child),
                Some((length, least, most)) => {
                    self.skip(length);
                    bounds(least, most)?
                }
            },
            _ => return Ok(child),
        };
        if !is_repeatable {
            return Err(NOT_REPEATABLE.to_owned());
        }
        self.next();
        self.skip_comments()?;
        let is_lazy = self.eat('?');
        let greedy = is_lazy == self.flags.ungreedy;
        let is_possessive = !is_lazy && self.eat('+');
        let repeat = Node::Repeat { child: Box::new(child), least, most, greedy: greedy || is_possessive };
        Ok(if is_possessive { Node::Atomic(Box::new(repeat)) } else { repeat })
    }

    /// Behind an opening parenthesis.
    fn group(&mut self) -> Parsed<Item> {
        if self.peek() == Some('*') {
            return Err(unsupported("a backtracking control verb"));
        }
        if !self.eat('?') {
            let node = if self.flags.no_capture { self.body()? } else { self.capture(None)? };
            return Ok(Item::Node(node));
        }
        for (mark, behind, negative) in
            [("=", false, false), ("!", false, true), ("<=", true, false), ("<!", true, true)]
        {
            if self.rest().starts_with(mark) {
                self.skip(mark.len());
                let inner = Box::new(self.body()?);
                return Ok(Item::Node(Node::Look { inner, behind, negative }));
            }
        }
        let Some(mark) = self.next() else { return Err(UNCLOSED.to_owned()) };
        Ok(Item::Node(match mark {
            ':' => self.body()?,
            '>' => Node::Atomic(Box::new(self.body()?)),
            '<' => self.named_group('>')?,
            '\'' => self.named_group('\'')?,
            'P' => match self.next() {
                Some('<') => self.named_group('>')?,
                Some('=') => {
                    let name = self.take_until(')').ok_or(UNCLOSED)?;
                    self.reference_by_name(name)?
                }
                Some('>') => return Err(unsupported("recursion")),
                _ => return Err("unrecognized character after (?P".to_owned()),
            },
            '(' => self.condition()?,
            '|' => return Err(unsupported("a group that counts its branches anew")),
            'C' => return Err(unsupported("a callout")),
            'R' | '&' | '+' | '0'..='9' => return Err(unsupported("recursion")),
            '-' if self.peek().is_some_and(|digit| digit.is_ascii_digit()) => {
                return Err(unsupported("recursion"));
            }
            _ => return self.options(mark),
        }))
    }

    /// A group's inside and its closing parenthesis. Options end there.
    fn body(&mut self) -> Parsed<Node> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("parentheses are too deeply nested".to_owned());
        }
        let flags = self.flags;
        let node = self.alternatives()?;
        if !self.eat(')') {
            return Err(UNCLOSED.to_owned());
        }
        self.flags = flags;
        self.depth -= 1;
        Ok(node)
    }

    fn capture(&mut self, name: Option<&'p str>) -> Parsed<Node> {
        self.groups.count += 1;
        let number = self.groups.count;
        if name.is_some_and(|name| self.groups.names.insert(name, number).is_some()) {
            return Err("two named subpatterns have the same name (PCRE2_DUPNAMES not set)".to_owned());
        }
        Ok(Node::Group(number, Box::new(self.body()?)))
    }

    fn named_group(&mut self, end: char) -> Parsed<Node> {
        let name = self.name(end)?;
        self.capture(Some(name))
    }

    /// A group's name and what ends it.
    pub(super) fn name(&mut self, end: char) -> Parsed<&'p str> {
        let rest = self.rest();
        let is_part = |part: char| part == '_' || part.is_alphanumeric();
        let name = rest.get(..rest.find(|part| !is_part(part)).unwrap_or(rest.len())).unwrap_or_default();
        if name.is_empty() {
            return Err("subpattern name expected".to_owned());
        }
        if name.starts_with(char::is_numeric) {
            return Err("subpattern name must start with a non-digit".to_owned());
        }
        if name.chars().count() > 32 {
            return Err("subpattern name is too long (maximum 32 code units)".to_owned());
        }
        self.skip(name.len());
        if !self.eat(end) {
            return Err("syntax error in subpattern name (missing terminator?)".to_owned());
        }
        Ok(name)
    }

    /// Behind `(?(`.
    fn condition(&mut self) -> Parsed<Node> {
        const UNCLOSED: &str = "missing closing parenthesis for condition";
        let sign = self.take_while(|byte| matches!(byte, b'+' | b'-'));
        let digits = self.take_while(|byte| byte.is_ascii_digit());
        let rest = self.rest();
        if !sign.is_empty() || !digits.is_empty() {
            let group = self.group_by_number(sign, digits)?;
            return if self.eat(')') { self.branches(group) } else { Err(UNCLOSED.to_owned()) };
        }
        if rest.starts_with(['?', '*']) {
            return Err(unsupported("a condition other than whether a group took part"));
        }
        if ["R)", "R&", "DEFINE)"].iter().any(|recursion| rest.starts_with(recursion)) {
            return Err(unsupported("recursion"));
        }
        let end = match self.peek() {
            Some('<') => '>',
            Some('\'') => '\'',
            _ => ')',
        };
        self.skip(usize::from(end != ')'));
        let name = self.name(end)?;
        if end != ')' && !self.eat(')') {
            return Err(UNCLOSED.to_owned());
        }
        let group = self.group_by_name(name)?;
        self.branches(group)
    }

    fn branches(&mut self, group: usize) -> Parsed<Node> {
        let (then, otherwise) = match self.body()? {
            Node::Alternation(mut branches) => match (branches.pop(), branches.pop(), branches.is_empty()) {
                (Some(otherwise), Some(then), true) => (then, otherwise),
                _ => return Err("conditional subpattern contains more than two branches".to_owned()),
            },
            then => (then, Node::Empty),
        };
        Ok(Node::Condition { group, then: Box::new(then), otherwise: Box::new(otherwise) })
    }

    /// Behind `(?` and the first character of options.
    fn options(&mut self, first: char) -> Parsed<Item> {
        const UNKNOWN: &str = "unrecognized character after (? or (?-";
        let (mut flags, mut on, mut letter) = (self.flags, true, first);
        let is_reset = first == '^';
        if is_reset {
            flags = Flags { ungreedy: flags.ungreedy, ..Flags::default() };
            letter = self.next().ok_or(UNCLOSED)?;
        }
        loop {
            match letter {
                ')' => {
                    self.flags = flags;
                    return Ok(Item::Nothing);
                }
                ':' => {
                    let before = std::mem::replace(&mut self.flags, flags);
                    let node = self.body()?;
                    self.flags = before;
                    return Ok(Item::Node(node));
                }
                '-' if !on || is_reset => return Err("invalid hyphen in option setting".to_owned()),
                '-' => on = false,
                'J' => return Err(unsupported("a name for several groups")),
                _ => flags = flags.with(letter, on).ok_or(UNKNOWN)?,
            }
            if letter == 'x' && on && self.eat('x') {
                flags.extended_classes = true;
            }
            letter = self.next().ok_or(UNCLOSED)?;
        }
    }

    /// `[:name:]` and the like, behind the first bracket: what kind, and the name. It ends where another of
    /// its kind begins: no place is looked at more than three times.
    pub(super) fn posix_name(&self) -> Option<(char, &'p str)> {
        let rest = self.rest();
        let kind = *rest.as_bytes().first().filter(|kind| b":.=".contains(kind))?;
        let behind = rest.get(1..)?;
        let mut pairs = behind.as_bytes().windows(2).enumerate();
        while let Some((length, pair)) = pairs.next() {
            match pair {
                b"\\]" | b"\\\\" => drop(pairs.next()),
                [b']', _] => return None,
                [b'[', next] if *next == kind => return None,
                [end, b']'] if *end == kind => return Some((char::from(kind), behind.get(..length)?)),
                _ => {}
            }
        }
        None
    }
}

/// What an extended pattern may have between its items.
fn is_pattern_space(character: char) -> bool {
    matches!(character, '\t'..='\r' | ' ' | '\u{85}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
}

/// `{3}`, `{3,}` or `{3,5}`, behind the opening brace: how long it is without the last one, and the two
/// numbers; `None` where a brace stands for itself.
pub(super) fn written_bounds(rest: &str) -> Option<(usize, &str, Option<&str>)> {
    let number = |text: &'_ str| text.bytes().take_while(u8::is_ascii_digit).count();
    let (least, behind) = rest.split_at_checked(number(rest)).filter(|(least, _)| !least.is_empty())?;
    let most = match behind.strip_prefix(',') {
        None => None,
        Some(behind) => behind.get(..number(behind)),
    };
    let length = least.len() + most.map_or(0, |most| 1 + most.len());
    rest.get(length..)?.starts_with('}').then_some((1 + length, least, most))
}

fn bounds(least: &str, most: Option<&str>) -> Parsed<(usize, usize)> {
    let number = |text: &str| {
        let number = text.parse().ok().filter(|number| *number <= MAX_REPEATS);
        number.ok_or("number too big in {} quantifier")
    };
    let least = number(least)?;
    let most = match most {
        None => least,
        Some("") => usize::MAX,
        Some(most) => number(most)?,
    };
    if most < least {
        return Err("numbers out of order in {} quantifier".to_owned());
    }
    Ok((least, most))
}
