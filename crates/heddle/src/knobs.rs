//! The knobs of storage: from the parameters to the store, at the start and while the server runs.

use crate::machine::Machine;
use crate::sizing::Sizes;
use dispatch::parameters::{Parameter, Parameters, Setting, parse_wired_tiger};
use std::sync::{Arc, Weak};
use std::time::Duration;
use storage::{StorageKnobs, StorageOptions, Store};

const MIB: u64 = 1 << 20;
const GIB: f64 = (1_u64 << 30) as f64;
/// Up to here a dirty target or trigger is a share of the cache in percent; beyond, it is in bytes.
const PERCENT_MAX: u64 = 100;
/// The share is of no less than so many memtables: of a small cache it would be a small part of one, and
/// compaction would rewrite the level below for each of many small files, until commits wait for it.
const MEMTABLES_IN_CACHE: u64 = 16;

/// The parameters that change what the store does.
const KNOBS: &[Parameter] = &[
    Parameter::CacheSizeMb,
    Parameter::RowCachePercent,
    Parameter::MemtableSizeMb,
    Parameter::BackgroundMbPerSecond,
    Parameter::LatencyTarget,
    Parameter::DirtyTarget,
    Parameter::DirtyTrigger,
    Parameter::BackgroundThreadsMin,
    Parameter::BackgroundThreadsMax,
    Parameter::SyncDelay,
    Parameter::JournalSizeMb,
];

/// The size of the cache by mongod's name, in bytes; 0 when it is not given.
pub(crate) fn wired_tiger_cache(parameters: &Parameters) -> u64 {
    let gib = parameters.text(Parameter::WiredTigerCacheSizeGb).parse::<f64>().unwrap_or(0.0);
    (gib * GIB) as u64
}

/// As these, with what the parameters say of the knobs; the caches are sized already.
pub(crate) fn storage(options: StorageOptions, parameters: &Parameters) -> StorageOptions {
    let given = |parameter| Some(parameters.unsigned(parameter)).filter(|value| *value > 0);
    let threads = |parameter| given(parameter).and_then(|threads| u32::try_from(threads).ok());
    let cache_bytes = options.cache_bytes + options.row_cache_bytes;
    let shared_bytes = cache_bytes.max(MEMTABLES_IN_CACHE * options.memtable_bytes);
    let bytes = |parameter| {
        given(parameter).map(|dirty| match dirty {
            ..=PERCENT_MAX => (shared_bytes / 100 * dirty).max(1),
            bytes => bytes,
        })
    };
    let budget = given(Parameter::BackgroundMbPerSecond).map(|mib| mib * MIB);
    StorageOptions {
        io_budget_bytes_per_second: budget.unwrap_or(options.io_budget_bytes_per_second),
        latency_target: Duration::from_millis(parameters.unsigned(Parameter::LatencyTarget)),
        dirty_target_bytes: bytes(Parameter::DirtyTarget),
        dirty_trigger_bytes: bytes(Parameter::DirtyTrigger),
        background_jobs: threads(Parameter::BackgroundThreadsMax).unwrap_or(options.background_jobs),
        background_jobs_min: threads(Parameter::BackgroundThreadsMin).unwrap_or(0),
        flush_interval: Duration::from_secs(parameters.unsigned(Parameter::SyncDelay)),
        journal_bytes_max: parameters.unsigned(Parameter::JournalSizeMb) * MIB,
        ..options
    }
}

fn knobs(machine: &Machine, parameters: &Parameters) -> Result<StorageKnobs, String> {
    let options = storage(Sizes::choose(machine, parameters).storage(), parameters);
    options.validate()?;
    Ok(options.knobs())
}

/// Changes the store with the parameters, and tells it what it would do without any.
pub(crate) fn watch(parameters: &Arc<Parameters>, machine: &Machine, store: &Store) {
    if let Ok(defaults) = knobs(machine, &Parameters::default()) {
        store.note_default_knobs(defaults);
    }
    for parameter in KNOBS {
        let change = change(parameters, machine, store);
        parameters.watch(*parameter, move |setting| change(&[(*parameter, setting.clone())]));
    }
    let (change, parameters_of) = (change(parameters, machine, store), Arc::downgrade(parameters));
    parameters.watch(Parameter::WiredTigerConfig, move |setting| {
        let Setting::Text(text) = setting else { return Ok(()) };
        let changed: Vec<_> = parse_wired_tiger(text)?
            .into_iter()
            .map(|(knob, value)| (knob, Setting::Integer(value)))
            .collect();
        change(&changed)?;
        // In force already, all together: they are put down without asking for each of them.
        let parameters = parameters_of.upgrade();
        let put_down = |(knob, setting): (Parameter, Setting)| match &parameters {
            Some(parameters) => parameters.record(knob, setting).map_err(|error| error.to_string()),
            None => Ok(()),
        };
        changed.into_iter().try_for_each(put_down)
    });
}

/// What brings changed parameters into effect, or refuses them.
fn change(
    parameters: &Arc<Parameters>,
    machine: &Machine,
    store: &Store,
) -> impl Fn(&[(Parameter, Setting)]) -> Result<(), String> + Send + Sync + use<> {
    let (parameters, machine, store): (Weak<Parameters>, _, _) =
        (Arc::downgrade(parameters), machine.clone(), store.clone());
    move |changed| {
        let Some(parameters) = parameters.upgrade() else { return Ok(()) };
        // As they will be: a watcher is asked before its value is put down.
        let next = Parameters::default();
        for parameter in KNOBS.iter().chain(&[Parameter::WiredTigerCacheSizeGb, Parameter::MemoryLimitMb]) {
            next.record(*parameter, parameters.get(*parameter)).map_err(|error| error.to_string())?;
        }
        for (parameter, setting) in changed {
            next.record(*parameter, setting.clone()).map_err(|error| error.to_string())?;
        }
        Sizes::choose(&machine, &parameters).followed_by(Sizes::choose(&machine, &next))?;
        store.set_knobs(knobs(&machine, &next)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use storage::EngineShape;

    fn machine() -> Machine {
        Machine {
            memory: 24_000 * MIB,
            memory_limit: None,
            processors: 2,
            allowed_processors: 2,
            processor_quota: None,
        }
    }

    fn server() -> (Arc<Parameters>, Store) {
        let parameters = Arc::new(Parameters::default());
        let options = storage(Sizes::choose(&machine(), &parameters).storage(), &parameters);
        let store =
            Store::in_memory(&StorageOptions { row_cache_bytes: 1 << 20, ..options }).expect("it opens");
        watch(&parameters, &machine(), &store);
        (parameters, store)
    }

    #[track_caller]
    fn change(parameters: &Parameters, parameter: Parameter, value: i64) {
        parameters.change(parameter, Setting::Integer(value)).expect("allowed");
    }

    #[test]
    fn each_knob_reaches_the_store() {
        let (parameters, store) = server();
        let before = store.knobs();
        change(&parameters, Parameter::CacheSizeMb, 1_000);
        change(&parameters, Parameter::RowCachePercent, 10);
        change(&parameters, Parameter::MemtableSizeMb, 20);
        change(&parameters, Parameter::BackgroundMbPerSecond, 100);
        change(&parameters, Parameter::LatencyTarget, 7);
        change(&parameters, Parameter::DirtyTrigger, 25);
        change(&parameters, Parameter::DirtyTarget, 1_000_000);
        change(&parameters, Parameter::BackgroundThreadsMax, 12);
        change(&parameters, Parameter::BackgroundThreadsMin, 8);
        change(&parameters, Parameter::SyncDelay, 25);
        change(&parameters, Parameter::JournalSizeMb, 512);
        let expected = StorageKnobs {
            cache_bytes: 900 * MIB,
            row_cache_bytes: 100 * MIB,
            shape: EngineShape { memtable_bytes: 20 * MIB, ..before.shape },
            build_memory_bytes: before.build_memory_bytes,
            io_budget_bytes_per_second: 100 * MIB,
            latency_target: Duration::from_millis(7),
            dirty_target_bytes: Some(1_000_000),
            dirty_trigger_bytes: Some(1_000 * MIB / 100 * 25),
            background_jobs_min: 8,
            background_jobs_max: 12,
            journal_bytes_max: 512 * MIB,
            flush_interval: Duration::from_secs(25),
        };
        let close = |one: u64, other: u64| one.abs_diff(other) < MIB;
        let found = store.knobs();
        assert!(close(found.cache_bytes, expected.cache_bytes) && close(found.row_cache_bytes, 100 * MIB));
        let (cache_bytes, row_cache_bytes) = (found.cache_bytes, found.row_cache_bytes);
        assert_eq!(found, StorageKnobs { cache_bytes, row_cache_bytes, ..expected });
        assert_eq!(store.statistics().budget.default_knobs.latency_target, before.latency_target);
    }

    #[test]
    fn a_dirty_target_in_percent_of_a_small_cache_leaves_files_of_a_usual_size() {
        let (parameters, store) = server();
        change(&parameters, Parameter::CacheSizeMb, 100);
        change(&parameters, Parameter::DirtyTrigger, 20);
        change(&parameters, Parameter::DirtyTarget, 5);
        let knobs = store.knobs();
        let share = |percent| Some(16 * knobs.shape.memtable_bytes / 100 * percent);
        assert_eq!((knobs.dirty_target_bytes, knobs.dirty_trigger_bytes), (share(5), share(20)));
        assert!(share(5) >= Some(knobs.shape.memtable_bytes / 2));
        change(&parameters, Parameter::MemtableSizeMb, 4);
        let knobs = store.knobs();
        let cache_bytes = knobs.cache_bytes + knobs.row_cache_bytes;
        assert_eq!(knobs.dirty_target_bytes, Some(cache_bytes / 100 * 5), "the cache is more than sixteen");
    }

    #[test]
    fn memtables_that_would_take_half_of_the_memory_are_refused() {
        let (parameters, store) = server();
        let before = store.knobs();
        let refused = parameters.change(Parameter::MemtableSizeMb, Setting::Integer(1_024));
        let expect = "memtables of 1024 MiB need at least 28672 MiB, and the process may use 24000";
        assert!(refused.expect_err("fourteen of them").to_string().ends_with(expect));
        assert_eq!((store.knobs(), parameters.integer(Parameter::MemtableSizeMb)), (before, 0));
    }

    #[test]
    fn what_contradicts_itself_is_refused_and_changes_nothing() {
        let (parameters, store) = server();
        change(&parameters, Parameter::DirtyTrigger, 3);
        let before = store.knobs();
        let refused = parameters.change(Parameter::DirtyTarget, Setting::Integer(5)).expect_err("beyond it");
        let expect =
            "invalid value for parameter dirtyTarget: the dirty target must be lower than the dirty trigger";
        assert!(refused.to_string().starts_with(expect), "{refused}");
        assert_eq!((store.knobs(), parameters.integer(Parameter::DirtyTarget)), (before, 0));
    }

    #[test]
    fn wired_tigers_words_set_all_of_them_together() {
        let (parameters, store) = server();
        change(&parameters, Parameter::DirtyTrigger, 3);
        let set = |text: &str| parameters.change(Parameter::WiredTigerConfig, Setting::Text(text.to_owned()));
        // One after the other the target would be beyond the trigger.
        let article = "eviction_dirty_target=5,eviction_dirty_trigger=25,\
            eviction=(threads_min=3,threads_max=4),checkpoint=(wait=25,log_size=1GB)";
        set(article).expect("the article's own");
        let knobs = store.knobs();
        assert_eq!((knobs.background_jobs_min, knobs.background_jobs_max), (3, 4));
        assert_eq!((knobs.flush_interval, knobs.journal_bytes_max), (Duration::from_secs(25), 1 << 30));
        assert_eq!(parameters.integer(Parameter::DirtyTarget), 5, "getParameter tells them");
        let refused = set("cash_size=1").expect_err("unknown").to_string();
        assert!(refused.contains("WiredTiger reconfiguration failed with error code (22)"), "{refused}");
        set("eviction=(threads_min=9)").expect_err("more than at most");
        assert_eq!((store.knobs(), parameters.integer(Parameter::BackgroundThreadsMin)), (knobs, 3));
    }

    #[test]
    fn mongods_name_for_the_cache_counts_where_ours_says_nothing() {
        let parameters = Parameters::default();
        parameters.set(Parameter::WiredTigerCacheSizeGb, Setting::Text("0.5".to_owned())).expect("allowed");
        assert_eq!(Sizes::choose(&machine(), &parameters).cache, 512 * MIB);
        parameters.set(Parameter::CacheSizeMb, Setting::Integer(100)).expect("allowed");
        assert_eq!(Sizes::choose(&machine(), &parameters).cache, 100 * MIB);
    }
}
