"""Database references: their fields begin with a dollar sign and are paths all the same; keys of groups that are missing."""

import pytest
from bson import DBRef


@pytest.fixture
def people(collection):
    collection.database["cities"].insert_many([{"_id": 7, "name": "Ulm"}, {"_id": 8, "name": "Bern"}])
    collection.insert_many(
        [
            {"_id": 1, "p": DBRef("cities", 7, "world")},
            {"_id": 2, "p": DBRef("cities", 8, "world")},
            {"_id": 3, "p": DBRef("cities", 7, "world")},
        ]
    )
    return collection


@pytest.mark.parametrize(
    ("pipeline", "expect"),
    [
        ([{"$project": {"x": "$p.$id"}}, {"$sort": {"_id": 1}}, {"$limit": 1}], [{"_id": 1, "x": 7}]),
        (
            [{"$group": {"_id": "$p.$id", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}],
            [{"_id": 7, "n": 2}, {"_id": 8, "n": 1}],
        ),
        (
            [
                {"$match": {"p.$id": 8}},
                {"$lookup": {"from": "cities", "localField": "p.$id", "foreignField": "_id", "as": "c"}},
                {"$project": {"c.name": 1}},
            ],
            [{"_id": 2, "c": [{"name": "Bern"}]}],
        ),
        (
            [
                {"$match": {"_id": 2}},
                {
                    "$lookup": {
                        "from": "cities",
                        "let": {"id": "$p.$id"},
                        "pipeline": [{"$match": {"$expr": {"$eq": ["$_id", "$$id"]}}}],
                        "as": "c",
                    }
                },
                {"$project": {"n": {"$first": "$c.name"}, "db": "$p.$db"}},
            ],
            [{"_id": 2, "n": "Bern", "db": "world"}],
        ),
        ([{"$sort": {"p.$id": -1}}, {"$limit": 1}, {"$project": {"p.$ref": 1}}], [{"_id": 2, "p": {"$ref": "cities"}}]),
        ([{"$set": {"p.$id": 9}}, {"$match": {"_id": 1}}, {"$project": {"x": "$p.$id", "_id": 0}}], [{"x": 9}]),
    ],
)
def test_paths_into_references(people, pipeline, expect):
    raw = people.with_options(codec_options=people.codec_options.with_options(document_class=dict))
    assert list(raw.aggregate(pipeline)) == expect


def test_finds_indexes_and_updates_of_references(people):
    assert people.find_one({"p.$id": 8}, {"p.$id": 1}) == {"_id": 2, "p": {"$id": 8}}
    assert [found["_id"] for found in people.find().sort([("p.$id", -1), ("_id", 1)])] == [2, 1, 3]
    people.create_index("p.$id")
    plan = people.find({"p.$id": 8}).explain()["queryPlanner"]["winningPlan"]
    assert "IXSCAN" in str(plan)
    people.update_one({"_id": 1}, {"$set": {"p.$id": 8}})
    assert sorted(found["_id"] for found in people.find({"p.$id": 8})) == [1, 2]


@pytest.mark.parametrize(
    ("key", "expect"),
    [
        ({"g": "$g"}, [{"g": None}, {"g": 1}]),
        ("$g", [None, 1]),
        # Beside others a missing field is left out.
        ({"g": "$g", "n": "$n"}, [{"n": 5}, {"g": 1, "n": 5}]),
        ({"o": {"g": "$g"}}, [{"o": {}}, {"o": {"g": 1}}]),
    ],
)
def test_missing_keys_of_groups(collection, key, expect):
    collection.insert_many([{"_id": 1, "n": 5}, {"_id": 2, "n": 5, "g": 1}])
    groups = [group["_id"] for group in collection.aggregate([{"$group": {"_id": key}}])]
    assert sorted(groups, key=str) == sorted(expect, key=str)
