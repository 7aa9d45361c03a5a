"""Tailable cursors whose position is overwritten, and the keys that `returnKey` shows."""

import pytest
from pymongo.errors import OperationFailure


def test_an_overwritten_position_ends_a_tailable_cursor(client, database):
    """Also when every document behind it is still there."""
    capped = database.create_collection("log", capped=True, size=100_000, max=2)
    capped.insert_many([{"_id": 1}, {"_id": 2}])
    with client.start_session() as session:
        found = database.command("find", "log", tailable=True, session=session)["cursor"]
        assert found["firstBatch"] == [{"_id": 1}, {"_id": 2}]

        def more():
            return database.command("getMore", found["id"], collection="log", session=session)["cursor"]["nextBatch"]

        capped.insert_one({"_id": 3})
        assert more() == [{"_id": 3}], "1 was overwritten, the cursor stood behind 2"
        capped.insert_many([{"_id": 4}, {"_id": 5}])
        with pytest.raises(OperationFailure) as caught:
            more()
        assert (caught.value.code, caught.value.details["codeName"]) == (136, "CappedPositionLost")
        assert "Last seen record id: RecordId(3)" in caught.value.details["errmsg"]
        with pytest.raises(OperationFailure) as caught:
            more()
        assert caught.value.code == 43, "the cursor has ended"


def test_return_key(collection):
    collection.create_index([("a", 1), ("b", -1)])
    collection.insert_many([{"_id": number, "a": number % 2, "b": number, "c": -number} for number in range(4)])

    def keys(filter, **options):
        command = {"find": "things", "filter": filter, "returnKey": True, **options}
        return collection.database.command(command)["cursor"]["firstBatch"]

    ids = [{"_id": number} for number in range(4)]
    assert keys({}, sort={"_id": 1}) == ids
    assert keys({}, sort={"_id": -1}) == ids[::-1]
    assert keys({"_id": 2}) == [{"_id": 2}]
    assert keys({"_id": {"$gt": 1}}) == ids[2:]
    assert keys({"_id": {"$gt": 1}}, sort={"c": 1}) == [{"_id": 3}, {"_id": 2}]
    assert keys({}, hint={"_id": 1}) == ids
    assert keys({"a": 1}) == [{"a": 1, "b": 3}, {"a": 1, "b": 1}]
    assert keys({}) == [{}] * 4, "no index is walked"
    assert keys({}, sort={"c": 1}) == [{}] * 4
