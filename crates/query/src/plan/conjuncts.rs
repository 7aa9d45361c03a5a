//! The filter as a list of conditions that must all hold.

use crate::matcher::MatchNode;

/// Opens conjunctions and turns negated disjunctions into conditions of their own.
pub(crate) fn conjuncts(root: &MatchNode) -> Vec<MatchNode> {
    let mut found = Vec::new();
    collect(root, &mut found);
    found
}

fn collect(node: &MatchNode, found: &mut Vec<MatchNode>) {
    match node {
        MatchNode::And(children) => children.iter().for_each(|child| collect(child, found)),
        MatchNode::Nor(children) => children.iter().for_each(|child| found.push(negation(child))),
        MatchNode::Always(true) => {}
        MatchNode::Not(child) => match child.as_ref() {
            MatchNode::Or(children) => children.iter().for_each(|child| found.push(negation(child))),
            _ => found.push(node.clone()),
        },
        _ => found.push(node.clone()),
    }
}

fn negation(child: &MatchNode) -> MatchNode {
    MatchNode::Not(Box::new(child.clone()))
}
