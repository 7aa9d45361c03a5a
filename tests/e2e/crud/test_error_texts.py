"""What refusals of reads, pipelines and indexes say: code, code name, and the whole text."""

import re
import uuid

import pytest
from bson import Int64, ObjectId
from bson.binary import Binary, UuidRepresentation
from pymongo.errors import OperationFailure, WriteError


def refused(database, command):
    with pytest.raises(OperationFailure) as refusal:
        database.command(command)
    details = refusal.value.details
    return details["code"], details["codeName"], details["errmsg"]


def aggregate(*stages, **options):
    return {"aggregate": "things", "pipeline": list(stages), "cursor": {}, **options}


@pytest.fixture
def filled(collection):
    collection.insert_many([{"_id": number, "v": [42, "foo"], "n": number, "zero": 0} for number in range(150)])
    return collection


FIRST_WORDS = [
    (
        aggregate({"$project": {"x": {"$divide": [1, "$zero"]}}}),
        2,
        "PlanExecutor error during aggregation :: caused by :: can't $divide by zero",
    ),
    (
        aggregate({"$project": {"x": {"$divide": [1, 0]}}}),
        2,
        "Failed to optimize pipeline :: caused by :: can't $divide by zero",
    ),
    (
        aggregate({"$match": {"$expr": {"$divide": [1, 0]}}}),
        2,
        "Failed to optimize pipeline :: caused by :: Failed to optimize expression :: caused by :: can't $divide by zero",
    ),
    (
        {"find": "things", "filter": {"$expr": {"$divide": [1, 0]}}},
        2,
        "Failed to optimize expression :: caused by :: can't $divide by zero",
    ),
    (
        {"find": "things", "projection": {"x": {"$divide": [1, "$zero"]}}},
        2,
        "Executor error during find command :: caused by :: can't $divide by zero",
    ),
    (
        {"find": "things", "filter": {"_id": 1}, "projection": {"x": {"$divide": [1, "$zero"]}}},
        2,
        "Executor error during find command :: caused by :: can't $divide by zero",
    ),
    (
        {"distinct": "things", "key": "n", "query": {"$expr": {"$divide": [1, "$zero"]}}},
        2,
        "Executor error during distinct command :: caused by :: can't $divide by zero",
    ),
    (
        {"find": "things", "projection": {"v.$": 1}},
        51246,
        "Executor error during find command :: caused by :: positional operator '.$' couldn't find a matching element in the array",
    ),
    (
        {"find": "things", "filter": {"v": 42}, "projection": {"v.foo.$": 1}},
        51247,
        "Executor error during find command :: caused by :: positional operator '.$' element mismatch",
    ),
    (
        aggregate({"$limit": 1}, {"$replaceRoot": {"newRoot": "$v"}}),
        40228,
        "PlanExecutor error during aggregation :: caused by :: 'newRoot' expression must evaluate to an object, but resulting "
        "value was: [42, \"foo\"]. Type of resulting value: 'array'. Input document: {_id: 0, v: [42, \"foo\"], n: 0, zero: 0}",
    ),
]


@pytest.mark.parametrize(("command", "code", "message"), FIRST_WORDS)
def test_an_error_says_first_what_was_being_done(filled, command, code, message):
    found, _, text = refused(filled.database, command)
    assert (found, re.sub(r" +", " ", text)) == (code, message)


@pytest.mark.parametrize(
    "command",
    [
        {"find": "things", "sort": {"_id": 1}, "projection": {"x": {"$divide": [1, {"$subtract": [149, "$n"]}]}}},
        aggregate({"$project": {"x": {"$divide": [1, {"$subtract": [149, "$n"]}]}}}),
    ],
)
def test_an_error_of_a_later_batch_says_so(filled, command):
    cursor = filled.database.command(command)["cursor"]
    assert len(cursor["firstBatch"]) == 101
    code, _, message = refused(filled.database, {"getMore": cursor["id"], "collection": "things"})
    assert (code, message) == (2, "Executor error during getMore :: caused by :: can't $divide by zero")


def test_a_constant_of_a_joined_pipeline_is_judged_when_it_is_met(filled):
    # What the pipeline of a $lookup divides by differs from document to document: only a branch that runs may fail.
    pipeline = {
        "$lookup": {
            "from": "things",
            "let": {"z": "$zero"},
            "pipeline": [{"$limit": 1}, {"$project": {"x": {"$cond": [{"$eq": ["$$z", 0]}, "none", {"$divide": [1, "$$z"]}]}}}],
            "as": "joined",
        }
    }
    assert list(filled.aggregate([{"$limit": 1}, pipeline]))[0]["joined"] == [{"_id": 0, "x": "none"}]


OID = ObjectId("0123456789abcdef01234567")
UUID = Binary.from_uuid(uuid.UUID(int=7), UuidRepresentation.STANDARD)
PROJECT = "Invalid $project :: caused by :: "
DOLLAR = "FieldPath field names may not start with '$'. Consider using $getField or $setField."
MIDDLE = (
    "As of 4.4, it's illegal to specify positional operator in the middle of a path.Positional projection may only be used at the end, "
    "for example: a.b.$. If the query previously used a form like a.b.$.d, remove the parts following the '$' and the results will be equivalent."
)

REFUSALS = [
    # Values in the text.
    ({"find": "things", "sort": {"asc": "123"}}, 15974, 'Illegal key in $sort specification: asc: "123"'),
    ({"find": "things", "sort": {"a": OID}}, 15974, f"Illegal key in $sort specification: a: ObjectId('{OID}')"),
    ({"find": "things", "sort": {"a": UUID}}, 15974, f'Illegal key in $sort specification: a: UUID("{uuid.UUID(int=7)}")'),
    ({"find": "things", "sort": {"a": [1, 1.5]}}, 15974, "Illegal key in $sort specification: a: [ 1, 1.5 ]"),
    ({"find": "things", "sort": {"a": {"b": 1}}}, 17312, "$meta is the only expression supported by $sort right now"),
    (aggregate({"$limit": -1}), 5107201, "invalid argument to $limit stage: Expected a non-negative number in: $limit: -1"),
    (aggregate({"$skip": "x"}), 5107200, 'invalid argument to $skip stage: Expected a number in: $skip: "x"'),
    (
        {"find": "things", "projection": {"a": 0, "b": "$v"}},
        31310,
        'Cannot use an expression b: "$v" in an exclusion projection',
    ),
    (
        aggregate({"$project": {"x": {"$add": {"$a": 1, "b": {"c": [2.0]}}}}}),
        15983,
        PROJECT + "An object representing an expression must have exactly one field: { $a: 1, b: { c: [ 2.0 ] } }",
    ),
    # Paths and projections.
    (aggregate({"$project": {"v.$": 1}}), 31324, PROJECT + "Cannot use positional projection in aggregation projection"),
    (aggregate({"$project": {"v.$.foo": 1}}), 31394, PROJECT + MIDDLE),
    ({"find": "things", "filter": {"v": 1}, "projection": {"$.v.$.foo": 1}}, 31394, MIDDLE),
    (aggregate({"$project": {"v": {"$type": 42, "$op": 42}}}), 16410, PROJECT + DOLLAR),
    ({"find": "things", "projection": {"v": {"$type": 42, "$op": 42}}}, 16410, DOLLAR),
    (aggregate({"$set": {"$foo": 1}}), 16410, "Invalid $set :: caused by :: " + DOLLAR),
    (aggregate({"$unset": "$v"}), 16410, "Invalid $unset :: caused by :: " + DOLLAR),
    (aggregate({"$addFields": {}}), 40177, "Invalid $addFields :: caused by :: specification must have at least one field"),
    (
        aggregate({"$set": {"a": {"b": 1}, "a.b": 1}}),
        40176,
        "Invalid $set :: caused by :: specification contains two conflicting paths. Cannot specify both 'a.b' and 'a.b': { a: { b: 1 }, a.b: 1 }",
    ),
    (
        aggregate({"$set": {"a": {"$add": [1, 2], "b": 1}}}),
        40181,
        "Invalid $set :: caused by :: an expression specification must contain exactly one field, the name of the expression. "
        "Found 2 fields in { $add: [ 1, 2 ], b: 1 }, while parsing object { a: { $add: [ 1, 2 ], b: 1 } }",
    ),
    # Expressions.
    (aggregate({"$project": {"x": "$$"}}), 9, PROJECT + "empty variable names are not allowed"),
    (aggregate({"$project": {"x": "$$$"}}), 9, PROJECT + "'$' starts with an invalid character for a user variable name"),
    (aggregate({"$match": {"$expr": {"$expr": 1}}}), 168, "Unrecognized expression '$expr'"),
    # Stages.
    (aggregate({"$unwind": ""}), 28812, "no path specified to $unwind stage"),
    (aggregate({"$unwind": "v"}), 28818, "path option to $unwind stage should be prefixed with a '$': v"),
    (aggregate({"$group": {"_id": None, "n": {}}}), 40234, "The field 'n' must be an accumulator object"),
    (aggregate({"$group": {"n": {"$sum": []}}}), 40237, "The $sum accumulator is a unary operator"),
    (aggregate({"$group": {"_id": None, "n": {"$sum": 1, "$avg": 1}}}), 40238, "The field 'n' must specify one accumulator"),
    (aggregate({"$group": {"_id": {"a": 1}}}), 17390, "$group does not support inclusion-style expressions"),
    (aggregate(maxTimeMS=-1), 51024, "BSON field 'maxTimeMS' value must be >= 0, actual value '-1'"),
    # Fields of commands: these codes have no names.
    ({"find": "things", "bogus": 1}, 40415, "BSON field 'find.bogus' is an unknown field."),
    ({"dropIndexes": "things"}, 40414, "BSON field 'dropIndexes.index' is missing but a required field"),
    ({"dropIndexes": 42, "index": "a"}, 2, "collection name has invalid type int"),
    ({"createIndexes": None, "indexes": []}, 2, "collection name has invalid type null"),
]


@pytest.mark.parametrize(("command", "code", "message"), REFUSALS)
def test_refusals(collection, command, code, message):
    found, name, text = refused(collection.database, command)
    assert (found, text) == (code, message)
    if code > 400:
        assert name == f"Location{code}"


def create(*specifications):
    return {"createIndexes": "things", "indexes": list(specifications)}


INDEXES = [
    (
        create({"key": {"v": 1}, "name": "v_1"}, {"key": {"v": 1}, "name": "v_1"}),
        68,
        "IndexAlreadyExists",
        "Identical index already exists: v_1",
    ),
    (
        create({"key": {"a": 1}, "name": "_id_"}),
        2,
        "BadValue",
        "The index name '_id_' is reserved for the _id index, which must have key pattern {_id: 1}, found key: key: { a: 1 }",
    ),
    (
        create({"key": {"_id": -1}, "name": "_id_-1"}),
        2,
        "BadValue",
        "The field 'key' for an _id index must be {_id: 1}, but got { _id: -1 }",
    ),
    (
        create({"key": {"v": 1}}),
        9,
        "FailedToParse",
        "Error in specification { key: { v: 1 } } :: caused by :: The 'name' field is a required property of an index specification",
    ),
    (
        create({"key": {"v": 1}, "name": "v", "bogus": {"a": UUID}}),
        197,
        "InvalidIndexSpecificationOption",
        f'Error in specification {{ key: {{ v: 1 }}, name: "v", bogus: {{ a: UUID("{uuid.UUID(int=7)}") }} }} :: caused by :: '
        "The field 'bogus' is not valid for an index specification. "
        f'Specification: {{ key: {{ v: 1 }}, name: "v", bogus: {{ a: UUID("{uuid.UUID(int=7)}") }} }}',
    ),
]


@pytest.mark.parametrize(("command", "code", "name", "message"), INDEXES)
def test_refused_indexes(database, command, code, name, message):
    assert refused(database, command) == (code, name, message)


def test_a_failed_index_build_names_build_and_collection(collection):
    collection.insert_many([{"a": 1, "b": [1], "c": [1]}, {"a": 1}])
    some = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    namespace = re.escape(collection.full_name)
    listed = collection.database.command("listCollections", filter={"name": "things"})["cursor"]["firstBatch"][0]
    own = str(listed["info"]["uuid"].as_uuid() if isinstance(listed["info"]["uuid"], Binary) else listed["info"]["uuid"])
    for key, code, cause in [
        ({"a": 1}, 11000, rf"E11000 duplicate key error collection: {namespace} index: x dup key: \{{ a: 1 \}}"),
        ({"b": 1, "c": 1}, 171, r"cannot index parallel arrays .*"),
    ]:
        command = create({"key": key, "name": "x", "unique": code == 11000})
        with pytest.raises(OperationFailure) as refusal:
            collection.database.command(command)
        details = refusal.value.details
        assert details["code"] == code
        expect = rf"Index build failed: {some}: Collection {namespace} \( {own} \) :: caused by :: {cause}"
        assert re.fullmatch(expect, details["errmsg"]), details["errmsg"]
        if code == 11000:
            assert (details["keyPattern"], details["keyValue"]) == ({"a": 1}, {"a": 1})


def test_an_empty_sample_and_a_kept_option(collection):
    collection.insert_one({"a": 1})
    assert list(collection.aggregate([{"$sample": {"size": 0}}])) == []
    collection.create_index("a", background=True)
    assert collection.index_information()["a_1"]["background"] is True
    collection.create_index("a")
    assert list(collection.index_information()) == ["_id_", "a_1"], "the option makes no other index"


def test_updates_quote_values_too(collection):
    collection.insert_one({"_id": "x", "n": Int64(2**63 - 1), "v": {"a": [1, None]}})
    for update, code, message in [
        (
            {"$inc": {"n": 1}},
            2,
            'Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for document {_id: "x"}',
        ),
        ({"$set": {"v.a.b": 1}}, 28, "Cannot create field 'b' in element {a: [ 1, null ]}"),
    ]:
        with pytest.raises(WriteError) as refusal:
            collection.update_one({"_id": "x"}, update)
        assert (refusal.value.code, refusal.value.details["errmsg"]) == (code, message)
