//! Axes: linear, logarithmic, and of percentiles, on which each further nine takes as much room as the one
//! before.

use super::ticks;

/// How values become places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// For values above 0.
    Logarithmic,
    /// For shares of operations, 0 to less than 1.
    Percentile,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Logarithmic => value.max(f64::MIN_POSITIVE).ln(),
            Scale::Percentile => -(1.0 - value).max(f64::MIN_POSITIVE).log10(),
        }
    }
}

/// One axis of a diagram.
#[derive(Debug, Clone)]
pub(crate) struct Axis {
    /// Below it, unit included; may be empty.
    pub(crate) name: String,
    scale: Scale,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis on which all these values have room. A linear one begins at 0 unless values are below it.
    pub(crate) fn of(name: &str, scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        let fits = |value: &f64| value.is_finite() && (scale != Scale::Logarithmic || *value > 0.0);
        let (low, high) = values
            .filter(fits)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        match scale {
            Scale::Linear => {
                let high = if high > 0.0 { high } else { 1.0 };
                Axis::new(name, scale, low.min(0.0), high)
            }
            Scale::Logarithmic => Axis::new(name, scale, low / 1.2, high * 1.2),
            Scale::Percentile => Axis::new(name, scale, 0.0, high.max(0.9)),
        }
    }

    /// An axis from here to there.
    pub(crate) fn new(name: &str, scale: Scale, low: f64, high: f64) -> Self {
        let ticks = match scale {
            Scale::Linear => ticks::linear(low, high),
            Scale::Logarithmic => ticks::logarithmic(low, high),
            Scale::Percentile => ticks::percentiles(high),
        };
        Axis { name: name.to_owned(), scale, low, high, ticks }
    }

    /// The vertical one, with room above the highest value.
    pub(crate) fn upright(scale: Scale, values: impl Iterator<Item = f64>) -> Self {
        const HEADROOM: f64 = 0.08;
        let axis = Axis::of("", scale, values);
        match scale {
            Scale::Linear => Axis::new("", scale, axis.low, axis.high * (1.0 + HEADROOM)),
            Scale::Logarithmic | Scale::Percentile => axis,
        }
    }

    /// Ticks at these values, as many as there is room for, instead of round ones.
    #[must_use]
    pub(crate) fn with_ticks(mut self, values: impl IntoIterator<Item = f64>) -> Self {
        /// Labels nearer to each other than this share of the axis would touch.
        const NEAREST: f64 = 0.07;
        let mut ticks: Vec<f64> = Vec::new();
        for value in values {
            let far = ticks.last().is_none_or(|last| self.share(value) - self.share(*last) >= NEAREST);
            if far {
                ticks.push(value);
            }
        }
        self.ticks = ticks;
        self
    }

    pub(super) fn ticks(&self) -> &[f64] {
        &self.ticks
    }

    pub(super) fn label(&self, value: f64) -> String {
        match self.scale {
            Scale::Percentile => ticks::percent(value),
            Scale::Linear | Scale::Logarithmic => ticks::short(value),
        }
    }

    /// Where a value is on the axis, 0 to 1; a little outside for those that have no place on it.
    pub(super) fn share(&self, value: f64) -> f64 {
        let (low, high) = (self.scale.place(self.low), self.scale.place(self.high));
        if high > low { ((self.scale.place(value) - low) / (high - low)).clamp(-0.5, 1.5) } else { 0.5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_nine_has_the_same_room() {
        let axis = Axis::of("", Scale::Percentile, [0.999].into_iter());
        let places = [0.0, 0.9, 0.99, 0.999].map(|share| (axis.share(share) * 300.0).round());
        assert_eq!(places, [0.0, 100.0, 200.0, 300.0]);
    }

    #[test]
    fn zero_has_no_place_on_a_logarithmic_axis_and_does_no_harm() {
        let axis = Axis::of("", Scale::Logarithmic, [0.0, 1.0, 100.0].into_iter());
        assert_eq!((axis.low, axis.high), (1.0 / 1.2, 120.0));
        assert_eq!(axis.share(0.0), -0.5);
    }

    #[test]
    fn ticks_that_would_touch_are_left_out() {
        let axis = Axis::of("", Scale::Logarithmic, [8.0, 10_000.0].into_iter());
        let axis = axis.with_ticks([8.0, 64.0, 65.0, 1_000.0, 10_000.0]);
        assert_eq!(axis.ticks, [8.0, 64.0, 1_000.0, 10_000.0]);
    }
}
