//! WiredTiger's configuration strings, as far as they say what has a counterpart here:
//! `cache_size=50GB,eviction_dirty_target=3,eviction=(threads_min=8,threads_max=12),checkpoint=(wait=25)`.

use super::Parameter;

/// A knob and its value, in the unit of its parameter.
pub type WiredTigerKnob = (Parameter, i64);

const MIB: i64 = 1 << 20;

/// Reads the knobs from a configuration string.
///
/// # Errors
/// In MongoDB's words, with the key that is unknown, malformed or without a counterpart.
pub fn parse(text: &str) -> Result<Vec<WiredTigerKnob>, String> {
    let mut knobs = Vec::new();
    read(text, "", &mut knobs).map_err(|reason| {
        format!("WiredTiger reconfiguration failed with error code (22): Invalid argument: {reason}")
    })?;
    Ok(knobs)
}

pub(super) fn check(text: &str) -> Result<(), String> {
    let in_range = |(parameter, value): &WiredTigerKnob| {
        let checked = parameter.definition().validate(super::Setting::Integer(*value));
        checked.map(drop).map_err(|error| error.to_string())
    };
    parse(text)?.iter().try_for_each(in_range)
}

fn read(text: &str, within: &str, knobs: &mut Vec<WiredTigerKnob>) -> Result<(), String> {
    for entry in entries(text)? {
        let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
        let key = format!("{within}{}", key.trim());
        let value = value.trim();
        match value.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
            Some(inner) if within.is_empty() => read(inner, &format!("{key}."), knobs)?,
            _ => knobs.push(knob(&key, value)?),
        }
    }
    Ok(())
}

/// What stands between commas that are in no parentheses.
fn entries(text: &str) -> Result<Vec<&str>, String> {
    let (mut entries, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, character) in text.char_indices().chain([(text.len(), ',')]) {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| format!("unbalanced ')' in '{text}'"))?,
            ',' if depth == 0 => {
                entries.push(text.get(from..at).unwrap_or_default().trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("unbalanced '(' in '{text}'"));
    }
    entries.retain(|entry| !entry.is_empty());
    Ok(entries)
}

fn knob(key: &str, value: &str) -> Result<WiredTigerKnob, String> {
    let mib = || size(key, value).map(|bytes| bytes / MIB + i64::from(bytes % MIB > 0));
    Ok(match key {
        "cache_size" => (Parameter::CacheSizeMb, mib()?),
        "eviction_dirty_target" => (Parameter::DirtyTarget, size(key, value)?),
        "eviction_dirty_trigger" => (Parameter::DirtyTrigger, size(key, value)?),
        "eviction.threads_min" => (Parameter::BackgroundThreadsMin, size(key, value)?),
        "eviction.threads_max" => (Parameter::BackgroundThreadsMax, size(key, value)?),
        "checkpoint.wait" => (Parameter::SyncDelay, size(key, value)?),
        "checkpoint.log_size" => (Parameter::JournalSizeMb, mib()?),
        "eviction_target" | "eviction_trigger" => {
            return Err(format!(
                "'{key}' has no counterpart: a full cache lets go of a block for each that comes, and no \
                client waits for that"
            ));
        }
        _ => return Err(format!("unknown configuration key: '{key}'")),
    })
}

/// A whole number, with WiredTiger's letters for powers of 1,024.
fn size(key: &str, value: &str) -> Result<i64, String> {
    let digits = value.trim_end_matches(|character: char| character.is_ascii_alphabetic());
    let letters = value.get(digits.len()..).unwrap_or_default().to_ascii_uppercase();
    let shift = match letters.as_str() {
        "" | "B" => Some(0),
        "K" | "KB" => Some(10),
        "M" | "MB" => Some(20),
        "G" | "GB" => Some(30),
        "T" | "TB" => Some(40),
        _ => None,
    };
    let number = digits.parse::<i64>().ok().filter(|number| *number >= 0);
    let bytes = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| format!("'{key}' is '{value}', expected a size such as 512MB"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knobs_of_the_article_are_understood() {
        let article = "eviction_dirty_target=3, eviction_dirty_trigger=25,\
            eviction=(threads_min=8,threads_max=12),checkpoint=(wait=25,log_size=1GB),cache_size=50G";
        let expected = [
            (Parameter::DirtyTarget, 3),
            (Parameter::DirtyTrigger, 25),
            (Parameter::BackgroundThreadsMin, 8),
            (Parameter::BackgroundThreadsMax, 12),
            (Parameter::SyncDelay, 25),
            (Parameter::JournalSizeMb, 1_024),
            (Parameter::CacheSizeMb, 51_200),
        ];
        assert_eq!(parse(article).as_deref(), Ok(&expected[..]));
        assert_eq!((parse(""), parse("cache_size=1")), (Ok(vec![]), Ok(vec![(Parameter::CacheSizeMb, 1)])));
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (text, expect) in [
            ("cash_size=1GB", "unknown configuration key: 'cash_size'"),
            ("eviction=(threads=1)", "unknown configuration key: 'eviction.threads'"),
            ("cache_size=many", "'cache_size' is 'many', expected a size such as 512MB"),
            ("checkpoint=(wait=25", "unbalanced '(' in 'checkpoint=(wait=25'"),
            ("checkpoint=wait)", "unbalanced ')' in 'checkpoint=wait)'"),
            ("eviction_target=75", "'eviction_target' has no counterpart"),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(expect) && refused.contains("(22)"), "{refused}");
        }
        assert!(check("checkpoint=(log_size=1)").is_err(), "1 MiB of journal is too little");
        assert_eq!(check("checkpoint=(log_size=16MB)"), Ok(()));
    }
}
