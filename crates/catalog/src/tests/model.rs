//! Random operations against a model, then `validate`, also after reopening.

use super::*;
use document::doc;
use std::collections::BTreeMap;

/// Marsaglia's xorshift: enough randomness for a test, the same for a seed everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

fn random_document(random: &mut Random, id: i32) -> Document {
    let mut document = doc! { "_id": id };
    match random.below(5) {
        0 => {}
        1 => document.push("a", random.below(5) as i32),
        2 => document.push(
            "a",
            Value::Array((0..random.below(4)).map(|_| Value::Int32(random.below(5) as i32)).collect()),
        ),
        3 => document.push("a", random.below(10) as f64 / 2.0),
        _ => document.push("a", doc! { "b": random.below(3) as i32 }),
    }
    if random.below(3) > 0 {
        document.push("u", random.below(40) as i32);
    }
    if random.below(2) == 0 {
        document.push("pad", "x".repeat(random.below(300) as usize));
    }
    document
}

/// Whether the unique sparse index on `u` lets `document` in.
fn is_free(model: &BTreeMap<i32, Document>, document: &Document) -> bool {
    let id = document.get("_id");
    document
        .get("u")
        .is_none_or(|key| !model.values().any(|other| other.get("u") == Some(key) && other.get("_id") != id))
}

fn run(catalog: &Catalog, random: &mut Random, model: &mut BTreeMap<i32, Document>, steps: usize) {
    let things = collection(catalog, "c");
    for step in 0..steps {
        let id = random.below(60) as i32;
        let document = random_document(random, id);
        match random.below(10) {
            0..=3 => {
                let expected = !model.contains_key(&id) && is_free(model, &document);
                assert_eq!(
                    insert(&things, document.clone()).is_ok(),
                    expected,
                    "step {step}: insert of {document:?}"
                );
                if expected {
                    model.insert(id, document);
                }
            }
            4..=7 => {
                let expected = is_free(model, &document);
                let result = update(&things, id, |_| Some(document.clone()));
                assert_eq!(result.is_ok(), expected, "step {step}: update to {document:?}: {result:?}");
                if expected {
                    model.insert(id, document);
                }
            }
            8 => {
                assert_eq!(
                    update(&things, id, |_| None).expect("a delete"),
                    model.remove(&id).is_some(),
                    "step {step}"
                );
            }
            _ if random.below(10) == 0 => {
                let selection = crate::IndexSelection::Names(vec!["a".into()]);
                let _ = block_on(catalog.drop_indexes(changing(catalog), &namespace("c"), &selection));
                index(catalog, "c", doc! { "key": { "a": 1, "pad": -1 }, "name": "a" }).expect("an index");
            }
            _ => assert_eq!(get(&things, id).as_ref(), model.get(&id), "step {step}: find of {id}"),
        }
    }
    assert_eq!(all(&things), model.values().cloned().collect::<Vec<_>>());
    assert_valid(&things);
}

fn indexes(catalog: &Catalog) {
    for spec in [
        doc! { "key": { "u": 1 }, "name": "u", "unique": true, "sparse": true },
        doc! { "key": { "a": 1, "pad": -1 }, "name": "a" },
        doc! { "key": { "a.b": 1 }, "name": "ab", "partialFilterExpression": { "u": { "$gt": 10 } } },
        doc! { "key": { "u": "hashed" }, "name": "h" },
    ] {
        index(catalog, "c", spec).expect("an index");
    }
}

#[test]
fn random_operations_agree_with_a_model() {
    on_both_engines(|catalog| {
        for seed in 1..=4 {
            indexes(&catalog);
            let mut random = Random(0x9E37_79B9_7F4A_7C15u64.wrapping_mul(seed));
            run(&catalog, &mut random, &mut BTreeMap::new(), 500);
            block_on(catalog.drop_collection(changing(&catalog), &namespace("c"))).expect("a drop");
        }
    });
}

#[test]
fn a_reopened_store_agrees_with_the_model() {
    let directory = tempfile::tempdir().expect("a directory");
    let (mut random, mut model) = (Random(77), BTreeMap::new());
    for round in 0..4 {
        let store = Store::open(directory.path().join("data"), &StorageOptions::small()).expect("a store");
        let catalog = Catalog::open(store).expect("a catalog");
        if round == 0 {
            indexes(&catalog);
        }
        run(&catalog, &mut random, &mut model, 200);
    }
}
