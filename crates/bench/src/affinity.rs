//! Which cores the generator and the server run on: `--pin`.

use crate::error::BenchError;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::str::FromStr;

/// Cores by number; `None`: wherever the kernel likes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Pin {
    generator: Option<Vec<usize>>,
    server: Option<Vec<usize>>,
}

impl FromStr for Pin {
    type Err = String;

    /// `GENERATOR:SERVER`, each a list such as `0` or `1,2`, or nothing.
    fn from_str(text: &str) -> Result<Self, String> {
        let (generator, server) = text.split_once(':').unwrap_or((text, ""));
        let pin = Pin { generator: cores(generator)?, server: cores(server)? };
        if pin == Pin::default() {
            return Err("expected GENERATOR:SERVER, such as 0:1, 0 or :1,2".to_owned());
        }
        Ok(pin)
    }
}

fn cores(text: &str) -> Result<Option<Vec<usize>>, String> {
    if text.is_empty() {
        return Ok(None);
    }
    let parse = |part: &str| match part.parse::<usize>() {
        Ok(core) if core < CpuSet::MAX_CPU => Ok(core),
        _ => Err(format!("'{part}' is not the number of a core")),
    };
    text.split(',').map(parse).collect::<Result<Vec<usize>, String>>().map(Some)
}

impl Pin {
    /// Moves this thread to the generator's cores.
    pub(crate) fn enter_generator(&self) -> Result<(), BenchError> {
        self.generator.as_ref().map_or(Ok(()), |cores| move_to(&set_of(cores)))
    }

    /// Runs `start`, whose child processes inherit the server's cores, which are all when none is named.
    pub(crate) fn with_server_cores<T>(
        &self,
        start: impl FnOnce() -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        if *self == Pin::default() {
            return start();
        }
        let own = sched_getaffinity(None)
            .map_err(|error| BenchError::io("ask for this thread's cores")(error.into()))?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).collect();
        move_to(&set_of(self.server.as_ref().unwrap_or(&all)))?;
        let started = start();
        move_to(&own)?;
        started
    }
}

fn set_of(cores: &[usize]) -> CpuSet {
    let mut set = CpuSet::new();
    for &core in cores {
        set.set(core);
    }
    set
}

fn move_to(set: &CpuSet) -> Result<(), BenchError> {
    sched_setaffinity(None, set)
        .map_err(|error| BenchError::io("move to the cores named by --pin")(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: Result<(&[usize], &[usize]), &str>) {
        let given = |cores: &[usize]| (!cores.is_empty()).then(|| cores.to_vec());
        let expect = expect
            .map(|(generator, server)| Pin { generator: given(generator), server: given(server) })
            .map_err(str::to_owned);
        assert_eq!(text.parse::<Pin>(), expect, "for '{text}'");
    }

    #[test]
    fn cores_are_named_for_either_side() {
        check("0:1", Ok((&[0], &[1])));
        check("0", Ok((&[0], &[])));
        check(":1,2", Ok((&[], &[1, 2])));
        check("", Err("expected GENERATOR:SERVER, such as 0:1, 0 or :1,2"));
        check("0:x", Err("'x' is not the number of a core"));
        check("99999:", Err("'99999' is not the number of a core"));
    }

    #[test]
    fn the_own_cores_are_the_same_after_a_child_was_started() {
        let own = sched_getaffinity(None).expect("cores");
        let pin: Pin = ":0".parse().expect("valid");
        let inside = pin
            .with_server_cores(|| {
                sched_getaffinity(None).map_err(|error| BenchError::io("ask")(error.into()))
            })
            .expect("starts");
        assert_eq!(inside, set_of(&[0]));
        assert_eq!(sched_getaffinity(None).expect("cores"), own);
    }
}
