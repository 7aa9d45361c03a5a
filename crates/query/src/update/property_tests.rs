//! Both ways of applying operators agree, and what comes out is valid.

use document::{Document, Value};
use proptest::prelude::*;

use super::modifier::Surroundings;
use super::operators::Operators;
use super::*;

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        any::<i32>().prop_map(Value::Int32),
        any::<i64>().prop_map(Value::Int64),
        (-1e9..1e9).prop_map(Value::Double),
        "[a-z]{0,6}".prop_map(Value::String),
        Just(Value::Null),
        any::<bool>().prop_map(Value::Boolean),
    ]
}

fn name() -> impl Strategy<Value = String> {
    "[a-e]".prop_map(String::from)
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(2, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|fields| Value::Document(fields.into_iter().collect())),
        ]
    })
}

fn stored() -> impl Strategy<Value = Document> {
    prop::collection::btree_map(name(), value(), 0..5).prop_map(|fields| {
        let mut document = document::doc! { "_id": 1 };
        document.extend(fields);
        document
    })
}

/// One operator on one path of one or two components.
fn modification() -> impl Strategy<Value = (&'static str, String, Value)> {
    let path = prop_oneof![3 => name(),
        1 => (name(), prop_oneof![name(), Just("1".to_owned())]).prop_map(|(a, b)| format!("{a}.{b}"))];
    let operator = prop_oneof![
        Just("$set"),
        Just("$unset"),
        Just("$inc"),
        Just("$mul"),
        Just("$min"),
        Just("$max"),
        Just("$push"),
        Just("$addToSet"),
        Just("$pull"),
        Just("$setOnInsert"),
    ];
    (operator, path, value())
}

fn update(modifications: Vec<(&'static str, String, Value)>) -> Document {
    let mut update = Document::new();
    for (operator, path, value) in modifications {
        if update.get(operator).is_none() {
            update.push(operator, Document::new());
        }
        if let Some(Value::Document(fields)) = update.get_mut(operator) {
            fields.insert(path, value);
        }
    }
    update
}

proptest! {
    #[test]
    fn splicing_and_walking_agree(document in stored(),
        modifications in prop::collection::vec(modification(), 1..4), insert: bool) {
        let (document, update) = (document.to_buf(), update(modifications).to_buf());
        let Ok(operators) = Operators::parse(update.as_raw(), RawArray::EMPTY, &Environment::default()) else {
            return Ok(());
        };
        let document = document.as_raw();
        let mut around = Surroundings { document, is_insert: insert, position: None, renamed: Vec::new() };
        let spliced = splice::apply(&operators.tree, &operators.filters, &around).map_err(|error| error.code);
        let walked = walk::apply(&operators, &mut around).map_err(|error| error.code);
        match (spliced, walked) {
            (Ok(spliced), Ok(walked)) => {
                prop_assert_eq!(&spliced, &walked);
                prop_assert!(RawDocument::parse(spliced.as_bytes()).is_ok(), "the result is valid BSON");
            }
            // The two ways may meet several refusals in another order.
            (Err(_), Err(_)) => {}
            (spliced, walked) => prop_assert!(false, "one way refuses: {spliced:?} and {walked:?}"),
        }
    }

    #[test]
    fn what_is_set_can_be_read(document in stored(), path in name(), value in value()) {
        let update = document::doc! { "$set": { (path.as_str()): (value.clone()) } }.to_buf();
        let update = Update::parse(RawValue::Document(update.as_raw()), None,
            &Environment::default()).expect("parses");
        let before = document.to_buf();
        let changed = update.apply(before.as_raw(), None,
            false).expect("a top-level field can always be set");
        let same = document.get(&path) == Some(&value);
        prop_assert_eq!(changed.is_none(), same, "unchanged exactly when the value was there already");
        let after = changed.unwrap_or(before);
        prop_assert_eq!(after.as_raw().get(&path).map(RawValue::to_value), Some(value));
        let again = update.apply(after.as_raw(), None, false).expect("applies again");
        prop_assert!(again.is_none(), "setting the same value again changes nothing");
    }
}
