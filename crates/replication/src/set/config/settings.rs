//! What holds for the whole set.

use super::fields::{Fields, double, invalid};
use crate::set::SetError;
use document::{Document, ObjectId, RawDocument, RawValue, Value, doc};
use std::time::Duration;

/// `settings`.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// `chainingAllowed`: a member without a vote may follow another one than the primary.
    pub chaining_allowed: bool,
    /// `heartbeatIntervalMillis`.
    pub heartbeat_interval: Duration,
    /// `heartbeatTimeoutSecs`: who has not answered for this long is taken for dead.
    pub heartbeat_timeout: Duration,
    /// `electionTimeoutMillis`: without word from a primary for this long, up to twice as long, a member asks
    /// for an election; a primary that a majority has not answered for this long steps down.
    pub election_timeout: Duration,
    /// `catchUpTimeoutMillis`, which is kept and told: who is elected has all that was committed already.
    pub catch_up_timeout_ms: i64,
    /// `catchUpTakeoverDelayMillis`, as well.
    pub catch_up_takeover_delay_ms: i64,
    /// `getLastErrorModes`: write concerns by name.
    pub modes: Vec<Mode>,
    /// `readFreshness`: what every read of a member of the set demands that says nothing else.
    pub read_freshness: Option<DefaultReadFreshness>,
    /// `replicaSetId`; `None` in what an operator writes.
    pub set_id: Option<ObjectId>,
}

/// A process that waits for a processor for longer would be taken for dead.
const ELECTION_TIMEOUT_MS_MIN: i64 = 50;

/// How fresh the data are to be that a read gets (Heddle's own).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DefaultReadFreshness {
    /// `maxStalenessMS`: what was acknowledged longer ago is seen.
    pub staleness_max: Duration,
    /// `waitMS`: how long fresher data are waited for.
    pub wait: Duration,
}

/// A name, and how many values of which tags it wants.
pub type Mode = (String, Vec<(String, usize)>);

impl Default for Settings {
    fn default() -> Self {
        Settings {
            chaining_allowed: true,
            heartbeat_interval: Duration::from_secs(2),
            heartbeat_timeout: Duration::from_secs(10),
            election_timeout: Duration::from_secs(1),
            catch_up_timeout_ms: -1,
            catch_up_takeover_delay_ms: 30_000,
            modes: Vec::new(),
            read_freshness: None,
            set_id: None,
        }
    }
}

impl Settings {
    /// Fields that it does not know are passed over, as MongoDB does.
    pub(super) fn parse(document: RawDocument<'_>) -> Result<Self, SetError> {
        let mut fields = Fields::new("ReplSetConfig.settings", document)?;
        let default = Settings::default();
        let settings = Settings {
            chaining_allowed: fields.truth("chainingAllowed")?.unwrap_or(default.chaining_allowed),
            heartbeat_interval: time(
                &mut fields,
                "heartbeatIntervalMillis",
                (1, 1),
                default.heartbeat_interval,
            )?,
            heartbeat_timeout: time(
                &mut fields,
                "heartbeatTimeoutSecs",
                (1, 1000),
                default.heartbeat_timeout,
            )?,
            election_timeout: time(
                &mut fields,
                "electionTimeoutMillis",
                (ELECTION_TIMEOUT_MS_MIN, 1),
                default.election_timeout,
            )?,
            catch_up_timeout_ms: fields
                .exact("catchUpTimeoutMillis", -1..=i64::MAX)?
                .unwrap_or(default.catch_up_timeout_ms),
            catch_up_takeover_delay_ms: fields
                .exact("catchUpTakeoverDelayMillis", -1..=i64::MAX)?
                .unwrap_or(default.catch_up_takeover_delay_ms),
            modes: fields.document("getLastErrorModes")?.map_or(Ok(Vec::new()), modes)?,
            read_freshness: fields.document("readFreshness")?.map(read_freshness).transpose()?,
            set_id: set_id(&mut fields)?,
        };
        check_defaults(fields.document("getLastErrorDefaults")?)?;
        Ok(settings)
    }

    pub(super) fn to_document(&self) -> Document {
        let modes = self.modes.iter().map(|(name, tags)| {
            let tags = tags.iter().map(|(tag, count)| (tag.as_str(), Value::from(*count as i32)));
            (name.as_str(), Value::from(tags.collect::<Document>()))
        });
        let mut document = doc! {
            "chainingAllowed": (self.chaining_allowed),
            "heartbeatIntervalMillis": (small(self.heartbeat_interval.as_millis() as i64)),
            "heartbeatTimeoutSecs": (small(self.heartbeat_timeout.as_secs() as i64)),
            "electionTimeoutMillis": (small(self.election_timeout.as_millis() as i64)),
            "catchUpTimeoutMillis": (small(self.catch_up_timeout_ms)),
            "catchUpTakeoverDelayMillis": (small(self.catch_up_takeover_delay_ms)),
            "getLastErrorModes": (modes.collect::<Document>()),
            "getLastErrorDefaults": { "w": 1, "wtimeout": 0 },
        };
        if let Some(DefaultReadFreshness { staleness_max, wait }) = self.read_freshness {
            let (staleness, wait) = (staleness_max.as_millis() as i64, wait.as_millis() as i64);
            let shown = doc! { "maxStalenessMS": (small(staleness)), "waitMS": (small(wait)) };
            document.push("readFreshness", shown);
        }
        if let Some(id) = self.set_id {
            document.push("replicaSetId", id);
        }
        document
    }
}

/// A number in the smallest type that holds it.
pub(super) fn small(number: i64) -> Value {
    i32::try_from(number).map_or(Value::Int64(number), Value::Int32)
}

/// A time of at least so many units of so many milliseconds.
fn time(
    fields: &mut Fields<'_>,
    name: &str,
    (least, unit_ms): (i64, u64),
    default: Duration,
) -> Result<Duration, SetError> {
    let number = fields.exact(name, least..=i64::from(i32::MAX))?;
    Ok(number.map_or(default, |number| Duration::from_millis(number.unsigned_abs() * unit_ms)))
}

fn read_freshness(document: RawDocument<'_>) -> Result<DefaultReadFreshness, SetError> {
    let mut fields = Fields::new("ReplSetConfig.settings.readFreshness", document)?;
    let mut milliseconds = |name: &str| {
        let number = fields.exact(name, 0..=i64::from(i32::MAX))?;
        Ok(number.map(|number| Duration::from_millis(number.unsigned_abs())))
    };
    let (staleness_max, wait) = (milliseconds("maxStalenessMS")?, milliseconds("waitMS")?);
    let staleness_max = staleness_max.ok_or_else(|| fields.missing("maxStalenessMS"))?;
    fields.finish()?;
    Ok(DefaultReadFreshness { staleness_max, wait: wait.unwrap_or_default() })
}

fn set_id(fields: &mut Fields<'_>) -> Result<Option<ObjectId>, SetError> {
    match fields.take("replicaSetId") {
        None => Ok(None),
        Some(RawValue::ObjectId(id)) if id.bytes() != [0; 12] => Ok(Some(id)),
        Some(RawValue::ObjectId(_)) => Err(invalid("replicaSetId field value cannot be null")),
        Some(other) => Err(fields.wrong_type("replicaSetId", other, "type 'objectId'")),
    }
}

fn modes(document: RawDocument<'_>) -> Result<Vec<Mode>, SetError> {
    const FIELD: &str = "getLastErrorModes";
    let mut modes: Vec<Mode> = Vec::new();
    for mode in document {
        let name = mode.name();
        if modes.iter().any(|(known, _)| known == name) {
            return Err(invalid(format!("{FIELD} contains multiple fields named {name}")));
        }
        let RawValue::Document(tags) = mode.value() else {
            let found = mode.value().kind().alias();
            return Err(invalid(format!("Expected {FIELD}.{name} to be an Object, not {found}")));
        };
        let mut wanted = Vec::new();
        for tag in tags {
            let place = format!("{FIELD}.{name}.{}", tag.name());
            let Some(count) = double(tag.value()) else {
                let found = tag.value().kind().alias();
                return Err(invalid(format!("Expected {place} to be a number, not {found}")));
            };
            // As MongoDB: NaN counts for nothing, and what is too large for the largest there is.
            let count = count as i32;
            if count < 1 {
                return Err(invalid(format!("Value of {place} must be positive, but found {count}")));
            }
            wanted.push((tag.name().to_owned(), count.unsigned_abs() as usize));
        }
        modes.push((name.to_owned(), wanted));
    }
    Ok(modes)
}

/// A default write concern of the set's configuration is a thing of the past.
fn check_defaults(defaults: Option<RawDocument<'_>>) -> Result<(), SetError> {
    let Some(defaults) = defaults else { return Ok(()) };
    let mut fields = Fields::new("ReplSetConfig.settings.getLastErrorDefaults", defaults)?;
    let w = fields.take("w").map(double);
    let wtimeout = fields.whole("wtimeout", i64::MIN..=i64::MAX)?.unwrap_or(0);
    let syncs = ["j", "fsync"].into_iter().any(|name| fields.take(name).is_some());
    fields.finish()?;
    if matches!(w, None | Some(Some(1.0))) && wtimeout == 0 && !syncs {
        return Ok(());
    }
    Err(invalid(
        "Replica set config contains customized getLastErrorDefaults, which has been deprecated and is now \
         ignored. Use setDefaultRWConcern instead to set a cluster-wide default writeConcern.",
    ))
}
