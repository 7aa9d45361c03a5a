//! Ctrl-C: measurements end between two steps, so that child processes are ended and what was measured is
//! told.

use crate::error::BenchError;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Exit status of a second Ctrl-C, as shells count it.
const EXIT_BY_SIGINT: i32 = 130;
/// Pauses are slept in pieces of this length.
const NAP: Duration = Duration::from_millis(50);

/// Whether somebody wants the measurement to end. Without [`Interrupt::watch`] nobody ever does.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interrupt {
    wanted: Arc<AtomicBool>,
}

impl Interrupt {
    /// From now on SIGINT and SIGTERM set the flag; a second one ends the process at once.
    pub(crate) fn watch() -> Result<Self, BenchError> {
        let interrupt = Interrupt::default();
        for signal in [SIGINT, SIGTERM] {
            // The first one looks at the flag before the second one sets it.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                EXIT_BY_SIGINT,
                Arc::clone(&interrupt.wanted),
            )
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt.wanted)))
            .map_err(BenchError::io("watch for signals"))?;
        }
        Ok(interrupt)
    }

    /// Wants the measurement to end, as Ctrl-C does.
    pub(crate) fn raise(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// # Errors
    /// [`BenchError::Interrupted`] once somebody wants the end.
    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.wanted.load(Ordering::Relaxed) { Err(BenchError::Interrupted) } else { Ok(()) }
    }

    /// Waits, unless somebody wants the end.
    pub(crate) fn pause(&self, duration: Duration) -> Result<(), BenchError> {
        let begun = Instant::now();
        while let Some(left) = duration.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            self.check()?;
            std::thread::sleep(left.min(NAP));
        }
        self.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_ends_pauses_at_once() {
        let interrupt = Interrupt::default();
        assert!(interrupt.pause(Duration::ZERO).is_ok());
        interrupt.wanted.store(true, Ordering::Relaxed);
        let ended = interrupt.pause(Duration::from_secs(3_600));
        assert!(matches!(ended, Err(BenchError::Interrupted)), "{ended:?}");
    }
}
