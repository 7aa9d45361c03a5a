//! Failed logins by address: how long the next one has to wait for its answer, and what the log says.

use hashbrown::HashMap;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// Failures that an address has free, after which each costs [`COST`].
const FREE: u32 = 20;
/// What one failure adds to the wait, and how long it takes to be forgotten.
const COST: Duration = Duration::from_millis(100);
/// No answer waits longer.
const LONGEST: Duration = Duration::from_secs(5);
/// Addresses that are known at most. Beyond, those without debt go; and if there are none, all share one.
const ADDRESSES: usize = 10_000;
/// How often a storm from one address is told.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// What a failed login costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginPenalty {
    /// How long its answer waits.
    pub wait: Duration,
    /// It is a storm, and to be told now: failures from there since it was told last.
    pub storm: Option<u64>,
}

#[derive(Debug)]
struct Debtor {
    /// When its failures are forgotten.
    clear_at: Instant,
    told: Option<Instant>,
    untold: u64,
}

/// Failed logins, by the address that they came from.
#[derive(Debug, Default)]
pub struct FailedLogins {
    debtors: Mutex<HashMap<String, Debtor>>,
}

impl FailedLogins {
    /// A login from this address has failed.
    pub fn note(&self, address: &str, now: Instant) -> LoginPenalty {
        let mut debtors = self.debtors.lock();
        if debtors.len() >= ADDRESSES && !debtors.contains_key(address) {
            debtors.retain(|_, debtor| debtor.clear_at > now);
        }
        let key = if debtors.len() < ADDRESSES || debtors.contains_key(address) { address } else { "" };
        let debtor =
            debtors.entry_ref(key).or_insert_with(|| Debtor { clear_at: now, told: None, untold: 0 });
        debtor.clear_at = (debtor.clear_at.max(now) + COST).min(now + COST * FREE + LONGEST);
        debtor.untold += 1;
        let wait = debtor.clear_at.saturating_duration_since(now + COST * FREE);
        let is_due = debtor.told.is_none_or(|told| now.saturating_duration_since(told) >= TOLD_EVERY);
        let storm = (!wait.is_zero() && is_due).then(|| {
            debtor.told = Some(now);
            std::mem::take(&mut debtor.untold)
        });
        LoginPenalty { wait, storm }
    }
}

/// Members that were refused, by the address that they came from: they try again for ever, so that each is
/// told once a minute.
#[derive(Debug, Default)]
pub struct RefusedMembers {
    told: Mutex<HashMap<String, (Instant, u64)>>,
}

impl RefusedMembers {
    /// One from this address was refused. Answers when that is to be told: how many were since the last time.
    pub fn note(&self, address: &str, now: Instant) -> Option<u64> {
        let mut told = self.told.lock();
        if told.len() >= ADDRESSES && !told.contains_key(address) {
            told.retain(|_, (since, _)| now.saturating_duration_since(*since) < TOLD_EVERY);
        }
        let key = if told.len() < ADDRESSES || told.contains_key(address) { address } else { "" };
        let Some((since, untold)) = told.get_mut(key) else {
            told.insert(key.to_owned(), (now, 0));
            return Some(1);
        };
        *untold += 1;
        let is_due = now.saturating_duration_since(*since) >= TOLD_EVERY;
        is_due.then(|| {
            *since = now;
            std::mem::take(untold)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storms_wait_ever_longer_and_are_told_once_a_minute() {
        let failed = FailedLogins::default();
        let start = Instant::now();
        for _ in 0..FREE {
            assert_eq!(failed.note("a", start), LoginPenalty { wait: Duration::ZERO, storm: None });
        }
        assert_eq!(failed.note("a", start), LoginPenalty { wait: COST, storm: Some(21) });
        assert_eq!(failed.note("a", start), LoginPenalty { wait: COST * 2, storm: None });
        for _ in 0..1000 {
            failed.note("a", start);
        }
        assert_eq!(failed.note("a", start).wait, LONGEST);
        assert_eq!(failed.note("b", start).wait, Duration::ZERO, "another address");
        let later = start + TOLD_EVERY;
        assert_eq!(failed.note("a", later).wait, Duration::ZERO, "forgotten");
    }

    #[test]
    fn a_member_is_told_once_a_minute() {
        let refused = RefusedMembers::default();
        let start = Instant::now();
        assert_eq!(refused.note("a", start), Some(1));
        assert_eq!(refused.note("a", start), None);
        assert_eq!(refused.note("b", start), Some(1), "another address");
        assert_eq!(refused.note("a", start + TOLD_EVERY), Some(2));
        assert_eq!(refused.note("a", start + TOLD_EVERY), None);
        for number in 0..2 * ADDRESSES {
            refused.note(&number.to_string(), start);
        }
        assert!(refused.told.lock().len() <= ADDRESSES + 1);
    }

    #[test]
    fn what_is_known_is_bounded() {
        let failed = FailedLogins::default();
        let start = Instant::now();
        for number in 0..2 * ADDRESSES {
            failed.note(&number.to_string(), start);
        }
        assert!(failed.debtors.lock().len() <= ADDRESSES + 1);
        assert!(failed.note("new", start).wait > Duration::ZERO, "those beyond share a debt");
        assert_eq!(failed.note("new", start + LONGEST * 2).wait, Duration::ZERO);
    }
}
