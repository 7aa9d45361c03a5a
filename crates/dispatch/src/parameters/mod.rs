//! Every tunable has one definition, and everything that concerns it is made from that: see [`Definition`].

mod absent;
mod definition;
mod listener_limits;
mod markdown;
mod service_executor;
mod table;
mod wired_tiger;

pub use absent::{ABSENT, Absent};
pub use definition::{Definition, Kind, Setting, SettingError};
pub use listener_limits::parse_listener_limits;
pub use markdown::markdown;
pub use service_executor::{ExecutorChoice, SERVICE_EXECUTORS};
pub use table::{ALL, DEFINITIONS, Parameter};
pub use wired_tiger::{WiredTigerKnob, parse as parse_wired_tiger};

use parking_lot::RwLock;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};

/// Refuses a value or puts it into effect.
type Watcher = Box<dyn Fn(&Setting) -> Result<(), String> + Send + Sync>;

/// The values in force.
pub struct Parameters {
    slots: Vec<Slot>,
}

struct Slot {
    /// Booleans and integers: read on hot paths without a lock.
    number: AtomicI64,
    /// Texts.
    text: RwLock<String>,
    watchers: RwLock<Vec<Watcher>>,
}

impl Parameter {
    /// Its definition.
    #[expect(clippy::indexing_slicing, reason = "the enum and the table are made by one macro")]
    pub fn definition(self) -> &'static Definition {
        &DEFINITIONS[self as usize]
    }

    /// The parameter that `getParameter` and `setParameter` know by this name.
    pub fn by_name(name: &str) -> Option<Parameter> {
        let found = |parameter: &Parameter| {
            let definition = parameter.definition();
            definition.name == name && definition.is_server_parameter
        };
        ALL.iter().copied().find(found)
    }

    /// The tunable of this flag (without dashes).
    pub fn by_flag(flag: &str) -> Option<Parameter> {
        ALL.iter().copied().find(|parameter| parameter.definition().flag == Some(flag))
    }

    /// The tunable at this path of the YAML file.
    pub fn by_yaml(path: &str) -> Option<Parameter> {
        ALL.iter().copied().find(|parameter| parameter.definition().yaml == Some(path))
    }
}

impl Default for Parameters {
    fn default() -> Self {
        let parameters = Parameters { slots: ALL.iter().map(|_| Slot::empty()).collect() };
        for parameter in ALL {
            parameters.store(*parameter, &parameter.definition().default_setting());
        }
        parameters
    }
}

impl Slot {
    fn empty() -> Self {
        Slot { number: AtomicI64::new(0), text: RwLock::default(), watchers: RwLock::default() }
    }
}

impl Parameters {
    #[expect(clippy::indexing_slicing, reason = "there is a slot for every variant")]
    fn slot(&self, parameter: Parameter) -> &Slot {
        &self.slots[parameter as usize]
    }

    /// The value of a boolean tunable.
    #[inline]
    pub fn is_on(&self, parameter: Parameter) -> bool {
        self.integer(parameter) != 0
    }

    /// The value of an integer tunable.
    #[inline]
    pub fn integer(&self, parameter: Parameter) -> i64 {
        self.slot(parameter).number.load(Ordering::Relaxed)
    }

    /// The value of an integer tunable that cannot be negative.
    pub fn unsigned(&self, parameter: Parameter) -> u64 {
        self.integer(parameter).unsigned_abs()
    }

    /// The value of a text tunable.
    pub fn text(&self, parameter: Parameter) -> String {
        self.slot(parameter).text.read().clone()
    }

    /// The value of any tunable.
    pub fn get(&self, parameter: Parameter) -> Setting {
        match parameter.definition().kind {
            Kind::Boolean { .. } => Setting::Boolean(self.is_on(parameter)),
            Kind::Integer { .. } => Setting::Integer(self.integer(parameter)),
            Kind::Text { .. } | Kind::Choice { .. } | Kind::Form { .. } => {
                Setting::Text(self.text(parameter))
            }
        }
    }

    /// Sets a value at the start.
    ///
    /// # Errors
    /// A value out of range, or one that a watcher refuses.
    pub fn set(&self, parameter: Parameter, setting: Setting) -> Result<(), SettingError> {
        let setting = parameter.definition().validate(setting)?;
        for watcher in &*self.slot(parameter).watchers.read() {
            let name = parameter.definition().name;
            watcher(&setting).map_err(|reason| SettingError::Refused { name, reason })?;
        }
        self.store(parameter, &setting);
        Ok(())
    }

    /// Sets a value while the server runs; returns the one before.
    ///
    /// # Errors
    /// As [`Parameters::set`], and for tunables that are fixed at the start.
    pub fn change(&self, parameter: Parameter, setting: Setting) -> Result<Setting, SettingError> {
        let definition = parameter.definition();
        if !definition.changes_at_runtime {
            return Err(SettingError::OnlyAtStartup { name: definition.name });
        }
        let before = self.get(parameter);
        self.set(parameter, setting)?;
        Ok(before)
    }

    /// Puts down a value that has been brought into effect together with another parameter: its own watchers
    /// are not asked.
    ///
    /// # Errors
    /// A value out of range.
    pub fn record(&self, parameter: Parameter, setting: Setting) -> Result<(), SettingError> {
        self.store(parameter, &parameter.definition().validate(setting)?);
        Ok(())
    }

    /// Calls `watcher` before every change; an error refuses the value.
    pub fn watch(
        &self,
        parameter: Parameter,
        watcher: impl Fn(&Setting) -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.slot(parameter).watchers.write().push(Box::new(watcher));
    }

    fn store(&self, parameter: Parameter, setting: &Setting) {
        let slot = self.slot(parameter);
        match setting {
            Setting::Boolean(flag) => slot.number.store((*flag).into(), Ordering::Relaxed),
            Setting::Integer(number) => slot.number.store(*number, Ordering::Relaxed),
            Setting::Text(text) => slot.text.write().clone_from(text),
        }
    }
}

impl fmt::Debug for Parameters {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = ALL.iter().map(|parameter| (parameter.definition().name, self.get(*parameter)));
        formatter.debug_map().entries(values).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use document::RawValue;

    fn check(name: &str, value: RawValue<'_>, expect: Result<(), &str>) {
        let parameters = Parameters::default();
        let parameter = Parameter::by_name(name).expect("a server parameter");
        let result = parameter
            .definition()
            .convert(value)
            .and_then(|setting| parameters.change(parameter, setting))
            .map(drop)
            .map_err(|error| error.to_string());
        assert_eq!(result.as_ref().map(|_| ()).map_err(String::as_str), expect);
    }

    #[test]
    fn values_are_checked() {
        check("cursorTimeoutMillis", RawValue::Double(5.0), Ok(()));
        let range = "invalid value for parameter journalCommitInterval: 0 is not greater than or equal to 1";
        check("journalCommitInterval", RawValue::Int32(0), Err(range));
        let kind = "invalid value for parameter journalCommitInterval: expected a whole number, found string";
        check("journalCommitInterval", RawValue::String("x"), Err(kind));
        check(
            "enableTestCommands",
            RawValue::Boolean(true),
            Err("not allowed to change [enableTestCommands] at runtime"),
        );
    }

    #[test]
    fn watchers_refuse_or_apply() {
        let parameters = Parameters::default();
        parameters.watch(Parameter::LogLevel, |setting| match setting {
            Setting::Integer(3) => Err("three is too much".into()),
            _ => Ok(()),
        });
        assert!(parameters.set(Parameter::LogLevel, Setting::Integer(3)).is_err());
        assert_eq!(parameters.integer(Parameter::LogLevel), 0, "a refused value is not stored");
        assert!(parameters.set(Parameter::LogLevel, Setting::Integer(2)).is_ok());
        assert_eq!(parameters.integer(Parameter::LogLevel), 2);
    }

    #[test]
    fn names_are_unique_and_defaults_valid() {
        for (position, definition) in DEFINITIONS.iter().enumerate() {
            let twins = DEFINITIONS.iter().filter(|other| other.name == definition.name).count();
            assert_eq!(twins, 1, "{} is defined once", definition.name);
            definition.validate(definition.default_setting()).expect("the default is allowed");
            assert_eq!(ALL[position].definition().name, definition.name);
        }
    }
}
