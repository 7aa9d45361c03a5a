//! The fast way through a document: one pass over its elements for all simple conjuncts together.

use document::RawDocument;

use super::evaluate::Subject;
use super::{FieldMatch, MatchNode, Verdict};

/// Which conjuncts of a filter ask for which top-level field.
#[derive(Debug)]
pub(crate) struct FieldScan {
    heads: Vec<Head>,
    /// Positions of the conjuncts that are no plain field tests.
    others: Vec<usize>,
}

#[derive(Debug)]
struct Head {
    name: Box<[u8]>,
    /// Positions among the filter's conjuncts.
    conjuncts: Vec<usize>,
}

/// One bit for each head that was not met yet.
type Pending = u64;

/// The conjuncts of a filter.
fn conjuncts(root: &MatchNode) -> &[MatchNode] {
    match root {
        MatchNode::And(children) => children,
        single => std::slice::from_ref(single),
    }
}

/// A field test, and whether it is negated.
fn field_test(node: &MatchNode) -> Option<(&FieldMatch, bool)> {
    match node {
        MatchNode::Field(field) => Some((field, false)),
        MatchNode::Not(child) => match child.as_ref() {
            MatchNode::Field(field) => Some((field, true)),
            _ => None,
        },
        _ => None,
    }
}

impl FieldScan {
    /// `None` when the filter has no field test on its top level, or more fields than the scan can track.
    pub(crate) fn build(root: &MatchNode) -> Option<Self> {
        let mut scan = Self { heads: Vec::new(), others: Vec::new() };
        for (position, conjunct) in conjuncts(root).iter().enumerate() {
            match field_test(conjunct) {
                Some((field, _)) => scan.add(field.path.head().as_bytes(), position),
                None => scan.others.push(position),
            }
            if scan.heads.len() > Pending::BITS as usize {
                return None;
            }
        }
        (!scan.heads.is_empty()).then_some(scan)
    }

    fn add(&mut self, name: &[u8], position: usize) {
        match self.heads.iter_mut().find(|head| *head.name == *name) {
            Some(head) => head.conjuncts.push(position),
            None => self.heads.push(Head { name: name.into(), conjuncts: vec![position] }),
        }
    }

    /// Whether the document passes `root`, which must be the filter this scan was built from.
    pub(crate) fn matches(&self, root: &MatchNode, document: RawDocument<'_>) -> Verdict {
        let conjuncts = conjuncts(root);
        let passed = match self.heads.as_slice() {
            [head] => head.holds(conjuncts, document.element(&head.name).map(|element| element.value()))?,
            heads => scan(heads, conjuncts, document)?,
        };
        if !passed {
            return Ok(false);
        }
        for position in &self.others {
            let conjunct =
                conjuncts.get(*position).expect("a scan is used with the filter it was built from");
            if !conjunct.matches(Subject::of(document), None)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn scan(heads: &[Head], conjuncts: &[MatchNode], document: RawDocument<'_>) -> Verdict {
    let mut pending = Pending::MAX >> (Pending::BITS - heads.len() as u32);
    for element in document.iter() {
        let name = element.name_bytes();
        for (bit, head) in heads.iter().enumerate() {
            if *head.name != *name || pending & 1 << bit == 0 {
                continue;
            }
            if !head.holds(conjuncts, Some(element.value()))? {
                return Ok(false);
            }
            pending &= !(1 << bit);
            if pending == 0 {
                return Ok(true);
            }
        }
    }
    for (bit, head) in heads.iter().enumerate() {
        if pending & 1 << bit != 0 && !head.holds(conjuncts, None)? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Head {
    #[inline]
    fn holds(&self, conjuncts: &[MatchNode], value: Option<document::RawValue<'_>>) -> Verdict {
        for position in &self.conjuncts {
            let test = conjuncts.get(*position).and_then(field_test);
            let (field, negated) = test.expect("a scan is used with the filter it was built from");
            if field.matches_below(value)? == negated {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
