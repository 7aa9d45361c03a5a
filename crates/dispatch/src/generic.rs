//! Arguments that every command accepts: session, time limit, concerns, API version.
//!
//! Source: MongoDB manual, "Command Parameters", "Read Concern", "Write Concern", "Stable API".

use crate::concern::{ReadConcern, WriteConcern, allows_secondary};
use crate::error::{CommandError, CommandResult, code};
use crate::fields::{integer, wrong_type};
use crate::freshness::{READ_FRESHNESS, ReadFreshness};
use crate::sessions::LogicalSessionId;
use document::{Element, RawDocument, RawValue};
use std::time::Duration;

/// The generic arguments of one command.
#[derive(Debug, Default, Clone)]
pub struct GenericArguments<'a> {
    /// `$db`.
    pub database: Option<&'a str>,
    /// `lsid`: the user's own one, unless another's was named and may be.
    pub session: Option<LogicalSessionId>,
    /// `maxTimeMS`; zero counts as none.
    pub max_time: Option<Duration>,
    /// `comment`.
    pub comment: Option<RawValue<'a>>,
    /// `readConcern`.
    pub read_concern: ReadConcern,
    /// `$readFreshness`.
    pub freshness: Option<ReadFreshness>,
    /// The same within a document that is the `comment`.
    pub freshness_in_comment: Option<ReadFreshness>,
    /// `writeConcern`; `None` when not given.
    pub write_concern: Option<WriteConcern>,
    /// `$readPreference` lets a secondary answer.
    pub allows_secondary: bool,
    /// `$clusterTime`, as sent.
    pub cluster_time: Option<RawValue<'a>>,
    /// `apiVersion`.
    pub api_version: Option<ApiVersion>,
    /// `apiStrict`.
    pub api_strict: bool,
    /// `apiDeprecationErrors`.
    pub api_deprecation_errors: bool,
    /// `txnNumber`: counts the retryable writes of the session.
    pub txn_number: Option<i64>,
    /// `autocommit` or `startTransaction` were given.
    pub in_transaction: bool,
    /// `help: true`: what the command does is told, and nothing is done.
    pub help: bool,
}

/// A set of commands and fields that stays as it is (`apiVersion`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApiVersion {
    /// What applications use.
    One,
    /// Commands that test clients; taken with `acceptApiVersion2` only.
    Two,
}

impl ApiVersion {
    /// The version as clients write it.
    pub const fn name(self) -> &'static str {
        match self {
            ApiVersion::One => "1",
            ApiVersion::Two => "2",
        }
    }
}

impl<'a> GenericArguments<'a> {
    /// Takes the element when it is a generic argument. False when it belongs to the command.
    ///
    /// # Errors
    /// Values of a wrong type.
    pub fn take(&mut self, command: &'static str, element: Element<'a>) -> CommandResult<bool> {
        let name = element.name_bytes();
        // Most fields of commands begin with other letters; one look at the first byte settles them.
        if !matches!(
            name.first(),
            Some(b'$' | b'l' | b'm' | b'c' | b'r' | b'w' | b'a' | b't' | b's' | b'd' | b'h')
        ) {
            return Ok(false);
        }
        let value = element.value();
        if matches!(value, RawValue::Null | RawValue::Undefined) && NULL_IS_NONE.contains(&name) {
            return Ok(true);
        }
        match name {
            b"help" => self.help = is_true(value),
            b"$db" => self.database = Some(text(command, "$db", value)?),
            b"lsid" => self.session = Some(LogicalSessionId::parse(object(command, "lsid", value)?, "lsid")?),
            b"maxTimeMS" => self.max_time = max_time(command, value)?,
            b"comment" => {
                self.comment = Some(value);
                let freshness =
                    value.as_document().and_then(|comment| comment.get(READ_FRESHNESS)?.as_document());
                self.freshness_in_comment = freshness.map(ReadFreshness::parse).transpose()?;
            }
            b"$readFreshness" => {
                self.freshness = Some(ReadFreshness::parse(object(command, READ_FRESHNESS, value)?)?)
            }
            b"readConcern" => self.read_concern = ReadConcern::parse(object(command, "readConcern", value)?)?,
            b"writeConcern" => {
                self.write_concern = Some(WriteConcern::parse(object(command, "writeConcern", value)?)?)
            }
            b"$readPreference" => self.allows_secondary = allows_secondary(value)?,
            b"$clusterTime" => self.cluster_time = Some(value),
            b"apiVersion" => self.api_version = Some(api_version(text(command, "apiVersion", value)?)?),
            b"apiStrict" => self.api_strict = flag(command, "apiStrict", value)?,
            b"apiDeprecationErrors" => {
                self.api_deprecation_errors = flag(command, "apiDeprecationErrors", value)?
            }
            b"txnNumber" => self.txn_number = Some(txn_number(value)?),
            b"autocommit" | b"startTransaction" => self.in_transaction = true,
            b"$audit"
            | b"$client"
            | b"$configServerState"
            | b"$configTime"
            | b"$topologyTime"
            | b"$oplogQueryData"
            | b"$replData"
            | b"$queryOptions"
            | b"$tenant"
            | b"coordinator"
            | b"clientOperationKey"
            | b"databaseVersion"
            | b"shardVersion"
            | b"mayBypassWriteBlocking"
            | b"tracking_info"
            | b"maxTimeMSOpOnly"
            | b"allowImplicitCollectionCreation" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Checks what concerns several arguments, on a member of a replica set or not.
    ///
    /// # Errors
    /// API parameters without a version, concerns that the server does not know.
    pub fn validate(&self, is_member: bool) -> CommandResult {
        if self.api_version.is_none() && (self.api_strict || self.api_deprecation_errors) {
            let given = if self.api_strict { "apiStrict" } else { "apiDeprecationErrors" };
            let message = format!("Provided {given}, without passing apiVersion");
            return Err(CommandError::new(code::API_VERSION_ERROR, message));
        }
        self.read_concern.check(is_member)?;
        match &self.write_concern {
            Some(concern) if !is_member => concern.check_alone(),
            _ => Ok(()),
        }
    }

    /// Checks the transaction number, given what kind of server and of command it is for.
    ///
    /// # Errors
    /// A number where there are none, without a session, below zero, or for a command that is no retryable
    /// write; transactions of several statements.
    pub fn check_txn_number(&self, is_member: bool, command: &str, is_retryable: bool) -> CommandResult {
        if self.txn_number.is_none() && !self.in_transaction {
            return Ok(());
        }
        if !is_member {
            return Err(CommandError::new(
                code::ILLEGAL_OPERATION,
                "Transaction numbers are only allowed on a replica set member or mongos",
            ));
        }
        if self.in_transaction {
            let message = "transactions of several statements are not supported";
            return Err(CommandError::new(code::COMMAND_NOT_SUPPORTED, message));
        }
        if self.session.is_none() {
            let message = "Transaction number requires a session ID to also be specified";
            return Err(CommandError::invalid_options(message));
        }
        if self.txn_number.is_some_and(|number| number < 0) {
            return Err(CommandError::invalid_options("Transaction number cannot be negative"));
        }
        if !is_retryable {
            let message = format!(
                "txnNumber may only be provided for multi-document transactions and retryable write \
                 commands. autocommit:false was not provided, and {command} is not a retryable write command."
            );
            return Err(CommandError::new(wire::ErrorCode::NotARetryableWriteCommand as i32, message));
        }
        Ok(())
    }
}

/// Arguments that may be null, which is as if they were not there.
const NULL_IS_NONE: [&[u8]; 9] = [
    b"lsid",
    b"maxTimeMS",
    b"comment",
    b"readConcern",
    b"writeConcern",
    b"$readPreference",
    b"apiVersion",
    b"apiStrict",
    b"apiDeprecationErrors",
];

fn txn_number(value: RawValue<'_>) -> CommandResult<i64> {
    match value {
        RawValue::Int64(number) => Ok(number),
        other => Err(wrong_type("OperationSessionInfoFromClient", "txnNumber", other.kind(), &["long"])),
    }
}

fn api_version(name: &str) -> CommandResult<ApiVersion> {
    match name {
        "1" => Ok(ApiVersion::One),
        "2" => Ok(ApiVersion::Two),
        _ => Err(CommandError::new(code::API_VERSION_ERROR, "API version must be \"1\"")),
    }
}

/// Whether a flag of any type is set: all but false, zero, null and undefined counts.
fn is_true(value: RawValue<'_>) -> bool {
    match value {
        RawValue::Boolean(flag) => flag,
        RawValue::Null | RawValue::Undefined => false,
        RawValue::Double(number) => number != 0.0,
        other => integer(other) != Some(0),
    }
}

fn text<'a>(command: &'static str, name: &str, value: RawValue<'a>) -> CommandResult<&'a str> {
    value.as_str().ok_or_else(|| wrong_type(command, name, value.kind(), &["string"]))
}

fn object<'a>(command: &'static str, name: &str, value: RawValue<'a>) -> CommandResult<RawDocument<'a>> {
    value.as_document().ok_or_else(|| wrong_type(command, name, value.kind(), &["object"]))
}

fn flag(command: &'static str, name: &str, value: RawValue<'_>) -> CommandResult<bool> {
    value.as_bool().ok_or_else(|| wrong_type(command, name, value.kind(), &["bool"]))
}

fn max_time(command: &'static str, value: RawValue<'_>) -> CommandResult<Option<Duration>> {
    let Some(number) = integer(value) else {
        return Err(CommandError::bad_value("maxTimeMS must be a number"));
    };
    if command == "aggregate" && number < 0 {
        let message = format!("BSON field 'maxTimeMS' value must be >= 0, actual value '{number}'");
        return Err(CommandError::new(code::VALUE_OUT_OF_BOUNDS, message));
    }
    if matches!(value, RawValue::Double(double) if double.fract() != 0.0) {
        return Err(CommandError::bad_value("maxTimeMS has non-integral value"));
    }
    if !(0..=i64::from(i32::MAX)).contains(&number) {
        let message = format!("{number} value for maxTimeMS is out of range [0, 2147483647]");
        return Err(CommandError::bad_value(message));
    }
    Ok((number > 0).then(|| Duration::from_millis(number.unsigned_abs())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::concern::W;
    use document::{Document, Timestamp, Value, doc};

    fn parse(command: Document) -> Result<(bool, bool, Option<u64>), i32> {
        let command = command.to_buf();
        let mut generic = GenericArguments::default();
        for element in command.as_raw() {
            assert!(
                generic.take("insert", element).map_err(|error| error.code)?,
                "{} is generic",
                element.name()
            );
        }
        generic.validate(false).map_err(|error| error.code)?;
        generic.check_txn_number(false, "insert", true).map_err(|error| error.code)?;
        let concern = generic.write_concern.unwrap_or_default();
        let unacknowledged = concern.w == Some(W::Members(0));
        Ok((unacknowledged, concern.is_journaled(), generic.max_time.map(|time| time.as_millis() as u64)))
    }

    fn check(command: Document, expect: Result<(bool, bool, Option<u64>), i32>) {
        let shown = format!("{command:?}");
        assert_eq!(parse(command), expect, "{shown}");
    }

    #[test]
    fn write_concerns_of_a_standalone() {
        check(doc! { "writeConcern": {} }, Ok((false, false, None)));
        check(doc! { "writeConcern": { "w": 0 } }, Ok((true, false, None)));
        check(doc! { "writeConcern": { "w": 1, "j": true, "wtimeout": 5 } }, Ok((false, true, None)));
        check(doc! { "writeConcern": { "w": "majority" } }, Ok((false, true, None)));
        check(doc! { "writeConcern": { "w": "majority", "j": false } }, Ok((false, false, None)));
        check(doc! { "writeConcern": { "w": 2 } }, Err(2));
        check(doc! { "writeConcern": { "w": "east" } }, Err(2));
        check(doc! { "writeConcern": { "w": 51 } }, Err(9));
        check(doc! { "writeConcern": { "x": 1 } }, Err(40415));
    }

    #[test]
    fn read_concerns_of_a_standalone() {
        check(doc! { "readConcern": { "level": "majority" } }, Ok((false, false, None)));
        check(doc! { "readConcern": { "level": "linearizable" } }, Err(123));
        check(doc! { "readConcern": { "level": "strange" } }, Err(2));
        check(doc! { "readConcern": { "afterClusterTime": (Timestamp { time: 1, increment: 1 }) } }, Err(20));
    }

    #[test]
    fn transaction_numbers_on_a_member_of_a_set() {
        let check = |txn_number: i64, session: bool, in_transaction: bool, is_retryable: bool| {
            let session = session.then(|| LogicalSessionId::of_nobody([1; 16]));
            let generic = GenericArguments {
                session,
                txn_number: Some(txn_number),
                in_transaction,
                ..GenericArguments::default()
            };
            generic.check_txn_number(true, "ping", is_retryable).map_err(|error| error.code)
        };
        assert_eq!(check(0, true, false, true), Ok(()));
        assert_eq!(check(0, false, false, true), Err(72), "without a session");
        assert_eq!(check(-1, true, false, true), Err(72));
        assert_eq!(check(0, true, false, false), Err(50_768), "no retryable write");
        assert_eq!(check(0, true, true, true), Err(115), "a transaction of several statements");
        assert_eq!(GenericArguments::default().check_txn_number(true, "ping", false).map_err(|_| ()), Ok(()));
    }

    #[test]
    fn versions_transactions_and_limits() {
        check(doc! { "apiVersion": "1", "apiStrict": true }, Ok((false, false, None)));
        check(doc! { "apiVersion": "3" }, Err(322));
        check(doc! { "apiStrict": true }, Err(322));
        check(doc! { "txnNumber": 1_i64 }, Err(20));
        check(doc! { "txnNumber": 1 }, Err(14));
        check(doc! { "maxTimeMS": 0 }, Ok((false, false, None)));
        check(
            doc! {
                "maxTimeMS": (Value::Null), "comment": (Value::Null), "readConcern": (Value::Null),
                "lsid": (Value::Null)
            },
            Ok((false, false, None)),
        );
        check(
            doc! {
                "writeConcern": (Value::Null), "$readPreference": (Value::Null), "apiVersion": (Value::Null)
            },
            Ok((false, false, None)),
        );
        check(doc! { "maxTimeMS": 1.0 }, Ok((false, false, Some(1))));
        check(doc! { "maxTimeMS": (-1) }, Err(2));
        check(doc! { "maxTimeMS": "1" }, Err(2));
        check(doc! { "$readPreference": { "mode": "farthest" } }, Err(9));
    }
}
