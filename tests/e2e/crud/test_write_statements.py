"""What is refused of a whole batch before any of it runs, what of one statement, and documents that cannot be stored."""

import bson
import pytest
from bson import Regex
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, OperationFailure


def refusal(database, *command, **fields):
    """Code, code name and message of a command that fails as a whole."""
    with pytest.raises(OperationFailure) as caught:
        database.command(*command, **fields)
    details = caught.value.details
    return details["code"], details["codeName"], details["errmsg"]


GOOD = {"q": {"_id": 1}, "u": {"$set": {"seen": True}}}

BAD_UPDATES = [
    ({**GOOD, "foo": 1}, 40415, "Location40415", "BSON field 'update.updates.foo' is an unknown field."),
    ({"q": {}}, 40414, "Location40414", "BSON field 'update.updates.u' is missing but a required field"),
    ({"u": {}}, 40414, "Location40414", "BSON field 'update.updates.q' is missing but a required field"),
    ({"q": 1, "u": {}}, 14, "TypeMismatch", "BSON field 'update.updates.q' is the wrong type 'int', expected type 'object'"),
    ({**GOOD, "multi": 1}, 14, "TypeMismatch", "BSON field 'update.updates.multi' is the wrong type 'int', expected type 'bool'"),
    ({**GOOD, "upsert": 1}, 14, "TypeMismatch", "BSON field 'update.updates.upsert' is the wrong type 'int', expected type 'bool'"),
    ({**GOOD, "c": 1}, 14, "TypeMismatch", "BSON field 'update.updates.c' is the wrong type 'int', expected type 'object'"),
    (
        {**GOOD, "collation": "de"},
        14,
        "TypeMismatch",
        "BSON field 'update.updates.collation' is the wrong type 'string', expected type 'object'",
    ),
    (
        {**GOOD, "arrayFilters": [{"x": 1}, 5]},
        14,
        "TypeMismatch",
        "BSON field 'update.updates.arrayFilters.1' is the wrong type 'int', expected type 'object'",
    ),
    ({**GOOD, "hint": 5}, 9, "FailedToParse", "Hint must be a string or an object"),
    ({"q": {}, "u": 5}, 9, "FailedToParse", "Update argument must be either an object or an array"),
    ({"q": {}, "u": [5]}, 14, "TypeMismatch", "Each element of the 'pipeline' array must be an object"),
    ({"q": {}, "u": [{"$nope": {}}]}, 40324, "Location40324", "Unrecognized pipeline stage name: '$nope'"),
    (
        {"q": {}, "u": [{"$set": {}, "$unset": "a"}]},
        40323,
        "Location40323",
        "A pipeline stage specification object must contain exactly one field.",
    ),
]


@pytest.mark.parametrize("statement, code, name, message", BAD_UPDATES, ids=lambda value: str(value)[:40])
def test_a_malformed_update_fails_the_command(collection, statement, code, name, message):
    collection.insert_one({"_id": 1})
    for ordered in (True, False):
        found = refusal(collection.database, "update", "things", updates=[GOOD, statement], ordered=ordered)
        assert found[0] == code and found[2] == message
        assert found[1] in (name, {40414: "IDLFailedToParse", 40415: "IDLUnknownField"}.get(code))
    assert collection.find_one() == {"_id": 1}, "the statement in front did not run"


BAD_DELETES = [
    ({"q": {}, "limit": 1, "foo": 1}, 40415, "BSON field 'delete.deletes.foo' is an unknown field."),
    ({"q": {}}, 40414, "BSON field 'delete.deletes.limit' is missing but a required field"),
    ({"limit": 1}, 40414, "BSON field 'delete.deletes.q' is missing but a required field"),
    ({"q": {}, "limit": 2}, 9, "The limit field in delete objects must be 0 or 1. Got 2"),
    ({"q": {}, "limit": 0.5}, 9, "The limit field in delete objects must be 0 or 1. Got 0.5"),
    ({"q": {}, "limit": 1, "hint": []}, 9, "Hint must be a string or an object"),
    ({"q": {}, "limit": 1, "collation": 1}, 14, "BSON field 'delete.deletes.collation' is the wrong type 'int', expected type 'object'"),
]


@pytest.mark.parametrize("statement, code, message", BAD_DELETES, ids=lambda value: str(value)[:40])
def test_a_malformed_delete_fails_the_command(collection, statement, code, message):
    collection.insert_one({"_id": 1})
    found = refusal(collection.database, "delete", "things", deletes=[{"q": {"_id": 1}, "limit": 1}, statement])
    assert (found[0], found[2]) == (code, message)
    assert collection.count_documents({}) == 1, "the statement in front did not run"


def test_duplicate_fields_of_a_statement(collection):
    statement = RawBSONDocument(bson.encode({"q": {}, "u": {}})[:-1].replace(b"\x03q\x00", b"\x03u\x00") + b"\x00")
    found = refusal(collection.database, "update", "things", updates=[statement])
    assert (found[0], found[2]) == (40413, "BSON field 'update.updates.u' is a duplicate field")


def test_ordered_is_a_boolean(collection):
    for command, statements in [
        ("insert", {"documents": [{}]}),
        ("update", {"updates": [GOOD]}),
        ("delete", {"deletes": [{"q": {}, "limit": 1}]}),
    ]:
        found = refusal(collection.database, command, "things", **statements, ordered=1)
        assert (found[0], found[2]) == (
            14,
            f"BSON field '{command}.ordered' is the wrong type 'int', expected type 'bool'",
        )


def test_null_stands_for_a_missing_option(collection):
    collection.insert_one({"_id": 1})
    nothing = dict.fromkeys(["c", "collation", "arrayFilters", "hint", "multi", "upsert"])
    reply = collection.database.command(
        "update", "things", updates=[{**GOOD, **nothing}], ordered=None, let=None, bypassDocumentValidation=None
    )
    assert reply["nModified"] == 1 and "writeErrors" not in reply
    reply = collection.database.command(
        "delete", "things", deletes=[{"q": {}, "limit": 0, "hint": None, "collation": None}], ordered=None, let=None
    )
    assert reply["n"] == 1
    assert collection.database.command("insert", "things", documents=[{"_id": 1}], ordered=None)["n"] == 1
    reply = collection.database.command(
        "findAndModify",
        "things",
        query=None,
        remove=True,
        **dict.fromkeys(["update", "new", "upsert", "fields", "sort", "hint", "collation", "arrayFilters", "let"]),
    )
    assert reply["value"] == {"_id": 1}


STATEMENT_ERRORS = [
    ({"q": {}, "u": {"$nope": {"a": 1}}}, 9),
    ({"q": {}, "u": [{"$match": {}}]}, 72),
    ({"q": {}, "u": {"a": 1}, "multi": True}, 9),
    ({"q": {"$nope": 1}, "u": {"$set": {"a": 1}}}, 2),
    ({"q": {}, "u": {"$set": {"a": 1}}, "c": {"x": 1}}, 51198),
    ({"q": {}, "u": {"$set": {"a": 1}}, "arrayFilters": [{"x": 1}]}, 9),
    ({"q": {}, "u": {"$set": {"a": 1}}, "hint": "none"}, 2),
]


@pytest.mark.parametrize("statement, code", STATEMENT_ERRORS, ids=lambda value: str(value)[:40])
def test_what_a_statement_says_fails_that_statement(collection, statement, code):
    collection.insert_one({"_id": 1})
    reply = collection.database.command("update", "things", updates=[statement, GOOD], ordered=False)
    assert (reply["ok"], reply["n"]) == (1, 1)
    assert [(error["index"], error["code"]) for error in reply["writeErrors"]] == [(0, code)]
    reply = collection.database.command("update", "things", updates=[statement, GOOD])
    assert (reply["ok"], reply["n"]) == (1, 0), "an ordered batch ends there"


DOLLAR = "_id fields may not contain '$'-prefixed fields: $a is not valid for storage."
BAD_IDS = [
    ({"$a": 1}, 52, DOLLAR),
    ({"x": [{"y": {"$a": 1}}]}, 52, DOLLAR),
    ([1], 53, "The '_id' value cannot be of type array"),
    (Regex("a"), 53, "The '_id' value cannot be of type regex"),
]


@pytest.mark.parametrize("id, code, message", BAD_IDS, ids=lambda value: str(value)[:30])
def test_ids_that_cannot_be_inserted(collection, id, code, message):
    with pytest.raises(BulkWriteError) as caught:
        collection.insert_many([{"_id": id}, {"_id": 1}], ordered=False)
    error = caught.value.details["writeErrors"][0]
    assert (error["index"], error["code"], error["errmsg"]) == (0, code, message)
    assert collection.distinct("_id") == [1]


def test_ids_that_cannot_be_upserted(collection):
    hint = (
        "The dollar ($) prefixed field '$a' in '_id.$a' is not allowed in the context of an update's replacement document."
        " Consider using an aggregation pipeline with $replaceWith."
    )
    for change, code, message in [
        ({"_id": {"$a": 1}}, 52, hint),
        ({"$set": {"_id": {"$a": 1}}}, 52, hint),
        ([{"$set": {"_id": {"$literal": {"$a": 1}}}}], 52, hint),
        ({"$set": {"_id": [1]}}, 53, "The '_id' value cannot be of type array"),
        ({"_id": Regex("a")}, 53, "The '_id' value cannot be of type regex"),
    ]:
        reply = collection.database.command("update", "things", updates=[{"q": {"n": 1}, "u": change, "upsert": True}])
        assert [(error["code"], error["errmsg"]) for error in reply["writeErrors"]] == [(code, message)]
    assert collection.count_documents({}) == 0


def test_a_document_has_one_id(collection):
    first = b"\x10_id\x00\x01\x00\x00\x00"
    fields = b"\x10a\x00\x07\x00\x00\x00"
    for body in (first + fields + first, fields + first + first):
        twice = RawBSONDocument((len(body) + 5).to_bytes(4, "little") + body + b"\x00")
        reply = collection.database.command("insert", "things", documents=[twice])
        error = reply["writeErrors"][0]
        assert (error["code"], error["errmsg"]) == (2, "can't have multiple _id fields in one document")
        reply = collection.database.command("update", "things", updates=[{"q": {}, "u": twice, "upsert": True}])
        assert reply["writeErrors"][0]["code"] == 2
    assert collection.count_documents({}) == 0


def test_system_collections_are_not_written_to(database):
    writes = [
        ("insert", {"documents": [{}]}),
        ("update", {"updates": [GOOD]}),
        ("delete", {"deletes": [{"q": {}, "limit": 0}]}),
        ("findAndModify", {"query": {}, "remove": True}),
    ]
    for command, fields in writes:
        for name, message in [
            ("system.x", f"Invalid system namespace: {database.name}.system.x"),
            ("system.views", f"cannot write to {database.name}.system.views"),
            ("system.profile", f"cannot write to {database.name}.system.profile"),
        ]:
            assert refusal(database, command, name, **fields) == (73, "InvalidNamespace", message), command
    assert database.command("insert", "system.js", documents=[{"_id": "f"}])["n"] == 1
    assert database.command("delete", "system.js", deletes=[{"q": {}, "limit": 0}])["n"] == 1


def test_large_batches_are_read_before_they_run(collection):
    """The last of many statements is malformed: nothing was changed."""
    good = {"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}
    found = refusal(collection.database, "update", "things", updates=[good] * 5000 + [{"q": {}}])
    assert found[0] == 40414
    assert collection.count_documents({}) == 0


def test_errors_of_find_and_modify(collection):
    collection.insert_one({"_id": 1, "v": 42})
    prefix = "Plan executor error during findAndModify :: caused by :: "
    database = collection.database
    for fields, code, message in [
        ({"query": {}}, 9, "Either an update or remove=true must be specified"),
        ({"update": {}, "remove": True}, 9, "Cannot specify both an update and remove=true"),
        ({"remove": True, "upsert": True}, 9, "Cannot specify both upsert=true and remove=true"),
        (
            {"remove": True, "new": True},
            9,
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted document",
        ),
        ({"update": 5}, 9, "Update argument must be either an object or an array"),
        ({"update": [{"$nope": 1}]}, 40324, "Unrecognized pipeline stage name: '$nope'"),
        ({"update": {"_id": 2}}, 66, None),
        ({"update": {"$set": {"_id": 2}}}, 66, prefix + "Performing an update on the path '_id' would modify the immutable field '_id'"),
    ]:
        found = refusal(database, "findAndModify", "things", **fields)
        assert found[0] == code, fields
        assert found[2] == message or message is None and found[2].startswith(prefix), found
