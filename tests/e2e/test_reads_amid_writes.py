"""What one batch of a read by index shows is one state of the collection, whatever others write meanwhile."""

import random
import threading
import time

import pytest

COUNT = 120
SECONDS = 1.5


@pytest.fixture
def moving(client, server):
    """A collection whose documents others move along its indexes until the test ends; how many there are stays as it is."""
    collection = client.amid_writes.moving
    collection.drop()
    collection.insert_many([{"_id": number, **place(random.Random(number))} for number in range(COUNT)])
    collection.create_index("a")
    collection.create_index("t")
    ended = threading.Event()

    def move(seed):
        dice = random.Random(seed)
        with server.client() as own:
            target = own.amid_writes.moving
            while not ended.is_set():
                target.update_one({"_id": dice.randrange(COUNT)}, {"$set": place(dice)})

    writers = [threading.Thread(target=move, args=(seed,)) for seed in (1, 2)]
    for writer in writers:
        writer.start()
    yield collection
    ended.set()
    for writer in writers:
        writer.join()


def place(dice):
    number = dice.randrange(1_000)
    return {"a": number, "t": [number, number + dice.randrange(1, 9)]}


def sorted_by(direction):
    def read(collection):
        found = list(collection.find(sort=[("a", direction)], batch_size=1_000))
        values = [document["a"] for document in found]
        assert values == sorted(values, reverse=direction < 0), "out of order"
        return [document["_id"] for document in found]

    return read


def multikey(collection):
    return [document["_id"] for document in collection.find({"t": {"$gte": 0}}, batch_size=1_000)]


def either(collection):
    branches = [{"a": {"$gte": 500}}, {"t": {"$lt": 508}}]
    return [document["_id"] for document in collection.find({"$or": branches}, batch_size=1_000)]


def counted(collection):
    return list(range(collection.count_documents({"a": {"$gte": 0}}, hint="a_1")))


def grouped(collection):
    stages = [{"$sort": {"a": 1}}, {"$group": {"_id": None, "ids": {"$push": "$_id"}}}]
    return next(collection.aggregate(stages))["ids"]


@pytest.mark.parametrize("read", [sorted_by(1), sorted_by(-1), multikey, either, counted, grouped])
def test_a_read_by_index_meets_each_document_once(moving, read):
    until = time.monotonic() + SECONDS
    reads = 0
    while time.monotonic() < until or reads < 20:
        assert sorted(read(moving)) == list(range(COUNT)), f"not each document once, after {reads} good reads"
        reads += 1


def test_the_first_of_an_order_are_in_order(moving):
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        found = [document["a"] for document in moving.find(sort=[("a", 1)], limit=3)]
        assert len(found) == 3 and found == sorted(found)


def test_an_update_by_index_changes_each_document_once(moving):
    until = time.monotonic() + SECONDS
    rounds = 0
    while time.monotonic() < until or rounds < 3:
        result = moving.update_many({"a": {"$gte": 0}}, {"$inc": {"rounds": 1}}, hint="a_1")
        assert result.matched_count == COUNT
        rounds += 1
    assert moving.count_documents({"rounds": rounds}) == COUNT
