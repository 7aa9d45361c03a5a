//! One message must never hold up the others: a generator sends the largest and most awkward shapes of every
//! command, operator, accumulator, stage and option that the tables know, and looks how long the server's
//! processors are busy with each, whether others are answered meanwhile, and how much memory it takes.
//!
//! `HEDDLE_HOSTILE_SECONDS=1800 cargo test --release -p heddle --test hostile -- --nocapture` is the long
//! form: larger shapes, then random ones until the time is over, and the others are answered within a tenth
//! of a second. `HEDDLE_HOSTILE_SEED` repeats the random ones.

mod combined;
mod crowds;
mod frames;
mod interrupts;
mod operands;
mod server;
mod shapes;
#[allow(dead_code, reason = "other tests use more of it")]
#[path = "../support/mod.rs"]
mod support;

use crowds::Sizes;
use document::{Document, Value, doc};
use fastrand::Rng;
use server::{Client, Outcome, Pinger, most_memory, processor_time};
use shapes::{COLLECTION, DATABASE, MAX_TIME_MS, Shape};
use std::time::{Duration, Instant};
use support::{ServerProcess, run};

/// What is demanded of the server.
struct Form {
    /// Elements of the operands.
    length: usize,
    /// Processor time for a request whatever its length; what is long by its own will ends by its time limit.
    base: Duration,
    /// Processor time for each byte of a request. Quadratic work on `length` elements takes many times that.
    per_byte: Duration,
    /// How long others may wait at most.
    ping: Duration,
    memory_bytes: u64,
    /// How long random shapes are sent.
    random: Duration,
    /// Random shapes differ from run to run.
    explores: bool,
    crowds: Sizes,
    /// How long others may wait at most beside a crowd.
    crowd_ping: Duration,
}

impl Form {
    /// The form in `make test`: bounds that a busy machine and an unoptimised build keep.
    fn short() -> Self {
        Form {
            length: 20_000,
            base: Duration::from_millis(1500),
            per_byte: Duration::from_micros(3),
            ping: Duration::from_secs(2),
            memory_bytes: 3 << 30,
            random: Duration::from_secs(10),
            explores: false,
            crowds: Sizes::short(),
            crowd_ping: Duration::from_secs(4),
        }
    }

    fn long(random: Duration) -> Self {
        Form {
            length: 200_000,
            base: Duration::from_millis(1500),
            per_byte: Duration::from_nanos(500),
            ping: Duration::from_millis(100),
            memory_bytes: 8 << 30,
            random,
            explores: true,
            crowds: Sizes::long(),
            crowd_ping: Duration::from_secs(1),
        }
    }

    fn seed(&self) -> u64 {
        match self.explores {
            true => std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_nanos() as u64,
            false => 1,
        }
    }
}

/// What one request cost.
struct Cost {
    name: String,
    bytes: usize,
    processor: Duration,
    ping: Duration,
    outcome: Outcome,
}

impl Cost {
    fn nanos_per_byte(&self) -> u128 {
        self.processor.as_nanos() / self.bytes.max(1) as u128
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cost { name, bytes, processor, ping, outcome } = self;
        let per_byte = self.nanos_per_byte();
        write!(
            formatter,
            "{per_byte:>8} ns/byte  {processor:>8.2?} of processors  {bytes:>9} bytes  ping {ping:>8.1?}  \
            {name}: {outcome:?}"
        )
    }
}

/// The server, its clients, and what was found.
struct Trial {
    server: ServerProcess,
    client: Client,
    pinger: Pinger,
    form: Form,
    costs: Vec<Cost>,
    offences: Vec<String>,
}

/// After so many requests the documents are as they were.
const RESTORE_EVERY: usize = 250;

/// Processor time is measured in hundredths of a second, which says nothing of the bytes of short requests.
const LONG: usize = 32 << 10;

/// A request that has not been answered by then is given up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Trial {
    fn begin(form: Form, directory: &std::path::Path) -> Self {
        let server = ServerProcess::start(directory, &["--quiet"]);
        load(&server);
        let client = Client::connect(server.address, PATIENCE);
        let pinger = Pinger::start(server.address);
        Trial { server, client, pinger, form, costs: Vec::new(), offences: Vec::new() }
    }

    fn send(&mut self, shape: &Shape) {
        if std::env::var_os("HEDDLE_HOSTILE_VERBOSE").is_some() {
            println!("{}", shape.name);
        }
        self.send_message(shape.name.clone(), &server::message(shape));
    }

    /// Sends a whole message; gives the error code of its reply.
    fn send_message(&mut self, name: String, message: &[u8]) -> Option<i32> {
        let before = processor_time(self.server.pid());
        self.pinger.take_slowest();
        let outcome = self.client.send(message);
        if matches!(outcome, Outcome::Closed) {
            // A connection that ends is seen a moment before the process's end.
            std::thread::sleep(Duration::from_millis(300));
        }
        assert!(self.server.is_running(), "{name} ended the server");
        let processor = processor_time(self.server.pid()).saturating_sub(before);
        let ping = self.pinger.take_slowest();
        if !matches!(outcome, Outcome::Answered(_)) {
            self.client = Client::connect(self.server.address, PATIENCE);
        }
        let code = match outcome {
            Outcome::Answered(code) => Some(code),
            _ => None,
        };
        let cost = Cost { name, bytes: message.len(), processor, ping, outcome };
        self.judge(&cost);
        self.costs.push(cost);
        code
    }

    fn judge(&mut self, cost: &Cost) {
        let bytes = u32::try_from(cost.bytes).unwrap_or(u32::MAX);
        let allowed = self.form.base + self.form.per_byte * bytes + Duration::from_millis(MAX_TIME_MS as u64);
        let mut offence = |what: &str| {
            println!("OFFENCE {what}: {cost}");
            self.offences.push(format!("{what}: {cost}"));
        };
        if cost.processor > allowed {
            offence("took too long");
        }
        if cost.ping > self.form.ping {
            offence("held up others");
        }
        match cost.outcome {
            Outcome::Answered(_) => {}
            Outcome::Closed if cost.bytes > wire::MAX_MESSAGE_SIZE => {}
            Outcome::Closed => offence("was not answered"),
            Outcome::Silent => offence("was not answered in time"),
        }
    }

    /// Lets very many come at once.
    fn crowd(&mut self, name: &str, count: usize, send: impl FnOnce()) {
        self.pinger.take_slowest();
        let began = Instant::now();
        send();
        assert!(self.server.is_running(), "{name} ended the server");
        let ping = self.pinger.take_slowest();
        println!("{count} {name} in {:.1?}, slowest ping {ping:.1?}", began.elapsed());
        if ping > self.form.crowd_ping {
            self.offences.push(format!("{name} held up others: {ping:.1?}"));
        }
    }

    fn end(mut self) {
        let memory = most_memory(self.server.pid());
        let slowest = self.costs.iter().map(|cost| cost.ping).max().unwrap_or_default();
        let counted = self.costs.len();
        println!("{counted} requests, at most {} MiB of memory, slowest ping {slowest:.1?}", memory >> 20);
        crowds::nothing_panicked(&self);
        self.costs.sort_by_key(|cost| std::cmp::Reverse(cost.processor));
        println!("the ten that kept processors busy for longest:");
        self.costs.iter().take(10).for_each(|cost| println!("{cost}"));
        self.costs.retain(|cost| cost.bytes >= LONG);
        self.costs.sort_by_key(|cost| std::cmp::Reverse(cost.nanos_per_byte()));
        println!("the ten longer than {LONG} bytes that did so for longest per byte:");
        self.costs.iter().take(10).for_each(|cost| println!("{cost}"));
        if memory > self.form.memory_bytes {
            self.offences.push(format!("the server took {} MiB", memory >> 20));
        }
        assert!(self.offences.is_empty(), "{} offences:\n{}", self.offences.len(), self.offences.join("\n"));
    }
}

/// A wide document with lists.
fn wide() -> Document {
    const WIDE: usize = 20_000;
    let mut wide = doc! { "_id": 0, "a": 1 };
    wide.extend(operands::fields("f", WIDE, operands::int));
    wide.push("list", operands::numbers(WIDE));
    wide.push("items", operands::array(WIDE / 10, |number| doc! { "a": (number as i32) }.into()));
    wide
}

/// Brings the wide document back that requests may have changed.
fn restore(server: &ServerProcess) {
    let update = doc! { "q": { "_id": 0 }, "u": (wide()), "upsert": true };
    let command =
        doc! { "update": COLLECTION, "updates": [update], "bypassDocumentValidation": true, "$db": DATABASE };
    run(&mut server.client(), command);
}

/// Documents that the requests meet: a wide one and a small one, and a collection with indexes.
fn load(server: &ServerProcess) {
    let mut client = server.client();
    let wide = wide();
    let small = doc! { "_id": 1, "a": "text", "list": [1, 2, 3], "d": (Value::DateTime(0)) };
    run(&mut client, doc! { "insert": COLLECTION, "documents": [wide, small], "$db": DATABASE });
    run(&mut client, doc! { "insert": "sink", "documents": [{ "_id": 0 }], "$db": DATABASE });
    let indexed: Vec<Value> =
        (0..100).map(|number| doc! { "_id": number, "a": number, "b": number, "c": 1 }.into()).collect();
    run(&mut client, doc! { "insert": "indexed", "documents": indexed, "$db": DATABASE });
    let indexes = doc! {
        "createIndexes": "indexed",
        "indexes": [
            { "key": { "a": 1 }, "name": "a" },
            { "key": { "b": 1, "c": 1 }, "name": "b_c" },
            { "key": { "d": 1 }, "name": "d",
                "partialFilterExpression": { "$or": [{ "a": { "$gt": 5 } }, { "b": 1 }] } },
        ],
        "$db": DATABASE,
    };
    run(&mut client, indexes);
}

/// A request whose operand is made of other requests' parts.
fn random_shape(random: &mut Rng, shapes: &[Shape]) -> Option<Shape> {
    let (one, other) = (shapes.get(random.usize(..shapes.len()))?, shapes.get(random.usize(..shapes.len()))?);
    let (_, foreign) = other.command.iter().nth(1 + random.usize(..2))?;
    let mut command = Document::new();
    let replaced = 1 + random.usize(..2);
    for (position, (name, value)) in one.command.iter().enumerate() {
        let given = name.starts_with('$') || name == "maxTimeMS";
        command.push(name, if position == replaced && !given { foreign.clone() } else { value.clone() });
    }
    Some(Shape { name: format!("{} with a part of {}", one.name, other.name), command, sequence: None })
}

fn number_of(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn no_message_holds_up_the_others() {
    let form = match number_of("HEDDLE_HOSTILE_SECONDS") {
        Some(seconds) => Form::long(Duration::from_secs(seconds)),
        None => Form::short(),
    };
    let seed = number_of("HEDDLE_HOSTILE_SEED").unwrap_or_else(|| form.seed());
    println!("HEDDLE_HOSTILE_SEED={seed}");
    let directory = tempfile::tempdir().expect("a directory");
    let (random_time, shapes) = (form.random, shapes::all(form.length));
    let only = std::env::var("HEDDLE_HOSTILE_ONLY").unwrap_or_default();
    let mut trial = Trial::begin(form, directory.path());
    for (position, shape) in shapes.iter().filter(|shape| shape.name.contains(&only)).enumerate() {
        if position % RESTORE_EVERY == 0 {
            restore(&trial.server);
        }
        trial.send(shape);
    }
    let (mut random, began) = (Rng::with_seed(seed), Instant::now());
    while began.elapsed() < random_time {
        if let Some(shape) = random_shape(&mut random, &shapes) {
            trial.send(&shape);
        }
    }
    for frame in frames::all().iter().filter(|frame| frame.name.contains(&only)) {
        let code = trial.send_message(frame.name.clone(), &frame.bytes);
        if code != frame.code {
            trial.offences.push(format!("{}: answered with {code:?}, expected {:?}", frame.name, frame.code));
        }
    }
    if "crowds".contains(&only) {
        crowds::send_all(&mut trial, seed);
    }
    trial.end();
}

#[test]
fn what_goes_on_for_long_ends_when_it_is_told_to() {
    let directory = tempfile::tempdir().expect("a directory");
    interrupts::check(directory.path());
}
