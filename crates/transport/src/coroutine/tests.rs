//! One ring and its connections, driven by hand on socket pairs.

use super::buffers::{BUFFER_BYTES, BUFFERS};
use super::ring::{Event, Received, Ring};
use super::ring_loop::{RING, RingHandle};
use super::sockets::{ReceiveOutcome, RingSockets, UNREAD_LIMIT, Unsettled};
use super::stream::RingStream;
use crate::simulated::SimulatedStream;
use crate::{ByteStream, ReceiveBuffer, Replies, RequestMessage, Service, Session};
use rustix::event::{EventfdFlags, eventfd};
use socket2::Socket;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// The ring's own watch of its wake-up descriptor.
const OWN_OPERATIONS: u64 = 1;

#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// One connection of a ring that serves nobody else, and its client.
struct Rig {
    connections: RingSockets,
    socket: Arc<Socket>,
    owner: u32,
    client: UnixStream,
    woken: Arc<Woken>,
}

impl Rig {
    fn new() -> Self {
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor"));
        let ring = Ring::new().expect("the tests run where io_uring works");
        let mut connections = RingSockets::new(ring, wake);
        let (client, served) = UnixStream::pair().expect("two descriptors");
        let socket = Arc::new(Socket::from(OwnedFd::from(served)));
        let owner = connections.register(Arc::clone(&socket));
        connections.turn(false).expect("the kernel submits");
        Self { connections, socket, owner, client, woken: Arc::default() }
    }

    fn poll_receive(&mut self, buffer: &mut ReceiveBuffer) -> Poll<io::Result<usize>> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let context = Context::from_waker(&waker);
        self.connections.poll_receive(self.owner, buffer, &context).map(|got| match got {
            ReceiveOutcome::Bytes { result, .. } => result,
            ReceiveOutcome::Unsettled(left) => panic!("no send was begun, and yet there is {left:?}"),
        })
    }

    /// As a task does it: waits until woken.
    fn receive(&mut self, buffer: &mut ReceiveBuffer) -> io::Result<usize> {
        loop {
            let before = self.woken.0.load(Ordering::SeqCst);
            if let Poll::Ready(result) = self.poll_receive(buffer) {
                return result;
            }
            while self.woken.0.load(Ordering::SeqCst) == before {
                self.connections.turn(true).expect("the kernel completes");
            }
        }
    }

    fn receive_exactly(&mut self, length: usize) -> Vec<u8> {
        let mut buffer = ReceiveBuffer::new();
        let mut all = Vec::new();
        while all.len() < length {
            let count = self.receive(&mut buffer).expect("bytes");
            assert!(count > 0, "end of file after {} of {length} bytes", all.len());
            all.extend_from_slice(buffer.filled());
            buffer.consume(count);
        }
        all
    }

    fn send(&mut self, bytes: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        self.connections.start_send(self.owner, bytes, from);
        loop {
            if let Poll::Ready(done) = self.poll_sent() {
                return done;
            }
            self.connections.turn(true).expect("the kernel completes");
        }
    }

    fn poll_sent(&mut self) -> Poll<(io::Result<usize>, Vec<u8>)> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.connections.poll_sent(self.owner, &Context::from_waker(&waker))
    }

    /// Waits, as a task does, for a send that was begun.
    fn settled(&mut self) -> Option<Unsettled> {
        loop {
            let waker = Waker::from(Arc::clone(&self.woken));
            let context = Context::from_waker(&waker);
            if let Poll::Ready(left) = self.connections.poll_settled(self.owner, &context) {
                return left;
            }
            let before = self.woken.0.load(Ordering::SeqCst);
            self.connections.turn(true).expect("the kernel completes");
            assert!(self.woken.0.load(Ordering::SeqCst) > before, "nobody told that the send is over");
        }
    }

    /// Lets the kernel end what was cancelled, and checks that nothing is left of the connection.
    #[track_caller]
    fn assert_nothing_left(&mut self) {
        for _ in 0..100 {
            if self.connections.counts().open == 0 {
                break;
            }
            self.connections.turn(false).expect("the kernel completes");
        }
        let counts = self.connections.counts();
        assert_eq!(counts.open, 0, "a released connection stays");
        assert_eq!(counts.ring.operations, OWN_OPERATIONS, "an operation of a released connection goes on");
        assert_eq!(counts.ring.buffers_held, 0, "a released connection holds buffers");
        assert_eq!(Arc::strong_count(&self.socket), 1, "a released connection holds its socket");
    }
}

/// Bytes that tell where they belong.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

#[test]
fn receives_what_is_sent_in_order() {
    let mut rig = Rig::new();
    for length in [1, 100, BUFFER_BYTES, BUFFER_BYTES + 1, 3 * BUFFER_BYTES] {
        let sent = pattern(length);
        rig.client.write_all(&sent).expect("the socket takes it");
        assert!(rig.receive_exactly(length) == sent, "{length} bytes came otherwise than sent");
    }
    assert_eq!(rig.connections.counts().ring.buffers_held, 0);
}

#[test]
fn a_client_far_ahead_is_paused_and_loses_nothing() {
    let mut rig = Rig::new();
    let length = 1_000_000;
    let sent = pattern(length);
    let mut writer = rig.client.try_clone().expect("a descriptor");
    let data = sent.clone();
    let writing = std::thread::spawn(move || writer.write_all(&data).expect("everything is read in the end"));
    // Nobody asks for the bytes.
    while rig.connections.counts().paused == 0 {
        rig.connections.turn(false).expect("the kernel completes");
        std::thread::yield_now();
    }
    for _ in 0..1000 {
        rig.connections.turn(false).expect("the kernel completes");
    }
    let counts = rig.connections.counts();
    assert_eq!(counts.ring.buffers_held, 0, "what nobody asks for occupies shared buffers");
    assert!(counts.bytes_copied_ahead >= UNREAD_LIMIT as u64);
    assert!(counts.bytes_copied_ahead < length as u64 / 2, "{} bytes were taken", counts.bytes_copied_ahead);
    assert_eq!(counts.ring.operations, OWN_OPERATIONS, "a paused connection receives");
    assert!(rig.receive_exactly(length) == sent, "bytes were lost or changed");
    writing.join().expect("the writer");
    assert!(rig.connections.counts().rearmed > 0);
}

#[test]
fn end_of_file_comes_after_the_last_bytes_and_stays() {
    let mut rig = Rig::new();
    rig.client.write_all(b"last").expect("the socket takes it");
    rig.client.shutdown(Shutdown::Write).expect("an open socket");
    rig.connections.turn(true).expect("the kernel completes");
    let mut buffer = ReceiveBuffer::new();
    assert_eq!(rig.receive(&mut buffer).expect("bytes"), 4);
    assert_eq!(buffer.filled(), b"last");
    for _ in 0..2 {
        assert_eq!(rig.receive(&mut buffer).expect("end of file"), 0);
    }
}

#[test]
fn shutting_the_read_half_ends_a_pending_receive() {
    let mut rig = Rig::new();
    let mut buffer = ReceiveBuffer::new();
    assert!(rig.poll_receive(&mut buffer).is_pending());
    assert_eq!(buffer.capacity(), 0, "a connection that waits holds memory");
    rig.socket.shutdown(Shutdown::Read).expect("an open socket");
    assert_eq!(rig.receive(&mut buffer).expect("end of file"), 0);
}

#[test]
fn sends_as_fast_as_the_client_reads() {
    let mut rig = Rig::new();
    let length = 4_000_000;
    let (result, mut bytes) = rig.send(pattern(length), 0);
    let mut from = result.expect("the socket is empty");
    assert!(from > 0 && from < length, "{from} of {length} bytes fit into a socket");
    let mut reader = rig.client.try_clone().expect("a descriptor");
    let reading = std::thread::spawn(move || {
        let mut received = vec![0; length];
        reader.read_exact(&mut received).expect("everything is sent in the end");
        received
    });
    while from < length {
        let result;
        (result, bytes) = rig.send(bytes, from);
        from += result.expect("the client reads");
    }
    assert!(reading.join().expect("the reader") == pattern(length), "bytes were lost or changed");
}

#[test]
fn shutting_both_halves_ends_a_waiting_send() {
    let mut rig = Rig::new();
    let (result, bytes) = rig.send(pattern(4_000_000), 0);
    let taken = result.expect("the socket is empty");
    rig.connections.start_send(rig.owner, bytes, taken);
    rig.connections.turn(false).expect("the kernel submits");
    assert!(rig.poll_sent().is_pending(), "a full socket took more");
    rig.socket.shutdown(Shutdown::Both).expect("an open socket");
    let result = loop {
        if let Poll::Ready((result, _)) = rig.poll_sent() {
            break result;
        }
        rig.connections.turn(true).expect("the kernel completes");
    };
    assert_eq!(result.expect_err("a closed socket").kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn a_send_that_nobody_waits_for_arrives() {
    let mut rig = Rig::new();
    for round in 1..100_usize {
        rig.connections.send_later(rig.owner, pattern(round * 100));
        assert!(rig.settled().is_none(), "a reply that has room is left over");
        let mut received = vec![0; round * 100];
        rig.client.read_exact(&mut received).expect("the reply");
        assert!(received == pattern(round * 100), "another reply came");
    }
}

/// Fills the socket until a send that nobody waits for leaves a rest; answers with what was taken before it
/// and what is left.
fn overfill(rig: &mut Rig) -> (usize, Vec<u8>, usize) {
    let mut taken = 0;
    loop {
        rig.connections.send_later(rig.owner, pattern(10_000));
        match rig.settled() {
            None => taken += 10_000,
            Some(Unsettled::Rest(bytes, from)) => return (taken, bytes, from),
            Some(Unsettled::Failed(error)) => panic!("an open socket fails: {error}"),
        }
    }
}

#[test]
fn what_has_no_room_comes_back_to_be_sent_with_patience() {
    let mut rig = Rig::new();
    let (taken, bytes, from) = overfill(&mut rig);
    let mut reader = rig.client.try_clone().expect("a descriptor");
    let reading = std::thread::spawn(move || {
        let mut received = vec![0; taken + 10_000];
        reader.read_exact(&mut received).expect("everything is sent in the end");
        received
    });
    let (mut from, mut bytes) = (from, bytes);
    while from < bytes.len() {
        let result;
        (result, bytes) = rig.send(bytes, from);
        from += result.expect("the client reads");
    }
    let received = reading.join().expect("the reader");
    assert!(received.chunks(10_000).all(|reply| reply == pattern(10_000)), "replies were lost or changed");
}

#[test]
fn a_task_that_waits_for_requests_hears_of_a_send_without_room() {
    let mut rig = Rig::new();
    // As full as it gets.
    let (_, bytes, from) = overfill(&mut rig);
    let waker = Waker::from(Arc::clone(&rig.woken));
    let context = Context::from_waker(&waker);
    rig.connections.send_later(rig.owner, bytes[from..].to_vec());
    let mut buffer = ReceiveBuffer::new();
    assert!(rig.connections.poll_receive(rig.owner, &mut buffer, &context).is_pending());
    rig.connections.turn(true).expect("the kernel completes");
    assert!(rig.woken.0.load(Ordering::SeqCst) > 0, "the task sleeps with a reply that has not left");
    match rig.connections.poll_receive(rig.owner, &mut buffer, &context) {
        Poll::Ready(ReceiveOutcome::Unsettled(Unsettled::Rest(rest, 0))) => assert!(rest == bytes[from..]),
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_send_that_fails_is_told_of_when_nothing_is_left_to_read() {
    let mut rig = Rig::new();
    rig.client.write_all(b"last").expect("room");
    rig.connections.turn(true).expect("the kernel completes");
    rig.socket.shutdown(Shutdown::Write).expect("an open socket");
    rig.connections.send_later(rig.owner, pattern(100));
    rig.connections.turn(true).expect("the kernel completes");
    let waker = Waker::from(Arc::clone(&rig.woken));
    let context = Context::from_waker(&waker);
    let mut buffer = ReceiveBuffer::new();
    match rig.connections.poll_receive(rig.owner, &mut buffer, &context) {
        Poll::Ready(ReceiveOutcome::Bytes { result: Ok(4), settled: false, .. }) => {}
        other => panic!("unexpected {other:?}"),
    }
    buffer.consume(4);
    match rig.connections.poll_receive(rig.owner, &mut buffer, &context) {
        Poll::Ready(ReceiveOutcome::Unsettled(Unsettled::Failed(error))) => {
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_release_in_any_state_leaves_nothing() {
    type Prepare = fn(&mut Rig);
    let states: [(&str, Prepare); 7] = [
        ("fresh", |_| {}),
        ("waiting for a request", |rig| assert!(rig.poll_receive(&mut ReceiveBuffer::new()).is_pending())),
        ("with an event that nobody has seen", |rig| rig.client.write_all(b"part").expect("room")),
        ("with a chunk unread", |rig| {
            assert!(rig.poll_receive(&mut ReceiveBuffer::new()).is_pending());
            rig.client.write_all(b"part").expect("room");
            rig.connections.turn(true).expect("the kernel completes");
            assert_eq!(rig.connections.counts().ring.buffers_held, 1);
        }),
        ("with bytes copied ahead", |rig| {
            rig.client.write_all(b"part").expect("room");
            rig.connections.turn(true).expect("the kernel completes");
        }),
        ("after end of file", |rig| {
            rig.client.shutdown(Shutdown::Both).expect("an open socket");
            rig.connections.turn(true).expect("the kernel completes");
        }),
        ("while a send waits", |rig| {
            rig.connections.start_send(rig.owner, pattern(4_000_000), 0);
            rig.connections.turn(true).expect("the kernel completes");
            if let Poll::Ready((result, bytes)) = rig.poll_sent() {
                rig.connections.start_send(rig.owner, bytes, result.expect("room"));
                rig.connections.turn(false).expect("the kernel submits");
            }
            assert_eq!(rig.connections.counts().ring.operations, OWN_OPERATIONS + 2);
        }),
    ];
    for (name, prepare) in states {
        println!("{name}");
        let mut rig = Rig::new();
        prepare(&mut rig);
        drop(rig.connections.release(rig.owner));
        rig.assert_nothing_left();
    }
}

#[test]
fn a_place_is_used_again_without_mixing_events_up() {
    let mut rig = Rig::new();
    for round in 0..1000_u32 {
        drop(rig.connections.release(rig.owner));
        rig.assert_nothing_left();
        let (client, served) = UnixStream::pair().expect("two descriptors");
        rig.client = client;
        rig.socket = Arc::new(Socket::from(OwnedFd::from(served)));
        rig.owner = rig.connections.register(Arc::clone(&rig.socket));
        rig.client.write_all(&round.to_le_bytes()).expect("room");
        assert_eq!(rig.receive_exactly(4), round.to_le_bytes(), "another connection's bytes");
    }
}

#[test]
fn a_ring_that_ends_lets_go_of_everything() {
    let mut rig = Rig::new();
    rig.connections.start_send(rig.owner, pattern(4_000_000), 0);
    rig.connections.turn(false).expect("the kernel submits");
    drop(rig.connections);
    assert_eq!(Arc::strong_count(&rig.socket), 1, "the ended ring holds a socket");
    drop(rig.socket);
    let mut sent = Vec::new();
    rig.client.read_to_end(&mut sent).expect("end of file: nobody holds the other side any more");
}

#[test]
fn a_receive_without_a_buffer_is_tried_again() {
    let mut ring = Ring::new().expect("the tests run where io_uring works");
    let pairs: Vec<_> = (0..=BUFFERS).map(|_| UnixStream::pair().expect("two descriptors")).collect();
    for (owner, (mut client, served)) in (0..).zip(pairs.iter().map(|(client, served)| (client, served))) {
        let served = OwnedFd::from(served.try_clone().expect("a descriptor"));
        ring.receive(owner, Arc::new(Socket::from(served)));
        client.write_all(b"x").expect("room");
    }
    let (mut chunks, mut starved) = (Vec::new(), Vec::new());
    while chunks.len() + starved.len() < pairs.len() {
        ring.turn(true).expect("the kernel completes");
        while let Some(event) = ring.next_event() {
            match event {
                Event::Received { result: Received::Chunk(chunk), .. } => chunks.push(chunk),
                Event::Received { owner, result: Received::NoBuffer, last } => {
                    assert!(last, "a receive without a buffer goes on");
                    starved.push(owner);
                }
                other => panic!("unexpected {other:?}"),
            }
        }
    }
    assert_eq!((chunks.len(), starved.len(), ring.free_buffers()), (usize::from(BUFFERS), 1, 0));
    chunks.drain(..).for_each(|chunk| ring.give_back(chunk));
    let (_, served) = &pairs[starved[0] as usize];
    ring.receive(7, Arc::new(Socket::from(OwnedFd::from(served.try_clone().expect("a descriptor")))));
    ring.turn(true).expect("the kernel completes");
    let Some(Event::Received { owner: 7, result: Received::Chunk(chunk), .. }) = ring.next_event() else {
        panic!("the receive got no buffer though there are some");
    };
    assert_eq!(ring.bytes(&chunk), b"x");
    ring.give_back(chunk);
}

#[test]
fn more_operations_than_the_queue_holds_are_all_submitted() {
    let mut rig = Rig::new();
    let pairs: Vec<_> = (0..1500).map(|_| UnixStream::pair().expect("two descriptors")).collect();
    let mut owners = Vec::new();
    let mut clients = Vec::new();
    for (client, served) in pairs {
        owners.push(rig.connections.register(Arc::new(Socket::from(OwnedFd::from(served)))));
        clients.push(client);
    }
    rig.connections.turn(false).expect("the kernel submits");
    for (owner, client) in owners.iter().zip(&mut clients) {
        client.write_all(&owner.to_le_bytes()).expect("room");
    }
    for owner in owners {
        rig.owner = owner;
        assert_eq!(rig.receive_exactly(4), owner.to_le_bytes());
    }
}

#[test]
fn a_ring_ends_with_all_its_operations_however_many() {
    let mut rig = Rig::new();
    let pairs: Vec<_> = (0..1500).map(|_| UnixStream::pair().expect("two descriptors")).collect();
    let mut sockets = Vec::new();
    let mut clients = Vec::new();
    for (client, served) in pairs {
        let socket = Arc::new(Socket::from(OwnedFd::from(served)));
        rig.connections.register(Arc::clone(&socket));
        sockets.push(socket);
        clients.push(client);
    }
    rig.connections.turn(false).expect("the kernel submits");
    drop(rig);
    let held = sockets.iter().filter(|socket| Arc::strong_count(socket) > 1).count();
    assert_eq!(held, 0, "sockets of operations that did not end");
}

struct Silent;

impl Service for Silent {
    async fn call(&self, _session: &Arc<Session>, _request: RequestMessage<'_>) -> Replies {
        Replies::none()
    }
}

/// Makes the test's thread a ring's thread with one stream. The socket's other side is the client.
fn with_stream(test: impl FnOnce(RingStream, &Socket, UnixStream)) {
    let home = RingHandle::new().expect("a descriptor");
    home.settle_here().expect("the tests run where io_uring works");
    let ownership = home.queue.own();
    let (registered, _, _) = SimulatedStream::connect([], &Arc::new(Silent));
    let (client, served) = UnixStream::pair().expect("two descriptors");
    let socket = Arc::new(Socket::from(OwnedFd::from(served)));
    let session = Arc::clone(registered.session());
    let stream = RingStream::register(home, Arc::clone(&socket), session).expect("this thread has a ring");
    test(stream, &socket, client);
    drop(ownership);
    drop(RING.take());
}

/// Polls, and lets the ring turn, until the future is ready or nothing more happens.
fn run_until_stuck<F: Future>(mut future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..10 {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Poll::Ready(output);
        }
        RING.with_borrow_mut(|ring| {
            ring.as_mut().expect("a ring").turn(false).expect("the kernel completes")
        });
    }
    Poll::Pending
}

#[track_caller]
fn run<F: Future>(future: F) -> F::Output {
    match run_until_stuck(std::pin::pin!(future)) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a future waits for nothing"),
    }
}

#[test]
fn a_stream_finishes_only_when_its_last_reply_has_left() {
    with_stream(|mut stream, socket, mut client| {
        let mut filled = 0;
        socket.set_nonblocking(true).expect("an open socket");
        while let Ok(count) = socket.send(&[0; 1000]) {
            filled += count;
        }
        let (result, _) = run(stream.send(pattern(10_000)));
        result.expect("the ring takes a small reply");
        {
            let mut finish = std::pin::pin!(stream.finish());
            assert!(run_until_stuck(finish.as_mut()).is_pending(), "a reply that has no room was given up");
            client.read_exact(&mut vec![0; filled]).expect("the filling");
            match run_until_stuck(finish) {
                Poll::Ready(result) => result.expect("room"),
                Poll::Pending => panic!("the client has read, and the reply does not leave"),
            }
        }
        drop(stream);
        let mut reply = vec![0; 10_000];
        client.read_exact(&mut reply).expect("the reply");
        assert!(reply == pattern(10_000), "another reply came");
    });
}

#[test]
fn small_and_large_replies_stay_in_order() {
    with_stream(|mut stream, _, mut client| {
        let lengths = [100, 30_000, 100, 100, 30_000, 30_000, 100];
        for (number, length) in (0..).zip(lengths) {
            run(stream.send(vec![number; length])).0.expect("room");
            run(stream.give_way(number == 3));
        }
        run(stream.finish()).expect("room");
        for (number, length) in (0..).zip(lengths) {
            let mut reply = vec![0; length];
            client.read_exact(&mut reply).expect("the reply");
            assert!(reply.iter().all(|byte| *byte == number), "another reply came before {number}");
        }
    });
}
