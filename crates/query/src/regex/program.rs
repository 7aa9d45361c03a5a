//! From the syntax tree to the machine's program.

use super::tree::{Assertion, Node, OneCharacter, Tree};

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

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) instructions: Vec<Instruction>,
    /// Two for each group and for the whole match.
    pub(super) slots: usize,
    /// Loops that count their rounds.
    pub(super) counters: usize,
    /// See [`Tree::unicode`].
    pub(super) unicode: bool,
}

impl Program {
    /// # Errors
    /// What the machine cannot do.
    pub(super) fn compile(tree: &Tree) -> Result<Self, String> {
        let mut compiler = Compiler { instructions: Vec::new(), counters: 0 };
        compiler.node(&tree.root)?;
        compiler.push(Instruction::Accept);
        let Compiler { instructions, counters } = compiler;
        Ok(Program { instructions, slots: 2 * (1 + tree.groups), counters, unicode: tree.unicode })
    }
}

struct Compiler {
    instructions: Vec<Instruction>,
    counters: usize,
}

type Compiled = Result<(), String>;

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
        *self.instructions.get_mut(at).expect("room was left for it") = instruction;
    }

    fn node(&mut self, node: &Node) -> Compiled {
        match node {
            Node::Empty => {}
            Node::One(one) => drop(self.push(Instruction::One(one.clone()))),
            Node::Assert(assertion) => drop(self.push(Instruction::Assert(*assertion))),
            Node::LineEnd => self.line_end(),
            Node::Concat(parts) => parts.iter().try_for_each(|part| self.node(part))?,
            Node::Alternation(branches) => self.alternatives(branches)?,
            Node::Group(group, inner) => {
                self.push(Instruction::Save(2 * group));
                self.node(inner)?;
                self.push(Instruction::Save(2 * group + 1));
            }
            Node::Look { inner, behind, negative } => self.look_around(inner, *behind, *negative)?,
            Node::Repeat { child, least, most, greedy } => {
                self.repetition(child, *least, *most, *greedy)?;
            }
            Node::Reference { group, folded } => {
                self.push(Instruction::Repeated { group: *group, folded: *folded });
            }
            Node::Atomic(inner) => {
                let begin = self.push(Instruction::Fail);
                self.node(inner)?;
                self.push(Instruction::Accept);
                self.set(begin, Instruction::Atomic { after: self.next() });
            }
            Node::KeepOut => drop(self.push(Instruction::Save(0))),
            Node::SearchStart => drop(self.push(Instruction::AtSearchStart)),
            Node::Condition { group, then, otherwise } => self.condition(*group, then, otherwise)?,
        }
        Ok(())
    }

    fn alternatives(&mut self, branches: &[Node]) -> Compiled {
        let mut jumps = Vec::new();
        let (last, others) = branches.split_last().expect("an alternation has branches");
        for branch in others {
            let split = self.push(Instruction::Fail);
            self.node(branch)?;
            jumps.push(self.push(Instruction::Fail));
            self.set(split, Instruction::Split(self.next()));
        }
        self.node(last)?;
        for jump in jumps {
            self.set(jump, Instruction::Jump(self.next()));
        }
        Ok(())
    }

    /// `\R`: the two characters of a line end stay together.
    fn line_end(&mut self) {
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
    }

    fn look_around(&mut self, inner: &Node, behind: bool, negative: bool) -> Compiled {
        let behind = match behind {
            false => None,
            true => {
                let width = inner.width().filter(|(_, most)| *most <= MAX_LOOK_BEHIND);
                Some(width.ok_or("lookbehind assertion is not fixed length")?)
            }
        };
        let begin = self.push(Instruction::Fail);
        self.node(inner)?;
        self.push(if behind.is_some() { Instruction::AcceptThere } else { Instruction::Accept });
        self.set(begin, Instruction::Look { behind, negative, after: self.next() });
        Ok(())
    }

    fn repetition(&mut self, child: &Node, least: usize, most: usize, greedy: bool) -> Compiled {
        if let Node::One(one) = child {
            self.push(Instruction::Run { of: one.clone(), least, most, greedy });
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
        self.node(child)?;
        self.push(Instruction::Jump(test));
        let exit = self.next();
        self.set(test, Instruction::LoopTest { counter, least, most, greedy, exit });
        if !greedy {
            self.set(test + 1, Instruction::LoopAgain { counter, body });
        }
        Ok(())
    }

    fn condition(&mut self, group: usize, then: &Node, otherwise: &Node) -> Compiled {
        let test = self.push(Instruction::Fail);
        self.node(then)?;
        let jump = self.push(Instruction::Fail);
        self.set(test, Instruction::IfGroup { group, otherwise: self.next() });
        self.node(otherwise)?;
        self.set(jump, Instruction::Jump(self.next()));
        Ok(())
    }
}
