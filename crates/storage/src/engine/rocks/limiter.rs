//! RocksDB's rate limiter, whose rate can change: how fast flush and compaction write, compaction within a
//! limit of its own as well.
#![expect(unsafe_code, reason = "the interface of RocksDB")]

use ambient::niceness;
use librocksdb_sys as ffi;
use rocksdb::{AsRawPtr, Options};
use std::time::Duration;

/// Bytes are handed out in steps of so many microseconds: small ones, so that the disk gets an even stream.
const REFILL_US: i64 = 20_000;
/// Of so many turns, compaction gets one before a flush that waits.
const FAIRNESS: i32 = 10;
/// Nothing reaches this rate, which is far from where products overflow.
const RATE_MAX: i64 = 1 << 40;
/// At a lower one RocksDB would hand out nothing at all in a step, of bytes or of microseconds.
const COMPACTION_RATE_MIN: i64 = 5_000;
/// How long flush and compaction may run before somebody else who is due does: a thread with a shorter slice,
/// which is everybody else, goes first when it wakes up. Their share of the processors stays what it is.
const SLICE: Duration = Duration::from_millis(20);

unsafe extern "C" {
    fn heddle_limiter_create(
        bytes_per_second: i64,
        refill_us: i64,
        fairness: i32,
        thread_begins: extern "C" fn(),
    ) -> *mut ffi::rocksdb_ratelimiter_t;
    fn heddle_limiter_set_compaction_rate(limiter: *mut ffi::rocksdb_ratelimiter_t, bytes_per_second: i64);
    fn heddle_limiter_set_compaction_processors(limiter: *mut ffi::rocksdb_ratelimiter_t, us_per_second: i64);
    fn heddle_limiter_compaction_us(limiter: *const ffi::rocksdb_ratelimiter_t) -> i64;
    #[cfg(test)]
    fn heddle_limiter_request(limiter: *mut ffi::rocksdb_ratelimiter_t, bytes: i64, is_compaction: bool);
    fn heddle_limiter_set_rate(limiter: *mut ffi::rocksdb_ratelimiter_t, bytes_per_second: i64);
    fn heddle_limiter_rate(limiter: *const ffi::rocksdb_ratelimiter_t) -> i64;
    fn heddle_limiter_passed(limiter: *const ffi::rocksdb_ratelimiter_t) -> i64;
}

/// The limiter and this share of it; the database has another one.
pub(super) struct RateLimiter(*mut ffi::rocksdb_ratelimiter_t);

// SAFETY: the object is a shared pointer that is only read here, and the limiter behind it has a lock of its
// own.
unsafe impl Send for RateLimiter {}
// SAFETY: as above.
unsafe impl Sync for RateLimiter {}

impl RateLimiter {
    /// Has the database that is opened with these options write no faster.
    ///
    /// # Panics
    /// When RocksDB's limiter is not what `limiter.cc` takes it for: nothing has been opened yet.
    pub(super) fn install(options: &mut Options, bytes_per_second: u64) -> RateLimiter {
        let rate = rate(bytes_per_second);
        // SAFETY: the options are borrowed and take a share of the limiter; this one is given back in `drop`.
        let limiter = unsafe {
            let limiter = heddle_limiter_create(rate, REFILL_US, FAIRNESS, take_long_slices);
            ffi::rocksdb_options_set_ratelimiter(options.as_raw_ptr(), limiter);
            RateLimiter(limiter)
        };
        assert_eq!(
            limiter.bytes_per_second(),
            rate as u64,
            "RocksDB's limiter tells another rate than it got"
        );
        for probed in [rate as u64 / 2 + 1, rate as u64] {
            limiter.set(probed);
            assert_eq!(limiter.bytes_per_second(), probed, "the rate of RocksDB's limiter does not change");
        }
        limiter
    }

    /// Changes the rate; it counts from the next step on.
    pub(super) fn set(&self, bytes_per_second: u64) {
        // SAFETY: the limiter lives as long as `self`; the rate is positive.
        unsafe { heddle_limiter_set_rate(self.0, rate(bytes_per_second)) };
    }

    /// Has compaction write no faster than that (5,000 bytes a second are the least), whatever flushes do; 0
    /// is no limit of its own. Who waits for it follows within a step.
    pub(super) fn set_for_compaction(&self, bytes_per_second: u64) {
        let rate = compaction_rate(bytes_per_second);
        // SAFETY: the limiter lives as long as `self`, and `install` has made it.
        unsafe { heddle_limiter_set_compaction_rate(self.0, rate) };
    }

    /// Has compaction take no more of the processors' time, in microseconds per second (5,000 are the
    /// least); 0 is no limit. Its threads count what they have spent whenever they write.
    pub(super) fn set_compaction_processors(&self, us_per_second: u64) {
        let rate = compaction_rate(us_per_second);
        // SAFETY: the limiter lives as long as `self`, and `install` has made it.
        unsafe { heddle_limiter_set_compaction_processors(self.0, rate) };
    }

    /// The processor time that compaction has spent, in microseconds.
    pub(super) fn compaction_us(&self) -> u64 {
        // SAFETY: the limiter lives as long as `self`, and `install` has made it.
        unsafe { heddle_limiter_compaction_us(self.0) }.unsigned_abs()
    }

    /// The bytes that flush and compaction were let through.
    pub(super) fn passed(&self) -> u64 {
        // SAFETY: the limiter lives as long as `self`.
        unsafe { heddle_limiter_passed(self.0) }.unsigned_abs()
    }

    /// Waits as a flush or a compaction does that wants to write so much.
    #[cfg(test)]
    fn request(&self, bytes: i64, is_compaction: bool) {
        // SAFETY: the limiter lives as long as `self`.
        unsafe { heddle_limiter_request(self.0, bytes, is_compaction) };
    }

    pub(super) fn bytes_per_second(&self) -> u64 {
        // SAFETY: the limiter lives as long as `self`.
        unsafe { heddle_limiter_rate(self.0) }.unsigned_abs()
    }
}

impl Drop for RateLimiter {
    fn drop(&mut self) {
        // SAFETY: `install` has made it, and nobody uses this share of it any more.
        unsafe { ffi::rocksdb_ratelimiter_destroy(self.0) };
    }
}

/// A thread of flush or compaction is about to write.
extern "C" fn take_long_slices() {
    niceness::set_slice(SLICE);
}

/// Of a limit that is compaction's alone: 0 stays none.
fn compaction_rate(per_second: u64) -> i64 {
    match per_second {
        0 => 0,
        amount => rate(amount).max(COMPACTION_RATE_MIN),
    }
}

/// RocksDB takes positive rates. One that nothing reaches is none.
fn rate(bytes_per_second: u64) -> i64 {
    match bytes_per_second {
        0 => RATE_MAX,
        bytes => i64::try_from(bytes).unwrap_or(i64::MAX).min(RATE_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_changes() {
        let limiter = RateLimiter::install(&mut Options::default(), 64 << 20);
        assert_eq!(limiter.bytes_per_second(), 64 << 20);
        limiter.set(1 << 20);
        assert_eq!(limiter.bytes_per_second(), 1 << 20);
        limiter.set(0);
        assert_eq!(limiter.bytes_per_second(), 1 << 40, "no limit");
    }

    #[test]
    fn compaction_has_a_limit_that_no_flush_waits_for() {
        let limiter = RateLimiter::install(&mut Options::default(), 1 << 40);
        let request = |bytes: i64, is_compaction: bool| limiter.request(bytes, is_compaction);
        // Minutes for what is asked for below.
        limiter.set_for_compaction(1);
        std::thread::scope(|scope| {
            let compaction = scope.spawn(|| request(1 << 20, true));
            request(1 << 30, false);
            assert!(!compaction.is_finished(), "a compaction waits for its own limit");
            limiter.set_for_compaction(0);
            compaction.join().unwrap();
        });
        assert_eq!(limiter.passed(), (1 << 20) + (1 << 30), "what both wrote");
        // No limit leaves nothing over for the next one.
        let (rate, began) = (1 << 20, std::time::Instant::now());
        limiter.set_for_compaction(rate as u64);
        request(rate / 2, true);
        let took = began.elapsed().as_secs_f64();
        assert!(took > 0.4, "half a second's bytes took {took} s");
    }

    #[test]
    fn compaction_pays_for_the_processor_time_that_it_takes() {
        let spend = |limiter: &RateLimiter| {
            let began = std::time::Instant::now();
            while began.elapsed() < Duration::from_millis(100) {
                std::hint::spin_loop();
            }
            limiter.request(1, true);
            began.elapsed()
        };
        let limiter = RateLimiter::install(&mut Options::default(), 1 << 40);
        std::thread::scope(|scope| {
            // A few milliseconds at least, and minutes for them at this rate.
            limiter.set_compaction_processors(1);
            let compaction = scope.spawn(|| spend(&limiter));
            let flush = scope.spawn(|| limiter.request(1 << 30, false));
            flush.join().unwrap();
            assert!(!compaction.is_finished(), "a compaction waits for its share");
            limiter.set_compaction_processors(0);
            compaction.join().unwrap();
        });
        let spent = limiter.compaction_us();
        assert!(spent > 5_000, "{spent} us were counted");
        limiter.set_compaction_processors(50_000);
        let took = std::thread::scope(|scope| scope.spawn(|| spend(&limiter)).join().unwrap());
        let least = Duration::from_micros((limiter.compaction_us() - spent) * 12);
        assert!(took > least, "a twentieth of a processor: {took:?} is less than {least:?}");
    }

    #[test]
    fn who_flushes_and_compacts_has_long_slices_and_nobody_else() {
        let limiter = RateLimiter::install(&mut Options::default(), 1 << 40);
        let usual = niceness::slice();
        let long = std::thread::scope(|scope| {
            let background = scope.spawn(|| {
                limiter.request(1, true);
                niceness::slice()
            });
            background.join().expect("it asked for a byte")
        });
        // Kernels before 6.12 know no slices of one's own.
        assert!(long == SLICE || usual.is_zero(), "{long:?}, elsewhere {usual:?}");
        assert_eq!(niceness::slice(), usual);
    }
}
