//! Sums, means, extremes and deviations: as expressions over operands, and as the state of `$group`'s
//! accumulators.

use std::cmp::Ordering;

use document::{Decimal128, Number, Value};

use super::operators::Operator;
use super::{Evaluated, NULL, Outcome};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::many("$sum", sum, "the sum of the numbers among the operands, or in the one array"),
    Operator::many("$avg", mean, "the mean of the numbers among the operands, or in the one array"),
    Operator::many("$min", |all| extreme(all, Ordering::Less), "the lowest value that is not null"),
    Operator::many("$max", |all| extreme(all, Ordering::Greater), "the highest value that is not null"),
    Operator::many(
        "$stdDevPop",
        |all| deviation(all, Deviation::of_population),
        "the standard deviation of a whole population",
    ),
    Operator::many(
        "$stdDevSamp",
        |all| deviation(all, Deviation::of_sample),
        "the standard deviation estimated from a sample",
    ),
];

/// The items of the one array operand, or the operands themselves.
fn items(operands: Vec<Evaluated>) -> Vec<Value> {
    match <[Evaluated; 1]>::try_from(operands) {
        Ok([Some(Value::Array(items))]) => items.into_vec(),
        Ok([single]) => single.into_iter().collect(),
        Err(operands) => operands.into_iter().flatten().collect(),
    }
}

fn sum(operands: Vec<Evaluated>) -> Outcome {
    let mut total = Sum::default();
    items(operands).iter().filter_map(Value::as_number).for_each(|number| total.add(number));
    Ok(Some(total.total().into()))
}

fn mean(operands: Vec<Evaluated>) -> Outcome {
    let mut total = Sum::default();
    items(operands).iter().filter_map(Value::as_number).for_each(|number| total.add(number));
    Ok(Some(total.mean().map_or(Value::Null, Value::from)))
}

fn extreme(operands: Vec<Evaluated>, wanted: Ordering) -> Outcome {
    let mut best: Evaluated = None;
    for item in items(operands) {
        if item.is_nullish() {
            continue;
        }
        if best.as_ref().is_none_or(|best| item.compare(best) == wanted) {
            best = Some(item);
        }
    }
    Ok(best.or(NULL))
}

fn deviation(operands: Vec<Evaluated>, finish: fn(&Deviation) -> Option<f64>) -> Outcome {
    let mut state = Deviation::default();
    items(operands).iter().filter_map(Value::as_f64).for_each(|number| state.add(number));
    Ok(Some(finish(&state).map_or(Value::Null, Value::Double)))
}

/// The widest type among the numbers added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Width {
    #[default]
    Int32,
    Int64,
    Double,
    Decimal,
}

/// A running sum: exact for integers, compensated for doubles, so that the order of the numbers matters
/// little.
///
/// Source: Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen" (1974).
#[derive(Debug, Clone, Default)]
pub(crate) struct Sum {
    width: Width,
    count: u64,
    integers: i128,
    doubles: f64,
    compensation: f64,
    decimals: Option<Decimal128>,
}

impl Sum {
    pub(crate) fn add(&mut self, number: Number) {
        self.count += 1;
        let width = match number {
            Number::Int32(number) => {
                self.integers += i128::from(number);
                Width::Int32
            }
            Number::Int64(number) => {
                self.integers += i128::from(number);
                Width::Int64
            }
            Number::Double(number) => {
                self.add_double(number);
                Width::Double
            }
            Number::Decimal(number) => {
                self.decimals = Some(self.decimals.map_or(number, |total| total.plus(number)));
                Width::Decimal
            }
        };
        self.width = self.width.max(width);
    }

    fn add_double(&mut self, number: f64) {
        let total = self.doubles + number;
        if total.is_finite() {
            self.compensation += if self.doubles.abs() >= number.abs() {
                (self.doubles - total) + number
            } else {
                (number - total) + self.doubles
            };
        }
        self.doubles = total;
    }

    fn double_total(&self) -> f64 {
        let mut both = self.clone();
        if self.integers != 0 {
            both.add_double(self.integers as f64);
        }
        if both.doubles.is_finite() { both.doubles + both.compensation } else { both.doubles }
    }

    fn decimal_total(&self) -> Decimal128 {
        let integers = match i64::try_from(self.integers) {
            Ok(integers) => Decimal128::from(integers),
            Err(_) => Decimal128::from_f64_widest(self.integers as f64),
        };
        let mut total = self.decimals.unwrap_or_default();
        if self.integers != 0 {
            total = total.plus(integers);
        }
        if self.doubles != 0.0 || self.compensation != 0.0 {
            let exact = Decimal128::from_f64_widest;
            total = total.plus(exact(self.doubles)).plus(exact(self.compensation));
        }
        total
    }

    /// The sum in the widest type added, or in the next one that holds it; Int32 zero for no numbers.
    pub(crate) fn total(&self) -> Number {
        match self.width {
            Width::Decimal => Number::Decimal(self.decimal_total()),
            Width::Double => Number::Double(self.double_total()),
            width => match (i32::try_from(self.integers), i64::try_from(self.integers)) {
                (Ok(narrow), _) if width == Width::Int32 => Number::Int32(narrow),
                (_, Ok(wide)) => Number::Int64(wide),
                _ => Number::Double(self.integers as f64),
            },
        }
    }

    /// The mean; `None` for no numbers.
    pub(crate) fn mean(&self) -> Option<Number> {
        if self.count == 0 {
            return None;
        }
        Some(match self.width {
            Width::Decimal => {
                let count = Decimal128::from(i64::try_from(self.count).unwrap_or(i64::MAX));
                Number::Decimal(self.decimal_total().divided_by(count))
            }
            _ => Number::Double(self.double_total() / self.count as f64),
        })
    }
}

/// Running mean and sum of squared differences.
///
/// Source: Welford, "Note on a Method for Calculating Corrected Sums of Squares and Products" (1962).
#[derive(Debug, Clone, Default)]
pub(crate) struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    pub(crate) fn add(&mut self, number: f64) {
        self.count += 1;
        let difference = number - self.mean;
        self.mean += difference / self.count as f64;
        self.squares += difference * (number - self.mean);
    }

    /// `None` for no numbers.
    pub(crate) fn of_population(&self) -> Option<f64> {
        (self.count > 0).then(|| (self.squares / self.count as f64).sqrt())
    }

    /// `None` for fewer than two numbers.
    pub(crate) fn of_sample(&self) -> Option<f64> {
        (self.count > 1).then(|| (self.squares / (self.count - 1) as f64).sqrt())
    }
}
