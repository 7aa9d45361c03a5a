//! What is to be done about the memory of the process, from its resident size: pure, no I/O.
//!
//! ```text
//!  what is left of the limit   all ───── 25 % ───────── 15 % ────────── 8 % ──────── none
//!   and in small memory at least         240 MiB        180 MiB         120 MiB
//!  level                       easy      tight          short           exhausted
//!  caches                      grow      give back what is too much
//!  memtables                   all       half of them   one             one
//!  sorts, groups               the pool  half of it     a quarter       a quarter
//!  requests                    begin     begin          wait a while    are refused
//! ```
//! What has begun when a level is reached still grows: a message of the largest size that is received, copied
//! and written takes some 100 MiB, however small the limit is. A level is left when the size is well below
//! where it began, so that nothing swings.

const MIB: u64 = 1 << 20;

/// How far the resident size is from the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Easy,
    Tight,
    Short,
    Exhausted,
}

impl Level {
    const ALL: [Level; 4] = [Level::Easy, Level::Tight, Level::Short, Level::Exhausted];

    /// As `serverStatus` names it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Level::Easy => "easy",
            Level::Tight => "tight",
            Level::Short => "short",
            Level::Exhausted => "exhausted",
        }
    }

    /// The resident size from which on it holds.
    fn from(self, limit: u64) -> u64 {
        let (hundredths, least) = match self {
            Level::Easy => return 0,
            Level::Tight => (25, 240 * MIB),
            Level::Short => (15, 180 * MIB),
            Level::Exhausted => (8, 120 * MIB),
        };
        // The smallest limits are to be used as well.
        let left = (limit / 100 * hundredths).max(least.min(limit / 100 * hundredths * LEAST_GROWTH));
        limit.saturating_sub(left)
    }
}

/// In small memory what is left is at most so many times what the share says.
const LEAST_GROWTH: u64 = 3;
/// A level is left when the size is so many hundredths of the limit below where it begins.
const HYSTERESIS: u64 = 3;
/// Caches give back until the size would be so many hundredths of the limit below where they began to; …
const SHRINK_BELOW: u64 = 2;
/// … they grow again so many below that, …
const GROW_BELOW: u64 = 6;
/// … by this share of what they have at best with each step that may.
const GROW_STEPS: u64 = 32;
/// They keep this share in any case: with less every read would go to the disk, and be slow for longer.
const FLOOR_SHARE: u64 = 8;

/// What is done, and what was done so far.
#[derive(Debug)]
pub(crate) struct Course {
    /// What the process may have, in bytes.
    limit: u64,
    /// What caches have at best.
    caches_best: u64,
    /// What they have now.
    caches: u64,
    level: Level,
    pub(crate) shrunk: u64,
    pub(crate) grown: u64,
    /// How often each level was entered from below.
    pub(crate) entered: [u64; 4],
}

/// What is to be in force from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Measures {
    pub(crate) level: Level,
    /// Bytes of both caches.
    pub(crate) caches: u64,
}

impl Course {
    pub(crate) fn new(limit: u64, caches: u64) -> Self {
        Course {
            limit,
            caches_best: caches,
            caches,
            level: Level::Easy,
            shrunk: 0,
            grown: 0,
            entered: [0; 4],
        }
    }

    /// Another limit, with what caches have of it.
    pub(crate) fn set_limit(&mut self, limit: u64, caches: u64) {
        self.limit = limit;
        self.set_caches(caches);
    }

    /// Other caches at best. Where they have that they go on having it.
    pub(crate) fn set_caches(&mut self, caches: u64) {
        let are_at_best = self.caches == self.caches_best;
        self.caches_best = caches;
        self.caches = if are_at_best { caches } else { self.caches.clamp(self.floor(), caches) };
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn measures(&self) -> Measures {
        Measures { level: self.level, caches: self.caches }
    }

    fn floor(&self) -> u64 {
        self.caches_best / FLOOR_SHARE
    }

    fn hundredths(&self, hundredths: u64) -> u64 {
        self.limit / 100 * hundredths
    }

    /// Looks at the resident size, and at what caches hold. `may_grow`: the last change of the caches is long
    /// enough ago to show.
    pub(crate) fn step(&mut self, resident: u64, held_by_caches: u64, may_grow: bool) -> Measures {
        self.level = self.next_level(resident);
        let tight = Level::Tight.from(self.limit);
        let too_much = resident.saturating_sub(tight.saturating_sub(self.hundredths(SHRINK_BELOW)));
        if self.level >= Level::Tight && too_much > 0 {
            // From what they hold: room that is not used gives nothing back.
            let wanted = held_by_caches.min(self.caches).saturating_sub(too_much).max(self.floor());
            if wanted < self.caches {
                self.caches = wanted;
                self.shrunk += 1;
            }
        } else if may_grow && resident + self.hundredths(GROW_BELOW) < tight && self.caches < self.caches_best
        {
            let step = (self.caches_best / GROW_STEPS).max(1);
            self.caches = (self.caches + step).min(self.caches_best);
            self.grown += 1;
        }
        self.measures()
    }

    fn next_level(&mut self, resident: u64) -> Level {
        let holds = |level: &Level| {
            let margin = if *level <= self.level { self.hundredths(HYSTERESIS) } else { 0 };
            resident + margin >= level.from(self.limit)
        };
        let next = Level::ALL.into_iter().rev().find(holds).unwrap_or(Level::Easy);
        for (level, entered) in Level::ALL.into_iter().zip(&mut self.entered) {
            *entered += u64::from(level > self.level && level <= next);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100_000 * MIB;
    const CACHES: u64 = 40_000 * MIB;

    fn course() -> Course {
        Course::new(LIMIT, CACHES)
    }

    #[test]
    fn levels_begin_and_end_apart() {
        let mut course = course();
        let mut check = |permille, expect| {
            assert_eq!(course.step(LIMIT / 1000 * permille, 0, false).level, expect, "{permille} permille");
        };
        check(749, Level::Easy);
        check(750, Level::Tight);
        check(720, Level::Tight);
        check(719, Level::Easy);
        check(930, Level::Exhausted);
        check(890, Level::Exhausted);
        check(889, Level::Short);
        check(820, Level::Short);
        check(819, Level::Tight);
        check(2_000, Level::Exhausted);
        check(0, Level::Easy);
        assert_eq!(course.entered, [0, 2, 2, 2], "each level is entered on the way up");
    }

    #[test]
    fn small_limits_leave_room_for_what_has_begun() {
        let check = |limit: u64, expect: [u64; 3]| {
            let from =
                [Level::Tight, Level::Short, Level::Exhausted].map(|level| level.from(limit * MIB) / MIB);
            assert_eq!(from, expect, "of {limit} MiB");
        };
        check(256, [64, 140, 194]);
        check(512, [272, 332, 392]);
        check(1024, [768, 844, 904]);
        check(2048, [1536, 1740, 1884]);
        check(65_536, [49_152, 55_705, 60_293]);
    }

    #[test]
    fn caches_give_back_what_is_too_much_and_no_more() {
        let mut course = course();
        let mut check = |resident: u64, held: u64, expect: u64| {
            let caches = course.step(LIMIT / 100 * resident, LIMIT / 100 * held, false).caches;
            assert_eq!(caches, LIMIT / 100 * expect, "with {resident} % of the limit");
        };
        check(74, 40, 40);
        check(80, 40, 33);
        check(80, 33, 26);
        check(78, 10, 5);
        check(99, 5, 5);
        assert_eq!((course.shrunk, course.grown), (3, 0));
    }

    #[test]
    fn caches_grow_again_step_by_step() {
        let mut course = course();
        let mut step =
            |hundredths: u64, may_grow| course.step(LIMIT / 100 * hundredths, CACHES / 2, may_grow).caches;
        let shrunk = step(85, false);
        assert_eq!(shrunk, CACHES / 2 - LIMIT / 100 * 12);
        assert_eq!(step(60, false), shrunk, "too soon to tell");
        assert_eq!(step(70, true), shrunk, "too near");
        assert_eq!(step(60, true), shrunk + CACHES / 32);
        for _ in 0..40 {
            step(60, true);
        }
        assert_eq!(step(60, true), CACHES);
        assert_eq!((course.shrunk, course.grown), (1, 26));
    }

    #[test]
    fn another_limit_moves_everything() {
        let mut course = course();
        course.set_limit(LIMIT / 2, CACHES / 2);
        assert_eq!(course.measures().caches, CACHES / 2);
        let tight = Measures { level: Level::Tight, caches: CACHES / 2 };
        assert_eq!(course.step(LIMIT / 100 * 38, 0, false).level, tight.level);
        course.set_limit(LIMIT, CACHES);
        assert!(course.measures().caches >= CACHES / 16, "an eighth stays");
        assert_eq!(course.step(LIMIT / 100 * 38, 0, true).level, Level::Easy);
    }
}
