//! What MongoDB refuses is refused in its words; what it takes comes back as it shows it.

use super::*;
use document::doc;
use wire::ErrorCode;

fn member(id: i32) -> Document {
    doc! { "_id": id, "host": (format!("db{id}.example:27017")) }
}

fn members(count: i32) -> Vec<Value> {
    (0..count).map(|id| member(id).into()).collect()
}

fn of(members: Vec<Value>) -> Document {
    doc! { "_id": "rs", "version": 1, "members": members }
}

fn with(mut member: Document, more: Document) -> Value {
    member.extend(more);
    member.into()
}

fn parse(config: &Document) -> Result<ReplSetConfig, SetError> {
    ReplSetConfig::parse(config.to_buf().as_raw())
}

fn config(members: Vec<Value>) -> ReplSetConfig {
    parse(&of(members)).expect("a good configuration")
}

#[track_caller]
fn refused(config: Document, message: &str) {
    let error = parse(&config).expect_err(message);
    assert_eq!((error.code, error.message.as_str()), (ErrorCode::InvalidReplicaSetConfig, message));
}

#[track_caller]
fn refused_member(more: Document, message: &str) {
    let bad = with(member(1), more);
    let Value::Document(shown) = &bad else { unreachable!() };
    let message = format!("member: {} :: caused by :: {message}", shown.quoted());
    refused(of(vec![member(0).into(), bad]), &message);
}

#[test]
fn a_short_configuration_is_shown_in_full() {
    let shown = config(vec![doc! { "_id": 0, "host": "db0.example" }.into()]).to_document();
    let member = doc! {
        "_id": 0, "host": "db0.example:27017", "arbiterOnly": false, "buildIndexes": true, "hidden": false,
        "priority": 1.0, "tags": {}, "secondaryDelaySecs": 0_i64, "votes": 1,
    };
    let settings = doc! {
        "chainingAllowed": true, "heartbeatIntervalMillis": 2000, "heartbeatTimeoutSecs": 10,
        "electionTimeoutMillis": 1_000, "catchUpTimeoutMillis": (-1), "catchUpTakeoverDelayMillis": 30_000,
        "getLastErrorModes": {}, "getLastErrorDefaults": { "w": 1, "wtimeout": 0 },
    };
    let expected = doc! {
        "_id": "rs", "version": 1, "members": [member], "protocolVersion": 1_i64,
        "writeConcernMajorityJournalDefault": true, "settings": settings,
    };
    assert_eq!(shown, expected);
}

#[test]
fn what_is_shown_is_read_again() {
    let mut given = of(vec![
        with(member(0), doc! { "priority": 2.5, "tags": { "dc": "east", "disk": "fast" } }),
        with(member(1), doc! { "priority": 0, "hidden": true, "secondaryDelaySecs": 60 }),
        with(member(2), doc! { "priority": 0, "votes": 0 }),
    ]);
    given.push("term", 7);
    given.push(
        "settings",
        doc! {
            "chainingAllowed": false, "electionTimeoutMillis": 1500,
            "getLastErrorModes": { "m": { "dc": 1 }, "huge": { "disk": (i64::MAX) } },
            "readFreshness": { "maxStalenessMS": 500, "waitMS": 20 },
            "replicaSetId": (document::ObjectId::from_bytes([7; 12])),
        },
    );
    let first = parse(&given).expect("a good configuration");
    assert_eq!((first.term, first.members[0].priority, first.majority()), (Some(7), 2.5, 2));
    assert_eq!(parse(&first.to_document()), Ok(first));
}

#[test]
fn fields_are_strict() {
    refused(doc! { "version": 1 }, "BSON field 'ReplSetConfig._id' is missing but a required field");
    refused(doc! { "_id": "" }, "Replica set configuration must have non-empty _id field");
    refused(
        doc! { "_id": 1 },
        "BSON field 'ReplSetConfig._id' is the wrong type 'int', expected type 'string'",
    );
    refused(doc! { "_id": "rs" }, "BSON field 'ReplSetConfig.version' is missing but a required field");
    let version = |version: Value| doc! { "_id": "rs", "version": version, "members": [] };
    refused(version(0.into()), "BSON field 'version' value must be >= 1, actual value '0'");
    refused(version(1.5.into()), "Expected an integer: version: 1.5");
    refused(version("1".into()), "Expected a number in: version: \"1\"");
    let mut unknown = of(members(1));
    unknown.push("color", "red");
    refused(unknown, "BSON field 'ReplSetConfig.color' is an unknown field.");
    let mut doubled = of(members(1));
    doubled.push("version", 2);
    refused(doubled, "BSON field 'ReplSetConfig.version' is a duplicate field");
    let mut old = of(members(1));
    old.push("protocolVersion", 0);
    refused(old, "BSON field 'protocolVersion' value must be >= 1, actual value '0'");
}

#[test]
fn members_are_many_enough_and_different() {
    let message =
        "Replica set configuration contains 0 members, but must have at least 1 and no more than  50";
    refused(of(vec![]), message);
    refused(of(members(51)), &message.replace("contains 0", "contains 51"));
    let message =
        "Replica set configuration contains 8 voting members, but must be at least 1 and no more than 7";
    refused(of(members(8)), message);
    let message = "Found two member configurations with same _id field, members.0._id == members.1._id == 3";
    refused(of(vec![member(3).into(), with(doc! { "_id": 3 }, doc! { "host": "x" })]), message);
    let message = "Found two member configurations with same host field, members.0.host == members.1.host == \
                   db0.example:27017";
    refused(of(vec![member(0).into(), doc! { "_id": 1, "host": "db0.example" }.into()]), message);
    let message = "Either all host names in a replica set configuration must be localhost references, or \
                   none must be; found 1 out of 2";
    refused(of(vec![member(0).into(), doc! { "_id": 1, "host": "localhost" }.into()]), message);
    let message = "Replica set configuration must contain at least one non-arbiter member with priority > 0";
    refused(of(vec![with(member(0), doc! { "priority": 0 })]), message);
}

#[test]
fn a_member_says_nothing_that_contradicts_itself() {
    refused_member(doc! { "votes": 0 }, "priority must be 0 when non-voting (votes:0)");
    refused_member(doc! { "hidden": true }, "priority must be 0 when hidden=true");
    refused_member(doc! { "secondaryDelaySecs": 1 }, "priority must be 0 when secondaryDelaySecs is used");
    refused_member(doc! { "votes": 2 }, "BSON field 'votes' value must be <= 1, actual value '2'");
    refused_member(
        doc! { "priority": 1001 },
        "BSON field 'priority' value must be <= 1000, actual value '1001'",
    );
    refused_member(doc! { "tags": { "dc": 1 } }, "tags.dc field has non-string value of type int");
    refused_member(
        doc! { "buildIndexes": false, "priority": 0 },
        "buildIndexes: false is not supported: every member has all indexes",
    );
    refused_member(doc! { "color": 1 }, "BSON field 'MemberConfig.color' is an unknown field.");
}

#[test]
fn an_arbiter_votes_and_has_nothing_else() {
    let arbiter = |more: Document| {
        with(member(1), [doc! { "arbiterOnly": true }, more].into_iter().flatten().collect())
    };
    let config =
        parse(&of(vec![member(0).into(), arbiter(doc! {}), member(2).into()])).expect("a configuration");
    assert_eq!((config.members[1].priority, config.majority(), config.write_majority()), (0.0, 2, 2));
    let pair = parse(&of(vec![member(0).into(), arbiter(doc! { "priority": 0 })])).expect("a configuration");
    assert_eq!((pair.majority(), pair.write_majority()), (2, 1));
    assert!(config.has_copies(&Copies::Members(2), |member| member.id != 1));
    assert!(!config.has_copies(&Copies::Members(2), |member| member.id != 2), "an arbiter is no copy");
    assert!(config.check_copies(&Copies::Members(3)).is_err(), "there are two with data");
    refused_member(doc! { "arbiterOnly": true, "votes": 0 }, "Arbiter must vote (cannot have 0 votes)");
    refused_member(doc! { "arbiterOnly": true, "tags": { "dc": "a" } }, "Cannot set tags on arbiters.");
    refused_member(doc! { "arbiterOnly": true, "priority": 2 }, "priority must be 0 when arbiterOnly=true");
    let two = vec![member(0).into(), arbiter(doc! {}), with(member(2), doc! { "arbiterOnly": true })];
    refused(of(two), "Multiple arbiters are not allowed");
    let mut other = config.clone();
    other.members[1].arbiter_only = false;
    other.version += 1;
    let refused = config.successor(other, 0, 1, None).expect_err("another kind of member");
    assert!(refused.message.contains("differ in the setting of the arbiterOnly field"), "{refused}");
}

#[test]
fn settings_are_checked() {
    let check = |settings: Document, message: &str| {
        let mut config = of(members(1));
        config.push("settings", settings);
        refused(config, message);
    };
    check(
        doc! { "electionTimeoutMillis": 0 },
        "BSON field 'electionTimeoutMillis' value must be >= 50, actual value '0'",
    );
    check(doc! { "getLastErrorModes": { "m": { "dc": 1 } } }, "No replica set tag key dc in config");
    check(
        doc! { "getLastErrorModes": { "m": { "dc": 0 } } },
        "Value of getLastErrorModes.m.dc must be positive, but found 0",
    );
    check(
        doc! { "getLastErrorModes": { "m": { "dc": (f64::NAN) } } },
        "Value of getLastErrorModes.m.dc must be positive, but found 0",
    );
    let message = "Replica set config contains customized getLastErrorDefaults, which has been deprecated \
                   and is now ignored. Use setDefaultRWConcern instead to set a cluster-wide default \
                   writeConcern.";
    check(doc! { "getLastErrorDefaults": { "w": 2 } }, message);
    check(doc! { "getLastErrorDefaults": { "w": "majority" } }, message);
}

#[test]
fn a_set_is_begun_by_a_member_of_it() {
    let check = |change: &dyn Fn(&mut ReplSetConfig), expected: Result<(), &str>| {
        let mut config = config(members(3));
        change(&mut config);
        let result =
            config.check_initiate("rs").and_then(|()| config.own_electable(0)).map_err(|error| error.message);
        assert_eq!(result, expected.map_err(str::to_owned));
    };
    check(&|_| {}, Ok(()));
    let message =
        "Attempting to initiate a replica set with name other, but command line reports rs; rejecting";
    check(&|config| config.set_name = "other".into(), Err(message));
    let message = "Configuration used to initiate a replica set must  have version 1, but found 2";
    check(&|config| config.version = 2, Err(message));
    let message = "No host described in new configuration with {version: 1, term: -1} for replica set rs \
        maps to this node";
    check(&|config| drop(config.members.remove(0)), Err(message));
    let message = "This node, db0.example:27017, with _id 0 is not electable under the new configuration \
                   with {version: 1, term: -1} for replica set rs";
    check(&|config| config.members[0].priority = 0.0, Err(message));
}

#[test]
fn a_configuration_follows_another() {
    let mut old = config(members(3));
    old.settings.set_id = Some(document::ObjectId::from_bytes([7; 12]));
    let check = |asked: &[Value], version: i64, force, expected: Result<i64, &str>| {
        let asked = ReplSetConfig { version, ..config(asked.to_vec()) };
        let result = old.successor(asked, 0, 4, force);
        if let Ok(next) = &result {
            assert_eq!((next.term, next.settings.set_id), (Some(4), old.settings.set_id));
        }
        let result = result.map(|next| next.version).map_err(|error| {
            assert_eq!(error.code, ErrorCode::NewReplicaSetConfigurationIncompatible);
            error.message
        });
        assert_eq!(result, expected.map_err(str::to_owned));
    };
    let all = members(4);
    check(&all, 2, None, Ok(2));
    check(&all[..2], 2, None, Ok(2));
    let message = "New replica set configuration version and term must be greater than old, but {version: \
                   1, term: 4} is not greater than {version: 1, term: -1} for replica set rs";
    check(&all, 1, None, Err(message));
    check(&all, 1, Some(100), Ok(101));
    let one_vote = "Non force replica set reconfig can only add or remove at most 1 voting member.";
    check(&all[..1], 2, None, Err(one_vote));
    check(&members(5), 2, None, Err(one_vote));
    check(&members(5), 2, Some(100), Ok(102));
    let moved = [all[0].clone(), doc! { "_id": 9, "host": "db1.example:27017" }.into()];
    let message = "New and old configurations both have members with host of db1.example:27017 but in the \
                   new configuration the _id field is 9 and in the old configuration it is 1 for replica \
                   set rs";
    check(&moved, 2, None, Err(message));
}

#[test]
fn copies_are_counted_by_votes_and_tags() {
    let in_east = doc! { "tags": { "dc": "east" } };
    let mut given = of(vec![
        with(member(0), in_east.clone()),
        with(member(1), in_east),
        with(member(2), doc! { "tags": { "dc": "west" } }),
        with(member(3), doc! { "tags": { "dc": "south" }, "votes": 0, "priority": 0 }),
    ]);
    given.push("settings", doc! { "getLastErrorModes": { "two": { "dc": 2 }, "four": { "dc": 4 } } });
    let config = parse(&given).expect("a good configuration");
    let check = |copies: Copies, has: &[i32], expected: bool| {
        let met = config.has_copies(&copies, |member| has.contains(&member.id));
        assert_eq!(met, expected, "{copies:?} on {has:?}");
    };
    check(Copies::Majority, &[0, 3], false);
    check(Copies::Majority, &[0, 2], true);
    check(Copies::Members(2), &[0, 3], true);
    check(Copies::Members(3), &[0, 3], false);
    check(Copies::Mode("two".into()), &[0, 1], false);
    check(Copies::Mode("two".into()), &[1, 3], true);
    let unmet = |copies: Copies| config.check_copies(&copies).map_err(|error| (error.code, error.message));
    assert_eq!(unmet(Copies::Members(4)), Ok(()));
    let message = "Not enough data-bearing nodes".to_owned();
    assert_eq!(unmet(Copies::Members(5)), Err((ErrorCode::UnsatisfiableWriteConcern, message)));
    let message = "Not enough nodes match write concern mode \"four\"".to_owned();
    assert_eq!(unmet(Copies::Mode("four".into())), Err((ErrorCode::UnsatisfiableWriteConcern, message)));
    let message = "No write concern mode named 'x' found in replica set configuration".to_owned();
    assert_eq!(unmet(Copies::Mode("x".into())), Err((ErrorCode::UnknownReplWriteConcern, message)));
}
