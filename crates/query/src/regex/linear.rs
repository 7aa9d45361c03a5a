//! From the tree to the engine that is linear in the text.

use std::sync::Arc;

use regex_automata::meta;
use regex_automata::{Input, util::captures::Captures};
use regex_syntax::hir::{Capture, Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, Look, Repetition};

use super::Groups;
use super::tree::{Assertion, Node, OneCharacter, Tree};

/// Bytes of the linear form of a pattern; what is larger backtracks.
const MAX_BYTES: usize = 2 << 20;

/// A pattern for the linear engine.
#[derive(Debug, Clone)]
pub(super) struct Linear(Arc<meta::Regex>);

impl Linear {
    /// `None` where the engine cannot run this, or only in a large form.
    pub(super) fn compile(tree: &Tree) -> Option<Self> {
        if !tree.root.is_linear() {
            return None;
        }
        let hir = hir(&tree.root, tree.unicode)?;
        let limits = meta::Config::new().nfa_size_limit(Some(MAX_BYTES));
        let regex = meta::Builder::new().configure(limits).build_from_hir(&hir).ok()?;
        Some(Linear(Arc::new(regex)))
    }

    pub(super) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The first match at or after a byte of the text.
    pub(super) fn groups_from(&self, text: &str, from: usize) -> Option<Groups> {
        let mut found: Captures = self.0.create_captures();
        self.0.search_captures(&Input::new(text).range(from..), &mut found);
        found.is_match().then(|| found.iter().map(|group| group.map(|span| span.range())).collect())
    }
}

/// `None` for what the engine does not know.
fn hir(node: &Node, unicode: bool) -> Option<Hir> {
    let all = |nodes: &[Node]| nodes.iter().map(|node| hir(node, unicode)).collect::<Option<Vec<_>>>();
    Some(match node {
        Node::Empty => Hir::empty(),
        Node::One(one) => character(one),
        Node::Assert(assertion) => Hir::look(look(*assertion, unicode)),
        Node::Concat(parts) => Hir::concat(all(parts)?),
        Node::Alternation(branches) => Hir::alternation(all(branches)?),
        Node::Group(number, inner) => {
            let sub = Box::new(hir(inner, unicode)?);
            Hir::capture(Capture { index: u32::try_from(*number).ok()?, name: None, sub })
        }
        Node::Repeat { child, least, most, greedy } => Hir::repetition(Repetition {
            min: u32::try_from(*least).ok()?,
            max: if *most == usize::MAX { None } else { Some(u32::try_from(*most).ok()?) },
            greedy: *greedy,
            sub: Box::new(hir(child, unicode)?),
        }),
        _ => return None,
    })
}

fn character(one: &OneCharacter) -> Hir {
    match one {
        OneCharacter::Exactly(character) => Hir::literal(character.to_string().into_bytes()),
        OneCharacter::Any => Hir::dot(Dot::AnyChar),
        OneCharacter::AnyButLineEnd => Hir::dot(Dot::AnyCharExceptLF),
        OneCharacter::Ranges(ranges) => {
            let ranges = ranges.iter().map(|(first, last)| ClassUnicodeRange::new(*first, *last));
            Hir::class(Class::Unicode(ClassUnicode::new(ranges)))
        }
    }
}

/// In a text whose last character is no line end; see [`Assertion::minds_last_line_end`].
fn look(assertion: Assertion, unicode: bool) -> Look {
    match assertion {
        Assertion::StartText => Look::Start,
        Assertion::EndText | Assertion::EndTextOrLastLineEnd => Look::End,
        Assertion::StartLine => Look::StartLF,
        Assertion::EndLine => Look::EndLF,
        Assertion::WordBoundary if unicode => Look::WordUnicode,
        Assertion::WordBoundary => Look::WordAscii,
        Assertion::NotWordBoundary if unicode => Look::WordUnicodeNegate,
        Assertion::NotWordBoundary => Look::WordAsciiNegate,
    }
}
