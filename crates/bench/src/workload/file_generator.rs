//! Generators in workload files: tables with the key `gen`.

use crate::workload::distribution::Distribution;
use crate::workload::file::{MARK, template};
use crate::workload::file_reader::{Item, Table};
use crate::workload::template::{Generator, LONGEST_ARRAY};

const NAMES: &str = "key, sequence, document, integer, double, string, bytes, boolean, choice, objectId, uuid, date, \
                     fromNow and array";

/// Strings and binary values are at most as long as a document.
const LONGEST_TEXT: u64 = 16 * 1024 * 1024;

pub(crate) fn generator(mut table: Table<'_>) -> Result<Generator, String> {
    let mark = table.require(MARK)?;
    let generator = match mark.text()? {
        "key" => Generator::Key,
        "sequence" => {
            Generator::Sequence { start: table.take("start").map_or(Ok(0), |item| item.integer())? }
        }
        "document" => Generator::NewDocument,
        "integer" => integer(&mut table)?,
        "double" => {
            let (least, most) = (table.require("min")?.number()?, table.require("max")?);
            Generator::Double { least, most: not_below(least, most.number()?, &most)? }
        }
        "string" => {
            let (least, most) = lengths(&mut table, LONGEST_TEXT)?;
            Generator::Text { least, most }
        }
        "bytes" => Generator::Bytes { length: length(&table.require("length")?, LONGEST_TEXT)? },
        "boolean" => Generator::Boolean { share: share(&mut table)? },
        "choice" => choice(&mut table)?,
        "objectId" => Generator::ObjectId,
        "uuid" => Generator::Uuid,
        "date" => {
            let (least, most) = (table.require("min")?.date()?, table.require("max")?);
            Generator::Date { least, most: not_below(least, most.date()?, &most)? }
        }
        "fromNow" => {
            let (least, most) = (milliseconds(&table.require("min")?)?, table.require("max")?);
            Generator::FromNow { least, most: not_below(least, milliseconds(&most)?, &most)? }
        }
        "array" => {
            let (least, most) = lengths(&mut table, LONGEST_ARRAY.into())?;
            Generator::Array { least, most, of: Box::new(template(&table.require("of")?)?) }
        }
        unknown => return Err(mark.fail(&format!("unknown generator '{unknown}'; there are {NAMES}"))),
    };
    table.finish()?;
    Ok(generator)
}

fn not_below<T: PartialOrd>(least: T, most: T, item: &Item<'_>) -> Result<T, String> {
    if most < least { Err(item.fail("'max' is below 'min'")) } else { Ok(most) }
}

/// Seconds, as a number, in milliseconds.
fn milliseconds(item: &Item<'_>) -> Result<i64, String> {
    Ok((item.number()? * 1_000.0) as i64)
}

fn integer(table: &mut Table<'_>) -> Result<Generator, String> {
    let (least, most) = (table.require("min")?.integer()?, table.require("max")?);
    let most = not_below(least, most.integer()?, &most)?;
    let Some(item) = table.take("distribution") else {
        return Ok(Generator::Integer { least, most, zipfian: None });
    };
    let distribution: Distribution = item.text()?.parse().map_err(|problem: String| item.fail(&problem))?;
    Generator::integer(least, most, distribution)
        .ok_or_else(|| item.fail("integers are drawn 'uniform' or 'zipfian' (the least most often)"))
}

fn share(table: &mut Table<'_>) -> Result<f64, String> {
    let Some(item) = table.take("share") else { return Ok(0.5) };
    let share = item.number()?;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(item.fail("expected a share from 0 to 1")) }
}

/// `of = ["a", "b"]`, with or without `weights = [3, 1]`.
fn choice(table: &mut Table<'_>) -> Result<Generator, String> {
    let of = table.require("of")?;
    let values = of.array()?;
    if values.is_empty() {
        return Err(of.fail("there is nothing to choose from"));
    }
    let weights = match table.take("weights") {
        None => vec![1.0; values.len()],
        Some(item) => {
            let weights: Vec<f64> = item.array()?.iter().map(Item::number).collect::<Result<_, _>>()?;
            let good =
                weights.iter().all(|weight| *weight >= 0.0) && weights.iter().any(|weight| *weight > 0.0);
            if weights.len() != values.len() || !good {
                return Err(item.fail("expected a weight from 0 for each value, and one above 0"));
            }
            weights
        }
    };
    let values = values.iter().map(template).collect::<Result<Vec<_>, _>>()?;
    Ok(Generator::Choice(weights.into_iter().zip(values).collect()))
}

fn length(item: &Item<'_>, longest: u64) -> Result<u32, String> {
    match item.whole()? {
        length if length <= longest => Ok(length as u32),
        _ => Err(item.fail(&format!("at most {longest} are possible"))),
    }
}

/// `length = 5`, or `min` and `max`.
fn lengths(table: &mut Table<'_>, longest: u64) -> Result<(u32, u32), String> {
    if let Some(item) = table.take("length") {
        return length(&item, longest).map(|exactly| (exactly, exactly));
    }
    let (least, most) = (table.require("min")?, table.require("max")?);
    let least = length(&least, longest)?;
    Ok((least, not_below(least, length(&most, longest)?, &most)?))
}
