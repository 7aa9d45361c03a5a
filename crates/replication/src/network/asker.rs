//! Questions to one member, one after the other.

use super::connection::{Connection, Held, Purpose};
use super::{NetworkOptions, Question, Worker};
use crate::peers::PeerError;
use document::DocumentBuf;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Asker {
    host: String,
    questions: Mutex<Questions>,
    changed: Condvar,
    held: Held,
}

#[derive(Debug, Default)]
struct Questions {
    waiting: VecDeque<Question>,
    /// Nobody asks from here any more.
    closed: bool,
}

impl Asker {
    pub(super) fn new(host: &str) -> Self {
        Asker {
            host: host.to_owned(),
            questions: Mutex::default(),
            changed: Condvar::new(),
            held: Held::default(),
        }
    }

    /// Puts a question behind the others; gives it back when nobody would ask it.
    pub(super) fn push(&self, question: Question, options: &NetworkOptions) -> Option<Question> {
        let mut questions = self.questions.lock();
        if questions.closed {
            return Some(question);
        }
        questions.waiting.retain(|waiting| waiting.promise.is_open());
        if questions.waiting.len() >= options.questions_max {
            drop(questions);
            question.promise.keep(Err(PeerError::Busy { host: self.host.clone() }));
            return None;
        }
        questions.waiting.push_back(question);
        self.changed.notify_one();
        None
    }

    pub(super) fn stop(&self) {
        let mut questions = self.questions.lock();
        questions.closed = true;
        let waiting = std::mem::take(&mut questions.waiting);
        drop(questions);
        self.held.stop();
        self.changed.notify_one();
        waiting.iter().for_each(|question| question.promise.keep(Err(PeerError::Stopped)));
    }

    fn next(&self, idle_limit: Duration) -> Option<Question> {
        let mut questions = self.questions.lock();
        while questions.waiting.is_empty() && !questions.closed {
            let waited = self.changed.wait_for(&mut questions, idle_limit);
            questions.closed |= waited.timed_out() && questions.waiting.is_empty();
        }
        questions.waiting.pop_front()
    }

    fn exchange(
        &self,
        connection: &mut Option<Connection>,
        question: &Question,
        options: &NetworkOptions,
    ) -> Result<DocumentBuf, PeerError> {
        let mut current = match connection.take() {
            Some(current) if !current.is_over() => current,
            _ => Connection::open(
                &self.host,
                question.deadline,
                question.deadline,
                options,
                &self.held,
                Purpose::Questions,
            )?,
        };
        let reply = current.exchange(question.command.as_raw(), question.deadline)?;
        *connection = Some(current);
        Ok(reply)
    }
}

impl Worker for Asker {
    fn run(&self, options: &NetworkOptions) {
        let mut connection = None;
        while let Some(question) = self.next(options.idle_limit) {
            if question.promise.is_open() {
                question.promise.keep(self.exchange(&mut connection, &question, options));
            }
        }
    }
}
