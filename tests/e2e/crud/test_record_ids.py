"""`showRecordId`: a number, or a value that can be compared."""

import bson


def shown(collection, **options):
    return [found["$recordId"] for found in collection.find({}, show_record_id=True, **options)]


def test_record_ids_are_comparable(client):
    client.drop_database("record_ids")
    database = client.record_ids
    ids = [1, 300, 70_000, bson.Int64(1 << 40), "a", "bb", bson.ObjectId("0" * 24)]
    database.things.insert_many([{"_id": id} for id in ids])
    assert shown(database.things) == ids
    assert shown(database.things, projection={"_id": 0, "a": 1}) == ids
    database.create_collection("clustered", clusteredIndex={"key": {"_id": 1}, "unique": True})
    database.clustered.insert_many([{"_id": 2}, {"_id": 1}])
    assert shown(database.clustered) == [1, 2]


def test_record_ids_of_capped_collections_are_numbers(client):
    client.drop_database("record_ids")
    client.record_ids.create_collection("recent", capped=True, size=4096)
    client.record_ids.recent.insert_many([{"_id": "b"}, {"_id": "a"}])
    first, second = shown(client.record_ids.recent)
    assert isinstance(first, int) and first < second
