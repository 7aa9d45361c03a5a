//! `--scale`: how large an experiment is.

use crate::limits::raise_descriptor_limit;
use std::str::FromStr;

/// A factor on every default of documents, connections and times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale(f64);

/// Nothing shorter is worth measuring.
const LEAST_SECONDS: f64 = 0.05;
/// Below this scale nobody wants exact figures, and one round is enough.
const REPEATED_FROM: f64 = 0.1;
const ROUNDS: u64 = 3;

impl Scale {
    const LEAST: f64 = 0.001;
    const MOST: f64 = 100.0;

    /// Documents, at least one.
    pub(crate) fn documents(self, whole: i32) -> i32 {
        (f64::from(whole) * self.0).round().clamp(1.0, f64::from(i32::MAX)) as i32
    }

    /// Connections, at least one and no more than this machine can have.
    pub(crate) fn connections(self, whole: usize) -> usize {
        self.connections_within(whole, raise_descriptor_limit())
    }

    fn connections_within(self, whole: usize, descriptors: u64) -> usize {
        ((whole as f64 * self.0).round() as usize).clamp(1, most_connections(descriptors))
    }

    /// A measured time.
    pub(crate) fn seconds(self, whole: f64) -> f64 {
        (whole * self.0).max(LEAST_SECONDS)
    }

    /// A time that may be nothing.
    pub(crate) fn pause(self, whole: f64) -> f64 {
        whole * self.0
    }

    pub(crate) const fn rounds(self) -> u64 {
        if self.0 < REPEATED_FROM { 1 } else { ROUNDS }
    }

    pub(crate) const fn factor(self) -> f64 {
        self.0
    }
}

impl FromStr for Scale {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim().parse::<f64>() {
            Ok(factor) if (Self::LEAST..=Self::MOST).contains(&factor) => Ok(Scale(factor)),
            _ => Err(format!("expected a number from {} to {}, found '{text}'", Self::LEAST, Self::MOST)),
        }
    }
}

/// Connections that a server with so many descriptors takes: as Heddle has it, a twentieth is kept back for its files.
fn most_connections(descriptors: u64) -> usize {
    const RESERVED_PART: u64 = 20;
    const RESERVE_MIN: u64 = 256;
    const RESERVE_MAX: u64 = 4_352;
    let reserve = (descriptors / RESERVED_PART).clamp(RESERVE_MIN, RESERVE_MAX).min(descriptors / 2);
    usize::try_from(descriptors - reserve).unwrap_or(usize::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(scale: &str, expect: Result<(i32, usize, f64, u64), &str>) {
        let found = scale.parse::<Scale>().map(|scale| {
            (
                scale.documents(100_000),
                scale.connections_within(5_000, 20_000),
                scale.seconds(5.0),
                scale.rounds(),
            )
        });
        assert_eq!(found, expect.map_err(str::to_owned), "scale {scale}");
    }

    #[test]
    fn a_scale_is_a_factor_within_bounds() {
        check("1", Ok((100_000, 5_000, 5.0, 3)));
        check("0.1", Ok((10_000, 500, 0.5, 3)));
        check("0.02", Ok((2_000, 100, 0.1, 1)));
        check("0.001", Ok((100, 5, LEAST_SECONDS, 1)));
        check("100", Ok((10_000_000, 19_000, 500.0, 3)));
        check("0", Err("expected a number from 0.001 to 100, found '0'"));
        check("101", Err("expected a number from 0.001 to 100, found '101'"));
        check("NaN", Err("expected a number from 0.001 to 100, found 'NaN'"));
        check("half", Err("expected a number from 0.001 to 100, found 'half'"));
    }

    #[test]
    fn nothing_is_scaled_to_nothing() {
        let least: Scale = "0.001".parse().expect("a scale");
        assert_eq!((least.documents(1), least.connections_within(30, 20_000)), (1, 1));
        assert_eq!(least.pause(0.0), 0.0);
    }

    #[test]
    fn connections_fit_the_descriptors() {
        assert_eq!(most_connections(20_000), 19_000);
        assert_eq!(most_connections(1_024), 768);
        assert_eq!(most_connections(1), 1);
    }
}
