//! Dates: 1709210096789 is 2024-02-29T12:34:56.789Z, a Thursday.

use document::{Value, doc};

use super::{check, check_error};

fn date(milliseconds: i64) -> Value {
    Value::DateTime(milliseconds)
}

/// The instant of an ISO date, through the operator that parses it.
fn at(text: &str) -> Value {
    super::evaluate(doc! { "$toDate": text }.into()).expect("a date").expect("a value")
}

#[test]
fn parts() {
    check(doc! { "$year": "$date" }, 2024);
    check(doc! { "$month": ["$date"] }, 2);
    check(doc! { "$dayOfMonth": "$date" }, 29);
    check(doc! { "$hour": { "date": "$date", "timezone": "America/New_York" } }, 7);
    check(doc! { "$hour": { "date": "$date", "timezone": "+0530" } }, 18);
    check(doc! { "$minute": "$date" }, 34);
    check(doc! { "$second": "$date" }, 56);
    check(doc! { "$millisecond": "$date" }, 789);
    check(doc! { "$dayOfWeek": "$date" }, 5);
    check(doc! { "$dayOfYear": "$date" }, 60);
    check(doc! { "$week": "$date" }, 8);
    check(doc! { "$isoWeek": "$date" }, 9);
    check(doc! { "$isoWeekYear": "$date" }, 2024_i64);
    check(doc! { "$isoDayOfWeek": "$date" }, 4);
    check(doc! { "$year": "$absent" }, Value::Null);
    check_error(doc! { "$year": "$word" }, 16006, "can't convert from BSON type string to Date");
    check_error(
        doc! { "$year": { "date": "$date", "timezone": "Nowhere" } },
        40485,
        "unrecognized time zone identifier: \"Nowhere\"",
    );
}

#[test]
fn text() {
    check(doc! { "$dateToString": { "date": "$date" } }, "2024-02-29T12:34:56.789Z");
    check(
        doc! {
            "$dateToString": { "date": "$date", "format": "%d.%m.%Y %H:%M %z %j %u %U %V %G %b %B %%",
                "timezone": "Europe/Berlin" }
        },
        "29.02.2024 13:34 +0100 060 4 08 09 2024 Feb February %",
    );
    check(doc! { "$dateToString": { "date": "$nothing", "onNull": "none" } }, "none");
    check_error(
        doc! { "$dateToString": { "date": "$date", "format": "%x" } },
        18536,
        "Invalid format character '%x' in format string",
    );
    check(doc! { "$dateFromString": { "dateString": "2024-02-29T12:34:56.789Z" } }, date(1_709_210_096_789));
    check(
        doc! { "$dateFromString": { "dateString": "2024-02-29T13:34:56.789+0100" } },
        date(1_709_210_096_789),
    );
    check(
        doc! { "$dateFromString": { "dateString": "2024-02-29", "timezone": "Europe/Berlin" } },
        date(1_709_161_200_000),
    );
    check(
        doc! { "$dateFromString": { "dateString": "29/02/2024 12:34", "format": "%d/%m/%Y %H:%M" } },
        date(1_709_210_040_000),
    );
    check(doc! { "$dateFromString": { "dateString": "soon", "onError": "bad" } }, "bad");
    for (text, format, expect) in [
        ("2017-07-04T11:56:02.81Z", "%Y-%m-%dT%H:%M:%S.%LZ", "2017-07-04T11:56:02.810Z"),
        ("2017-07-14T12:02:44.771 GMT+02:00", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T10:02:44.771Z"),
        ("2017-07-14T12:02:44.771 EST", "%Y-%m-%dT%H:%M:%S.%L%z", "2017-07-14T17:02:44.771Z"),
        ("4/26/1992:+285", "%m/%d/%Y:%Z", "1992-04-25T19:15:00Z"),
        ("1992 % 04 % 26", "%Y %% %m %% %d", "1992-04-26T00:00:00Z"),
        ("2017", "%G", "2017-01-02T00:00:00Z"),
        ("2017, Week 53", "%G, Week %V", "2018-01-01T00:00:00Z"),
        ("53.7.2017", "%V.%u.%G", "2018-01-07T00:00:00Z"),
        ("2020-196", "%Y-%j", "2020-07-14T00:00:00Z"),
    ] {
        check(doc! { "$dateFromString": { "dateString": text, "format": format } }, at(expect));
    }
    for (text, format, message) in [
        ("2018-01", "%Y-%m-%d", "Error parsing date string '2018-01'; 7: Data missing"),
        ("2018-01", "%Y", "Trailing data"),
        ("1992-26-04", "Y-d-m", "0: Format literal not found '1'"),
        ("2018-x", "%Y-%m", "5: A two digit month could not be found 'x'"),
        (
            "2018-01",
            "%Y-%m",
            "an incomplete date/time string has been found, with elements missing: \"2018-01\"",
        ),
        ("ISO Day 6", "ISO Day %u", "The parsed date was invalid"),
        ("1, 2018", "%V, %Y", "Mixing of ISO dates with natural dates is not allowed"),
    ] {
        check_error(doc! { "$dateFromString": { "dateString": text, "format": format } }, 241, message);
    }
    let both = doc! { "dateString": "4/26/1992:+0445", "format": "%m/%d/%Y:%z", "timezone": "+0500" };
    check_error(doc! { "$dateFromString": both }, 241, "GMT offset together with a timezone argument");
    check(doc! { "$dateFromString": { "dateString": Value::Null, "onNull": "none" } }, "none");
    check_error(
        doc! { "$dateFromString": { "dateString": "soon" } },
        241,
        "Error parsing date string 'soon'",
    );
}

#[test]
fn objects_of_parts() {
    check(
        doc! { "$dateToParts": { "date": "$date" } },
        doc! {
            "year": 2024, "month": 2, "day": 29, "hour": 12, "minute": 34, "second": 56, "millisecond": 789
        },
    );
    check(
        doc! { "$dateToParts": { "date": "$date", "iso8601": true } },
        doc! {
            "isoWeekYear": 2024, "isoWeek": 9, "isoDayOfWeek": 4, "hour": 12, "minute": 34, "second": 56,
            "millisecond": 789
        },
    );
    check(
        doc! { "$dateFromParts": { "year": 2024, "month": 2, "day": 29, "hour": 12 } },
        at("2024-02-29T12:00:00Z"),
    );
    check(doc! { "$dateFromParts": { "year": 2024, "month": 14, "day": 0 } }, at("2025-01-31T00:00:00Z"));
    check(
        doc! { "$dateFromParts": { "isoWeekYear": 2024, "isoWeek": 9, "isoDayOfWeek": 4 } },
        at("2024-02-29T00:00:00Z"),
    );
    check_error(doc! { "$dateFromParts": { "month": 1 } }, 40516, "requires either 'year' or 'isoWeekYear'");
}

#[test]
fn arithmetic() {
    let start = at("2024-01-31T10:00:00Z");
    check(
        doc! { "$dateAdd": { "startDate": start.clone(), "unit": "month", "amount": 1 } },
        at("2024-02-29T10:00:00Z"),
    );
    check(
        doc! { "$dateAdd": { "startDate": start.clone(), "unit": "hour", "amount": 25 } },
        at("2024-02-01T11:00:00Z"),
    );
    check(
        doc! { "$dateSubtract": { "startDate": start.clone(), "unit": "quarter", "amount": 1 } },
        at("2023-10-31T10:00:00Z"),
    );
    // Across the change to summer time a local day has 23 hours.
    check(
        doc! {
            "$dateAdd": { "startDate": at("2024-03-30T12:00:00Z"), "unit": "day", "amount": 1,
                "timezone": "Europe/Berlin" }
        },
        at("2024-03-31T11:00:00Z"),
    );
    check(
        doc! {
            "$dateDiff": { "startDate": start.clone(), "endDate": at("2024-02-01T00:00:00Z"),
                "unit": "month" }
        },
        1_i64,
    );
    check(
        doc! {
            "$dateDiff": { "startDate": start.clone(), "endDate": at("2024-02-04T00:00:00Z"), "unit": "week" }
        },
        1_i64,
    );
    check(
        doc! {
            "$dateDiff": { "startDate": start.clone(), "endDate": at("2024-02-04T00:00:00Z"), "unit": "week",
                "startOfWeek": "monday" }
        },
        0_i64,
    );
    check(
        doc! {
            "$dateDiff": { "startDate": start.clone(), "endDate": at("2024-01-31T11:59:00Z"), "unit": "hour" }
        },
        1_i64,
    );
    check(doc! { "$dateTrunc": { "date": "$date", "unit": "month" } }, at("2024-02-01T00:00:00Z"));
    check(doc! { "$dateTrunc": { "date": "$date", "unit": "week" } }, at("2024-02-25T00:00:00Z"));
    check(
        doc! { "$dateTrunc": { "date": "$date", "unit": "week", "startOfWeek": "mon" } },
        at("2024-02-26T00:00:00Z"),
    );
    check(
        doc! { "$dateTrunc": { "date": "$date", "unit": "minute", "binSize": 15 } },
        at("2024-02-29T12:30:00Z"),
    );
    check(
        doc! { "$dateTrunc": { "date": "$date", "unit": "day", "timezone": "Europe/Berlin" } },
        at("2024-02-28T23:00:00Z"),
    );
    // Bins that begin before there are dates.
    for (unit, bin, date) in [
        ("day", 1 << 40, 0),
        ("week", 1 << 60, 0),
        ("month", 1 << 60, 0),
        ("year", 1 << 59, 0),
        ("millisecond", i64::MAX, i64::MIN),
        ("millisecond", 1, i64::MIN),
    ] {
        let date = Value::DateTime(date);
        let trunc = doc! { "$dateTrunc": { "date": date, "unit": unit, "binSize": (bin) } };
        assert!(super::evaluate(trunc.into()).is_err(), "{unit}, {bin}");
    }
    check_error(
        doc! { "$dateAdd": { "startDate": start, "unit": "eon", "amount": 1 } },
        9,
        "unknown time unit value: eon",
    );
}
