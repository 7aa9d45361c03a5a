//! The backtracking machine: one thread of work, a stack of places to come back to, every step counted.

use super::program::{Instruction, Program};
use super::tree::{Assertion, OneCharacter};
use super::{Failure, Groups};
use crate::checkpoint;

/// Steps of a search in a short text, some tens of milliseconds.
const STEPS: usize = 4_000_000;
/// Steps more for each byte of the text: going through it a few times costs as much as that.
const STEPS_PER_BYTE: usize = 16;
/// Steps between two looks at the operation's switch.
const STEPS_PER_LOOK: usize = 4096;
/// Places to come back to, of 32 bytes each.
const MAX_FRAMES: usize = 1 << 20;
/// Characters that are gone through in the time of a step, where nothing else is to be done.
const CHARACTERS_PER_STEP: usize = 8;

/// A slot that holds no place.
const NOWHERE: usize = usize::MAX;
const A_PLACE: &str = "each slot and each loop of a program has its place";

/// The first match at or after `from`.
pub(super) fn search(program: &Program, text: &str, from: usize) -> Result<Option<Groups>, Failure> {
    let mut machine = Machine {
        program,
        text,
        search_start: from,
        slots: vec![NOWHERE; program.slots],
        loops: vec![Loop::default(); program.counters],
        frames: Vec::new(),
        ends: Vec::new(),
        steps_left: STEPS.saturating_add(text.len().saturating_mul(STEPS_PER_BYTE)),
        until_look: STEPS_PER_LOOK,
    };
    machine.search(from)
}

/// The rounds of a loop.
#[derive(Debug, Clone, Copy)]
struct Loop {
    rounds: usize,
    /// Where the last round began.
    began: usize,
}

impl Default for Loop {
    fn default() -> Self {
        Loop { rounds: 0, began: NOWHERE }
    }
}

enum Frame {
    /// Another way to go on.
    Branch { instruction: usize, place: usize },
    /// A run that may give characters back, down to `least_end`.
    Shrink { run: usize, least_end: usize, place: usize },
    /// A run that may take so many characters more.
    Extend { run: usize, place: usize, left: usize },
    /// What a slot held before.
    Slot { slot: usize, before: usize },
    /// What a loop counted before.
    Rounds { counter: usize, before: Loop },
}

struct Machine<'p, 't> {
    program: &'p Program,
    text: &'t str,
    search_start: usize,
    slots: Vec<usize>,
    loops: Vec<Loop>,
    frames: Vec<Frame>,
    /// Where the look-behinds that are at work must end.
    ends: Vec<usize>,
    steps_left: usize,
    until_look: usize,
}

impl Machine<'_, '_> {
    fn search(&mut self, from: usize) -> Result<Option<Groups>, Failure> {
        let first = self.program.instructions.first();
        let only_at_start = matches!(first, Some(Instruction::Assert(Assertion::StartText)));
        let mut start = from;
        loop {
            if let Some(Instruction::One(OneCharacter::Exactly(character))) = first {
                let found = self.text.get(start..).and_then(|rest| rest.find(*character));
                let Some(found) = found else { return Ok(None) };
                self.count(1 + found / CHARACTERS_PER_STEP)?;
                start += found;
            }
            self.set_slot(0, start);
            if let Some(end) = self.run(0, start)? {
                self.set_slot(1, end);
                return Ok(Some(self.groups()));
            }
            match self.after(start) {
                Some((_, next)) if !only_at_start => start = next,
                _ => return Ok(None),
            }
        }
    }

    fn groups(&self) -> Groups {
        let group = |pair: &[usize]| match pair {
            [start, end] if *start != NOWHERE && *end != NOWHERE => Some(*start..*end),
            _ => None,
        };
        self.slots.chunks_exact(2).map(group).collect()
    }

    fn count(&mut self, steps: usize) -> Result<(), Failure> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or(Failure::MatchLimit)?;
        self.until_look = self.until_look.saturating_sub(steps);
        if self.until_look == 0 {
            self.until_look = STEPS_PER_LOOK;
            checkpoint::pass(STEPS_PER_LOOK)?;
        }
        Ok(())
    }

    /// The character at a place and the place after it.
    fn after(&self, place: usize) -> Option<(char, usize)> {
        let first = *self.text.as_bytes().get(place)?;
        if first.is_ascii() {
            return Some((char::from(first), place + 1));
        }
        let character = self.text.get(place..)?.chars().next()?;
        Some((character, place + character.len_utf8()))
    }

    /// The character before a place and the place before that.
    fn before(&self, place: usize) -> Option<(char, usize)> {
        let character = self.text.get(..place)?.chars().next_back()?;
        Some((character, place - character.len_utf8()))
    }

    fn push(&mut self, frame: Frame) -> Result<(), Failure> {
        if self.frames.len() >= MAX_FRAMES {
            return Err(Failure::HeapLimit);
        }
        self.frames.push(frame);
        Ok(())
    }

    /// Goes on from an instruction; where the match ends, or `None` when there is none. After a match the
    /// places to come back to are still there; without one everything is as it was.
    fn run(&mut self, mut instruction: usize, mut place: usize) -> Result<Option<usize>, Failure> {
        let base = self.frames.len();
        let program = self.program;
        loop {
            self.count(1)?;
            let next = match program.instructions.get(instruction) {
                None | Some(Instruction::Accept) => return Ok(Some(place)),
                Some(Instruction::AcceptThere) if self.ends.last() == Some(&place) => {
                    return Ok(Some(place));
                }
                Some(known) => self.step(known, instruction, place)?,
            };
            (instruction, place) = match next {
                Some(next) => next,
                None => match self.come_back(base)? {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
        }
    }

    /// One instruction; where to go on, or `None` when it does not match.
    fn step(
        &mut self,
        known: &Instruction,
        instruction: usize,
        place: usize,
    ) -> Result<Option<(usize, usize)>, Failure> {
        let next = instruction + 1;
        let holds = |holds: bool| Ok(holds.then_some((next, place)));
        match known {
            Instruction::One(one) => Ok(match self.after(place) {
                Some((character, after)) if one.matches(character) => Some((next, after)),
                _ => None,
            }),
            Instruction::Run { of, least, most, greedy } => {
                self.begin_run(instruction, of, (*least, *most), *greedy, place)
            }
            Instruction::Assert(assertion) => holds(self.holds(*assertion, place)),
            Instruction::Split(other) => {
                self.push(Frame::Branch { instruction: *other, place })?;
                holds(true)
            }
            Instruction::Jump(target) => Ok(Some((*target, place))),
            Instruction::Save(slot) => {
                let before = *self.slots.get(*slot).expect(A_PLACE);
                self.push(Frame::Slot { slot: *slot, before })?;
                self.set_slot(*slot, place);
                holds(true)
            }
            Instruction::Repeated { group, folded } => {
                Ok(self.repeated(*group, *folded, place)?.map(|after| (next, after)))
            }
            Instruction::LoopBegin(counter) => {
                self.set_loop(*counter, Loop::default())?;
                holds(true)
            }
            Instruction::LoopTest { counter, least, most, greedy, exit } => {
                self.test_loop(*counter, (*least, *most), *greedy, (next, *exit), place)
            }
            Instruction::LoopAgain { counter, body } => {
                let rounds = self.loops.get(*counter).expect(A_PLACE).rounds;
                self.set_loop(*counter, Loop { rounds: rounds + 1, began: place })?;
                Ok(Some((*body, place)))
            }
            Instruction::Look { behind, negative, after } => {
                let found = self.look(next, *behind, *negative, place)?;
                Ok((found != *negative).then_some((*after, place)))
            }
            Instruction::Atomic { after } => {
                let base = self.frames.len();
                let end = self.run(next, place)?;
                self.cut(base);
                Ok(end.map(|end| (*after, end)))
            }
            Instruction::IfGroup { group, otherwise } => {
                let is_set = self.slots.get(2 * group + 1).is_some_and(|end| *end != NOWHERE);
                Ok(Some((if is_set { next } else { *otherwise }, place)))
            }
            Instruction::AtSearchStart => holds(place == self.search_start),
            Instruction::Accept | Instruction::AcceptThere | Instruction::Fail => Ok(None),
        }
    }

    /// Takes the last way that is left; undoes what was done since.
    fn come_back(&mut self, base: usize) -> Result<Option<(usize, usize)>, Failure> {
        let program = self.program;
        while self.frames.len() > base {
            self.count(1)?;
            match self.frames.pop() {
                Some(Frame::Branch { instruction, place }) => return Ok(Some((instruction, place))),
                Some(Frame::Slot { slot, before }) => self.set_slot(slot, before),
                Some(Frame::Rounds { counter, before }) => *self.rounds_mut(counter) = before,
                Some(Frame::Shrink { run, least_end, place }) => {
                    let Some((_, place)) = self.before(place).filter(|(_, place)| *place >= least_end) else {
                        continue;
                    };
                    if place > least_end {
                        self.frames.push(Frame::Shrink { run, least_end, place });
                    }
                    return Ok(Some((run + 1, place)));
                }
                Some(Frame::Extend { run, place, left }) => {
                    let Some(Instruction::Run { of, .. }) = program.instructions.get(run) else {
                        unreachable!("instruction {run} is extended and no run");
                    };
                    let Some((character, place)) = self.after(place) else { continue };
                    if !of.matches(character) {
                        continue;
                    }
                    if left > 1 {
                        self.frames.push(Frame::Extend { run, place, left: left - 1 });
                    }
                    return Ok(Some((run + 1, place)));
                }
                None => break,
            }
        }
        Ok(None)
    }

    fn begin_run(
        &mut self,
        run: usize,
        of: &OneCharacter,
        (least, most): (usize, usize),
        greedy: bool,
        start: usize,
    ) -> Result<Option<(usize, usize)>, Failure> {
        let wanted = if greedy { most } else { least };
        let (mut taken, mut place, mut least_end) = (0, start, start);
        while taken < wanted {
            match self.after(place) {
                Some((character, after)) if of.matches(character) => place = after,
                _ => break,
            }
            taken += 1;
            if taken == least {
                least_end = place;
            }
            if taken % STEPS_PER_LOOK == 0 {
                self.count(STEPS_PER_LOOK / CHARACTERS_PER_STEP)?;
            }
        }
        self.count(taken % STEPS_PER_LOOK / CHARACTERS_PER_STEP)?;
        if taken < least {
            return Ok(None);
        }
        if greedy && place > least_end {
            self.push(Frame::Shrink { run, least_end, place })?;
        } else if !greedy && most > least {
            self.push(Frame::Extend { run, place, left: most - least })?;
        }
        Ok(Some((run + 1, place)))
    }

    fn test_loop(
        &mut self,
        counter: usize,
        (least, most): (usize, usize),
        greedy: bool,
        (body, exit): (usize, usize),
        place: usize,
    ) -> Result<Option<(usize, usize)>, Failure> {
        let known = *self.loops.get(counter).expect(A_PLACE);
        let another = Loop { rounds: known.rounds + 1, began: place };
        if known.rounds < least {
            self.set_loop(counter, another)?;
            // A lazy loop has the instruction for unwanted rounds in front of its body.
            return Ok(Some((if greedy { body } else { body + 1 }, place)));
        }
        // A round that consumed nothing would be followed by such rounds for ever.
        if known.rounds >= most || known.began == place {
            return Ok(Some((exit, place)));
        }
        if greedy {
            self.push(Frame::Branch { instruction: exit, place })?;
            self.set_loop(counter, another)?;
            return Ok(Some((body, place)));
        }
        self.push(Frame::Branch { instruction: body, place })?;
        Ok(Some((exit, place)))
    }

    /// Whether what a look-around wants is there. Groups set by a positive one stay.
    fn look(
        &mut self,
        inner: usize,
        behind: Option<(usize, usize)>,
        negative: bool,
        place: usize,
    ) -> Result<bool, Failure> {
        let base = self.frames.len();
        let found = match behind {
            None => self.run(inner, place)?.is_some(),
            Some((least, most)) => {
                self.ends.push(place);
                let found = self.look_behind(inner, least, most, place);
                self.ends.pop();
                found?
            }
        };
        if negative {
            self.undo(base);
        } else {
            self.cut(base);
        }
        Ok(found)
    }

    fn look_behind(
        &mut self,
        inner: usize,
        least: usize,
        most: usize,
        place: usize,
    ) -> Result<bool, Failure> {
        let mut start = place;
        for back in 0..=most {
            if back >= least && self.run(inner, start)?.is_some() {
                return Ok(true);
            }
            match self.before(start) {
                Some((_, before)) => start = before,
                None => return Ok(false),
            }
        }
        Ok(false)
    }

    /// The place after a repetition of what the group matched.
    fn repeated(&mut self, group: usize, folded: bool, place: usize) -> Result<Option<usize>, Failure> {
        let slot = |slot: usize| self.slots.get(slot).copied().filter(|place| *place != NOWHERE);
        let (Some(start), Some(end)) = (slot(2 * group), slot(2 * group + 1)) else { return Ok(None) };
        let (Some(wanted), Some(rest)) = (self.text.get(start..end), self.text.get(place..)) else {
            return Ok(None);
        };
        self.count(1 + wanted.len() / CHARACTERS_PER_STEP)?;
        if !folded {
            return Ok(rest.starts_with(wanted).then_some(place + wanted.len()));
        }
        let mut after = place;
        for wanted in wanted.chars() {
            match self.after(after) {
                Some((character, next)) if character.to_lowercase().eq(wanted.to_lowercase()) => after = next,
                _ => return Ok(None),
            }
        }
        Ok(Some(after))
    }

    fn is_word(&self, found: Option<(char, usize)>) -> bool {
        found.is_some_and(|(character, _)| match self.program.unicode {
            // What `\w` is: marks and joiners are.
            true => regex_syntax::is_word_character(character),
            false => character.is_ascii_alphanumeric() || character == '_',
        })
    }

    fn is_word_boundary(&self, place: usize) -> bool {
        self.is_word(self.before(place)) != self.is_word(self.after(place))
    }

    fn holds(&self, assertion: Assertion, place: usize) -> bool {
        let bytes = self.text.as_bytes();
        let rest = bytes.get(place..).expect("a place lies within the text");
        match assertion {
            Assertion::StartText => place == 0,
            Assertion::EndText => rest.is_empty(),
            Assertion::EndTextOrLastLineEnd => matches!(rest, b"" | b"\n"),
            Assertion::StartLine => {
                let is_behind_line_end =
                    || place.checked_sub(1).and_then(|before| bytes.get(before)) == Some(&b'\n');
                place == 0 || !rest.is_empty() && is_behind_line_end()
            }
            Assertion::EndLine => matches!(rest.first(), None | Some(b'\n')),
            Assertion::WordBoundary => self.is_word_boundary(place),
            Assertion::NotWordBoundary => !self.is_word_boundary(place),
        }
    }

    fn set_slot(&mut self, slot: usize, place: usize) {
        *self.slots.get_mut(slot).expect(A_PLACE) = place;
    }

    fn rounds_mut(&mut self, counter: usize) -> &mut Loop {
        self.loops.get_mut(counter).expect(A_PLACE)
    }

    fn set_loop(&mut self, counter: usize, now: Loop) -> Result<(), Failure> {
        let before = std::mem::replace(self.rounds_mut(counter), now);
        self.push(Frame::Rounds { counter, before })
    }

    /// Forgets the ways that are left above `base`; what was done stays, and can still be undone.
    fn cut(&mut self, base: usize) {
        let mut kept = base;
        for position in base..self.frames.len() {
            if matches!(self.frames.get(position), Some(Frame::Slot { .. } | Frame::Rounds { .. })) {
                self.frames.swap(kept, position);
                kept += 1;
            }
        }
        self.frames.truncate(kept);
    }

    /// Undoes what was done above `base`.
    fn undo(&mut self, base: usize) {
        while self.frames.len() > base {
            match self.frames.pop() {
                Some(Frame::Slot { slot, before }) => self.set_slot(slot, before),
                Some(Frame::Rounds { counter, before }) => *self.rounds_mut(counter) = before,
                _ => {}
            }
        }
    }
}
