//! From the syntax tree to the machine's program.

use fancy_regex::{Assertion, Expr, LookAround};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

/// The longest a look-behind may look back, in characters.
const MAX_LOOK_BEHIND: usize = 255;

/// One instruction; it goes on with the next one unless it says otherwise.
#[derive(Debug)]
pub(super) enum Instruction {
    /// One character.
    One(OneCharacter),
    /// `least` to `most` such characters.
    Run {
        of: OneCharacter,
        least: usize,
        most: usize,
        greedy: bool,
    },
    Assert(Assertion),
    /// Comes back to the target when what follows fails.
    Split(usize),
    Jump(usize),
    /// Notes the place in a slot: two for each group, the first two are the whole match.
    Save(usize),
    /// The text of a group once more.
    Repeated {
        group: usize,
        folded: bool,
    },
    /// Begins to count the rounds of a loop.
    LoopBegin(usize),
    /// Another round, or on to `exit`.
    LoopTest {
        counter: usize,
        least: usize,
        most: usize,
        greedy: bool,
        exit: usize,
    },
    /// A round that a lazy loop did not want at first.
    LoopAgain {
        counter: usize,
        body: usize,
    },
    /// The instructions up to `after` must match (or not) here, or end here after so many characters; nothing
    /// is consumed.
    Look {
        behind: Option<(usize, usize)>,
        negative: bool,
        after: usize,
    },
    /// The first match of the instructions up to `after` counts alone.
    Atomic {
        after: usize,
    },
    /// The end of the program, of a look-ahead or of an atomic group.
    Accept,
    /// The end of a look-behind: a match only where that began to look.
    AcceptThere,
    /// On if the group took part, to the target if not.
    IfGroup {
        group: usize,
        otherwise: usize,
    },
    /// Where the search began.
    AtSearchStart,
    Fail,
}

/// Which characters match.
#[derive(Debug, Clone)]
pub(super) enum OneCharacter {
    Exactly(char),
    Any,
    AnyButLineEnd,
    /// Sorted ranges, both ends included.
    Ranges(Box<[(char, char)]>),
}

impl OneCharacter {
    pub(super) fn matches(&self, character: char) -> bool {
        match self {
            OneCharacter::Exactly(wanted) => character == *wanted,
            OneCharacter::Any => true,
            OneCharacter::AnyButLineEnd => character != '\n',
            OneCharacter::Ranges(ranges) => {
                let after = ranges.partition_point(|(first, _)| *first <= character);
                after.checked_sub(1).and_then(|at| ranges.get(at)).is_some_and(|(_, last)| character <= *last)
            }
        }
    }
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    /// Two for each group and for the whole match.
    pub(super) slots: usize,
    /// Loops that count their rounds.
    pub(super) counters: usize,
}

/// Whether the linear engine can run this.
pub(super) fn is_linear(expr: &Expr) -> bool {
    match expr {
        Expr::Empty | Expr::Any { .. } | Expr::Literal { .. } | Expr::LiteralBytes { .. } => true,
        Expr::Delegate { .. } => true,
        Expr::Assertion(assertion) => matches!(
            assertion,
            Assertion::StartText
                | Assertion::EndText
                | Assertion::StartLine { .. }
                | Assertion::EndLine { .. }
                | Assertion::WordBoundary
                | Assertion::NotWordBoundary
        ),
        Expr::Concat(parts) | Expr::Alt(parts) => parts.iter().all(is_linear),
        Expr::Group(inner) => is_linear(inner),
        Expr::Repeat { child, .. } => is_linear(child),
        _ => false,
    }
}

impl Program {
    /// # Errors
    /// What the machine cannot do.
    pub(super) fn compile(expr: &Expr) -> Result<Self, String> {
        let mut compiler = Compiler { instructions: Vec::new(), groups: 1, counters: 0 };
        compiler.expression(expr)?;
        compiler.push(Instruction::Accept);
        let Compiler { instructions, groups, counters } = compiler;
        Ok(Program { instructions, slots: 2 * groups, counters })
    }
}

struct Compiler {
    instructions: Vec<Instruction>,
    /// Groups seen so far, with the whole match.
    groups: usize,
    counters: usize,
}

type Compiled = Result<(), String>;

fn unsupported(what: &str) -> String {
    format!("{what} is not supported")
}

impl Compiler {
    fn push(&mut self, instruction: Instruction) -> usize {
        self.instructions.push(instruction);
        self.instructions.len() - 1
    }

    fn next(&self) -> usize {
        self.instructions.len()
    }

    /// Puts an instruction that was not known yet where room was left for it.
    fn set(&mut self, at: usize, instruction: Instruction) {
        if let Some(place) = self.instructions.get_mut(at) {
            *place = instruction;
        }
    }

    fn expression(&mut self, expr: &Expr) -> Compiled {
        match expr {
            Expr::Empty => Ok(()),
            Expr::Any { .. } | Expr::Delegate { .. } => {
                let one = one_character(expr).ok_or_else(|| unsupported("this character class"))?;
                self.push(Instruction::One(one));
                Ok(())
            }
            Expr::Assertion(assertion) => {
                self.push(Instruction::Assert(*assertion));
                Ok(())
            }
            Expr::GeneralNewline { .. } => self.line_end(),
            Expr::Literal { val, casei } => {
                for character in val.chars() {
                    self.push(Instruction::One(literal(character, *casei)));
                }
                Ok(())
            }
            Expr::LiteralBytes { bytes } => {
                for byte in bytes {
                    self.push(Instruction::One(OneCharacter::Exactly(char::from(*byte))));
                }
                Ok(())
            }
            Expr::Concat(parts) => parts.iter().try_for_each(|part| self.expression(part)),
            Expr::Alt(branches) => self.alternatives(branches),
            Expr::Group(inner) => {
                let group = self.groups;
                self.groups += 1;
                self.push(Instruction::Save(2 * group));
                self.expression(inner)?;
                self.push(Instruction::Save(2 * group + 1));
                Ok(())
            }
            Expr::LookAround(inner, kind) => self.look_around(inner, *kind),
            Expr::Repeat { child, lo, hi, greedy } => self.repetition(child, *lo, *hi, *greedy),
            Expr::Backref { group, casei } => {
                self.push(Instruction::Repeated { group: *group, folded: *casei });
                Ok(())
            }
            Expr::AtomicGroup(inner) => {
                let begin = self.push(Instruction::Fail);
                self.expression(inner)?;
                self.push(Instruction::Accept);
                self.set(begin, Instruction::Atomic { after: self.next() });
                Ok(())
            }
            Expr::KeepOut => {
                self.push(Instruction::Save(0));
                Ok(())
            }
            Expr::ContinueFromPreviousMatchEnd => {
                self.push(Instruction::AtSearchStart);
                Ok(())
            }
            Expr::BackrefExistsCondition { group, relative_recursion_level: None } => {
                self.condition(*group, &Expr::Empty, None)
            }
            Expr::Conditional { condition, true_branch, false_branch } => match &**condition {
                Expr::BackrefExistsCondition { group, relative_recursion_level: None } => {
                    self.condition(*group, true_branch, Some(false_branch))
                }
                _ => Err(unsupported("a condition other than whether a group took part")),
            },
            Expr::SubroutineCall(_) | Expr::DefineGroup { .. } => Err(unsupported("recursion")),
            Expr::BacktrackingControlVerb(_) => Err(unsupported("a backtracking control verb")),
            _ => Err(unsupported("this construct")),
        }
    }

    fn alternatives(&mut self, branches: &[Expr]) -> Compiled {
        let mut jumps = Vec::new();
        let Some((last, others)) = branches.split_last() else { return Ok(()) };
        for branch in others {
            let split = self.push(Instruction::Fail);
            self.expression(branch)?;
            jumps.push(self.push(Instruction::Fail));
            self.set(split, Instruction::Split(self.next()));
        }
        self.expression(last)?;
        for jump in jumps {
            self.set(jump, Instruction::Jump(self.next()));
        }
        Ok(())
    }

    /// `\R`: the two characters of a line end stay together.
    fn line_end(&mut self) -> Compiled {
        let begin = self.push(Instruction::Fail);
        let split = self.push(Instruction::Fail);
        self.push(Instruction::One(OneCharacter::Exactly('\r')));
        self.push(Instruction::One(OneCharacter::Exactly('\n')));
        self.push(Instruction::Accept);
        self.set(split, Instruction::Split(self.next()));
        let ends = [('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];
        self.push(Instruction::One(OneCharacter::Ranges(ends.into())));
        self.push(Instruction::Accept);
        self.set(begin, Instruction::Atomic { after: self.next() });
        Ok(())
    }

    fn look_around(&mut self, inner: &Expr, kind: LookAround) -> Compiled {
        let negative = matches!(kind, LookAround::LookAheadNeg | LookAround::LookBehindNeg);
        let behind = match kind {
            LookAround::LookAhead | LookAround::LookAheadNeg => None,
            LookAround::LookBehind | LookAround::LookBehindNeg => {
                let width = width(inner).filter(|(_, most)| *most <= MAX_LOOK_BEHIND);
                Some(width.ok_or("lookbehind assertion is not fixed length")?)
            }
        };
        let begin = self.push(Instruction::Fail);
        self.expression(inner)?;
        self.push(if behind.is_some() { Instruction::AcceptThere } else { Instruction::Accept });
        self.set(begin, Instruction::Look { behind, negative, after: self.next() });
        Ok(())
    }

    fn repetition(&mut self, child: &Expr, least: usize, most: usize, greedy: bool) -> Compiled {
        if let Some(of) = one_character(child) {
            self.push(Instruction::Run { of, least, most, greedy });
            return Ok(());
        }
        let counter = self.counters;
        self.counters += 1;
        self.push(Instruction::LoopBegin(counter));
        let test = self.push(Instruction::Fail);
        if !greedy {
            self.push(Instruction::Fail);
        }
        let body = self.next();
        self.expression(child)?;
        self.push(Instruction::Jump(test));
        let exit = self.next();
        self.set(test, Instruction::LoopTest { counter, least, most, greedy, exit });
        if !greedy {
            self.set(test + 1, Instruction::LoopAgain { counter, body });
        }
        Ok(())
    }

    fn condition(&mut self, group: usize, then: &Expr, otherwise: Option<&Expr>) -> Compiled {
        let test = self.push(Instruction::Fail);
        self.expression(then)?;
        let jump = self.push(Instruction::Fail);
        self.set(test, Instruction::IfGroup { group, otherwise: self.next() });
        match otherwise {
            Some(otherwise) => self.expression(otherwise)?,
            None => drop(self.push(Instruction::Fail)),
        }
        self.set(jump, Instruction::Jump(self.next()));
        Ok(())
    }
}

/// What matches exactly one character.
fn one_character(expr: &Expr) -> Option<OneCharacter> {
    match expr {
        Expr::Any { newline: true, .. } => Some(OneCharacter::Any),
        Expr::Any { newline: false, crlf: false } => Some(OneCharacter::AnyButLineEnd),
        Expr::Any { newline: false, crlf: true } => None,
        Expr::Literal { val, casei } => {
            let mut characters = val.chars();
            match (characters.next(), characters.next()) {
                (Some(only), None) => Some(literal(only, *casei)),
                _ => None,
            }
        }
        Expr::Delegate { inner, casei } => {
            let hir = ParserBuilder::new().case_insensitive(*casei).build().parse(inner).ok()?;
            match hir.kind() {
                HirKind::Class(Class::Unicode(class)) => Some(ranges(class)),
                HirKind::Literal(text) => {
                    let mut characters = std::str::from_utf8(&text.0).ok()?.chars();
                    characters.next().filter(|_| characters.next().is_none()).map(OneCharacter::Exactly)
                }
                _ => None,
            }
        }
        _ => None,
    }
}

fn literal(character: char, folded: bool) -> OneCharacter {
    if !folded {
        return OneCharacter::Exactly(character);
    }
    let mut class = ClassUnicode::new([ClassUnicodeRange::new(character, character)]);
    match class.try_case_fold_simple() {
        Ok(()) if class.ranges().len() > 1 => ranges(&class),
        _ => OneCharacter::Exactly(character),
    }
}

fn ranges(class: &ClassUnicode) -> OneCharacter {
    OneCharacter::Ranges(class.iter().map(|range| (range.start(), range.end())).collect())
}

/// How many characters an expression may match, at least and at most; `None` without a bound.
fn width(expr: &Expr) -> Option<(usize, usize)> {
    match expr {
        Expr::Empty
        | Expr::Assertion(_)
        | Expr::LookAround(..)
        | Expr::KeepOut
        | Expr::ContinueFromPreviousMatchEnd => Some((0, 0)),
        Expr::Any { .. } | Expr::Delegate { .. } => Some((1, 1)),
        Expr::GeneralNewline { .. } => Some((1, 2)),
        Expr::Literal { val, .. } => Some(val.chars().count()).map(|count| (count, count)),
        Expr::LiteralBytes { bytes } => Some((bytes.len(), bytes.len())),
        Expr::Concat(parts) => {
            parts.iter().map(width).try_fold((0, 0), |(least, most): (usize, usize), part| {
                let part = part?;
                Some((least.checked_add(part.0)?, most.checked_add(part.1)?))
            })
        }
        Expr::Alt(branches) => {
            let widths = branches.iter().map(width).collect::<Option<Vec<_>>>()?;
            let least = widths.iter().map(|width| width.0).min()?;
            Some((least, widths.iter().map(|width| width.1).max()?))
        }
        Expr::Group(inner) => width(inner),
        Expr::AtomicGroup(inner) => width(inner),
        Expr::Repeat { child, lo, hi, .. } => {
            let (least, most) = width(child)?;
            Some((least.checked_mul(*lo)?, most.checked_mul(*hi)?))
        }
        _ => None,
    }
}
