"""What update operators refuse, as a client sees it; the words of each are tested where the operators are."""

import pytest
from pymongo.errors import OperationFailure, WriteError


def error_of(collection, change, **options):
    with pytest.raises(WriteError) as caught:
        collection.update_one({"_id": 1}, change, **options)
    return caught.value.code, caught.value.details["errmsg"]


@pytest.mark.parametrize("change", [{"$pop": {"v.foo": 1}}, {"$pull": {"v.foo": 1}}, {"$pullAll": {"v.foo": [1]}}])
def test_removing_through_a_scalar(collection, change):
    collection.insert_many([{"_id": 1, "v": 42}, {"_id": 2, "v": {"foo": [1]}}])
    message = "Cannot use the part (foo) of (v.foo) to traverse the element ({v: 42})"
    assert error_of(collection, change) == (28, message)
    with pytest.raises(OperationFailure) as caught:
        collection.find_one_and_update({"_id": 1}, change)
    assert caught.value.details["errmsg"] == "Plan executor error during findAndModify :: caused by :: " + message
    assert (caught.value.code, caught.value.details["codeName"]) == (28, "PathNotViable")
    with pytest.raises(WriteError) as caught:
        collection.update_many({}, change)
    assert caught.value.code == 28
    assert collection.update_one({"_id": 2}, change).modified_count == 1
    assert collection.find_one({"_id": 1}) == {"_id": 1, "v": 42}


def test_codes_of_operators(collection):
    collection.insert_one({"_id": 1, "v": 42, "a": [{"b": 1}]})
    for change, code in [
        ({"$set": {"v.foo": 1}}, 28),
        ({"$rename": {"a.b": "x"}}, 28),
        ({"$rename": {"a.0": "x"}}, 2),
        ({"$addToSet": {"a": {"$each": 1}}}, 14),
        ({"$push": {"a": {"$each": 1}}}, 2),
        ({"$inc": {"v": "x"}}, 14),
        ({"$inc": {"a": 1}}, 14),
        ({"$set": {"_id": 2}}, 66),
        ({"$set": {"v": 1, "v.x": 1}}, 40),
        ({"$set": {"": 1}}, 56),
        ({"$set": {"$v": 1}}, 52),
        ({"$bit": {"v": {"nand": 1}}}, 2),
        ({"$pop": {"a": 2}}, 9),
        ({"$pop": {"v": 1}}, 14),
    ]:
        assert error_of(collection, change)[0] == code, change
    assert collection.find_one() == {"_id": 1, "v": 42, "a": [{"b": 1}]}
    collection.update_one({"_id": 1}, {"$set": {"d.$e": 1}})
    assert collection.find_one({}, {"d": 1})["d"] == {"$e": 1}, "below the top a dollar sign is part of the name"


def test_very_many_values_and_paths(collection):
    """Sizes at which comparing pair by pair takes minutes."""
    many = 50_000
    collection.insert_one({"_id": 1, "a": list(range(many))})
    assert collection.update_one({"_id": 1}, {"$addToSet": {"a": {"$each": list(range(many // 2, many * 2))}}}).modified_count == 1
    assert collection.update_one({"_id": 1}, {"$pullAll": {"a": list(range(many))}}).modified_count == 1
    assert collection.find_one()["a"] == list(range(many, many * 2))
    assert collection.update_one({"_id": 1}, {"$set": {f"f{number}": number for number in range(many)}}).modified_count == 1
    assert collection.update_one({"_id": 1}, {"$rename": {f"f{number}": f"g{number}" for number in range(many)}}).modified_count == 1
    stored = collection.find_one()
    assert stored["g7"] == 7 and "f7" not in stored and len(stored) == many + 2
    filter = {f"g{number}": number for number in range(many)}
    assert collection.update_one({"_id": 2, **filter}, {"$set": {"x": 1}}, upsert=True).upserted_id == 2
