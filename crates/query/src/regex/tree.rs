//! What a pattern says.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

/// Which characters match where one is wanted.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum OneCharacter {
    Exactly(char),
    Any,
    AnyButLineEnd,
    /// Sorted ranges, both ends included.
    Ranges(Box<[(char, char)]>),
}

impl OneCharacter {
    /// One character, and those that are it in the other case where `folded`.
    pub(super) fn literal(character: char, folded: bool) -> Self {
        if !folded {
            return OneCharacter::Exactly(character);
        }
        let mut set = ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
        match set.try_case_fold_simple() {
            Ok(()) => OneCharacter::of(&set),
            Err(_) => OneCharacter::Exactly(character),
        }
    }

    pub(super) fn of(set: &ClassUnicode) -> Self {
        match set.ranges() {
            [only] if only.start() == only.end() => OneCharacter::Exactly(only.start()),
            [only] if (only.start(), only.end()) == ('\0', char::MAX) => OneCharacter::Any,
            ranges => OneCharacter::Ranges(ranges.iter().map(|range| (range.start(), range.end())).collect()),
        }
    }

    pub(super) fn matches(&self, character: char) -> bool {
        match self {
            OneCharacter::Exactly(wanted) => character == *wanted,
            OneCharacter::Any => true,
            OneCharacter::AnyButLineEnd => character != '\n',
            OneCharacter::Ranges(ranges) => {
                let after = ranges.partition_point(|(first, _)| *first <= character);
                after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| character <= *last)
            }
        }
    }
}

/// What is asked of a place between two characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Assertion {
    /// `^`, `\A`
    StartText,
    /// `\z`
    EndText,
    /// `$`, `\Z`: there, or before a line end that is the last character.
    EndTextOrLastLineEnd,
    /// `^` of lines: at the beginning, or after a line end that is not the last character.
    StartLine,
    /// `$` of lines.
    EndLine,
    /// `\b`
    WordBoundary,
    /// `\B`
    NotWordBoundary,
}

impl Assertion {
    /// Whether the linear engine takes it for another one when the text's last character is a line end.
    pub(super) fn minds_last_line_end(self) -> bool {
        matches!(self, Assertion::EndTextOrLastLineEnd | Assertion::StartLine)
    }
}

/// A part of a pattern.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Node {
    Empty,
    One(OneCharacter),
    Assert(Assertion),
    /// `\R`
    LineEnd,
    Concat(Vec<Node>),
    Alternation(Vec<Node>),
    /// A group with a number, from 1 on.
    Group(usize, Box<Node>),
    Repeat {
        child: Box<Node>,
        least: usize,
        /// `usize::MAX` for no bound.
        most: usize,
        greedy: bool,
    },
    Look {
        inner: Box<Node>,
        behind: bool,
        negative: bool,
    },
    Atomic(Box<Node>),
    /// The text of a group once more.
    Reference {
        group: usize,
        folded: bool,
    },
    /// One of two, by whether the group took part.
    Condition {
        group: usize,
        then: Box<Node>,
        otherwise: Box<Node>,
    },
    /// `\K`: what was matched so far is not part of the match.
    KeepOut,
    /// `\G`: where the search began.
    SearchStart,
}

/// A pattern that was understood.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) root: Node,
    /// Groups with a number.
    pub(super) groups: usize,
    /// Whether words are made of the letters of all scripts, not of those of ASCII alone.
    pub(super) unicode: bool,
}

impl Node {
    fn children(&self) -> &[Node] {
        match self {
            Node::Concat(children) | Node::Alternation(children) => children,
            Node::Group(_, child)
            | Node::Repeat { child, .. }
            | Node::Look { inner: child, .. }
            | Node::Atomic(child) => std::slice::from_ref(child),
            _ => &[],
        }
    }

    /// Whether the linear engine can run this.
    pub(super) fn is_linear(&self) -> bool {
        match self {
            Node::Empty | Node::One(_) | Node::Assert(_) => true,
            Node::Concat(_) | Node::Alternation(_) | Node::Group(..) | Node::Repeat { .. } => {
                self.children().iter().all(Node::is_linear)
            }
            _ => false,
        }
    }

    /// See [`Assertion::minds_last_line_end`]; of what [`Node::is_linear`] is true of.
    pub(super) fn minds_last_line_end(&self) -> bool {
        match self {
            Node::Assert(assertion) => assertion.minds_last_line_end(),
            _ => self.children().iter().any(Node::minds_last_line_end),
        }
    }

    /// How many characters this may match, at least and at most; `None` without a bound.
    pub(super) fn width(&self) -> Option<(usize, usize)> {
        match self {
            Node::Empty | Node::Assert(_) | Node::Look { .. } | Node::KeepOut | Node::SearchStart => {
                Some((0, 0))
            }
            Node::One(_) => Some((1, 1)),
            Node::LineEnd => Some((1, 2)),
            Node::Concat(parts) => {
                parts.iter().map(Node::width).try_fold((0, 0), |(least, most): (usize, usize), part| {
                    let part = part?;
                    Some((least.checked_add(part.0)?, most.checked_add(part.1)?))
                })
            }
            Node::Alternation(branches) => {
                let widths = branches.iter().map(Node::width).collect::<Option<Vec<_>>>()?;
                let least = widths.iter().map(|width| width.0).min()?;
                Some((least, widths.iter().map(|width| width.1).max()?))
            }
            Node::Group(_, inner) | Node::Atomic(inner) => inner.width(),
            Node::Repeat { child, least, most, .. } => {
                let (shortest, longest) = child.width()?;
                Some((shortest.checked_mul(*least)?, longest.checked_mul(*most)?))
            }
            Node::Condition { then, otherwise, .. } => {
                let (then, otherwise) = (then.width()?, otherwise.width()?);
                Some((then.0.min(otherwise.0), then.1.max(otherwise.1)))
            }
            Node::Reference { .. } => None,
        }
    }
}
