//! Expressions: what stands around them changes nothing, they read what they say they read, and what they
//! yield can be stored and compared.

use document::{RawDocument, Value, doc};
use query::expression::{Dependencies, Evaluated, Expression, ParseScope, Variables};

use super::{HOLDS, Met, REFUSED, code, environment, is_storable, only};
use crate::generate;
use crate::source::Source;

/// What an expression yields, or the code of its error, be it parsed or evaluated.
pub(super) fn outcome(written: &Value, document: RawDocument<'_>) -> Result<Evaluated, i32> {
    parse(written).and_then(|parsed| evaluate(&parsed, document))
}

fn parse(written: &Value) -> Result<Expression, i32> {
    let environment = environment();
    let parsed = written.with_raw(|raw| Expression::parse(raw, &ParseScope::new(&environment)));
    let parsed = code(parsed)?;
    code(environment.check_constants())?;
    Ok(parsed)
}

fn evaluate(expression: &Expression, document: RawDocument<'_>) -> Result<Evaluated, i32> {
    code(expression.evaluate(document, &mut Variables::with_seed(1)))
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let stored = generate::stored(&mut source).to_buf();
    let document = stored.as_raw();
    let written = generate::expression(&mut source, 4);
    let parsed = match parse(&written) {
        Ok(parsed) => parsed,
        Err(refused) => {
            let inside = doc! { "$let": { "vars": {}, "in": (written.clone()) } }.into();
            assert_eq!(parse(&inside).err(), Some(refused), "{written:?} within $let");
            return met.note(REFUSED);
        }
    };
    let found = evaluate(&parsed, document);
    let again = code(parsed.with_value(document, &mut Variables::with_seed(1), |value| value.into_value()));
    same(&again, &found, &written, "lent");
    let around = [
        doc! { "$let": { "vars": { "unused": 1 }, "in": (written.clone()) } },
        doc! { "$cond": [true, (written.clone()), "$a"] },
        doc! { "$switch": { "branches": [{ "case": true, "then": (written.clone()) }] } },
        doc! { "$let": { "vars": { "unused": (written.clone()) }, "in": "$$unused" } },
    ];
    for around in around {
        let around = around.into();
        same(&outcome(&around, document), &found, &around, "around it");
    }
    let mut read = Dependencies::default();
    parsed.dependencies(&mut read);
    if !read.whole
        && let Some(shown) = only(&stored, &read.paths)
    {
        same(&evaluate(&parsed, shown.as_raw()), &found, &written, "on what it reads");
    }
    if let Ok(value) = found {
        check_value(&written, value, document);
    }
    met.note(HOLDS);
}

fn same(left: &Result<Evaluated, i32>, right: &Result<Evaluated, i32>, written: &Value, what: &str) {
    // Numbers that are none are not equal to themselves: their bytes are.
    let bytes = |outcome: &Result<Evaluated, i32>| {
        outcome
            .as_ref()
            .map(|value| value.as_ref().map(|value| doc! { "v": (value.clone()) }.to_buf()))
            .map_err(|code| *code)
    };
    assert_eq!(bytes(left), bytes(right), "{what}: {written:?}");
}

/// What came out equals itself, written as a constant.
fn check_value(written: &Value, value: Evaluated, document: RawDocument<'_>) {
    let Some(value) = value else {
        let is_missing = doc! { "$eq": [{ "$type": (written.clone()) }, "missing"] }.into();
        assert_eq!(outcome(&is_missing, document), Ok(Some(true.into())), "{written:?} is missing");
        return;
    };
    if !is_storable(&doc! { "v": (value.clone()) }) {
        return;
    }
    let equals = doc! { "$eq": [(written.clone()), { "$literal": (value.clone()) }] }.into();
    assert_eq!(outcome(&equals, document), Ok(Some(true.into())), "{written:?} is {value:?}");
    let order = doc! { "$cmp": [{ "$literal": (value) }, (written.clone())] }.into();
    assert_eq!(outcome(&order, document), Ok(Some(0.into())), "{written:?} is in order");
}
