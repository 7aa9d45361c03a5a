"""What one operation may hold: a client gets MongoDB's error, and the server lives."""

import threading
import time

import pytest
from pymongo.errors import OperationFailure

MEBIBYTE = 1 << 20


@pytest.fixture(scope="module")
def letters(server):
    """120 documents of 1 MiB each."""
    with server.client() as client:
        collection = client.memory.letters
        collection.drop()
        collection.insert_many([{"_id": number, "g": number % 2, "pad": "x" * MEBIBYTE} for number in range(120)])
        yield collection
        collection.drop()


@pytest.fixture
def one(client):
    """One document, for expressions that make all they need."""
    collection = client.memory.one
    collection.drop()
    collection.insert_one({"_id": 1})
    yield collection
    collection.drop()


def resident_bytes(server):
    with open(f"/proc/{server.process.pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * 4096


def refused(collection, pipeline, code, wording, **options):
    with pytest.raises(OperationFailure) as raised:
        collection.aggregate(pipeline, **options).to_list()
    assert raised.value.code == code, raised.value
    assert wording in raised.value.details["errmsg"], raised.value


@pytest.mark.parametrize(
    "accumulator",
    [
        {"$push": "$pad"},
        {"$addToSet": {"$concat": ["$pad", {"$toString": "$_id"}]}},
        {"$firstN": {"input": "$pad", "n": 1000}},
        {"$topN": {"output": "$pad", "sortBy": {"_id": -1}, "n": 1000}},
    ],
)
def test_an_accumulator_of_more_than_100_mb_is_refused(server, letters, accumulator):
    name = next(iter(accumulator))
    wording = f"{name} used too much memory and cannot spill to disk."
    refused(letters, [{"$group": {"_id": None, "all": accumulator}}], 146, wording)
    assert letters.database.command("ping")["ok"] == 1.0
    assert resident_bytes(server) < 3 << 30


def test_groups_that_grow_spill_or_are_refused(letters):
    half = {"$group": {"_id": "$g", "all": {"$push": {"$substrBytes": ["$pad", 0, 1000]}}}}
    counted = [half, {"$project": {"n": {"$size": "$all"}}}, {"$sort": {"_id": 1}}]
    assert letters.aggregate(counted).to_list() == [{"_id": 0, "n": 60}, {"_id": 1, "n": 60}]
    each = {"$group": {"_id": "$_id", "all": {"$push": "$pad"}, "n": {"$sum": 1}}}
    total = [each, {"$group": {"_id": None, "n": {"$sum": "$n"}}}]
    assert letters.aggregate(total).to_list() == [{"_id": None, "n": 120}]
    refused(letters, total, 292, "Exceeded memory limit for $group", allowDiskUse=False)


def test_expressions_stop_at_mongodbs_bounds(one):
    def doubled(first, operator, times):
        steps = {"input": {"$range": [0, times]}, "initialValue": first, "in": {operator: ["$$value", "$$value"]}}
        return [{"$project": {"x": {"$size": {"$split": [{"$toString": {"$reduce": steps}}, "?"]}}}}]

    refused(one, doubled("ab!", "$concat", 40), 13548, "past the 64MB limit.")
    refused(one, doubled([1], "$concatArrays", 40), 146, "$concatArrays would use too much memory")
    numbers = [{"$project": {"x": {"$range": [0, {"$add": ["$_id", 1 << 24]}]}}}]
    refused(one, numbers, 146, "$range would use too much memory (268435496 bytes) and cannot spill to disk.")
    document = [{"$project": {"x": {"$range": [0, {"$add": ["$_id", 2_000_000]}]}}}]
    refused(one, document, 10334, "is invalid. Size must be between 0 and 16793600(16MB)")
    with pytest.raises(OperationFailure) as raised:
        one.find_one({}, {"x": document[0]["$project"]["x"]})
    assert raised.value.code == 10334, raised.value
    assert one.database.command("ping")["ok"] == 1.0
    size = [document[0], {"$project": {"n": {"$size": "$x"}}}]
    assert one.aggregate(size).to_list() == [{"_id": 1, "n": 2_000_001}]


def loop_without_end():
    """A computation of hours on one document."""
    row = {"$sum": {"$map": {"input": {"$range": [0, {"$add": ["$_id", 1_000_000]}]}, "in": {"$add": ["$$this", 1]}}}}
    rows = {"$map": {"input": {"$range": [0, 1_000_000]}, "as": "outer", "in": row}}
    return [{"$project": {"x": {"$sum": rows}}}]


def test_a_loop_within_one_document_ends_in_time(one):
    began = time.monotonic()
    refused(one, loop_without_end(), 50, "operation exceeded time limit", maxTimeMS=500)
    assert time.monotonic() - began < 20


def test_a_loop_within_one_document_can_be_killed(client, one):
    errors = []

    def run():
        with pytest.raises(OperationFailure) as raised:
            one.aggregate(loop_without_end(), comment="the loop").to_list()
        errors.append(raised.value.code)

    running = threading.Thread(target=run)
    running.start()
    deadline = time.monotonic() + 20
    found = []
    while not found and time.monotonic() < deadline:
        found = client.admin.aggregate([{"$currentOp": {}}, {"$match": {"command.comment": "the loop"}}]).to_list()
    assert found, "the loop is not among the operations"
    client.admin.command("killOp", op=found[0]["opid"])
    running.join(timeout=20)
    assert errors == [11601]


def test_regular_expressions_are_bounded(client):
    collection = client.memory.texts
    collection.drop()
    collection.insert_one({"_id": 1, "text": "a" * 200_000})
    began = time.monotonic()
    for pattern in [r"(?=(a+))\1b", r"(?=)(a+)+b"]:
        with pytest.raises(OperationFailure) as raised:
            collection.find_one({"text": {"$regex": pattern}})
        assert raised.value.code == 51156
        search = [{"$project": {"x": {"$regexMatch": {"input": "$text", "regex": pattern}}}}]
        refused(collection, search, 51156, "Result code: match limit exceeded")
    assert time.monotonic() - began < 60
    with pytest.raises(OperationFailure) as raised:
        collection.find_one({"text": {"$regex": "a" * 32_765}})
    assert raised.value.code == 51091
    every = [{"$project": {"x": {"$size": {"$regexFindAll": {"input": "$text", "regex": "a"}}}}}]
    assert collection.aggregate(every).to_list() == [{"_id": 1, "x": 200_000}]
    collection.drop()
