"""Upserts that meet a unique key: what the filter asks for by equality is found in a second look, all else is a duplicate."""

import threading

import pytest
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError, OperationFailure


def update(collection, filter, change, **options):
    """The reply of one update with `upsert`."""
    statement = {"q": filter, "u": change, "upsert": True, **options}
    return collection.database.command("update", collection.name, updates=[statement])


def find_and_modify(collection, filter, change, **options):
    return collection.database.command(
        "findAndModify", collection.name, query=filter, update=change, upsert=True, **options
    )


def duplicate(collection, index, key, shown):
    namespace = f"{collection.database.name}.{collection.name}"
    return {
        "code": 11000,
        "keyPattern": {name: 1 for name in key},
        "keyValue": key,
        "errmsg": f"E11000 duplicate key error collection: {namespace} index: {index} dup key: {{ {shown} }}",
    }


@pytest.mark.parametrize("change", [{"$set": {"until": 6}}, {"until": 6}, [{"$set": {"until": 6}}]])
def test_a_lock_that_is_held_is_a_duplicate(collection, change):
    collection.insert_one({"_id": "lock", "until": 9})
    filter = {"_id": "lock", "until": {"$lt": 5}}
    expected = duplicate(collection, "_id_", {"_id": "lock"}, '_id: "lock"')
    reply = update(collection, filter, change)
    assert (reply["ok"], reply["n"], reply["nModified"]) == (1, 0, 0)
    assert reply["writeErrors"] == [{"index": 0, **expected}]
    with pytest.raises(DuplicateKeyError) as caught:
        find_and_modify(collection, filter, change)
    details = caught.value.details
    assert details.pop("errmsg") == "Plan executor error during findAndModify :: caused by :: " + expected.pop("errmsg")
    assert {name: details[name] for name in expected} == expected
    assert details["codeName"] == "DuplicateKey"
    assert list(collection.find()) == [{"_id": "lock", "until": 9}]


def test_every_unique_key_that_the_filter_pins(collection):
    collection.create_index("name", unique=True)
    collection.create_index([("a", 1), ("b", 1)], unique=True)
    collection.insert_one({"_id": 1, "name": "x", "a": 1, "b": 2, "taken": True})
    by_name = duplicate(collection, "name_1", {"name": "x"}, 'name: "x"')
    for filter in [{"name": "x", "taken": False}, {"name": "x", "taken": {"$ne": True}}, {"name": "x", "$nor": [{"taken": True}]}]:
        assert update(collection, filter, {"$set": {"n": 1}})["writeErrors"] == [{"index": 0, **by_name}]
    both = duplicate(collection, "a_1_b_1", {"a": 1, "b": 2}, "a: 1, b: 2")
    assert update(collection, {"a": 1, "b": 2, "c": 3}, {"$set": {"n": 1}})["writeErrors"] == [{"index": 0, **both}]
    # A key that the update gives, not the filter.
    assert update(collection, {"_id": 2}, {"$set": {"name": "x"}})["writeErrors"] == [{"index": 0, **by_name}]
    assert update(collection, {"name": "y"}, {"$set": {"name": "x"}})["writeErrors"] == [{"index": 0, **by_name}]
    assert collection.count_documents({}) == 1


def test_expressions_are_no_filter_for_an_upsert(collection):
    message = "$expr is not allowed in the query predicate for an upsert"
    for filter in [{"$expr": {"$eq": ["$a", 1]}}, {"b": 1, "$or": [{"a": 1}, {"$and": [{"$expr": True}]}]}]:
        error = update(collection, filter, {"$set": {"a": 1}})["writeErrors"][0]
        assert (error["code"], error["errmsg"]) == (224, message)
        with pytest.raises(OperationFailure) as caught:
            find_and_modify(collection, filter, {"$set": {"a": 1}})
        assert (caught.value.code, caught.value.details["errmsg"]) == (224, message)
        assert collection.update_one(filter, {"$set": {"a": 1}}).matched_count == 0
    assert collection.count_documents({}) == 0


def together(count, work):
    """Runs `work(number)` in threads that begin at the same time; the errors they ended with."""
    barrier, errors = threading.Barrier(count), []

    def run(number):
        barrier.wait()
        try:
            work(number)
        except Exception as error:  # noqa: BLE001 - every error is the finding
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return errors


def test_concurrent_upserts_of_one_key_never_fail(collection):
    """By `_id`, by a unique key, and through findAndModify: each round one inserts and the others find its document."""
    collection.create_index("name", unique=True)
    rounds, clients = 40, 6

    def work(number):
        for turn in range(rounds):
            collection.update_one({"_id": f"id{turn}"}, {"$inc": {"n": 1}, "$setOnInsert": {"name": f"id{turn}"}}, upsert=True)
            collection.update_one({"name": f"name{turn}"}, {"$inc": {"n": 1}}, upsert=True)
            collection.find_one_and_update(
                {"$and": [{"name": {"$eq": f"found{turn}"}}]}, {"$inc": {"n": 1}}, upsert=True, return_document=ReturnDocument.AFTER
            )

    assert together(clients, work) == []
    assert collection.count_documents({}) == 3 * rounds
    assert collection.count_documents({"n": clients}) == 3 * rounds, "every increment was counted once"


def test_upserts_among_deletes_never_fail(collection):
    collection.create_index("name", unique=True)

    def work(number):
        for _ in range(150):
            if number % 3 == 0:
                collection.delete_many({"name": "x"})
            else:
                collection.update_one({"name": "x"}, {"$inc": {"n": 1}}, upsert=True)

    assert together(6, work) == []
    assert collection.count_documents({}) <= 1


def test_one_of_many_takes_a_lock(collection):
    """The pattern of locks: who inserts or finds it expired has it, the others get the duplicate key."""
    taken = []

    def work(number):
        try:
            collection.update_one({"_id": "lock", "until": {"$lt": 5}}, {"$set": {"until": 9, "owner": number}}, upsert=True)
            taken.append(number)
        except DuplicateKeyError as error:
            assert error.details["keyValue"] == {"_id": "lock"}

    assert together(8, work) == []
    assert len(taken) == 1
    assert collection.find_one()["owner"] == taken[0]
