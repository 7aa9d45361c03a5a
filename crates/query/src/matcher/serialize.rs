//! Writing a tree out again, every operator explicit: the `filter` of `explain`.

use document::{Document, Value};

use super::{FieldMatch, MatchNode, Pattern, Predicate, ValueTest};

impl MatchNode {
    /// The filter as a document.
    pub fn to_document(&self) -> Document {
        match self {
            MatchNode::And(children) if children.is_empty() => Document::new(),
            MatchNode::Always(true) => single("$alwaysTrue", Value::Int32(1)),
            MatchNode::Always(false) => single("$alwaysFalse", Value::Int32(1)),
            MatchNode::And(children) => branches("$and", children),
            MatchNode::Or(children) => branches("$or", children),
            MatchNode::Nor(children) => branches("$nor", children),
            MatchNode::Not(child) => negation(child),
            MatchNode::Field(field) => single(field.path.dotted(), tests(&[&field.predicate])),
            MatchNode::Expression(test) => single("$expr", test.source.clone()),
            MatchNode::Schema(test) => single("$jsonSchema", Value::Document(test.source.clone())),
        }
    }
}

fn single(name: &str, value: Value) -> Document {
    Document::from_iter([(name, value)])
}

fn branches(name: &str, children: &[MatchNode]) -> Document {
    single(name, Value::Array(children.iter().map(|child| Value::Document(child.to_document())).collect()))
}

/// `{a: {$not: …}}` where the negated tests are about one path, `$nor` elsewhere.
fn negation(child: &MatchNode) -> Document {
    let fields: Option<Vec<&FieldMatch>> = match child {
        MatchNode::Field(field) => Some(vec![field]),
        MatchNode::And(children) => children.iter().map(as_field).collect(),
        _ => None,
    };
    match fields.as_deref() {
        Some([first, rest @ ..]) if rest.iter().all(|field| field.path == first.path) => {
            let predicates: Vec<&Predicate> =
                std::iter::once(first).chain(rest).map(|f| &f.predicate).collect();
            single(first.path.dotted(), Value::Document(single("$not", tests(&predicates))))
        }
        _ => single("$nor", Value::Array(vec![Value::Document(child.to_document())].into())),
    }
}

fn as_field(node: &MatchNode) -> Option<&FieldMatch> {
    match node {
        MatchNode::Field(field) => Some(field),
        _ => None,
    }
}

fn tests(predicates: &[&Predicate]) -> Value {
    let is_pattern = |predicate: &&&Predicate| matches!(predicate, Predicate::Pattern(_));
    let shares = predicates.iter().filter(is_pattern).count() > 1;
    let mut operators = Document::new();
    for predicate in predicates {
        write_predicate(predicate, shares, &mut operators);
    }
    Value::Document(operators)
}

fn value_tests(tests: &[ValueTest]) -> Document {
    let is_pattern = |test: &&ValueTest| matches!(test, ValueTest::Is(Predicate::Pattern(_)));
    let shares = tests.iter().filter(is_pattern).count() > 1;
    let mut operators = Document::new();
    for test in tests {
        match test {
            ValueTest::Is(predicate) => write_predicate(predicate, shares, &mut operators),
            ValueTest::Not(inner) => operators.push("$not", Value::Document(value_tests(inner))),
        }
    }
    if operators.is_empty() {
        // Without an operator it would be about fields, or refused.
        operators.push("$nin", Value::Array(document::Array::new()));
    }
    operators
}

/// `shares`: it is not the only pattern there, and `$options` would count for all of them.
fn write_predicate(predicate: &Predicate, shares: bool, operators: &mut Document) {
    match predicate {
        Predicate::Compare(comparison) => {
            operators.push(comparison.operator.name(), comparison.operand.to_value());
        }
        Predicate::In(list) => {
            let values = list.values().iter().map(|value| value.to_value());
            operators.push("$in", Value::Array(values.chain(list.patterns().iter().map(regex)).collect()));
        }
        Predicate::Pattern(pattern) if shares => operators.push("$regex", regex(pattern)),
        Predicate::Pattern(pattern) => {
            operators.push("$regex", pattern.pattern());
            if !pattern.options().is_empty() {
                operators.push("$options", pattern.options());
            }
        }
        Predicate::Remainder(test) => {
            operators.push(
                "$mod",
                Value::Array(vec![Value::Int64(test.divisor), Value::Int64(test.remainder)].into()),
            );
        }
        Predicate::Exists => operators.push("$exists", true),
        Predicate::Type(types) => {
            let codes = types.kinds().map(|kind| Value::Int32(kind.query_code())).collect();
            operators.push("$type", Value::Array(codes));
        }
        Predicate::Size(size) => operators.push("$size", *size),
        Predicate::Bits(test) => operators.push(test.kind.name(), test.operand()),
        Predicate::ElementValue(tests) => {
            operators.push("$elemMatch", Value::Document(value_tests(tests)));
        }
        Predicate::ElementObject(filter) => {
            operators.push("$elemMatch", Value::Document(filter.to_document()));
        }
        Predicate::Nothing => operators.push("$all", Value::Array(document::Array::new())),
    }
}

fn regex(pattern: &Pattern) -> Value {
    Value::regex(pattern.pattern(), pattern.options())
}
