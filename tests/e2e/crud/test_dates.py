"""Dates read from text without a format."""

from datetime import datetime

import pytest
from pymongo.errors import OperationFailure


def read(collection, expression):
    return collection.database.aggregate([{"$documents": [{"date": expression}]}]).next()["date"]


@pytest.mark.parametrize(
    ("text", "expect"),
    [
        ("2020-07", datetime(2020, 7, 1)),
        ("July 14 2020", datetime(2020, 7, 14)),
        ("July 4th, 2017 11am", datetime(2017, 7, 4, 11)),
        ("7/4/17", datetime(2017, 7, 4)),
        ("04-07-2017", datetime(2017, 7, 4)),
        ("2017-Jul-04 noon", datetime(2017, 7, 4, 12)),
        ("2020-W29-2", datetime(2020, 7, 14)),
        ("2020-196", datetime(2020, 7, 14)),
        ("2020-07-14T10:00", datetime(2020, 7, 14, 10)),
        ("2020-07-14 10:00 EST", datetime(2020, 7, 14, 15)),
        ("2020-07-14T10:00:00.5+02:00", datetime(2020, 7, 14, 8, 0, 0, 500000)),
        ("Tue, 14 Jul 2020 10:20:30 +0200", datetime(2020, 7, 14, 8, 20, 30)),
    ],
)
def test_dates_as_people_write_them(collection, text, expect):
    for expression in (
        {"$toDate": text},
        {"$dateFromString": {"dateString": text}},
        {"$convert": {"input": text, "to": "date"}},
    ):
        assert read(collection, expression) == expect


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("today", 'an incomplete date/time string has been found, with elements missing: "today"'),
        ("12:00", 'an incomplete date/time string has been found, with elements missing: "12:00"'),
        ("2020-13-01", "Error parsing date string '2020-13-01'; 6: Unexpected character '3'"),
        ("2020-07-14 10:00 Europe/Amsterdam", "passing a time zone identifier as part of the string is not allowed 'E'"),
    ],
)
def test_what_is_no_date_is_refused(collection, text, reason):
    with pytest.raises(OperationFailure) as refusal:
        read(collection, {"$toDate": text})
    assert refusal.value.code == 241
    assert reason in refusal.value.details["errmsg"]
    fallback = {"$convert": {"input": text, "to": "date", "onError": "none"}}
    assert read(collection, fallback) == "none"
