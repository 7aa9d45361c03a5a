"""Empty timestamps: the server fills them in, unless a tool that restores data says that they are meant."""

import bson
import pytest

EMPTY = bson.Timestamp(0, 0)


@pytest.fixture
def database(client):
    yield client["empty_timestamps"]
    client.drop_database("empty_timestamps")


def written(database, bypass):
    """What the four commands store of a document with an empty timestamp at its top level and one below it."""
    flag = {} if bypass is None else {"bypassEmptyTsReplacement": bypass}
    document = {"at": EMPTY, "inner": {"at": EMPTY}}
    database.command({"insert": "inserted", "documents": [{"_id": 1, **document}], **flag})
    for name in ("updated", "modified"):
        database[name].insert_one({"_id": 1})
    database.command({"update": "updated", "updates": [{"q": {"_id": 1}, "u": document}], **flag})
    database.command({"findAndModify": "modified", "query": {"_id": 1}, "update": document, **flag})
    database["source"].insert_one({"_id": 1})
    project = {"$project": {"at": {"$literal": EMPTY}, "inner": {"at": {"$literal": EMPTY}}}}
    outputs = {"out": {"$out": "out"}, "merged": {"$merge": {"into": "merged", "whenMatched": "replace"}}}
    for stage in outputs.values():
        database.command({"aggregate": "source", "pipeline": [project, stage], "cursor": {}, **flag})
    return {name: database[name].find_one() for name in ("inserted", "updated", "modified", *outputs)}


@pytest.mark.parametrize("bypass", [None, False])
def test_empty_timestamps_become_the_time(database, bypass):
    for name, document in written(database, bypass).items():
        assert document["at"].time > 0, name
        assert document["inner"]["at"] == EMPTY, f"{name}: only the top level is filled in"


def test_restored_timestamps_stay(database):
    for name, document in written(database, True).items():
        assert document["at"] == EMPTY, name


def test_ids_and_operators_are_left_alone(database):
    things = database["things"]
    things.insert_one({"_id": EMPTY})
    things.update_one({"_id": EMPTY}, {"$set": {"at": EMPTY}})
    assert things.find_one() == {"_id": EMPTY, "at": EMPTY}
