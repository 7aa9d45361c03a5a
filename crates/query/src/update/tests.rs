use document::{Document, Value, array, doc};

use super::*;
use crate::matcher::Matcher;

const NOW_MS: i64 = 1_700_000_000_123;

/// A statement's update with everything that may come with it.
struct Statement {
    update: Value,
    filters: Vec<Value>,
    query: Document,
    insert: bool,
}

impl Statement {
    fn of(update: impl Into<Value>) -> Self {
        Statement { update: update.into(), filters: Vec::new(), query: Document::new(), insert: false }
    }

    fn parse(&self) -> Result<Update, QueryError> {
        let filters = doc! { "f": (self.filters.clone()) }.to_buf();
        let filters = filters.as_raw().get("f").and_then(RawValue::as_array);
        self.update.with_raw(|update| Update::parse(update, filters, &Environment::at(NOW_MS)))
    }

    /// The updated document; `None` when nothing changed.
    fn run(&self, input: &Document) -> Result<Option<Document>, QueryError> {
        let update = self.parse()?;
        let input = input.to_buf();
        let matcher = Matcher::parse(self.query.to_buf().as_raw(), &Environment::default())?;
        let details = matcher.matches_positional(input.as_raw())?;
        let changed = update.apply(input.as_raw(), details.as_ref(), self.insert)?;
        Ok(changed.map(|document| {
            RawDocument::parse(document.as_bytes()).expect("an updated document is valid").to_document()
        }))
    }
}

#[track_caller]
fn check(update: impl Into<Value>, input: Document, expect: Document) {
    let statement = Statement::of(update);
    let expect = (expect != input).then_some(expect);
    assert_eq!(statement.run(&input), Ok(expect), "{:?} of {input:?}", statement.update);
}

#[track_caller]
fn check_error(update: impl Into<Value>, input: Document, code: i32) {
    let statement = Statement::of(update);
    match statement.run(&input) {
        Err(error) => assert_eq!(error.code, code, "{:?}: {error}", statement.update),
        Ok(result) => panic!("{:?} should be refused with {code} but gave {result:?}", statement.update),
    }
}

#[test]
fn set_and_unset() {
    let base = doc! { "_id": 1, "a": 1, "z": 2 };
    check(doc! { "$set": { "a": 5 } }, base.clone(), doc! { "_id": 1, "a": 5, "z": 2 });
    check(doc! { "$set": { "a": 1 } }, base.clone(), base.clone());
    check(doc! { "$set": { "a": 1.0 } }, base.clone(), doc! { "_id": 1, "a": 1.0, "z": 2 });
    check(
        doc! { "$set": { "y": 1, "b": { "c": 2 }, "10": 0, "9": 0 } },
        base.clone(),
        doc! { "_id": 1, "a": 1, "z": 2, "9": 0, "10": 0, "b": { "c": 2 }, "y": 1 },
    );
    check(
        doc! { "$set": { "n.b": 1, "n.a.0": 2 } },
        base.clone(),
        doc! { "_id": 1, "a": 1, "z": 2, "n": { "a": { "0": 2 }, "b": 1 } },
    );
    check(doc! { "$unset": { "a": "", "missing": 1, "z.deep": 1 } }, base.clone(), doc! { "_id": 1, "z": 2 });
    check(doc! { "$set": {} }, base.clone(), base.clone());
    check(doc! { "$set": { "_id": 1 } }, base.clone(), base.clone());
    check(
        doc! { "$unset": { "a.1": 1 } },
        doc! { "_id": 1, "a": [1, 2, 3] },
        doc! { "_id": 1, "a": [1, (Value::Null), 3] },
    );
}

#[test]
fn paths_into_arrays() {
    let base = doc! { "_id": 1, "a": [1, { "b": 2 }] };
    check(doc! { "$set": { "a.1.b": 3 } }, base.clone(), doc! { "_id": 1, "a": [1, { "b": 3 }] });
    check(
        doc! { "$set": { "a.4": 9 } },
        base.clone(),
        doc! { "_id": 1, "a": [1, { "b": 2 }, (Value::Null), (Value::Null), 9] },
    );
    check(doc! { "$inc": { "a.0": 4 } }, base.clone(), doc! { "_id": 1, "a": [5, { "b": 2 }] });
    check_error(doc! { "$set": { "a.x": 1 } }, base.clone(), 28);
    check_error(doc! { "$set": { "a.0.x": 1 } }, base.clone(), 28);
    check_error(doc! { "$set": { "a.1500009": 1 } }, base, 34);
    check_error(doc! { "$set": { "a.b": 1 } }, doc! { "_id": 1, "a": "text" }, 28);
}

#[test]
fn numbers() {
    let base = doc! { "_id": 1, "n": 5 };
    check(doc! { "$inc": { "n": 2, "m": (-1) } }, base.clone(), doc! { "_id": 1, "n": 7, "m": (-1) });
    check(doc! { "$inc": { "n": 0 } }, base.clone(), base.clone());
    check(doc! { "$inc": { "n": 0.5 } }, base.clone(), doc! { "_id": 1, "n": 5.5 });
    check(
        doc! { "$inc": { "n": 1 } },
        doc! { "_id": 1, "n": (i32::MAX) },
        doc! { "_id": 1, "n": (1_i64 << 31) },
    );
    check(doc! { "$mul": { "n": 3, "m": 7 } }, base.clone(), doc! { "_id": 1, "n": 15, "m": 0 });
    check(doc! { "$mul": { "m": 7.0 } }, base.clone(), doc! { "_id": 1, "n": 5, "m": 0.0 });
    check(doc! { "$min": { "n": 3, "m": 1 } }, base.clone(), doc! { "_id": 1, "n": 3, "m": 1 });
    check(doc! { "$max": { "n": 3 } }, base.clone(), base.clone());
    check(doc! { "$max": { "n": "text" } }, base.clone(), doc! { "_id": 1, "n": "text" });
    check(
        doc! { "$bit": { "n": { "and": 4 }, "m": { "or": 3 } } },
        base.clone(),
        doc! { "_id": 1, "n": 4, "m": 3 },
    );
    check(doc! { "$bit": { "n": { "xor": 1_i64 } } }, base.clone(), doc! { "_id": 1, "n": 4_i64 });
    check_error(doc! { "$inc": { "n": "x" } }, base.clone(), 14);
    check_error(doc! { "$inc": { "n": 1 } }, doc! { "_id": 1, "n": "x" }, 14);
    check_error(doc! { "$inc": { "n": 1 } }, doc! { "_id": 1, "n": (Value::Null) }, 14);
    check_error(doc! { "$inc": { "n": 1 } }, doc! { "_id": 1, "n": (i64::MAX) }, 2);
    check_error(doc! { "$bit": { "n": { "and": 1.5 } } }, base.clone(), 2);
    check_error(doc! { "$bit": { "n": { "nand": 1 } } }, base, 2);
}

#[test]
fn dates() {
    let base = doc! { "_id": 1 };
    check(
        doc! { "$currentDate": { "a": true } },
        base.clone(),
        doc! { "_id": 1, "a": (Value::DateTime(NOW_MS)) },
    );
    check_error(doc! { "$currentDate": { "a": 1 } }, base.clone(), 2);
    check_error(doc! { "$currentDate": { "a": { "$type": "x" } } }, base, 2);
}

#[test]
fn renames() {
    let base = doc! { "_id": 1, "a": 1, "b": { "c": 2 } };
    check(doc! { "$rename": { "a": "x" } }, base.clone(), doc! { "_id": 1, "b": { "c": 2 }, "x": 1 });
    check(doc! { "$rename": { "b.c": "a" } }, base.clone(), doc! { "_id": 1, "a": 2, "b": {} });
    check(doc! { "$rename": { "missing": "a" } }, base.clone(), base.clone());
    check(
        doc! { "$rename": { "a": "x.y" }, "$set": { "q": 1 } },
        base.clone(),
        doc! { "_id": 1, "b": { "c": 2 }, "q": 1, "x": { "y": 1 } },
    );
    check_error(doc! { "$rename": { "a": "a" } }, base.clone(), 2);
    check_error(doc! { "$rename": { "a": 1 } }, base.clone(), 2);
    check_error(doc! { "$rename": { "a": "x" }, "$set": { "a": 1 } }, base.clone(), 40);
    check_error(doc! { "$rename": { "a": "a.b" } }, base.clone(), 2);
    check(
        doc! { "$rename": { "b.c": "d", "a": "e", "b.missing": "f" } },
        base,
        doc! { "_id": 1, "b": {}, "d": 2, "e": 1 },
    );
}

#[test]
fn pushes() {
    let base = doc! { "_id": 1, "a": [3, 1] };
    let with = |values: Vec<Value>| doc! { "_id": 1, "a": (values) };
    check(doc! { "$push": { "a": 2 } }, base.clone(), with(array![3, 1, 2]));
    check(doc! { "$push": { "a": [2] } }, base.clone(), with(array![3, 1, [2]]));
    check(doc! { "$push": { "a": { "$each": [5, 4], "$sort": 1 } } }, base.clone(), with(array![1, 3, 4, 5]));
    check(
        doc! { "$push": { "a": { "$each": [5, 4], "$sort": (-1), "$slice": 3 } } },
        base.clone(),
        with(array![5, 4, 3]),
    );
    check(doc! { "$push": { "a": { "$each": [7], "$slice": (-2) } } }, base.clone(), with(array![1, 7]));
    check(doc! { "$push": { "a": { "$each": [7], "$position": 0 } } }, base.clone(), with(array![7, 3, 1]));
    check(
        doc! { "$push": { "a": { "$each": [7], "$position": (-1) } } },
        base.clone(),
        with(array![3, 7, 1]),
    );
    check(doc! { "$push": { "a": { "$each": [] } } }, base.clone(), base.clone());
    check(
        doc! { "$push": { "n": { "$each": [{ "b": 2 }, { "b": 1 }], "$sort": { "b": 1 } } } },
        doc! { "_id": 1 },
        doc! { "_id": 1, "n": [{ "b": 1 }, { "b": 2 }] },
    );
    check_error(doc! { "$push": { "_id": 1 } }, base.clone(), 2);
    check_error(doc! { "$push": { "a": { "$each": 1 } } }, base.clone(), 2);
    check_error(doc! { "$push": { "a": { "$each": [], "$nope": 1 } } }, base.clone(), 2);
    check_error(doc! { "$push": { "a": { "$each": [], "$sort": 2 } } }, base, 2);
}

#[test]
fn sets_and_pulls() {
    let base = doc! { "_id": 1, "a": [1, 5, { "x": 1, "y": 2 }] };
    let with = |values: Vec<Value>| doc! { "_id": 1, "a": (values) };
    check(doc! { "$addToSet": { "a": 1.0 } }, base.clone(), base.clone());
    check(
        doc! { "$addToSet": { "a": { "$each": [5, 6, 6] } } },
        base.clone(),
        with(array![1, 5, { "x": 1, "y": 2 }, 6]),
    );
    check(doc! { "$pull": { "a": 5 } }, base.clone(), with(array![1, { "x": 1, "y": 2 }]));
    check(doc! { "$pull": { "a": { "$gte": 1 } } }, base.clone(), with(array![{ "x": 1, "y": 2 }]));
    check(doc! { "$pull": { "a": { "x": 1 } } }, base.clone(), with(array![1, 5]));
    check(doc! { "$pull": { "a": { "$or": [{ "y": 2 }] } } }, base.clone(), with(array![1, 5]));
    check(doc! { "$pull": { "missing": 1 } }, base.clone(), base.clone());
    check(doc! { "$pullAll": { "a": [1, { "x": 1, "y": 2 }] } }, base.clone(), with(array![5]));
    check(doc! { "$pop": { "a": 1 } }, base.clone(), with(array![1, 5]));
    check(doc! { "$pop": { "a": (-1) } }, base.clone(), with(array![5, { "x": 1, "y": 2 }]));
    check_error(doc! { "$pop": { "a": 2 } }, base.clone(), 9);
    check_error(doc! { "$pop": { "_id": 1 } }, base.clone(), 14);
    check_error(doc! { "$pull": { "_id": 1 } }, base.clone(), 2);
    check_error(doc! { "$addToSet": { "_id": 1 } }, base.clone(), 2);
    check_error(doc! { "$pullAll": { "a": 1 } }, base, 2);
}

#[test]
fn positional_operators() {
    let base = doc! { "_id": 1, "a": [{ "x": 1 }, { "x": 5 }, { "x": 7 }] };
    let with = |values: Vec<Value>| Ok(Some(doc! { "_id": 1, "a": (values) }));
    let mut statement = Statement::of(doc! { "$set": { "a.$.x": 0 } });
    assert_eq!(statement.run(&base).map_err(|error| error.code), Err(2), "no array took part in the match");
    statement.query = doc! { "a.x": 5 };
    assert_eq!(statement.run(&base), with(array![{ "x": 1 }, { "x": 0 }, { "x": 7 }]));
    let every = Statement::of(doc! { "$inc": { "a.$[].x": 1 } });
    assert_eq!(every.run(&base), with(array![{ "x": 2 }, { "x": 6 }, { "x": 8 }]));
    let mut chosen = Statement::of(doc! { "$set": { "a.$[e].x": 0 } });
    chosen.filters = array![{ "e.x": { "$gt": 4 } }];
    assert_eq!(chosen.run(&base), with(array![{ "x": 1 }, { "x": 0 }, { "x": 0 }]));
    let mut scalars = Statement::of(doc! { "$set": { "a.$[e]": 9 } });
    scalars.filters = array![{ "e": { "$lt": 3 } }];
    assert_eq!(scalars.run(&doc! { "_id": 1, "a": [1, 5, 2] }), with(array![9, 5, 9]));
    check_error(doc! { "$set": { "a.$[].x": 1 } }, doc! { "_id": 1 }, 2);
    check_error(doc! { "$set": { "a.$[].x": 1 } }, doc! { "_id": 1, "a": 5 }, 2);
}

#[test]
fn array_filters_are_checked() {
    let code = |update: Document, filters: Vec<Value>| {
        let statement = Statement { filters, ..Statement::of(update) };
        statement.parse().map(|_| ()).map_err(|error| error.code)
    };
    let update = doc! { "$set": { "a.$[e]": 1 } };
    assert_eq!(code(update.clone(), array![{ "e": 1 }]), Ok(()));
    assert_eq!(code(update.clone(), array![{ "$or": [{ "e.a": 1 }, { "e.b": 1 }] }]), Ok(()));
    assert_eq!(code(update.clone(), array![]), Err(2));
    assert_eq!(code(update.clone(), array![{ "e": 1 }, { "e": 2 }]), Err(9));
    assert_eq!(code(update.clone(), array![{ "e": 1 }, { "unused": 2 }]), Err(9));
    assert_eq!(code(update.clone(), array![{ "e": 1, "f": 2 }]), Err(9));
    assert_eq!(code(update.clone(), array![{ "E": 1 }]), Err(2));
    assert_eq!(code(update, array![{}]), Err(9));
    assert_eq!(code(doc! { "a": 1 }, array![{ "e": 1 }]), Err(9));
}

#[test]
fn conflicts_and_malformed_updates() {
    let base = doc! { "_id": 1, "a": { "b": 1 } };
    check_error(doc! { "$set": { "a": 1 }, "$inc": { "a": 1 } }, base.clone(), 40);
    check_error(doc! { "$set": { "a": 1, "a.b": 1 } }, base.clone(), 40);
    check_error(doc! { "$set": { "a.b": 1 }, "$unset": { "a": 1 } }, base.clone(), 40);
    check_error(doc! { "$foo": { "a": 1 } }, base.clone(), 9);
    check_error(doc! { "$set": { "a": 1 }, "b": 1 }, base.clone(), 9);
    check_error(doc! { "$set": 5 }, base.clone(), 9);
    check_error(5, base.clone(), 9);
    check_error(doc! { "$set": { "": 1 } }, base.clone(), 56);
    check_error(doc! { "$set": { "a..b": 1 } }, base.clone(), 56);
    check(doc! { "$set": { "a.$b": 1 } }, base.clone(), doc! { "_id": 1, "a": { "b": 1, "$b": 1 } });
    check(doc! { "$unset": { "$b": 1 } }, doc! { "_id": 1, "$b": 1 }, doc! { "_id": 1 });
    check_error(doc! { "$rename": { "a": "$b" } }, base.clone(), 52);
    check_error(doc! { "$set": { "$b": 1 } }, base.clone(), 52);
    check_error(doc! { "$set": { "$.a": 1 } }, base.clone(), 2);
    check_error(doc! { "$set": { "a.$.b.$": 1 } }, base.clone(), 2);
    check_error(doc! { "$set": { "_id": 2 } }, base.clone(), 66);
    check_error(doc! { "$unset": { "_id": 1 } }, base.clone(), 66);
    let huge = "x".repeat(9 * 1024 * 1024);
    check_error(doc! { "$set": { "p": (huge.as_str()), "q": (huge.as_str()) } }, base, 17419);
    let wording = Statement::of(doc! { "$set": { "a": 1, "a.b": 1 } })
        .parse()
        .map(|_| ())
        .map_err(|error| error.message);
    assert_eq!(wording, Err("Updating the path 'a.b' would create a conflict at 'a'".to_owned()));
}

#[test]
fn replacements_keep_the_id() {
    let base = doc! { "_id": 1, "a": 1 };
    check(doc! { "b": 2 }, base.clone(), doc! { "_id": 1, "b": 2 });
    check(doc! { "b": 2, "_id": 1 }, base.clone(), doc! { "_id": 1, "b": 2 });
    check(doc! { "a": 1 }, base.clone(), base.clone());
    check(doc! {}, base.clone(), doc! { "_id": 1 });
    check_error(doc! { "_id": 2 }, base.clone(), 66);
    check_error(doc! { "a": 1, "$b": 1 }, base, 52);
}

#[test]
fn pipelines() {
    let base = doc! { "_id": 1, "a": 1, "b": 2 };
    check(
        array![{ "$set": { "c": { "$add": ["$a", "$b"] } } }, { "$unset": "a" }],
        base.clone(),
        doc! { "_id": 1, "b": 2, "c": 3 },
    );
    check(array![{ "$replaceWith": { "x": "$a" } }], base.clone(), doc! { "_id": 1, "x": 1 });
    check(array![{ "$project": { "b": 1 } }], base.clone(), doc! { "_id": 1, "b": 2 });
    check_error(array![{ "$match": {} }], base.clone(), 72);
    check_error(array![{ "$nope": {} }], base.clone(), 40324);
    check_error(array![{ "$set": { "_id": 5 } }], base.clone(), 66);
    check_error(array![{ "$replaceWith": "$a" }], base, 40228);
}

#[test]
fn upserts_begin_with_the_filters_equalities() {
    let upsert = |filter: Document, update: Document| {
        let made = Statement::of(update).parse().and_then(|update| update.upsert(filter.to_buf().as_raw()));
        made.map(|document| document.as_raw().to_document()).map_err(|error| error.code)
    };
    assert_eq!(
        upsert(
            doc! { "b": 2, "_id": 7, "c": { "$gt": 5 } },
            doc! { "$set": { "d": 1 }, "$setOnInsert": { "e": 2 } }
        ),
        Ok(doc! { "_id": 7, "b": 2, "d": 1, "e": 2 })
    );
    assert_eq!(
        upsert(
            doc! { "$and": [{ "_id": 1 }, { "x.y": { "$eq": 3 } }], "z": { "$in": [4] } },
            doc! { "$inc": { "x.n": 1 } }
        ),
        Ok(doc! { "_id": 1, "x": { "y": 3, "n": 1 }, "z": 4 })
    );
    assert_eq!(upsert(doc! { "_id": 5, "a": 1 }, doc! { "b": 2 }), Ok(doc! { "_id": 5, "b": 2 }));
    assert_eq!(upsert(doc! { "_id": 1 }, doc! { "$setOnInsert": { "_id": 2 } }), Err(66));
    assert_eq!(upsert(doc! { "$and": [{ "a": 1 }, { "a": 2 }] }, doc! { "$set": { "b": 1 } }), Err(54));
    assert_eq!(upsert(doc! { "a": 1, "a.b": 2 }, doc! { "$set": { "c": 1 } }), Err(54));
    assert_eq!(upsert(doc! {}, doc! { "$set": { "_id": [1] } }), Err(53));
    let made = upsert(doc! { "a": 1 }, doc! { "$set": { "b": 2 } }).expect("the upsert is made");
    assert!(
        matches!(made.first(), Some(("_id", Value::ObjectId(_)))),
        "an _id is made and comes first: {made:?}"
    );
    check(doc! { "$setOnInsert": { "a": 1 } }, doc! { "_id": 1 }, doc! { "_id": 1 });
}

#[test]
fn an_upserts_filter_is_one_value_for_each_path() {
    let seed = |filter: Document| {
        let update = Statement::of(doc! { "$set": { "z": 1 } }).parse().expect("the update parses");
        let made = update.upsert(filter.to_buf().as_raw());
        made.map(|document| document.as_raw().to_document()).map_err(|error| (error.code, error.message))
    };
    assert_eq!(
        seed(doc! { "b.y": 1, "b-c": 2, "_id.k": 3, "b.x": 4, "_id.j": 5 }),
        Ok(doc! { "_id": { "j": 5, "k": 3 }, "b-c": 2, "b": { "x": 4, "y": 1 }, "z": 1 })
    );
    let twice = "cannot infer query fields to set, path 'a' is matched twice";
    assert_eq!(seed(doc! { "$and": [{ "a": 1 }, { "b": 1 }, { "a": 2 }] }), Err((54, twice.to_owned())));
    let both = "cannot infer query fields to set, both paths 'a.b' and 'a' are matched";
    assert_eq!(seed(doc! { "a.b": 1, "a-c": 1, "a": 2 }), Err((54, both.to_owned())));
    let many: Document = (0..200_000).map(|number| (format!("f{number}"), number)).collect();
    assert_eq!(seed(many).map(|made| made.len()), Ok(200_002), "and takes no longer for very many paths");
    let replacement = Statement::of(doc! { "a": 1 }).parse().expect("the update parses");
    let sub_path = replacement.upsert(doc! { "_id.k": 1 }.to_buf().as_raw()).map_err(|error| error.code);
    assert_eq!(sub_path.map(|_| ()), Err(111));
}

#[test]
fn upserts_look_again_only_for_the_key_they_ask_for() {
    #[track_caller]
    fn check(filter: Document, key: Document, expect: bool) {
        assert_eq!(asks_for_key(filter.to_buf().as_raw(), &key), expect, "{filter:?} and {key:?}");
    }
    check(doc! { "_id": 1 }, doc! { "_id": 1 }, true);
    check(doc! { "_id": 1.0 }, doc! { "_id": 1 }, true);
    check(doc! { "_id": { "$eq": 1 } }, doc! { "_id": 1 }, true);
    check(doc! { "$and": [{ "a": 1 }, { "$or": [{ "b": { "$in": [2] } }] }] }, doc! { "b": 2, "a": 1 }, true);
    check(doc! { "a": { "$all": [1] }, "$comment": "x" }, doc! { "a": 1 }, true);
    check(doc! { "a.b": (Value::Null) }, doc! { "a.b": (Value::Null) }, true);
    check(doc! { "_id": 2 }, doc! { "_id": 1 }, false);
    check(doc! { "_id": 1, "until": { "$lt": 5 } }, doc! { "_id": 1 }, false);
    check(doc! { "_id": 1, "a": 1 }, doc! { "_id": 1 }, false);
    check(doc! { "a": 1 }, doc! { "a": 1, "b": 2 }, false);
    check(doc! { "a": 1 }, doc! { "_id": 1 }, false);
    check(doc! { "_id": { "$in": [1, 2] } }, doc! { "_id": 1 }, false);
    check(doc! { "_id": { "$eq": 1, "$gt": 0 } }, doc! { "_id": 1 }, false);
    check(doc! { "_id": 1, "$expr": { "$eq": ["$a", 1] } }, doc! { "_id": 1 }, false);
    check(doc! { "_id": 1, "$nor": [{ "a": 1 }] }, doc! { "_id": 1 }, false);
    check(doc! {}, doc! { "_id": 1 }, false);
}

#[test]
fn ids_that_cannot_be() {
    let regex = Value::regex("a", "");
    for (id, code) in [
        (array![1].into(), 53),
        (regex, 53),
        (Value::Undefined, 53),
        (Value::Document(doc! { "$a": 1 }), 52),
        (Value::Document(doc! { "a": { "$b": 1 } }), 0),
        (Value::Document(doc! { "$ref": "c", "$id": 1 }), 0),
    ] {
        let upsert = |update: Value| {
            let made = Statement::of(update).parse().and_then(|update| update.upsert(RawDocument::EMPTY));
            made.map_or_else(|error| error.code, |_| 0)
        };
        let field = doc! { "_id": (id.clone()) };
        assert_eq!(upsert(Value::Document(field.clone())), code, "replacement with {id:?}");
        assert_eq!(upsert(Value::Document(doc! { "$set": (field.clone()) })), code, "$set of {id:?}");
        let literal = array![{ "$set": { "_id": { "$literal": (id.clone()) } } }];
        assert_eq!(upsert(literal.into()), code, "pipeline with {id:?}");
        if code != 0 {
            check_error(field, doc! { "_id": 1 }, code);
            check_error(doc! { "$set": { "_id": (id.clone()) } }, doc! { "_id": 1 }, 66);
        }
    }
    let twice = Document::from_iter([("_id", 1), ("a", 2), ("_id", 1)]);
    check_error(twice, doc! { "_id": 1 }, 2);
}

#[test]
fn forms_are_refused_before_anything_runs() {
    fn code(update: impl Into<Value>) -> i32 {
        update.into().with_raw(Update::check_form).map_or_else(|error| error.code, |()| 0)
    }
    assert_eq!(code(doc! { "$nope": 1 }), 0, "operators are looked at one by one");
    assert_eq!(code(array![{ "$set": 5 }, { "$match": {} }]), 0);
    assert_eq!(code(array![{ "$nope": {} }]), 40324);
    assert_eq!(code(array![{ "set": {} }]), 40324);
    assert_eq!(code(array![{ "$set": { "a": 1 }, "$unset": "b" }]), 40323);
    assert_eq!(code(array![{}]), 40323);
    assert_eq!(code(array![5]), 14);
    assert_eq!(code(5), 9);
}
