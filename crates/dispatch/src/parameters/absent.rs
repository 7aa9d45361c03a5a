//! Parameters of MongoDB for what this server does not do. They are told as one tells that something is off,
//! and keep that value: whoever puts back what was there before succeeds, whoever asks for more hears that
//! there is none.

use super::SettingError;
use document::{RawValue, Value};

/// One of them.
#[derive(Debug)]
pub struct Absent {
    /// As MongoDB calls it.
    pub name: &'static str,
    /// What it is told as.
    pub value: Value,
    /// What the server does instead.
    pub reason: &'static str,
}

const ADMISSION: &str =
    "connections are not admitted by a rate; see overloadProtection and maxIncomingConnections";

/// All of them, by name.
pub static ABSENT: &[Absent] = &[
    absent("ingressConnectionEstablishmentBurstCapacitySecs", Value::Double(f64::MAX), ADMISSION),
    absent("ingressConnectionEstablishmentMaxQueueDepth", Value::Int32(0), ADMISSION),
    absent("ingressConnectionEstablishmentRateLimiterEnabled", Value::Boolean(false), ADMISSION),
    absent("ingressConnectionEstablishmentRatePerSec", Value::Int32(i32::MAX), ADMISSION),
];

const fn absent(name: &'static str, value: Value, reason: &'static str) -> Absent {
    Absent { name, value, reason }
}

impl Absent {
    /// The one of this name.
    pub fn by_name(name: &str) -> Option<&'static Absent> {
        ABSENT.iter().find(|absent| absent.name == name)
    }

    /// Takes the value it has and no other.
    ///
    /// # Errors
    /// The reason.
    pub fn keep(&self, given: RawValue<'_>) -> Result<(), SettingError> {
        let is_kept = match &self.value {
            Value::Boolean(kept) => match given {
                RawValue::Boolean(given) => given == *kept,
                number => number.as_f64().is_some_and(|number| (number != 0.0) == *kept),
            },
            kept => given.as_f64().is_some() && given.as_f64() == kept.as_f64(),
        };
        if is_kept {
            return Ok(());
        }
        Err(SettingError::Refused { name: self.name, reason: self.reason.to_owned() })
    }

    /// As [`Absent::keep`], of a value in text.
    ///
    /// # Errors
    /// The reason.
    pub fn keep_text(&self, given: &str) -> Result<(), SettingError> {
        match (given, given.parse()) {
            ("true", _) => self.keep(RawValue::Boolean(true)),
            ("false", _) => self.keep(RawValue::Boolean(false)),
            (_, Ok(number)) => self.keep(RawValue::Double(number)),
            (text, Err(_)) => self.keep(RawValue::String(text)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_value_it_has_is_taken() {
        const LIMITER: &str = "ingressConnectionEstablishmentRateLimiterEnabled";
        let enabled = Absent::by_name(LIMITER).expect("a parameter of others");
        assert_eq!(enabled.keep(RawValue::Boolean(false)), Ok(()));
        assert_eq!(enabled.keep(RawValue::Int32(0)), Ok(()));
        assert_eq!(enabled.keep_text("false"), Ok(()));
        let refused = enabled.keep_text("true").expect_err("nothing is limited");
        assert_eq!(refused.to_string(), format!("invalid value for parameter {LIMITER}: {ADMISSION}"));
        assert_eq!(enabled.keep(RawValue::Boolean(true)), Err(refused));
        let depth = Absent::by_name("ingressConnectionEstablishmentMaxQueueDepth");
        let depth = depth.expect("a parameter of others");
        assert_eq!((depth.keep(RawValue::Double(0.0)), depth.keep_text("0")), (Ok(()), Ok(())));
        assert!(depth.keep(RawValue::Int32(1)).is_err() && depth.keep(RawValue::String("0")).is_err());
    }

    #[test]
    fn none_is_a_parameter_as_well() {
        for absent in ABSENT {
            assert!(super::super::Parameter::by_name(absent.name).is_none(), "{}", absent.name);
        }
    }
}
