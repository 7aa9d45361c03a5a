"""Aggregation pipelines through pymongo."""

import pytest
from bson import Decimal128
from pymongo.errors import OperationFailure


@pytest.fixture
def sales(collection):
    collection.insert_many(
        [
            {"_id": 1, "item": "abc", "price": 10, "quantity": 2, "tags": ["x", "y"]},
            {"_id": 2, "item": "jkl", "price": 20, "quantity": 1, "tags": ["y"]},
            {"_id": 3, "item": "xyz", "price": 5, "quantity": 10, "tags": []},
            {"_id": 4, "item": "abc", "price": 5, "quantity": 20},
            {"_id": 5, "item": "abc", "price": 10, "quantity": 10, "tags": ["z"]},
        ]
    )
    return collection


@pytest.mark.parametrize(
    ("pipeline", "expect"),
    [
        ([{"$match": {"item": "abc"}}, {"$count": "n"}], [{"n": 3}]),
        (
            [
                {"$group": {"_id": "$item", "total": {"$sum": {"$multiply": ["$price", "$quantity"]}}, "count": {"$sum": 1}}},
                {"$sort": {"_id": 1}},
            ],
            [
                {"_id": "abc", "total": 220, "count": 3},
                {"_id": "jkl", "total": 20, "count": 1},
                {"_id": "xyz", "total": 50, "count": 1},
            ],
        ),
        (
            [{"$group": {"_id": None, "avg": {"$avg": "$price"}, "min": {"$min": "$price"}, "max": {"$max": "$price"}}}],
            [{"_id": None, "avg": 10.0, "min": 5, "max": 20}],
        ),
        ([{"$unwind": "$tags"}, {"$sortByCount": "$tags"}, {"$limit": 1}], [{"_id": "y", "count": 2}]),
        (
            [{"$match": {"_id": 4}}, {"$unwind": {"path": "$tags", "preserveNullAndEmptyArrays": True}}, {"$project": {"item": 1}}],
            [{"_id": 4, "item": "abc"}],
        ),
        (
            [{"$match": {"_id": {"$lt": 3}}}, {"$addFields": {"cost": {"$multiply": ["$price", 2]}}}, {"$project": {"_id": 0, "cost": 1}}],
            [{"cost": 20}, {"cost": 40}],
        ),
        ([{"$sort": {"price": -1, "_id": 1}}, {"$skip": 1}, {"$limit": 2}, {"$project": {"_id": 1}}], [{"_id": 1}, {"_id": 5}]),
        ([{"$match": {"_id": 1}}, {"$replaceRoot": {"newRoot": {"only": "$item"}}}], [{"only": "abc"}]),
        ([{"$match": {"_id": 1}}, {"$unset": ["tags", "price"]}], [{"_id": 1, "item": "abc", "quantity": 2}]),
        (
            [{"$facet": {"cheap": [{"$match": {"price": 5}}, {"$count": "n"}], "all": [{"$count": "n"}]}}],
            [{"cheap": [{"n": 2}], "all": [{"n": 5}]}],
        ),
        ([{"$sample": {"size": 100}}, {"$count": "n"}], [{"n": 5}]),
        (
            [{"$bucket": {"groupBy": "$price", "boundaries": [0, 10, 30], "output": {"n": {"$sum": 1}}}}],
            [{"_id": 0, "n": 2}, {"_id": 10, "n": 3}],
        ),
        (
            [{"$match": {"_id": 1}}, {"$project": {"_id": 0, "x": {"$cond": [{"$gt": ["$price", 5]}, {"$toUpper": "$item"}, None]}}}],
            [{"x": "ABC"}],
        ),
    ],
)
def test_pipelines(sales, pipeline, expect):
    assert list(sales.aggregate(pipeline)) == expect


def test_lookup(database, sales):
    database["items"].insert_many([{"_id": "abc", "label": "Alphabet"}, {"_id": "xyz", "label": "End"}])
    joined = list(
        sales.aggregate(
            [
                {"$match": {"_id": {"$in": [1, 2]}}},
                {"$lookup": {"from": "items", "localField": "item", "foreignField": "_id", "as": "found"}},
                {"$project": {"found.label": 1}},
            ]
        )
    )
    assert joined == [{"_id": 1, "found": [{"label": "Alphabet"}]}, {"_id": 2, "found": []}]
    correlated = list(
        database["items"].aggregate(
            [
                {
                    "$lookup": {
                        "from": "things",
                        "let": {"id": "$_id"},
                        "pipeline": [{"$match": {"$expr": {"$eq": ["$item", "$$id"]}}}, {"$count": "n"}],
                        "as": "sold",
                    }
                },
                {"$sort": {"_id": 1}},
            ]
        )
    )
    assert [document["sold"] for document in correlated] == [[{"n": 3}], [{"n": 1}]]


def test_out_and_merge(database, sales):
    list(sales.aggregate([{"$match": {"item": "abc"}}, {"$out": "copied"}]))
    assert database["copied"].count_documents({}) == 3
    list(sales.aggregate([{"$match": {"_id": {"$lte": 2}}}, {"$out": "copied"}]))
    assert sorted(document["_id"] for document in database["copied"].find()) == [1, 2]
    list(
        sales.aggregate(
            [
                {"$project": {"price": {"$add": ["$price", 100]}}},
                {"$merge": {"into": "copied", "on": "_id", "whenMatched": "merge", "whenNotMatched": "discard"}},
            ]
        )
    )
    assert database["copied"].find_one({"_id": 1}) == {
        "_id": 1, "item": "abc", "price": 110, "quantity": 2, "tags": ["x", "y"],
    }
    assert database["copied"].count_documents({}) == 2


def test_several_batches(collection):
    collection.insert_many([{"_id": number, "g": number % 500} for number in range(2_000)])
    grouped = list(collection.aggregate([{"$group": {"_id": "$g", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}], batchSize=50))
    assert grouped == [{"_id": number, "n": 4} for number in range(500)]


def test_decimals_and_promotion(collection):
    collection.insert_many([{"v": Decimal128("0.1")}, {"v": Decimal128("0.2")}])
    (result,) = collection.aggregate([{"$group": {"_id": None, "sum": {"$sum": "$v"}}}])
    assert result["sum"] == Decimal128("0.3")


def test_views(database, sales):
    database.create_collection("cheap", viewOn="things", pipeline=[{"$match": {"price": 5}}, {"$project": {"item": 1}}])
    assert list(database["cheap"].find({"item": "abc"})) == [{"_id": 4, "item": "abc"}]
    assert database["cheap"].count_documents({}) == 2
    assert list(database["cheap"].aggregate([{"$sort": {"_id": -1}}, {"$limit": 1}])) == [{"_id": 4, "item": "abc"}]
    with pytest.raises(OperationFailure) as caught:
        database["cheap"].insert_one({})
    assert caught.value.code == 166


@pytest.mark.parametrize(
    ("pipeline", "code"),
    [
        ([{"$frobnicate": {}}], 40324),
        ([{"$match": {}, "$limit": 1}], 40323),
        ([{"$limit": 0}], 15958),
        ([{"$project": {}}], 51272),
        ([{"$group": {"total": {"$sum": 1}}}], 15955),
        ([{"$out": "a"}, {"$match": {}}], 40601),
        ([{"$project": {"x": {"$frobnicate": 1}}}], 31325),
    ],
)
def test_errors(sales, pipeline, code):
    with pytest.raises(OperationFailure) as caught:
        list(sales.aggregate(pipeline))
    assert caught.value.code == code, caught.value.details


def test_explain(sales):
    plan = sales.database.command("explain", {"aggregate": "things", "pipeline": [{"$match": {"_id": 1}}], "cursor": {}})
    assert plan["ok"] == 1
