//! The connection loop: the only place that drives a connection.

use crate::buffer::{is_small, keep_output, spare_output};
use crate::overload::{Admitter, Overload};
use crate::placement::Placement;
use crate::service::ReplyKind;
use crate::timing::RequestTimes;
use crate::{
    ByteStream, ClosedBy, ConnectionError, NextRequest, Phase, ReceiveBuffer, Replies, RequestMessage,
    Service, Session,
};
use std::any::Any;
use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::{Duration, Instant};
use wire::{
    Compressor, ErrorCode, HEADER_LENGTH, LONG_MESSAGE, Message, MessageHeader, MessageRef, OpCode,
    OpMsgFlags, ReplyBuilder, ReplyFormat, WireError, compress_message, compressor_of, decompress_message,
    inflated_length,
};

const HTTP_REQUEST: &[u8] = b"GET ";
const HTTP_ANSWER: &str = "HTTP/1.0 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\
    Content-Length: 73\r\n\r\n\
    This port speaks the MongoDB wire protocol. Use a MongoDB driver for it.\n";

/// So far a compressed message must be there before it is known what it inflates to, in bytes.
const INFLATED_LENGTH_END: usize = HEADER_LENGTH + 8;

/// A request that takes the pool at least so long would not have fitted into a loop's turn.
const OUTLASTS: Duration = Duration::from_micros(100);

/// How one [`serve`] ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// The connection is over.
    Closed(ClosedBy),
    /// The connection leaves the diagnostic lane, with these bytes received and not processed: a whole
    /// message, or the beginning of a long one.
    Moves(ReceiveBuffer),
}

/// Receives, processes and answers requests until the connection ends or leaves the diagnostic lane. `input`
/// holds bytes that were received before.
///
/// # Errors
/// See [`ConnectionError`]; the socket is closed by dropping the stream.
pub(crate) async fn serve<S: ByteStream, H: Service>(
    session: Arc<Session>,
    stream: S,
    service: Arc<H>,
    input: ReceiveBuffer,
) -> Result<Ending, ConnectionError> {
    let mut session_loop = SessionLoop {
        session: &session,
        service: &service,
        stream,
        input,
        output: Output::default(),
        begun: None,
        ready: None,
        answered: None,
    };
    let ending = session_loop.run().await;
    let finished = match &ending {
        Ok(Ending::Moves(_)) => session_loop.stream.finish().await,
        Ok(Ending::Closed(_)) | Err(_) => session_loop.stream.close().await,
    };
    match (ending, finished) {
        (Ok(_), Err(error)) if !session.is_ending() => Err(send_failed(&session, error)),
        (ending, _) => ending,
    }
}

/// Why a send did not succeed.
fn send_failed(session: &Session, error: io::Error) -> ConnectionError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => ConnectionError::SendTimedOut,
        _ if session.has_given_up_sending() => ConnectionError::SendTimedOut,
        _ => ConnectionError::Send(error),
    }
}

struct SessionLoop<'s, S, H> {
    session: &'s Arc<Session>,
    service: &'s Arc<H>,
    stream: S,
    input: ReceiveBuffer,
    output: Output,
    /// When the first byte of the message that is being received came.
    begun: Option<Instant>,
    /// When that message could have been processed, had nobody else been served: not before the last reply.
    /// `None`: it was sent ahead and is served right behind that, which tells nothing of the queue.
    ready: Option<Instant>,
    /// When the last request was answered.
    answered: Option<Instant>,
}

/// Buffers that replies are written into, one after the other.
#[derive(Default)]
struct Output {
    /// The last reply was large, and so will the next one be: it gets a shared large buffer.
    expects_large: bool,
}

impl<'s, S: ByteStream, H: Service> SessionLoop<'s, S, H> {
    async fn run(&mut self) -> Result<Ending, ConnectionError> {
        loop {
            let length = match self.receive().await? {
                Received::Message { length } => length,
                Received::Long => return Ok(Ending::Moves(std::mem::take(&mut self.input).compact())),
                Received::End(closed) => return Ok(Ending::Closed(closed)),
            };
            if self.may_leave_lane() && self.leaves_lane(length) {
                return Ok(Ending::Moves(std::mem::take(&mut self.input).compact()));
            }
            if self.session.shared.unread.is_full() && self.may_reply_large(length) {
                self.wait_for_room().await;
            }
            if self.session.shared.unread.memory_is_short() && !self.is_diagnostic(length) {
                self.wait_for_memory().await;
            }
            let is_long = inflated_length(self.input.filled(), length) > LONG_MESSAGE;
            // On the heap, so that a connection that waits for its client does not hold the memory of a
            // request; and made there: `Box::pin` would make it here and copy its four thousand bytes.
            let closed = if is_long || self.session.foresees_pool(length) {
                Box::pin(self.process_on_pool(length, is_long)).await?
            } else {
                let clock = self.start_clock();
                Box::into_pin(Box::write(Box::new_uninit(), self.process(length, clock))).await?
            };
            self.input.consume(length);
            if self.session.holds_large_request() {
                self.session.release_request();
            }
            if let Some(closed) = closed {
                return Ok(Ending::Closed(closed));
            }
            if self.session.is_ending() {
                return Ok(Ending::Closed(ClosedBy::Server));
            }
            let pipelined = !self.input.filled().is_empty();
            self.stream.give_way(pipelined).await;
        }
    }

    fn may_leave_lane(&self) -> bool {
        self.session.visits_lane() && !self.session.is_ending()
    }

    /// While clients leave too many replies unread, requests wait: their replies would come on top.
    async fn wait_for_room(&self) {
        let session = self.session;
        poll_fn(|context| session.poll_begin(context)).await;
    }

    /// While the process is near the end of its memory, requests wait: what they take would come on top. A
    /// large one waits before it is received, too.
    async fn wait_for_memory(&self) {
        let (session, since) = (self.session, Instant::now());
        session.shared.unread.count_paced();
        poll_fn(|context| session.poll_paced(since, context)).await;
    }

    /// The bytes of the message that was received.
    fn received(&self, length: usize) -> &[u8] {
        self.input.filled().get(..length).expect("a message that was received whole is in the input")
    }

    fn may_reply_large(&self, length: usize) -> bool {
        let limit = self.session.shared.options.max_message_size;
        MessageRef::parse(self.received(length), limit)
            .is_ok_and(|message| self.service.may_reply_large(message))
    }

    fn leaves_lane(&self, length: usize) -> bool {
        length > LONG_MESSAGE || self.session.wants_thread() || !self.is_diagnostic(length)
    }

    fn is_diagnostic(&self, length: usize) -> bool {
        let limit = self.session.shared.options.max_message_size;
        MessageRef::parse(self.received(length), limit)
            .is_ok_and(|message| self.service.is_diagnostic(message))
    }

    /// Waits until one whole message is in the input buffer.
    async fn receive(&mut self) -> Result<Received, ConnectionError> {
        let limit = self.session.shared.options.max_message_size;
        self.session.enter(Phase::Receiving);
        loop {
            let held = self.input.filled();
            let header = MessageHeader::parse(held, limit);
            if let Ok(Some(header)) = &header
                && let Some(bytes) = large_request(header, held, self.session.shared.large_requests.large())
                && !self.session.holds_large_request()
                && !self.may_leave_lane()
                && !self.session.wants_thread()
            {
                // No diagnostic request is large.
                if self.session.shared.unread.memory_is_short() {
                    self.wait_for_memory().await;
                }
                poll_fn(|context| self.session.poll_admit_request(bytes, context)).await;
            }
            let held = self.input.filled();
            let wanted = match header {
                Ok(Some(header)) if header.length <= held.len() => {
                    if self.session.holds_large_request() {
                        self.session.large_received();
                    }
                    self.input.settle();
                    return Ok(Received::Message { length: header.length });
                }
                // No diagnostic request is long, and what comes in by megabytes is moved about as it grows.
                Ok(Some(header)) if header.length > LONG_MESSAGE && self.may_leave_lane() => {
                    return Ok(Received::Long);
                }
                // What it becomes, and whether it is to be admitted, is told behind its header.
                Ok(Some(header))
                    if header.opcode == OpCode::Compressed && held.len() < INFLATED_LENGTH_END =>
                {
                    INFLATED_LENGTH_END
                }
                Ok(Some(header)) => header.length,
                Ok(None) => HEADER_LENGTH,
                Err(error) => return Err(self.refuse(error).await),
            };
            let begins = held.is_empty();
            self.input.want(wanted);
            if begins {
                self.input.release();
                self.begun = None;
            }
            let mut waited = false;
            let (result, input) = {
                let mut receiving = pin!(self.stream.receive(std::mem::take(&mut self.input)));
                let received = poll_fn(|context| {
                    let received = receiving.as_mut().poll(context);
                    waited |= received.is_pending();
                    received
                });
                received.await
            };
            self.input = input;
            self.ready = self.stream.ready_at().and_then(|ready| match self.answered {
                Some(answered) if ready < answered => waited.then_some(answered),
                _ => Some(ready),
            });
            self.begun = self.begun.or(self.ready);
            match result {
                Ok(0) => return self.end_of_file(),
                Ok(count) => {
                    self.session.counters.physical_in.add(count);
                    if self.session.holds_large_request() {
                        self.session.large_progress();
                    }
                }
                Err(_) if self.session.is_ending() => return Ok(Received::End(ClosedBy::Server)),
                Err(_) if self.session.has_given_up_sending() => return Err(ConnectionError::SendTimedOut),
                Err(error) => return Err(ConnectionError::Receive(error)),
            }
        }
    }

    fn end_of_file(&self) -> Result<Received, ConnectionError> {
        match self.input.filled().len() {
            _ if self.session.is_ending() => Ok(Received::End(ClosedBy::Server)),
            0 => Ok(Received::End(ClosedBy::Client)),
            received => Err(ConnectionError::Unfinished { received }),
        }
    }

    /// Bytes that are no message end the connection; a browser is told why.
    async fn refuse(&mut self, error: WireError) -> ConnectionError {
        let first_bytes = self.session.requests() == 0 && self.input.filled().starts_with(HTTP_REQUEST);
        if !first_bytes {
            return ConnectionError::Malformed(error);
        }
        let (result, _) = self.stream.send(HTTP_ANSWER.as_bytes().to_vec()).await;
        result.map_or_else(ConnectionError::Send, |()| ConnectionError::Http)
    }

    fn start_clock(&mut self) -> RequestClock<'s> {
        RequestClock::start(self.session, self.begun.take(), self.ready.take())
    }

    /// As [`Self::process`], but on the pool from its first step. What a request needs is then taken up, used
    /// and let go within moments on one thread; what is begun in a loop and waits long for the pool has left
    /// the caches until it is its turn.
    async fn process_on_pool(
        &mut self,
        length: usize,
        is_long: bool,
    ) -> Result<Option<ClosedBy>, ConnectionError> {
        let session = self.session;
        session.enter(Phase::Processing);
        let clock = self.start_clock();
        // A refusal is quick, unless it takes long to see what is refused.
        if clock.overload.is_none() || is_long {
            poll_fn(|context| session.poll_offload(context)).await;
        }
        // Much may have been produced while it waited for the pool.
        if session.shared.unread.is_full() {
            self.wait_for_room().await;
        }
        Box::into_pin(Box::write(Box::new_uninit(), self.process(length, clock))).await
    }

    /// Has the message at the front of the input answered. Gives the reason when the connection shall end.
    async fn process(
        &mut self,
        length: usize,
        mut clock: RequestClock<'_>,
    ) -> Result<Option<ClosedBy>, ConnectionError> {
        let session = self.session;
        let limit = session.shared.options.max_message_size;
        let received = self.input.filled().get(..length);
        let received = received.expect("a message that was received whole is in the input");
        let received = MessageRef::parse(received, limit)?;
        let (inflated, compressor) = inflate(session, received, limit)?;
        let first = match &inflated {
            Some(message) => message.as_ref(limit)?,
            None => received,
        };
        if first.header().opcode == OpCode::Reply {
            return Err(WireError::OpCode { opcode: OpCode::Reply as i32 }.into());
        }
        let mut response_to = first.header().request_id;
        let mut following: Option<Message> = None;
        loop {
            let message = match &following {
                Some(message) => message.as_ref(limit)?,
                None => first,
            };
            session.enter(Phase::Processing);
            session.counters.logical_in.add(message.bytes().len());
            session.counters.requests.add(1);
            let expects_reply = message.expects_reply();
            let exhaust = expects_reply && message.exhaust_allowed();
            let format = message.reply_format();
            let request = clock.request(message, self.output.buffer(session));
            let called = {
                // Pinned where it lives: moving it would copy thousands of bytes for each request.
                let call = pin!(async { self.service.call(session, request).await });
                guarded(call).await
            };
            let replies = match called {
                Ok(replies) => replies,
                Err(panic) => {
                    let reply = expects_reply.then_some((format, response_to));
                    return Err(self.after_panic(panic, reply).await);
                }
            };
            let Replies { kind, compress, close, refused } = replies;
            clock.executed(session, length, refused);
            let compressor = compressor.filter(|_| compress);
            let (mut reply, next) = match kind {
                ReplyKind::None => {
                    self.answered = Some(clock.finished(session, &**self.service));
                    return Ok(close.then_some(ClosedBy::Service));
                }
                ReplyKind::One(reply) => (reply, None),
                ReplyKind::Exhaust(reply, next) => (reply, Some(next).filter(|_| exhaust && !close)),
            };
            if next.is_some() {
                reply.set_flags(OpMsgFlags::MORE_TO_COME);
            }
            if !expects_reply {
                session.count_reply(0);
                self.output.keep(session, reply.into_bytes());
                self.answered = Some(clock.finished(session, &**self.service));
                return Ok(close.then_some(ClosedBy::Service));
            }
            let reply_id = session.next_message_id();
            reply.seal(reply_id, response_to);
            self.output.send(session, &mut self.stream, reply, compressor).await?;
            self.answered = Some(clock.finished(session, &**self.service));
            match next {
                None => return Ok(close.then_some(ClosedBy::Service)),
                Some(_) if session.is_ending() => return Ok(Some(ClosedBy::Server)),
                Some(NextRequest::Same) => {}
                Some(NextRequest::New(request)) => following = Some(request),
            }
            response_to = reply_id;
            self.stream.give_way(true).await;
            if session.shared.unread.is_full() {
                self.wait_for_room().await;
            }
            clock.again(session);
        }
    }

    /// Counts and logs a panic, and tells the client if it waits.
    async fn after_panic(&mut self, text: String, reply: Option<(ReplyFormat, i32)>) -> ConnectionError {
        self.session.shared.panicked.fetch_add(1, Ordering::Relaxed);
        tracing::error!(target: "network", connection = self.session.id(), panic = %text,
            "a request panicked; its connection is closed");
        if let Some((format, response_to)) = reply {
            let message = "an internal error ended this connection; the server's log says more";
            let mut reply = ReplyBuilder::error(Vec::new(), format, ErrorCode::InternalError.code(), message);
            reply.seal(self.session.next_message_id(), response_to);
            if let Err(error) = self.output.send(self.session, &mut self.stream, reply, None).await {
                return error;
            }
        }
        ConnectionError::Panicked(text)
    }
}

enum Received {
    Message {
        length: usize,
    },
    /// The beginning of a message that is too long for the diagnostic lane.
    Long,
    End(ClosedBy),
}

/// What a message counts with among the large ones, with what it inflates to; `None` when it is none, or that
/// is not known yet.
fn large_request(header: &MessageHeader, held: &[u8], large: usize) -> Option<u64> {
    let inflated = match header.opcode {
        OpCode::Compressed => {
            let declared = held.get(INFLATED_LENGTH_END - 4..INFLATED_LENGTH_END)?;
            i32::from_le_bytes(declared.try_into().ok()?).max(0) as usize
        }
        _ => 0,
    };
    let bytes = header.length + inflated;
    (bytes > large).then_some(bytes as u64)
}

/// Decompresses a compressed message; leaves others alone.
fn inflate(
    session: &Session,
    received: MessageRef<'_>,
    limit: usize,
) -> Result<(Option<Message>, Option<Compressor>), WireError> {
    if received.header().opcode != OpCode::Compressed {
        return Ok((None, None));
    }
    if let Some(compressor) = compressor_of(received)?
        && compressor != Compressor::Noop
        && !session.shared.options.compressors.contains(&compressor)
    {
        return Err(WireError::Compressor { id: compressor.id() });
    }
    let (message, compressor) = decompress_message(received, limit, Vec::new())?;
    session.shared.count_decompressed(compressor, received.bytes().len(), message.bytes().len());
    Ok((Some(message), Some(compressor)))
}

impl Output {
    /// A buffer for the next reply.
    fn buffer(&mut self, session: &Session) -> Vec<u8> {
        if self.expects_large { session.shared.large_buffers.take() } else { spare_output() }
    }

    /// Takes a reply's buffer back: a small one for this connection, a large one for all.
    fn keep(&mut self, session: &Session, buffer: Vec<u8>) {
        self.expects_large = !is_small(buffer.len());
        if is_small(buffer.capacity()) {
            keep_output(buffer);
        } else {
            session.shared.large_buffers.give(buffer);
        }
    }

    /// Sends a sealed reply and takes its buffer back.
    async fn send<S: ByteStream>(
        &mut self,
        session: &Session,
        stream: &mut S,
        reply: Message,
        compressor: Option<Compressor>,
    ) -> Result<(), ConnectionError> {
        session.counters.logical_out.add(reply.bytes().len());
        let reply = match compressor {
            None => reply,
            Some(compressor) => {
                let compressed = compress_message(&reply, compressor, Vec::new())?;
                session.shared.count_compressed(compressor, reply.bytes().len(), compressed.bytes().len());
                compressed
            }
        };
        session.enter(Phase::Sending);
        session.counters.physical_out.add(reply.bytes().len());
        let (result, buffer) = stream.send(reply.into_bytes()).await;
        session.count_reply(0);
        self.keep(session, buffer);
        result.map_err(|error| send_failed(session, error))
    }
}

/// Takes the times of one request.
struct RequestClock<'s> {
    times: RequestTimes,
    /// When the part that is under way began.
    since: Instant,
    /// The request is to be refused, and who wants that.
    overload: Option<Overload>,
    refuser: Option<&'s Admitter>,
}

impl<'s> RequestClock<'s> {
    fn start(session: &'s Session, begun: Option<Instant>, ready: Option<Instant>) -> Self {
        let now = Instant::now();
        let queue = ready.map(|ready| now.saturating_duration_since(ready));
        let ready = ready.unwrap_or(now);
        let times = RequestTimes {
            accept_wait: session.take_accept_wait(),
            receive: ready.saturating_duration_since(begun.unwrap_or(ready)),
            queue: queue.unwrap_or_default(),
            ..RequestTimes::default()
        };
        let (overload, refuser) = session.shared.verdict(session, queue, now).unzip();
        Self { times, since: now, overload, refuser }
    }

    const fn request<'m>(&self, message: MessageRef<'m>, reply: Vec<u8>) -> RequestMessage<'m> {
        RequestMessage::new(message, reply, self.times, self.since, self.overload)
    }

    /// `length`: that of the message.
    fn executed(&mut self, session: &Session, length: usize, refused: bool) {
        let now = Instant::now();
        self.times.execute = now.saturating_duration_since(self.since);
        self.since = now;
        // A refusal says nothing of what the connection asks for.
        if !refused && let Some(wait) = session.take_pool_wait() {
            self.times.queue += wait;
            self.times.execute = self.times.execute.saturating_sub(wait);
            let placement = session.last_placement();
            if let Some(admission) = session.shared.pool_admission(placement) {
                admission.executed(self.times.execute);
            }
            // Elsewhere it waited for the disk.
            let outlasts = placement == Placement::Long && self.times.execute >= OUTLASTS;
            session.note_outlasting(outlasts.then_some(length));
        }
        if refused && let Some(admitter) = self.refuser {
            admitter.count_refused();
        }
    }

    /// The request is answered; gives the time.
    fn finished<H: Service>(&mut self, session: &Arc<Session>, service: &H) -> Instant {
        let now = Instant::now();
        self.times.send = now.saturating_duration_since(self.since);
        self.since = now;
        session.shared.record(&self.times);
        service.finished(session, &self.times);
        now
    }

    /// The next reply of an exhaust stream begins.
    fn again(&mut self, session: &'s Session) {
        let (overload, refuser) = session.shared.verdict(session, None, self.since).unzip();
        *self = Self { times: RequestTimes::default(), since: self.since, overload, refuser };
    }
}

/// Runs a future; when it panics, gives the panic's text.
async fn guarded<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, String> {
    poll_fn(|context| {
        // The future is dropped after a panic and never polled again, so that nobody sees its broken state.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(panic) => Poll::Ready(Err(panic_text(&*panic))),
        }
    })
    .await
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic without text".to_owned())
}
