use super::*;

fn parse(text: &str) -> Result<i64, String> {
    parse_date(text, &Zone::utc(), false).map_err(|error| {
        assert_eq!(error.code, code::CONVERSION_FAILURE, "{text}");
        error.message
    })
}

#[track_caller]
fn check(texts: &[&str], expect: &str) {
    let expect: jiff::Timestamp = expect.parse().expect("a good expectation");
    for text in texts {
        assert_eq!(parse(text), Ok(expect.as_millisecond()), "{text}");
    }
}

#[track_caller]
fn check_refused(text: &str, message: &str) {
    assert_eq!(parse(text), Err(message.to_owned()));
}

#[test]
fn days() {
    check(
        &[
            "2020-07-14",
            "2020-7-14",
            "20-07-14",
            "20200714",
            "2020/07/14",
            "7/14/2020",
            "7/14/20",
            "14-07-2020",
            "14.07.2020",
            "July 14 2020",
            "July 14, 2020",
            "july 14th, 2020",
            "Jul-14-2020",
            "14 July 2020",
            "14 Jul 2020",
            "14-Jul-2020",
            "2020-Jul-14",
            "2020-W29-2",
            "2020W292",
            "2020-196",
            "2020.196",
            "2020196",
            "Tuesday, 14 July 2020",
            "2020-07-14 midnight",
            "2020-07-14T00:00Z",
        ],
        "2020-07-14T00:00:00Z",
    );
    check(&["2020-07", "July 2020", "2020 July", "Jul 2020"], "2020-07-01T00:00:00Z");
    check(&["Sept 2024"], "2024-09-01T00:00:00Z");
    check(&["2024-W01-1", "2024-W01"], "2024-01-01T00:00:00Z");
    check(&["Tue, 01 Jan 2024", "Tue Jan 1 2024"], "2024-01-02T00:00:00Z");
    check(&["Sun, 01 Jan 2024"], "2024-01-07T00:00:00Z");
    check(&["7/4/70", "4.7.70"], "1970-07-04T00:00:00Z");
}

#[test]
fn times() {
    check(
        &[
            "2020-07-14T10:20:30",
            "2020-07-14 10:20:30",
            "20200714T102030",
            "20200714102030",
            "10:20:30 2020-07-14",
            "2020-07-14 10:20:30 AM",
            "Jul 14 10:20:30 2020",
            "2020-07-14T10:20.30",
            "2020-07-14T10:20:30.000Z",
            "Tue, 14 Jul 2020 10:20:30 GMT",
            "Tue, 14 Jul 2020 10:20:30 +0000",
            "@1594722030",
        ],
        "2020-07-14T10:20:30Z",
    );
    check(
        &[
            "2024-01-01 10pm",
            "2024-01-01 10 pm",
            "2024-01-01 10:00 p.m.",
            "Jan 1 2024 10:00 PM",
            "2024-01-01T2200",
        ],
        "2024-01-01T22:00:00Z",
    );
    check(&["2024-01-01 12:00 AM"], "2024-01-01T00:00:00Z");
    check(&["2024-01-01 12pm", "2024-01-01 noon"], "2024-01-01T12:00:00Z");
    check(&["2017-07-04T11:56:02.81Z"], "2017-07-04T11:56:02.810Z");
    check(&["2017-07-04T11:56:02.8139"], "2017-07-04T11:56:02.813Z");
}

#[test]
fn zones() {
    check(
        &[
            "2017-07-14T12:02:44.771 GMT+02",
            "2017-07-14T12:02:44.771 GMT+02:00",
            "2017-07-14T12:02:44.771+2",
            "2017-07-14T12:02:44.771 CEST",
            "2017-07-14T12:02:44.771 (cest)",
            "2017-07-14T12:02:44.771+0200",
        ],
        "2017-07-14T10:02:44.771Z",
    );
    check(&["2017-07-14T12:02:44.771+03:30"], "2017-07-14T08:32:44.771Z");
    check(&["2017-07-14T12:02:44.771 EST"], "2017-07-14T17:02:44.771Z");
    check(&["2017-07-14T12:02:44.771 A"], "2017-07-14T11:02:44.771Z");
    check(&["2024-01-01T"], "2024-01-01T07:00:00Z");
    check(&["2024-01-01 10:00 P"], "2024-01-01T13:00:00Z");
    check(&["2024-01-01 22:30:00 IST"], "2024-01-01T20:30:00Z");
    let tokyo = Zone::parse("Asia/Tokyo").expect("a zone");
    let local = parse_date("July 14 2020 9am", &tokyo, true);
    assert_eq!(local, Ok(1_594_684_800_000), "a date without a zone is one of the zone asked for");
    for text in ["2020-07-14T09:00Z", "2020-07-14T09:00+01:00"] {
        assert!(parse_date(text, &tokyo, true).is_err(), "{text} and a zone");
    }
}

#[test]
fn refusals() {
    check_refused("", "Error parsing date string ''; 0: Empty string '\0'");
    check_refused(
        "abc",
        "Error parsing date string 'abc'; 0: passing a time zone identifier as part of the string is not \
        allowed 'a'",
    );
    check_refused("2024-13-01", "Error parsing date string '2024-13-01'; 6: Unexpected character '3'");
    check_refused(
        "2024-02-30",
        "Error parsing date string '2024-02-30'; 11: The parsed date was invalid '\0'",
    );
    check_refused(
        "2024-01-01 23:59:60",
        "Error parsing date string '2024-01-01 23:59:60'; 20: The parsed time was invalid '\0'",
    );
    for text in ["x", "12:00", "July 4th", "today", "tomorrow", "now", "10:00 PM", "2017", "Jan, 2024"] {
        check_refused(
            text,
            &format!("an incomplete date/time string has been found, with elements missing: \"{text}\""),
        );
    }
    for text in [
        "2017, 12:50:53",
        "60.Monday1770/06:59",
        "2017-07-12T22:23:55 America/New_York",
        "2024-01-01T25:00",
        "2024-01-01T00:00:00+25:00",
        "2024-01-01 13:00 PM",
        "2024-01-01 0:30 am",
        "2024-01-01T10:00 PM",
        "2024-01-01 2024-01-02",
        "2024-01-01 22:30:00 SGT",
        "@@@",
        "soon",
    ] {
        let refused = parse(text).expect_err(text);
        assert!(refused.starts_with("Error parsing date string"), "{text}: {refused}");
    }
}
