"""`notablescan`: filters that no index serves are refused, and nothing else is."""

import pymongo
import pytest
from pymongo.errors import OperationFailure

NO_INDEX = "No indexed plans available, and running with 'notablescan'"


@pytest.fixture
def database(start_server):
    server = start_server("--setParameter", "notablescan=1")
    with server.client() as client:
        client.test.things.insert_many([{"_id": number, "a": number, "b": number % 2} for number in range(10)])
        client.test.things.create_index("a")
        client.test.create_collection("log", capped=True, size=10_000)
        client.test.log.insert_one({"_id": 1, "a": 1})
        yield client.test


def refused(operation, text=NO_INDEX):
    with pytest.raises(OperationFailure) as failure:
        operation()
    assert failure.value.code == 291
    # An element of writeErrors has no name.
    assert failure.value.details.get("codeName", "NoQueryExecutionPlans") == "NoQueryExecutionPlans"
    assert text in failure.value.details["errmsg"]


def test_what_would_scan_is_refused(database):
    things = database.things
    refused(lambda: list(things.find({"b": 1})))
    refused(lambda: list(things.find({"$or": [{"a": 1}, {"b": 1}]})))
    refused(lambda: list(things.find({"b": 1}).sort("b")))
    refused(lambda: things.count_documents({"b": 1}))
    refused(lambda: database.command("count", "things", query={"b": 1}))
    refused(lambda: things.distinct("a", {"b": 1}))
    refused(lambda: list(things.aggregate([{"$match": {"b": 1}}, {"$group": {"_id": "$a"}}])))
    refused(lambda: things.update_many({"b": 1}, {"$set": {"c": 1}}))
    refused(lambda: things.delete_one({"b": 1}))
    refused(lambda: things.find_one_and_delete({"b": 1}))
    refused(lambda: database.command("explain", {"find": "things", "filter": {"b": 1}}))
    refused(lambda: list(things.find({"a": 1}).hint([("$natural", 1)])), "hint $natural is not allowed, because 'notablescan' is enabled")
    refused(lambda: list(things.find({"a": 1}).sort("$natural", -1)), "hint $natural is not allowed, because 'notablescan' is enabled")
    tailable = database.log.find({"a": 1}, cursor_type=pymongo.CursorType.TAILABLE)
    refused(lambda: next(tailable), "Running with 'notablescan', so tailable cursors (which always do a table scan) are not allowed")
    assert things.count_documents({}) == 10 and things.count_documents({"c": 1, "a": {"$gte": 0}}) == 0


def test_what_an_index_serves_is_not(database):
    things = database.things
    assert len(list(things.find())) == 10
    assert len(list(things.find().sort("b"))) == 10
    assert len(list(things.find().hint([("$natural", -1)]))) == 10
    assert [found["_id"] for found in things.find({"a": {"$gt": 7}, "b": 1})] == [9]
    assert [found["_id"] for found in things.find({"_id": {"$gt": 7}, "b": 1})] == [9]
    assert [found["_id"] for found in things.find({"b": 1}).sort("_id", -1)] == [9, 7, 5, 3, 1]
    assert [found["_id"] for found in things.find({"b": 1}).hint([("_id", 1)])] == [1, 3, 5, 7, 9]
    assert list(things.find({"a": {"$in": []}, "b": 0})) == []
    assert list(database.nothing.find({"b": 1})) == []
    assert things.update_many({}, {"$set": {"c": 1}}).modified_count == 10
    assert list(things.aggregate([{"$match": {"a": 3}}])) == [{"_id": 3, "a": 3, "b": 1, "c": 1}]
    assert things.distinct("a", {"a": {"$lt": 2}}) == [0, 1]
    assert database.log.find_one({"_id": 1}) == {"_id": 1, "a": 1}
    # The server's own collections are not many documents, and tools look through them.
    assert database.client.local.startup_log.find_one({"pid": {"$gt": 0}}) is not None
    database.client.admin.command({"setParameter": 1, "notablescan": False})
    assert len(list(things.find({"b": 1}))) == 5
