//! Whether what clients were answered is linearizable: Wing and Gong's search with Lowe's memory of what was
//! tried before, one document at a time, as `porcupine` does it.
//!
//! A document is a list to which numbers are appended; the whole of it is known at the end. Requests must fit
//! into one order in which each is done at one moment between its call and its answer.

use std::collections::HashSet;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Append(i64),
    /// It saw the first so many numbers of the list.
    Read(usize),
}

/// A request, and between which moments it was done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    pub(crate) call: Call,
    pub(crate) called: u64,
    /// Without an answer it may have been done at any time since.
    pub(crate) answered: u64,
}

/// Whether a request may be next when the list has so many numbers, and how many it has then.
fn step(call: Call, length: usize, list: &[i64]) -> Option<usize> {
    match call {
        Call::Append(number) => (list.get(length) == Some(&number)).then_some(length + 1),
        Call::Read(seen) => (seen == length).then_some(length),
    }
}

/// An order of these requests that makes the list; `Err` with the longest that could be found.
pub(crate) fn order(requests: &[Request], list: &[i64]) -> Result<Vec<usize>, Vec<usize>> {
    let mut is_done = vec![false; requests.len()];
    let mut tried: HashSet<(Vec<bool>, usize)> = HashSet::new();
    let (mut order, mut longest): (Vec<(usize, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
    let (mut length, mut from) = (0, 0);
    while order.len() < requests.len() || length != list.len() {
        // Whoever was answered before another one called is done before it.
        let waiting = requests.iter().zip(&is_done).filter(|(_, is_done)| !**is_done);
        let first_answer = waiting.map(|(request, _)| request.answered).min().unwrap_or(u64::MAX);
        let next = (from..requests.len()).find_map(|place| {
            let Request { call, called, .. } = requests[place];
            if is_done[place] || called > first_answer {
                return None;
            }
            let then = step(call, length, list)?;
            is_done[place] = true;
            let is_new = tried.insert((is_done.clone(), then));
            is_done[place] = is_new;
            is_new.then_some((place, then))
        });
        match next {
            Some((place, then)) => {
                order.push((place, length));
                (length, from) = (then, 0);
                if order.len() > longest.len() {
                    longest = order.iter().map(|(place, _)| *place).collect();
                }
            }
            None => {
                let Some((place, before)) = order.pop() else { return Err(longest) };
                is_done[place] = false;
                (length, from) = (before, place + 1);
            }
        }
    }
    Ok(order.into_iter().map(|(place, _)| place).collect())
}

#[cfg(test)]
mod tests {
    use super::Call::{Append, Read};
    use super::*;

    #[track_caller]
    fn check(requests: &[(Call, u64, u64)], list: &[i64], expected: Result<&[usize], &[usize]>) {
        let requests: Vec<_> =
            requests.iter().map(|&(call, called, answered)| Request { call, called, answered }).collect();
        let found = order(&requests, list);
        assert_eq!(found.as_deref().map_err(Vec::as_slice), expected, "{requests:?}");
    }

    #[test]
    fn an_order_is_found_where_there_is_one() {
        check(&[], &[], Ok(&[]));
        check(&[(Append(1), 0, 9), (Append(2), 1, 2)], &[2, 1], Ok(&[1, 0]));
        check(&[(Append(1), 0, 9), (Read(0), 1, 2), (Read(1), 3, 4)], &[1], Ok(&[1, 0, 2]));
        // Never answered, and done late.
        check(&[(Append(1), 0, u64::MAX), (Append(2), 1, 2), (Read(1), 3, 4)], &[2, 1], Ok(&[1, 2, 0]));
        // Which of two reads of the same is first shows later.
        check(&[(Read(0), 0, 9), (Read(0), 1, 2), (Append(1), 3, 4)], &[1], Ok(&[0, 1, 2]));
    }

    #[test]
    fn what_has_no_order_is_refused() {
        // A stale read; the reverse of the order of time; a read of what is not there yet; a number that
        // nobody has asked for; one that was answered and is lost.
        check(&[(Append(1), 0, 1), (Read(0), 2, 3)], &[1], Err(&[0]));
        check(&[(Append(1), 0, 1), (Append(2), 2, 3)], &[2, 1], Err(&[]));
        check(&[(Read(1), 0, 1), (Append(1), 2, 3)], &[1], Err(&[]));
        check(&[(Append(1), 0, 1)], &[1, 7], Err(&[0]));
        check(&[(Append(1), 0, 1)], &[], Err(&[]));
        // Two reads one after the other see the list become shorter.
        check(&[(Append(1), 0, 9), (Read(1), 1, 2), (Read(0), 3, 4)], &[1], Err(&[0, 1]));
    }
}
