//! The clock of everything that is timed.

const NANOSECONDS: u64 = 1_000_000_000;

/// The machine's monotonic clock, the same in all processes, in nanoseconds.
#[inline]
pub(super) fn monotonic() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec.unsigned_abs() * NANOSECONDS + time.tv_nsec.unsigned_abs()
}
