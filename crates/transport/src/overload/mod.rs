//! Admission under overload: which requests are better refused at once than answered late.
//!
//! A queue that empties now and then absorbs a burst; one that never does only makes everybody wait. The two
//! differ in the *smallest* queueing delay within an interval (CoDel: Nichols and Jacobson, "Controlling
//! Queue Delay", ACM Queue 2012). When that stayed above the target, a share of the requests is refused, and
//! the share is adjusted once per interval so that the delay comes back to the target.
//! `docs/design/admission.md` explains the choices.

use crate::statistics::Figure;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The admission wants a request refused, if its client understands that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overload {
    /// What the client shall wait at least before it tries again.
    pub base_backoff: Duration,
}

/// The queueing delay that is accepted for long: `overloadTargetMillis`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OverloadTarget {
    /// Found from the time that requests take when they do not wait.
    #[default]
    Automatic,
    /// This delay.
    Fixed(Duration),
    /// Nothing is ever refused because of load.
    Off,
}

/// Requests that were to be refused, and those that were.
#[derive(Clone, Copy, Debug, Default)]
struct Refusals {
    wanted: u64,
    made: u64,
}

/// Requests executed so far, and the time that took; the calibration takes differences.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Served {
    pub(crate) requests: u64,
    pub(crate) time: Duration,
}

/// A request may wait as many times as long as it takes: the factor by which a client's latency may grow
/// before it is told.
const STRETCH: u32 = 100;
/// Delays shorter than this trouble nobody, however quick the requests are; most are retries of the scheduler
/// and of batches.
const LEAST_TARGET: Duration = Duration::from_millis(50);
/// Nobody is to wait longer for being queued behind slow requests.
const MOST_TARGET: Duration = Duration::from_millis(500);
/// An interval in targets: long enough for a burst that delays by a target to pass within it.
const INTERVAL_TARGETS: u32 = 4;
const LEAST_INTERVAL: Duration = Duration::from_millis(100);
const MOST_INTERVAL: Duration = Duration::from_secs(2);
/// Share of a new interval in the smoothed service time.
const SMOOTHING: f64 = 0.125;

/// The controller's gains, for an interval of four targets: poles near one half, whatever the load, because
/// the *admitted* share is multiplied. See the design page.
const INTEGRAL_GAIN: f64 = 0.06;
const DIFFERENTIAL_GAIN: f64 = 0.19;
/// The admitted share changes at most by these factors in one interval.
const STRONGEST_CUT: f64 = 0.5;
const STRONGEST_RISE: f64 = 1.25;
/// The delay is far under the target: what is refused now would not even wait.
const RECOVERY_DELAY: f64 = 0.25;
const RECOVERY_RISE: f64 = 1.5;
/// Some are always admitted, so that the end of the overload is seen.
const LEAST_ADMITTED: f64 = 0.05;
/// When no client understands refusals they relieve nobody: the few who would be refused most of the time for
/// nothing.
const LEAST_ADMITTED_IN_VAIN: f64 = 0.5;
/// Requests that waited for less than this part of a target are never refused: with it the queue never runs
/// empty by refusals.
const SPARED_PART: u32 = 2;

/// The hint for clients (`baseBackoffMS`).
const LEAST_BACKOFF: Duration = Duration::from_millis(10);
const MOST_BACKOFF: Duration = Duration::from_secs(10);

/// Spreads refusals evenly and without a period: 2^32 divided by the golden ratio.
const GOLDEN_STEP: u32 = 0x9E37_79B9;
const NOT_SEEN: u64 = u64::MAX;

/// The admission of one set of queues that work alike: the loops of one executor. Overloaded means that all
/// of them are.
pub(crate) struct Admitter {
    origin: Instant,
    /// The smallest delay in this interval, in nanoseconds.
    minimum: AtomicU64,
    /// Nanoseconds after `origin`.
    interval_ends: AtomicU64,
    /// The share of requests to refuse, in parts of 2^32; 0: not overloaded.
    refused_share: AtomicU32,
    /// Requests that waited no longer are admitted, in nanoseconds.
    spared_delay: AtomicU64,
    base_backoff_micros: AtomicU64,
    /// How long the last one waited of those that [`Admitter::note_wait`] was told of, in nanoseconds.
    last_wait: AtomicU64,
    tickets: AtomicU32,
    wanted_refused: AtomicU64,
    refused: AtomicU64,
    /// Tried once per interval and never waited for by requests. A leaf in the order of locks.
    rules: Mutex<Rules>,
}

/// What is decided once per interval.
struct Rules {
    setting: OverloadTarget,
    target: Duration,
    /// The mean time of a request, smoothed over intervals, in seconds.
    service_time: Option<f64>,
    served: Served,
    /// Requests that were to be refused, and those that were, until the last interval.
    refusals: Refusals,
    /// The part of the wanted refusals that clients understood.
    effect: f64,
    /// The smallest delay of the last interval, in seconds.
    minimum: f64,
    /// The share that is admitted; 1: not overloaded.
    admitted: f64,
    overloads: u64,
    intervals_overloaded: u64,
}

impl Admitter {
    pub(crate) fn new(setting: OverloadTarget, now: Instant) -> Self {
        let admitter = Self {
            origin: now,
            minimum: AtomicU64::new(NOT_SEEN),
            interval_ends: AtomicU64::new(0),
            refused_share: AtomicU32::new(0),
            spared_delay: AtomicU64::new(NOT_SEEN),
            base_backoff_micros: AtomicU64::new(0),
            last_wait: AtomicU64::new(0),
            tickets: AtomicU32::new(0),
            wanted_refused: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            rules: Mutex::new(Rules::new(setting)),
        };
        admitter.set_target(setting, now);
        admitter
    }

    /// Changes the setting; begins anew.
    pub(crate) fn set_target(&self, setting: OverloadTarget, now: Instant) {
        let mut rules = self.rules.lock();
        rules.change_setting(setting);
        self.minimum.store(NOT_SEEN, Ordering::Relaxed);
        self.publish(&rules, now);
    }

    /// Notes how long a request waited in its queue and says whether it is to be refused. `served` is asked
    /// once per interval.
    ///
    /// Costs three loads while all is well.
    #[inline]
    pub(crate) fn check(
        &self,
        delay: Duration,
        now: Instant,
        served: impl FnOnce() -> Served,
    ) -> Option<Overload> {
        self.note(delay, now, served);
        self.judge(nanos(delay))
    }

    /// Notes how long a request waited that can no longer be refused: its work had begun elsewhere.
    pub(crate) fn note_wait(&self, delay: Duration, now: Instant, served: impl FnOnce() -> Served) {
        self.note(delay, now, served);
        self.last_wait.store(nanos(delay), Ordering::Relaxed);
    }

    /// Whether a request is to be refused that would have to wait as long as the last one did.
    #[inline]
    pub(crate) fn foresee(&self) -> Option<Overload> {
        self.judge(self.last_wait.load(Ordering::Relaxed))
    }

    #[inline]
    fn note(&self, delay: Duration, now: Instant, served: impl FnOnce() -> Served) {
        if self.since_origin(now) >= self.interval_ends.load(Ordering::Relaxed) {
            self.end_interval(now, served());
        }
        let delay = nanos(delay);
        if delay < self.minimum.load(Ordering::Relaxed) {
            self.minimum.fetch_min(delay, Ordering::Relaxed);
        }
    }

    #[inline]
    fn judge(&self, delay: u64) -> Option<Overload> {
        let share = self.refused_share.load(Ordering::Relaxed);
        if share == 0 { None } else { self.draw(delay, share) }
    }

    /// Whether this request is among those to refuse.
    #[cold]
    fn draw(&self, delay: u64, share: u32) -> Option<Overload> {
        if delay <= self.spared_delay.load(Ordering::Relaxed) {
            return None;
        }
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed).wrapping_mul(GOLDEN_STEP);
        if ticket >= share {
            return None;
        }
        self.wanted_refused.fetch_add(1, Ordering::Relaxed);
        let micros = self.base_backoff_micros.load(Ordering::Relaxed);
        Some(Overload { base_backoff: Duration::from_micros(micros) })
    }

    /// A request was refused as wanted: its client understood that.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// One thread judges the interval that has passed; others go on.
    #[cold]
    fn end_interval(&self, now: Instant, served: Served) {
        let Some(mut rules) = self.rules.try_lock() else { return };
        let ended = self.interval_ends.load(Ordering::Relaxed);
        let now_nanos = self.since_origin(now);
        if now_nanos < ended {
            // Another thread was here just before.
            return;
        }
        let silent = now_nanos - ended >= nanos(rules.interval());
        let minimum = self.minimum.swap(NOT_SEEN, Ordering::Relaxed);
        // A whole interval without a request, or one in which none waited to begin with: the queue was empty.
        let minimum = if silent || minimum == NOT_SEEN { 0 } else { minimum };
        let refusals = Refusals {
            wanted: self.wanted_refused.load(Ordering::Relaxed),
            made: self.refused.load(Ordering::Relaxed),
        };
        rules.calibrate(served);
        rules.note_effect(refusals);
        rules.end_interval(Duration::from_nanos(minimum), silent);
        self.publish(&rules, now);
    }

    fn publish(&self, rules: &Rules, now: Instant) {
        let ends = match rules.setting {
            OverloadTarget::Off => u64::MAX,
            _ => self.since_origin(now) + nanos(rules.interval()),
        };
        let refused = (1.0 - rules.admitted) * f64::from(u32::MAX);
        self.spared_delay.store(nanos(rules.target / SPARED_PART), Ordering::Relaxed);
        self.base_backoff_micros.store(rules.base_backoff().as_micros() as u64, Ordering::Relaxed);
        self.refused_share.store(refused as u32, Ordering::Relaxed);
        self.interval_ends.store(ends, Ordering::Relaxed);
    }

    fn since_origin(&self, now: Instant) -> u64 {
        nanos(now.saturating_duration_since(self.origin))
    }

    /// The state, the target and what was refused.
    pub(crate) fn statistics(&self) -> Vec<(&'static str, Figure)> {
        let count = |counter: &AtomicU64| Figure::Count(counter.load(Ordering::Relaxed));
        let rules = self.rules.lock();
        let state = match rules.setting {
            OverloadTarget::Off => "off",
            _ if rules.is_overloaded() => "overloaded",
            _ => "normal",
        };
        let micros = |seconds: f64| Figure::Count((seconds * 1e6) as u64);
        vec![
            ("state", Figure::Text(state)),
            ("targetMicros", Figure::Count(rules.target.as_micros() as u64)),
            ("intervalMillis", Figure::Count(rules.interval().as_millis() as u64)),
            ("serviceMicros", micros(rules.service_time.unwrap_or_default())),
            ("minimumDelayMicros", micros(rules.minimum)),
            ("refusedPermille", Figure::Count(((1.0 - rules.admitted) * 1000.0) as u64)),
            ("overloads", Figure::Count(rules.overloads)),
            ("intervalsOverloaded", Figure::Count(rules.intervals_overloaded)),
            ("wantedRefused", count(&self.wanted_refused)),
            ("refused", Figure::Group(vec![("queueingDelay", count(&self.refused))])),
        ]
    }
}

impl Rules {
    fn new(setting: OverloadTarget) -> Self {
        Self {
            setting,
            target: LEAST_TARGET,
            service_time: None,
            served: Served::default(),
            refusals: Refusals::default(),
            effect: 1.0,
            minimum: 0.0,
            admitted: 1.0,
            overloads: 0,
            intervals_overloaded: 0,
        }
    }

    fn change_setting(&mut self, setting: OverloadTarget) {
        self.setting = setting;
        self.admitted = 1.0;
        self.minimum = 0.0;
        self.set_target();
    }

    fn is_overloaded(&self) -> bool {
        self.admitted < 1.0
    }

    fn interval(&self) -> Duration {
        (self.target * INTERVAL_TARGETS).clamp(LEAST_INTERVAL, MOST_INTERVAL)
    }

    /// By then what waits now has been served, and of those who come back as many are admitted as of those
    /// who come.
    fn base_backoff(&self) -> Duration {
        Duration::try_from_secs_f64(self.minimum / self.admitted)
            .unwrap_or(MOST_BACKOFF)
            .clamp(LEAST_BACKOFF, MOST_BACKOFF)
    }

    fn end_interval(&mut self, minimum: Duration, silent: bool) {
        let before = std::mem::replace(&mut self.minimum, minimum.as_secs_f64());
        if silent {
            self.admitted = 1.0;
            return;
        }
        let was_overloaded = self.is_overloaded();
        if was_overloaded || minimum > self.target {
            self.adjust(before);
        }
        if self.is_overloaded() {
            self.intervals_overloaded += 1;
            self.overloads += u64::from(!was_overloaded);
        }
    }

    /// The control law: proportional to how far the delay is from the target, and to how fast it moves.
    fn adjust(&mut self, before: f64) {
        let target = self.target.as_secs_f64();
        let delay = self.minimum / target;
        let change = (self.minimum - before) / target;
        let factor = if delay < RECOVERY_DELAY {
            RECOVERY_RISE
        } else {
            let correction = INTEGRAL_GAIN * (delay - 1.0) + DIFFERENTIAL_GAIN * change;
            (1.0 - correction).clamp(STRONGEST_CUT, STRONGEST_RISE)
        };
        let least = LEAST_ADMITTED_IN_VAIN + self.effect * (LEAST_ADMITTED - LEAST_ADMITTED_IN_VAIN);
        self.admitted = (self.admitted * factor).clamp(least, 1.0);
    }

    fn note_effect(&mut self, refusals: Refusals) {
        let wanted = refusals.wanted - self.refusals.wanted;
        let made = refusals.made - self.refusals.made;
        self.refusals = refusals;
        if wanted > 0 {
            self.effect = (made as f64 / wanted as f64).min(1.0);
        }
    }

    fn calibrate(&mut self, served: Served) {
        let requests = served.requests.saturating_sub(self.served.requests);
        let time = served.time.saturating_sub(self.served.time);
        self.served = served;
        if requests == 0 {
            return;
        }
        let mean = time.as_secs_f64() / requests as f64;
        let smoothed = self.service_time.map_or(mean, |known| known + SMOOTHING * (mean - known));
        self.service_time = Some(smoothed);
        self.set_target();
    }

    fn set_target(&mut self) {
        self.target = match self.setting {
            OverloadTarget::Fixed(target) => target.max(Duration::from_millis(1)),
            OverloadTarget::Automatic | OverloadTarget::Off => self
                .service_time
                .and_then(|time| Duration::try_from_secs_f64(time * f64::from(STRETCH)).ok())
                .unwrap_or(LEAST_TARGET)
                .clamp(LEAST_TARGET, MOST_TARGET),
        };
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
