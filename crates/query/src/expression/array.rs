//! Array operators without variables; those that bind variables are in `iterate`.

use document::{Array, Document, Fieldwise, Value};

use crate::error::QueryError;

use super::brief;
use super::call::Arguments;
use super::number::as_i32;
use super::operators::{Operator, OperatorParameter, Signature};
use super::string::position;
use super::{Evaluated, NULL, Outcome, as_integer, limits, null_if_nullish, nullish, type_name};

static ZIP: Signature = Signature {
    parameters: &[
        OperatorParameter::required("inputs"),
        OperatorParameter::optional("useLongestLength"),
        OperatorParameter::optional("defaults"),
    ],
    not_an_object: 34460,
    unknown: 34464,
    absent: 34465,
    shorthand: false,
};
static TAKE_N: Signature = Signature {
    parameters: &[OperatorParameter::required("n"), OperatorParameter::required("input")],
    not_an_object: 5787801,
    unknown: 5787901,
    absent: 5787906,
    shorthand: false,
};

pub(crate) static OPERATORS: &[Operator] = &[
    Operator::one("$size", size, "the number of items of an array"),
    Operator::two("$arrayElemAt", element_at, "the item at a position, counted from the end when negative"),
    Operator::one(
        "$first",
        |array| at(array, Some(Value::Int32(0)), "$first", "$first's argument"),
        "the first item of an array",
    ),
    Operator::one(
        "$last",
        |array| at(array, Some(Value::Int32(-1)), "$last", "$last's argument"),
        "the last item of an array",
    ),
    Operator::between(
        "$slice",
        (2, 3),
        slice,
        "a part of an array: [array, count] or [array, position, count]",
    ),
    Operator::many("$concatArrays", concat, "the arrays, one after the other"),
    Operator::two("$in", contains, "whether a value is among the items of an array"),
    Operator::between("$indexOfArray", (2, 4), index_of, "the position of a value in an array, or -1"),
    Operator::one(
        "$isArray",
        |value| Ok(Some(Value::Boolean(matches!(value, Some(Value::Array(_)))))),
        "whether the operand is an array",
    ),
    Operator::between(
        "$range",
        (2, 3),
        range,
        "the integers from a start up to but not including an end, by a step",
    ),
    Operator::one("$reverseArray", reverse, "the items of an array in reverse"),
    Operator::named("$zip", &ZIP, zip, "the arrays of 'inputs', transposed"),
    Operator::one("$arrayToObject", to_object, "the object with the given pairs of name and value"),
    Operator::one("$objectToArray", from_object, "the fields of an object as an array of {k, v}"),
    Operator::named(
        "$firstN",
        &TAKE_N,
        |arguments| take_n(arguments, Take::First),
        "the first 'n' items of 'input'",
    ),
    Operator::named(
        "$lastN",
        &TAKE_N,
        |arguments| take_n(arguments, Take::Last),
        "the last 'n' items of 'input'",
    ),
    Operator::named(
        "$minN",
        &TAKE_N,
        |arguments| take_n(arguments, Take::Lowest),
        "the lowest 'n' items of 'input', lowest first",
    ),
    Operator::named(
        "$maxN",
        &TAKE_N,
        |arguments| take_n(arguments, Take::Highest),
        "the highest 'n' items of 'input', highest first",
    ),
];

fn int(number: usize) -> Outcome {
    Ok(Some(Value::Int32(i32::try_from(number).unwrap_or(i32::MAX))))
}

fn size(operand: Evaluated) -> Outcome {
    match &operand {
        Some(Value::Array(items)) => int(items.len()),
        other => Err(query_error!(
            17124,
            "The argument to $size must be an array, but was of type: {}",
            type_name(other)
        )),
    }
}

fn element_at(array: Evaluated, index: Evaluated) -> Outcome {
    at(array, index, "$arrayElemAt", "$arrayElemAt's first argument")
}

fn at(array: Evaluated, index: Evaluated, name: &str, subject: &str) -> Outcome {
    null_if_nullish!(array, index);
    let Some(Value::Array(items)) = array else {
        bail!(28689, "{subject} must be an array, but is {}", type_name(&array));
    };
    if !index.as_ref().is_some_and(Value::is_number) {
        bail!(28690, "{name}'s second argument must be a numeric value, but is {}", type_name(&index));
    }
    let Some(number) = as_i32(&index) else {
        bail!(28691, "{name}'s second argument must be representable as a 32-bit integer: {}", brief(&index));
    };
    let place = match usize::try_from(number) {
        Ok(place) => Some(place),
        Err(_) => items.len().checked_sub(number.unsigned_abs() as usize),
    };
    Ok(place.and_then(|place| items.get(place)).cloned())
}

fn slice_number(operand: &Evaluated, which: &str, codes: [i32; 2]) -> Result<i32, QueryError> {
    if !operand.as_ref().is_some_and(Value::is_number) {
        bail!(codes[0], "{which} argument to $slice must be numeric, but is of type: {}", type_name(operand));
    }
    as_i32(operand).ok_or_else(|| {
        query_error!(
            codes[1],
            "{which} argument to $slice can't be represented as a 32-bit integer: {}",
            brief(operand)
        )
    })
}

fn slice(operands: Vec<Evaluated>) -> Outcome {
    if operands.iter().any(nullish) {
        return Ok(NULL);
    }
    let mut operands = operands.into_iter();
    let (array, second, third) = (operands.next().flatten(), operands.next().flatten(), operands.next());
    let Some(Value::Array(items)) = array else {
        bail!(28724, "First argument to $slice must be an array, but is of type: {}", type_name(&array));
    };
    let second = slice_number(&second, "Second", [28725, 28726])?;
    let length = items.len();
    let (start, count) = match third {
        None if second >= 0 => (0, second.unsigned_abs() as usize),
        None => (length.saturating_sub(second.unsigned_abs() as usize), length),
        Some(third) => {
            let count = slice_number(&third, "Third", [28727, 28728])?;
            if count <= 0 {
                bail!(28729, "Third argument to $slice must be positive: {count}");
            }
            let distance = second.unsigned_abs() as usize;
            (
                if second >= 0 { distance } else { length.saturating_sub(distance) },
                count.unsigned_abs() as usize,
            )
        }
    };
    Ok(Some(Value::Array(items.into_iter().skip(start).take(count).collect())))
}

fn concat(operands: Vec<Evaluated>) -> Outcome {
    let mut joined = Vec::new();
    let mut bytes = 0;
    for operand in operands {
        match operand {
            Some(Value::Array(items)) => {
                bytes += items.measure().bytes;
                limits::check_bytes("$concatArrays", bytes)?;
                joined.extend(items);
            }
            value if nullish(&value) => return Ok(NULL),
            other => bail!(28664, "$concatArrays only supports arrays, not {}", type_name(&other)),
        }
    }
    limits::array("$concatArrays", joined)
}

fn contains(value: Evaluated, array: Evaluated) -> Outcome {
    let Some(Value::Array(items)) = &array else {
        bail!(40081, "$in requires an array as a second argument, found: {}", type_name(&array));
    };
    Ok(Some(Value::Boolean(items.iter().any(|item| equal(item, &value)))))
}

fn equal(item: &Value, wanted: &Evaluated) -> bool {
    wanted.as_ref().is_some_and(|wanted| item.compare(wanted).is_eq())
}

fn index_of(operands: Vec<Evaluated>) -> Outcome {
    let first = operands.first().expect("$indexOfArray has at least two operands");
    null_if_nullish!(*first);
    let Some(Value::Array(items)) = first else {
        bail!(40090, "$indexOfArray requires an array as a first argument, found: {}", type_name(first));
    };
    let start = operands.get(2).map_or(Ok(0), |operand| position(operand, "$indexOfArray", "starting"))?;
    let end =
        operands.get(3).map_or(Ok(usize::MAX), |operand| position(operand, "$indexOfArray", "ending"))?;
    let wanted = operands.get(1).expect("$indexOfArray has at least two operands").clone();
    let found = items.iter().enumerate().take(end).skip(start).find(|(_, item)| equal(item, &wanted));
    found.map_or(Ok(Some(Value::Int32(-1))), |(at, _)| int(at))
}

fn range_number(operand: &Evaluated, which: &str, codes: [i32; 2]) -> Result<i64, QueryError> {
    if !operand.as_ref().is_some_and(Value::is_number) {
        bail!(
            codes[0],
            "$range requires a numeric {which} value, found value of type:{}",
            type_name(operand)
        );
    }
    as_i32(operand).map(i64::from).ok_or_else(|| {
        query_error!(
            codes[1],
            "$range requires a {which} value that can be represented as a 32-bit integer, found value: {}",
            brief(operand)
        )
    })
}

fn range(operands: Vec<Evaluated>) -> Outcome {
    let operand = |position: usize| operands.get(position).expect("$range has at least two operands");
    let start = range_number(operand(0), "starting", [34443, 34444])?;
    let end = range_number(operand(1), "ending", [34445, 34446])?;
    let step = operands.get(2).map_or(Ok(1), |step| range_number(step, "step", [34447, 34448]))?;
    if step == 0 {
        bail!(34449, "$range requires a non-zero step value");
    }
    let count = usize::try_from((end - start) / step).unwrap_or(0);
    limits::check_range(count)?;
    let mut items = Vec::with_capacity(count + 1);
    let mut current = start;
    while (step > 0 && current < end) || (step < 0 && current > end) {
        items.push(Value::Int32(i32::try_from(current).unwrap_or(i32::MAX)));
        current += step;
    }
    Ok(Some(Value::from(items)))
}

fn reverse(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    match operand {
        Some(Value::Array(mut items)) => {
            items.reverse();
            Ok(Some(Value::Array(items)))
        }
        other => Err(query_error!(
            34435,
            "The argument to $reverseArray must be an array, but was of type: {}",
            type_name(&other)
        )),
    }
}

fn zip(mut arguments: Arguments) -> Outcome {
    let longest = matches!(arguments.take("useLongestLength"), Some(Value::Boolean(true)));
    let defaults = match arguments.take_given("defaults") {
        Some(Some(Value::Array(defaults))) => Some(defaults),
        Some(other) if !nullish(&other) => {
            return Err(QueryError::new(
                34462,
                "defaults must be an array of expressions, found ".to_owned() + type_name(&other),
            ));
        }
        _ => None,
    };
    let inputs = arguments.take("inputs");
    let Some(Value::Array(inputs)) = inputs else {
        bail!(34461, "inputs must be an array of expressions, found {}", type_name(&inputs));
    };
    if inputs.is_empty() {
        bail!(34465, "$zip requires at least one input array");
    }
    if let Some(defaults) = &defaults {
        if !longest {
            bail!(34466, "cannot specify defaults unless useLongestLength is true");
        }
        if defaults.len() != inputs.len() {
            bail!(34467, "defaults and inputs must have the same length");
        }
    }
    let mut columns = Vec::with_capacity(inputs.len());
    for input in inputs {
        match input {
            Value::Array(items) => columns.push(items),
            Value::Null | Value::Undefined => return Ok(NULL),
            other => bail!(34468, "$zip found a non-array expression in input: {}", brief(&Some(other))),
        }
    }
    let lengths = columns.iter().map(|items| items.len());
    let rows = if longest { lengths.max() } else { lengths.min() }.unwrap_or(0);
    let fallback =
        |column: usize| defaults.as_ref().and_then(|all| all.get(column)).cloned().unwrap_or_default();
    let row_bytes = size_of::<Value>() * (columns.len() + 1);
    limits::check_bytes("$zip", rows.saturating_mul(row_bytes))?;
    let zipped = (0..rows).map(|row| {
        let cells = columns.iter().enumerate();
        Value::Array(
            cells
                .map(|(column, items)| items.get(row).cloned().unwrap_or_else(|| fallback(column)))
                .collect(),
        )
    });
    limits::array("$zip", zipped.collect::<Array>())
}

fn to_object(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    let Some(Value::Array(items)) = operand else {
        bail!(40386, "$arrayToObject requires an array input, found: {}", type_name(&operand));
    };
    let mut object = Fieldwise::default();
    let mut pairs_are_arrays = None;
    for item in items {
        let is_array = matches!(item, Value::Array(_));
        if *pairs_are_arrays.get_or_insert(is_array) != is_array {
            let (detected, found, code) =
                if is_array { ("Object", "array", 40391) } else { ("Array", "object", 40396) };
            bail!(
                code,
                "$arrayToObject requires a consistent input format. Elements must all be arrays or all be \
                objects. {detected} was detected, now found: {found}"
            );
        }
        let (name, value) = match item {
            Value::Array(pair) => array_pair(pair.into_vec())?,
            Value::Document(pair) => object_pair(pair)?,
            other => {
                bail!(40398, "Unrecognised input type format for $arrayToObject: {}", other.kind().alias())
            }
        };
        if name.contains('\0') {
            bail!(4940400, "Key field cannot contain an embedded null byte");
        }
        object.insert(name, value);
    }
    limits::object("$arrayToObject", object.into_document())
}

fn array_pair(pair: Vec<Value>) -> Result<(String, Value), QueryError> {
    let given = pair.len();
    let Ok([name, value]) = <[Value; 2]>::try_from(pair) else {
        bail!(40397, "$arrayToObject requires an array of size 2 arrays,found array of size: {given}");
    };
    match name {
        Value::String(name) => Ok((name, value)),
        other => Err(query_error!(
            40395,
            "$arrayToObject requires an array of key-value pairs, where the key must be of type string. \
            Found key type: {}",
            other.kind().alias()
        )),
    }
}

fn object_pair(mut pair: Document) -> Result<(String, Value), QueryError> {
    if pair.len() != 2 {
        bail!(
            40392,
            "$arrayToObject requires an object keys of 'k' and 'v'. Found incorrect number of keys:{}",
            pair.len()
        );
    }
    match (pair.remove("k"), pair.remove("v")) {
        (Some(Value::String(name)), Some(value)) => Ok((name, value)),
        (Some(other), Some(_)) => Err(query_error!(
            40394,
            "$arrayToObject requires an object with keys 'k' and 'v', where the value of 'k' must be of \
            type string. Found type: {}",
            other.kind().alias()
        )),
        _ => Err(QueryError::new(
            40393,
            "$arrayToObject requires an object with keys 'k' and 'v'. Missing either or both keys",
        )),
    }
}

fn from_object(operand: Evaluated) -> Outcome {
    null_if_nullish!(operand);
    let Some(Value::Document(object)) = operand else {
        bail!(40390, "$objectToArray requires a document input, found: {}", type_name(&operand));
    };
    let pairs = object.into_iter().map(|(name, value)| {
        let mut pair = Document::new();
        pair.push("k", name);
        pair.push("v", value);
        Value::Document(pair)
    });
    limits::array("$objectToArray", pairs.collect::<Array>())
}

/// Which items the `N` operators take.
enum Take {
    First,
    Last,
    Lowest,
    Highest,
}

/// Checks the `n` of an operator or accumulator that takes so many items.
pub(crate) fn take_count(operand: &Evaluated) -> Result<usize, QueryError> {
    if !operand.as_ref().is_some_and(Value::is_number) {
        bail!(5787902, "Value for 'n' must be of integral type, but found {}", brief(operand));
    }
    let Some(number) = as_integer(operand) else {
        bail!(5787903, "Value for 'n' must be of integral type, but found {}", brief(operand));
    };
    usize::try_from(number)
        .ok()
        .filter(|count| *count > 0)
        .ok_or_else(|| query_error!(5787908, "'n' must be greater than 0, found {number}"))
}

fn take_n(mut arguments: Arguments, which: Take) -> Outcome {
    let count = take_count(&arguments.take("n"))?;
    let input = arguments.take("input");
    let Some(Value::Array(items)) = input else {
        bail!(5788200, "Input must be an array");
    };
    let mut items = items.into_vec();
    match which {
        Take::First => items.truncate(count),
        Take::Last => {
            items.drain(..items.len().saturating_sub(count));
        }
        Take::Lowest | Take::Highest => {
            items.retain(|item| !item.is_nullish());
            items.sort_by(Value::compare);
            if matches!(which, Take::Highest) {
                items.reverse();
            }
            items.truncate(count);
        }
    }
    Ok(Some(Value::from(items)))
}
