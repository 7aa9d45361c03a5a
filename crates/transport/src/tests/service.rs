//! A service for tests: the name of the command says what happens.

use crate::{NextRequest, Phase, Replies, RequestMessage, RequestTimes, Service, Session};
use document::{Document, RawDocument, doc};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;
use wire::{CommandMessage, Message, MessageRef, OpMsg, OpMsgFlags, ReplyBuilder, parse_reply};

pub(super) const LIMIT: usize = 100_000;

/// Answers `{echo: n}` with `{ok: 1, echo: n}`; other commands are described where they are matched.
#[derive(Default)]
pub(super) struct TestService {
    pub(super) opened: AtomicUsize,
    pub(super) closed: AtomicUsize,
    pub(super) calls: AtomicUsize,
    /// How long each request waited to be processed.
    pub(super) queued: Mutex<Vec<Duration>>,
}

impl Service for TestService {
    fn opened(&self, session: &Arc<Session>) {
        self.opened.fetch_add(1, Ordering::SeqCst);
        session.set_extension(session.id()).expect("the first extension");
    }

    async fn call(&self, session: &Arc<Session>, mut request: RequestMessage<'_>) -> Replies {
        assert_eq!(session.phase(), Phase::Processing, "the service is called in another phase");
        assert_eq!(session.extension::<u64>(), Some(&session.id()), "the extension is lost");
        self.calls.fetch_add(1, Ordering::SeqCst);
        let parsed = match OpMsg::parse(request.message()) {
            Ok(parsed) => parsed,
            Err(error) if error.is_fatal() => return Replies::none().then_close(),
            Err(error) => {
                let reply = ReplyBuilder::wire_error(Vec::new(), request.message().reply_format(), &error);
                return Replies::one(reply);
            }
        };
        let command = parsed.body.first().expect("a command").name();
        let number =
            parsed.body.iter().next().and_then(|element| element.value().as_i64_exact()).unwrap_or(0);
        match command {
            "panic" => panic!("the test asked for it"),
            // Suspends until another thread wakes it.
            "wait" => wake_later().await,
            // Ends the session from inside.
            "end" => session.end(),
            "silent" => return Replies::none(),
            _ => {}
        }
        let mut reply = request.reply();
        reply.body().append("ok", 1.0).append("echo", number);
        let reply = reply.finish();
        match command {
            "close" => Replies::one(reply).then_close(),
            // Counts down: {stream: 2} is answered with 2, 1 and 0.
            "stream" if number > 0 => {
                let next = CommandMessage::new(doc! { "stream": number - 1 }.to_buf().as_raw());
                let next = next.flags(OpMsgFlags::EXHAUST_ALLOWED).finish(0);
                Replies::exhaust(reply, NextRequest::New(next))
            }
            // Never stops by itself.
            "repeat" => Replies::exhaust(reply, NextRequest::Same),
            "plain" => Replies::one(reply).uncompressed(),
            _ => Replies::one(reply),
        }
    }

    fn finished(&self, _session: &Arc<Session>, times: &RequestTimes) {
        self.queued.lock().push(times.queue);
    }

    fn closed(&self, _session: &Arc<Session>) {
        self.closed.fetch_add(1, Ordering::SeqCst);
    }
}

/// Suspends until another thread wakes it, a millisecond later.
async fn wake_later() {
    let state: Arc<Mutex<(bool, Option<Waker>)>> = Arc::default();
    let shared = Arc::clone(&state);
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(1));
        let mut state = shared.lock();
        state.0 = true;
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    });
    std::future::poll_fn(|context| {
        let mut state = state.lock();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

/// One request.
pub(super) fn request(command: Document, id: i32, flags: OpMsgFlags) -> Message {
    CommandMessage::new(command.to_buf().as_raw()).flags(flags).finish(id)
}

/// `{echo: n}` with request id n.
pub(super) fn echo(number: i32) -> Vec<u8> {
    request(doc! { "echo": number }, number, OpMsgFlags::NONE).into_bytes()
}

/// A reply as tests compare it.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) response_to: i32,
    pub(super) more_to_come: bool,
    pub(super) body: Document,
}

/// Reads all replies in the recorded bytes.
pub(super) fn answers(mut bytes: &[u8]) -> Vec<Answer> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let message = MessageRef::split_first(bytes, LIMIT).expect("a message").expect("a whole message");
        bytes = &bytes[message.bytes().len()..];
        let body: RawDocument<'_> = parse_reply(message).expect("a readable reply");
        answers.push(Answer {
            response_to: message.header().response_to,
            more_to_come: !message.expects_reply(),
            body: body.to_document(),
        });
    }
    answers
}

/// The answer to [`echo`].
pub(super) fn echoed(number: i32) -> Answer {
    Answer { response_to: number, more_to_come: false, body: doc! { "ok": 1.0, "echo": i64::from(number) } }
}
