//! How much a thread yields to others, or others to it, and for how long it runs at a time.
#![expect(unsafe_code, reason = "system calls that no library wraps")]

use std::cell::Cell;
use std::time::Duration;

/// The slice of a loop that shares the processors with what computes for long. A thread that wakes interrupts
/// one with a longer slice at once.
const SHORT: Duration = Duration::from_micros(400);

thread_local! {
    static IS_SHORT: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread nicer than the process by this much, or less nice if negative (setpriority(2):
/// each step is worth about a tenth of the processor time). Where the system does not allow that, it competes
/// as an equal.
pub fn shift(by: i32) {
    if let Ok(usual) = rustix::process::getpriority_process(None) {
        // No thread but the calling one is meant by `None`, and the kernel bounds the sum.
        let _ = rustix::process::setpriority_process(None, usual + by);
    }
}

/// How long the calling thread runs on although another one waits that has more right to the processor, and
/// how much it gives up when it offers the processor. Linux 6.12 and later take 0.1 to 100 ms
/// (sched_setattr(2)) of anybody; where the system does not, the usual slices stay.
pub fn set_slice(slice: Duration) {
    if let Some(mut attributes) = attributes() {
        attributes.sched_runtime = slice.as_nanos() as u64;
        // SAFETY: the calling thread (0) is meant, and the kernel reads as many bytes as the structure says
        // that it has.
        let _ = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    }
}

/// Gives the calling thread short slices, or the usual ones. Costs nothing where that is no change.
#[inline]
pub fn keep_slice(is_short: bool) {
    if IS_SHORT.replace(is_short) != is_short {
        // Zero is the kernel's own choice.
        set_slice(if is_short { SHORT } else { Duration::ZERO });
    }
}

/// The calling thread's slice; zero where the kernel knows none of its own.
pub fn slice() -> Duration {
    attributes().map_or(Duration::ZERO, |attributes| Duration::from_nanos(attributes.sched_runtime))
}

/// The calling thread's scheduling; `None` where the kernel does not tell, and for real-time classes.
fn attributes() -> Option<libc::sched_attr> {
    let size = size_of::<libc::sched_attr>() as u32;
    let mut attributes = libc::sched_attr {
        size,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes no more than the size it is told.
    let failed = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, size, 0) } != 0;
    let shares = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&(attributes.sched_policy as i32));
    (!failed && shares).then_some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_short_as_long_as_that_is_wanted() {
        let usual = slice();
        // Kernels before 6.12 know no slices of one's own.
        let short = if usual.is_zero() { usual } else { SHORT };
        for (is_short, expect) in [(false, usual), (true, short), (true, short), (false, usual)] {
            keep_slice(is_short);
            assert_eq!(slice(), expect);
        }
    }
}
