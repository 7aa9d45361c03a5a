//! One table of values and errors for the operators; an operator that no row names fails the test.

use document::{Document, Value, doc};

use super::{Expression, ParseScope, Variables, operators};
use crate::environment::Environment;

mod dates;
mod errors;
mod limits;
mod values;

/// The document that every expression below is evaluated on.
fn sample() -> Document {
    doc! {
        "int": 7, "long": 5_000_000_000_i64, "double": 2.5, "negative": -3, "text": "Hällo wörld",
        "word": "abc", "flag": true, "nothing": Value::Null, "list": [3, 1, 2],
        "objects": [{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }],
        "nested": { "deep": { "x": 1 }, "list": [{ "y": 1 }, { "y": 2 }] },
        "date": Value::DateTime(1_709_210_096_789),
    }
}

/// Evaluates `operand` on the sample; the error is its code and message.
fn evaluate(operand: Value) -> Result<Option<Value>, (i32, String)> {
    let environment = Environment::at(1_700_000_000_000);
    let plain = |error: crate::QueryError| (error.code, error.message);
    let expression =
        operand.with_raw(|raw| Expression::parse(raw, &ParseScope::new(&environment))).map_err(plain)?;
    expression.evaluate(sample().to_buf().as_raw(), &mut Variables::with_seed(1)).map_err(plain)
}

/// Compares with types: 1 and 1.0 differ here.
fn check(operand: impl Into<Value>, expect: impl Into<Value>) {
    let operand = operand.into();
    let found = evaluate(operand.clone());
    assert_eq!(found, Ok(Some(expect.into())), "{operand:?}");
}

fn check_missing(operand: impl Into<Value>) {
    let operand = operand.into();
    assert_eq!(evaluate(operand.clone()), Ok(None), "{operand:?}");
}

fn check_error(operand: impl Into<Value>, code: i32, wording: &str) {
    let operand = operand.into();
    match evaluate(operand.clone()) {
        Err((found, message)) => {
            assert_eq!(found, code, "{operand:?} answers: {message}");
            assert!(message.contains(wording), "{operand:?} answers: {message}, which lacks: {wording}");
        }
        Ok(value) => panic!("{operand:?} should be refused, but yields {:.300}", format!("{value:?}")),
    }
}

#[test]
fn every_operator_is_named_by_a_test() {
    let tested =
        [include_str!("tests/values.rs"), include_str!("tests/dates.rs"), include_str!("tests/errors.rs")];
    for operator in operators() {
        let quoted = format!("\"{}\"", operator.name);
        assert!(tested.iter().any(|source| source.contains(&quoted)), "{} has no test", operator.name);
    }
}
