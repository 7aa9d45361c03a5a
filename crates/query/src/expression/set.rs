//! Arrays as sets: order and repetition of items do not count. Results are sorted and free of duplicates.

use document::Value;

use crate::error::QueryError;

use super::operators::Operator;
use super::{Evaluated, NULL, Outcome, is_true, limits, nullish, type_name};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::many("$setUnion", union, "the values that are in any of the arrays"),
    Operator::many("$setIntersection", intersection, "the values that are in every array"),
    Operator::two("$setDifference", difference, "the values of the first array that are not in the second"),
    Operator::many("$setEquals", equals, "whether the arrays hold the same values"),
    Operator::two("$setIsSubset", is_subset, "whether every value of the first array is in the second"),
    Operator::one("$anyElementTrue", any_true, "whether any item of the array counts as true"),
    Operator::one("$allElementsTrue", all_true, "whether every item of the array counts as true"),
];

/// Sorts and removes duplicates.
fn normalised(mut items: Vec<Value>) -> Vec<Value> {
    items.sort_by(Value::compare);
    items.dedup_by(|left, right| left.compare(right).is_eq());
    items
}

fn has(sorted: &[Value], item: &Value) -> bool {
    sorted.binary_search_by(|candidate| candidate.compare(item)).is_ok()
}

fn not_an_array(code: i32, name: &str, found: &Evaluated) -> QueryError {
    query_error!(code, "All operands of {name} must be arrays. One argument is of type: {}", type_name(found))
}

fn union(operands: Vec<Evaluated>) -> Outcome {
    let mut all = Vec::new();
    for operand in operands {
        match operand {
            Some(Value::Array(items)) => all.extend(items),
            value if nullish(&value) => return Ok(NULL),
            other => return Err(not_an_array(17043, "$setUnion", &other)),
        }
    }
    limits::array("$setUnion", normalised(all))
}

fn intersection(operands: Vec<Evaluated>) -> Outcome {
    let mut common: Option<Vec<Value>> = None;
    for operand in operands {
        match operand {
            Some(Value::Array(items)) => {
                let items = normalised(items.into_vec());
                common = Some(match common {
                    None => items,
                    Some(before) => before.into_iter().filter(|item| has(&items, item)).collect(),
                });
            }
            value if nullish(&value) => return Ok(NULL),
            other => return Err(not_an_array(17047, "$setIntersection", &other)),
        }
    }
    Ok(Some(Value::Array(common.unwrap_or_default().into())))
}

fn pair(
    left: Evaluated,
    right: Evaluated,
    name: &str,
    codes: [i32; 2],
) -> Result<(Vec<Value>, Vec<Value>), QueryError> {
    let wrong = |code, which: &str, found: &Evaluated| {
        query_error!(
            code,
            "both operands of {name} must be arrays. {which} argument is of type: {}",
            type_name(found)
        )
    };
    match (left, right) {
        (Some(Value::Array(left)), Some(Value::Array(right))) => Ok((left.into_vec(), right.into_vec())),
        (Some(Value::Array(_)), right) => Err(wrong(codes[1], "Second", &right)),
        (left, _) => Err(wrong(codes[0], "First", &left)),
    }
}

fn difference(left: Evaluated, right: Evaluated) -> Outcome {
    if nullish(&left) || nullish(&right) {
        return Ok(NULL);
    }
    let (left, right) = pair(left, right, "$setDifference", [17048, 17049])?;
    let right = normalised(right);
    // The order of first occurrences is kept here, as MongoDB does for this operator alone.
    let mut sorted: Vec<(usize, Value)> = left.into_iter().enumerate().collect();
    sorted.sort_by(|(_, one), (_, other)| one.compare(other));
    sorted.dedup_by(|(_, later), (_, earlier)| later.compare(earlier).is_eq());
    sorted.retain(|(_, item)| !has(&right, item));
    sorted.sort_by_key(|(position, _)| *position);
    Ok(Some(sorted.into_iter().map(|(_, item)| item).collect::<Vec<Value>>().into()))
}

fn equals(operands: Vec<Evaluated>) -> Outcome {
    if operands.len() < 2 {
        bail!(17045, "$setEquals needs at least two arguments had: {}", operands.len());
    }
    let mut sets = Vec::with_capacity(operands.len());
    for (position, operand) in operands.into_iter().enumerate() {
        let Some(Value::Array(items)) = operand else {
            bail!(
                17044,
                "All operands of $setEquals must be arrays. {}-th argument is of type: {}",
                position + 1,
                type_name(&operand)
            );
        };
        sets.push(normalised(items.into_vec()));
    }
    let same = |left: &[Value], right: &[Value]| {
        left.len() == right.len() && left.iter().zip(right).all(|(left, right)| left.compare(right).is_eq())
    };
    let all = sets.windows(2).all(|neighbours| match neighbours {
        [left, right] => same(left, right),
        _ => true,
    });
    Ok(Some(Value::Boolean(all)))
}

fn is_subset(left: Evaluated, right: Evaluated) -> Outcome {
    let (left, right) = pair(left, right, "$setIsSubset", [17046, 17042])?;
    let right = normalised(right);
    Ok(Some(Value::Boolean(left.iter().all(|item| has(&right, item)))))
}

fn items(operand: Evaluated, name: &str, code: i32) -> Result<Vec<Value>, QueryError> {
    match operand {
        Some(Value::Array(items)) => Ok(items.into_vec()),
        other => Err(query_error!(code, "{name}'s argument must be an array, but is {}", type_name(&other))),
    }
}

fn any_true(operand: Evaluated) -> Outcome {
    let items = items(operand, "$anyElementTrue", 17041)?;
    Ok(Some(Value::Boolean(items.into_iter().any(|item| is_true(&Some(item))))))
}

fn all_true(operand: Evaluated) -> Outcome {
    let items = items(operand, "$allElementsTrue", 17040)?;
    Ok(Some(Value::Boolean(items.into_iter().all(|item| is_true(&Some(item))))))
}
