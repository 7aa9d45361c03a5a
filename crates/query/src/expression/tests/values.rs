//! What operators yield.

use document::{Decimal128, ObjectId, Value, doc};

use super::{check, check_missing, evaluate};

fn decimal(text: &str) -> Value {
    Value::Decimal128(Decimal128::parse(text).expect("a decimal number"))
}

fn null() -> Value {
    Value::Null
}

#[test]
fn paths_and_variables() {
    check("$int", 7);
    check("$nested.deep.x", 1);
    check("$nested.list.y", document::array![1, 2]);
    check_missing("$absent.x");
    check("$$ROOT.int", 7);
    check("$$CURRENT.int", 7);
    check_missing("$$REMOVE");
    check("$$NOW", Value::DateTime(1_700_000_000_000));
    check(doc! { "a": "$int", "b": "$absent" }, doc! { "a": 7 });
    check(document::array!["$int", "$absent"], document::array![7, Value::Null]);
    check(doc! { "$literal": "$int" }, "$int");
    check(doc! { "$const": { "$add": [1] } }, doc! { "$add": [1] });
}

#[test]
fn arithmetic_promotes() {
    check(doc! { "$add": [1, 2] }, 3);
    check(doc! { "$add": [i32::MAX, 1] }, i64::from(i32::MAX) + 1);
    check(doc! { "$add": [i64::MAX, 1] }, 9_223_372_036_854_775_808.0);
    check(doc! { "$add": [1, 2.5] }, 3.5);
    check(doc! { "$add": [decimal("0.1"), decimal("0.2")] }, decimal("0.3"));
    check(doc! { "$add": [0.1, 0.2, -0.3] }, 2.7755575615628914e-17);
    check(doc! { "$add": ["$date", 1000] }, Value::DateTime(1_709_210_097_789));
    check(doc! { "$add": [1, "$nothing"] }, null());
    check(doc! { "$add": [] }, 0);
    check(doc! { "$subtract": ["$date", "$date"] }, 0_i64);
    check(doc! { "$subtract": ["$date", 789] }, Value::DateTime(1_709_210_096_000));
    check(doc! { "$subtract": [5, 7.0] }, -2.0);
    check(doc! { "$multiply": [100_000, 100_000] }, 10_000_000_000_i64);
    check(doc! { "$multiply": [2, "$absent"] }, null());
    check(doc! { "$divide": [7, 2] }, 3.5);
    check(doc! { "$divide": [decimal("7"), 2] }, decimal("3.5"));
    check(doc! { "$mod": [-7, 3] }, -1);
    check(doc! { "$mod": [7.5, 2] }, 1.5);
    check(doc! { "$abs": -5 }, 5);
    check(doc! { "$abs": i32::MIN }, 2_147_483_648_i64);
    check(doc! { "$ceil": 2.1 }, 3.0);
    check(doc! { "$ceil": 2 }, 2);
    check(doc! { "$floor": -2.1 }, -3.0);
    check(doc! { "$round": 2.5 }, 2.0);
    check(doc! { "$round": [1234.5678, 2] }, 1234.57);
    check(doc! { "$round": [1250, -2] }, 1200);
    check(doc! { "$trunc": [-2.789, 1] }, -2.7);
    check(doc! { "$trunc": -2.789 }, -2.0);
    check(doc! { "$sqrt": 9 }, 3.0);
    check(doc! { "$pow": [2, 10] }, 1024);
    check(doc! { "$pow": [2, 40] }, 1_099_511_627_776_i64);
    check(doc! { "$pow": [2, -1] }, 0.5);
    check(doc! { "$pow": [2, 100] }, 1.2676506002282294e30);
    check(doc! { "$exp": 0 }, 1.0);
    check(doc! { "$ln": 1 }, 0.0);
    check(doc! { "$log": [8, 2] }, 3.0);
    check(doc! { "$log10": 1000 }, 3.0);
}

#[test]
fn trigonometry() {
    for name in [
        "$sin",
        "$tan",
        "$asin",
        "$atan",
        "$sinh",
        "$tanh",
        "$asinh",
        "$atanh",
        "$degreesToRadians",
        "$radiansToDegrees",
    ] {
        let mut call = document::Document::new();
        call.push(name, 0);
        check(call, 0.0);
    }
    check(doc! { "$cos": 0 }, 1.0);
    check(doc! { "$cosh": 0 }, 1.0);
    check(doc! { "$acos": 1 }, 0.0);
    check(doc! { "$acosh": 1 }, 0.0);
    check(doc! { "$atan2": [0, 1] }, 0.0);
    check(doc! { "$sin": Value::Null }, null());
}

#[test]
fn comparison_and_choice() {
    check(doc! { "$eq": [1, 1.0] }, true);
    check(doc! { "$ne": ["$int", 7_i64] }, false);
    check(doc! { "$gt": ["a", 5] }, true);
    check(doc! { "$gte": [5, 5] }, true);
    check(doc! { "$lt": ["$absent", Value::Null] }, true);
    check(doc! { "$lte": [5, 4] }, false);
    check(doc! { "$cmp": [1, 2] }, -1);
    check(doc! { "$not": ["$flag"] }, false);
    check(doc! { "$and": [true, 1, "$absent"] }, false);
    check(doc! { "$and": [] }, true);
    check(doc! { "$or": [false, 0, "$flag"] }, true);
    check(doc! { "$and": [false, { "$divide": ["$int", 0] }] }, false);
    check(doc! { "$cond": ["$flag", "yes", { "$divide": ["$int", 0] }] }, "yes");
    check(doc! { "$cond": { "if": "$nothing", "then": 1, "else": 2 } }, 2);
    check(doc! { "$ifNull": ["$absent", "$nothing", 3] }, 3);
    check(doc! { "$ifNull": [0, 3] }, 0);
    check(
        doc! {
            "$switch": { "branches": [{ "case": false, "then": 1 }, { "case": "$flag", "then": 2 }],
                "default": 3 }
        },
        2,
    );
    check(doc! { "$switch": { "branches": [{ "case": "$nothing", "then": 1 }], "default": 3 } }, 3);
}

#[test]
fn strings() {
    check(doc! { "$concat": ["$word", "-", "x"] }, "abc-x");
    check(doc! { "$concat": ["$word", "$absent"] }, null());
    check(doc! { "$toUpper": "$text" }, "HäLLO WöRLD");
    check(doc! { "$toLower": "ABC" }, "abc");
    check(doc! { "$toLower": Value::Null }, "");
    check(doc! { "$substr": ["$word", 1, -1] }, "bc");
    check(doc! { "$substrBytes": ["$text", 0, 3] }, "Hä");
    check(doc! { "$substrCP": ["$text", 1, 4] }, "ällo");
    check(doc! { "$strLenBytes": "ä" }, 2);
    check(doc! { "$strLenCP": "ä" }, 1);
    check(doc! { "$split": ["a,b,,c", ","] }, document::array!["a", "b", "", "c"]);
    check(doc! { "$trim": { "input": " \t a b \n" } }, "a b");
    check(doc! { "$trim": { "input": "xxaxx", "chars": "x" } }, "a");
    check(doc! { "$trim": { "input": "a", "chars": Value::Null } }, null());
    check(doc! { "$ltrim": { "input": " a " } }, "a ");
    check(doc! { "$rtrim": { "input": " a " } }, " a");
    check(doc! { "$indexOfBytes": ["$text", "w"] }, 7);
    check(doc! { "$indexOfCP": ["$text", "w"] }, 6);
    check(doc! { "$indexOfCP": ["abcabc", "c", 3, 5] }, -1);
    check(doc! { "$indexOfBytes": [Value::Null, "a"] }, null());
    check(doc! { "$strcasecmp": ["ABC", "abd"] }, -1);
    check(doc! { "$replaceOne": { "input": "aXbX", "find": "X", "replacement": "-" } }, "a-bX");
    check(doc! { "$replaceAll": { "input": "aXbX", "find": "X", "replacement": "-" } }, "a-b-");
    check(doc! { "$regexMatch": { "input": "Hello", "regex": "^h", "options": "i" } }, true);
    check(doc! { "$regexMatch": { "input": Value::Null, "regex": "x" } }, false);
    check(
        doc! { "$regexFind": { "input": "äbc123", "regex": "([a-z])(\\d)(x)?" } },
        doc! { "match": "c1", "idx": 2, "captures": ["c", "1", Value::Null] },
    );
    check(
        doc! { "$regexFindAll": { "input": "a1b2", "regex": "[a-z]" } },
        document::array![
            { "match": "a", "idx": 0, "captures": [] }, { "match": "b", "idx": 2, "captures": [] }
        ],
    );
}

#[test]
fn arrays() {
    check(doc! { "$size": "$list" }, 3);
    check(doc! { "$arrayElemAt": ["$list", -1] }, 2);
    check_missing(doc! { "$arrayElemAt": ["$list", 9] });
    check_missing(doc! { "$arrayElemAt": ["$list", -9] });
    check(doc! { "$first": "$list" }, 3);
    check(doc! { "$last": "$list" }, 2);
    check(doc! { "$slice": ["$list", -2] }, document::array![1, 2]);
    check(doc! { "$slice": ["$list", 1, 5] }, document::array![1, 2]);
    check(doc! { "$concatArrays": ["$list", [9]] }, document::array![3, 1, 2, 9]);
    check(doc! { "$in": [2.0, "$list"] }, true);
    check(doc! { "$indexOfArray": ["$list", 2] }, 2);
    check(doc! { "$indexOfArray": ["$list", 3, 1] }, -1);
    check(doc! { "$isArray": ["$list"] }, true);
    check(doc! { "$isArray": "$int" }, false);
    check(doc! { "$range": [0, 5, 2] }, document::array![0, 2, 4]);
    check(doc! { "$range": [3, 0, -1] }, document::array![3, 2, 1]);
    check(doc! { "$reverseArray": "$list" }, document::array![2, 1, 3]);
    check(doc! { "$zip": { "inputs": ["$list", ["a"]] } }, document::array![[3, "a"]]);
    check(
        doc! { "$zip": { "inputs": [[1, 2], ["a"]], "useLongestLength": true, "defaults": [0, "z"] } },
        document::array![[1, "a"], [2, "z"]],
    );
    check(doc! { "$arrayToObject": "$objects" }, doc! { "a": 1, "b": 2 });
    check(doc! { "$arrayToObject": [[["x", 1], ["x", 2]]] }, doc! { "x": 2 });
    check(doc! { "$objectToArray": { "a": 1 } }, document::array![{ "k": "a", "v": 1 }]);
    check(doc! { "$sortArray": { "input": "$list", "sortBy": -1 } }, document::array![3, 2, 1]);
    check(
        doc! { "$sortArray": { "input": "$objects", "sortBy": { "v": -1 } } },
        document::array![{ "k": "b", "v": 2 }, { "k": "a", "v": 1 }],
    );
    check(doc! { "$firstN": { "n": 2, "input": "$list" } }, document::array![3, 1]);
    check(doc! { "$lastN": { "n": 2, "input": "$list" } }, document::array![1, 2]);
    check(doc! { "$minN": { "n": 2, "input": "$list" } }, document::array![1, 2]);
    check(doc! { "$maxN": { "n": 2, "input": "$list" } }, document::array![3, 2]);
}

#[test]
fn iteration_binds_variables() {
    check(doc! { "$let": { "vars": { "a": "$int", "b": 2 }, "in": { "$add": ["$$a", "$$b"] } } }, 9);
    check(doc! { "$let": { "vars": { "CURRENT": "$nested" }, "in": "$deep.x" } }, 1);
    check(
        doc! { "$map": { "input": "$list", "in": { "$multiply": ["$$this", 2] } } },
        document::array![6, 2, 4],
    );
    check(doc! { "$map": { "input": "$objects", "as": "item", "in": "$$item.v" } }, document::array![1, 2]);
    check(
        doc! {
            "$map": { "input": [1, 2], "as": "a",
                "in": { "$map": { "input": [10, 20], "as": "b", "in": { "$add": ["$$a", "$$b"] } } } }
        },
        document::array![[11, 21], [12, 22]],
    );
    check(doc! { "$filter": { "input": "$list", "cond": { "$gt": ["$$this", 1] } } }, document::array![3, 2]);
    check(doc! { "$filter": { "input": "$list", "as": "n", "cond": true, "limit": 1 } }, document::array![3]);
    check(
        doc! { "$reduce": { "input": "$list", "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } },
        6,
    );
    check(doc! { "$reduce": { "input": "$nothing", "initialValue": 0, "in": 1 } }, null());
}

#[test]
fn sets_and_objects() {
    check(doc! { "$setUnion": [[2, 1], [1.0, 3]] }, document::array![1, 2, 3]);
    check(doc! { "$setIntersection": [[2, 1, 2], [2, 3]] }, document::array![2]);
    check(doc! { "$setDifference": [[3, 1, 3, 2], [1]] }, document::array![3, 2]);
    check(doc! { "$setEquals": [[1, 2, 2], [2, 1]] }, true);
    check(doc! { "$setIsSubset": [[1], [1, 2]] }, true);
    check(doc! { "$anyElementTrue": [[0, "x"]] }, true);
    check(doc! { "$allElementsTrue": [[1, 0]] }, false);
    check(doc! { "$mergeObjects": [{ "a": 1, "b": 1 }, Value::Null, { "b": 2 }] }, doc! { "a": 1, "b": 2 });
    check(doc! { "$getField": "int" }, 7);
    check(doc! { "$getField": { "field": "v", "input": { "v": 3 } } }, 3);
    check_missing(doc! { "$getField": "absent" });
    check(
        doc! { "$setField": { "field": "a.b", "input": { "x": 1 }, "value": 2 } },
        doc! { "x": 1, "a.b": 2 },
    );
    check(doc! { "$setField": { "field": "x", "input": { "x": 1 }, "value": "$$REMOVE" } }, doc! {});
    check(doc! { "$unsetField": { "field": "x", "input": { "x": 1, "y": 2 } } }, doc! { "y": 2 });
    check(doc! { "$binarySize": "ä" }, 2);
    check(doc! { "$bsonSize": {} }, 5);
}

#[test]
fn types_and_conversions() {
    check(doc! { "$type": "$absent" }, "missing");
    check(doc! { "$type": "$long" }, "long");
    check(doc! { "$isNumber": "$double" }, true);
    check(doc! { "$isNumber": "$absent" }, false);
    check(doc! { "$toInt": "42" }, 42);
    check(doc! { "$toInt": -2.9 }, -2);
    check(doc! { "$toLong": "$date" }, 1_709_210_096_789_i64);
    check(doc! { "$toDouble": "2.5" }, 2.5);
    check(doc! { "$toDecimal": "1.50" }, decimal("1.50"));
    check(doc! { "$toString": 1.0 }, "1");
    check(doc! { "$toString": 1e30 }, "1e+30");
    check(doc! { "$toString": "$date" }, "2024-02-29T12:34:56.789Z");
    check(doc! { "$toBool": "false" }, true);
    check(doc! { "$toBool": 0.0 }, false);
    check(doc! { "$toDate": "2024-02-29T12:34:56.789Z" }, Value::DateTime(1_709_210_096_789));
    check(doc! { "$toDate": 1000_i64 }, Value::DateTime(1000));
    let id = ObjectId::parse_hex("5ab9cbfa31c2ab715d42129e").expect("an object id");
    check(doc! { "$toObjectId": "5ab9cbfa31c2ab715d42129e" }, id);
    check(doc! { "$convert": { "input": "x", "to": "int", "onError": "bad" } }, "bad");
    check(doc! { "$convert": { "input": Value::Null, "to": "int", "onNull": -1 } }, -1);
    check(doc! { "$convert": { "input": 1, "to": 18 } }, 1_i64);
}

#[test]
fn accumulators_as_expressions() {
    check(doc! { "$sum": "$list" }, 6);
    check(doc! { "$sum": ["$int", "$list", 2.5] }, 9.5);
    check(doc! { "$avg": "$list" }, 2.0);
    check(doc! { "$avg": "$word" }, null());
    check(doc! { "$min": ["$int", "$nothing", 3] }, 3);
    check(doc! { "$max": "$list" }, 3);
    check(doc! { "$stdDevPop": [[1, 3]] }, 1.0);
    check(doc! { "$stdDevSamp": [5] }, null());
    check(doc! { "$stdDevSamp": [1, 3] }, 2.0_f64.sqrt());
}

#[test]
fn bits_and_chance() {
    check(doc! { "$bitAnd": [12, 10] }, 8);
    check(doc! { "$bitOr": [12, 10_i64] }, 14_i64);
    check(doc! { "$bitXor": [12, 10] }, 6);
    check(doc! { "$bitNot": 0 }, -1);
    let drawn = evaluate(doc! { "$rand": {} }.into());
    assert!(matches!(drawn, Ok(Some(Value::Double(number))) if (0.0..1.0).contains(&number)), "{drawn:?}");
    check(doc! { "$sampleRate": 1.0 }, true);
    check(doc! { "$sampleRate": 0 }, false);
}
