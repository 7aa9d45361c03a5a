//! Random pipelines, the same ones in each run: no namespace that one touches goes unasked.

use access::{
    AccessRequest, AccessUser, Action, Privilege, ResourcePattern, RoleDefinition, RoleGraph, RoleName,
    requirement_of,
};
use document::{Document, RawDocument, Value, doc};
use fastrand::Rng;

const DATABASE: &str = "shop";

/// What a random pipeline touches, by how it was made.
struct Made {
    random: Rng,
    touched: Vec<Privilege>,
    names: usize,
}

impl Made {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("c{}", self.names)
    }

    fn touches(&mut self, database: &str, name: &str, actions: &[Action]) {
        for action in actions {
            let on = ResourcePattern::Collection(database.to_owned(), name.to_owned());
            self.touched.push(Privilege::new(on, &[*action]));
        }
    }

    fn reads(&mut self) -> String {
        let name = self.name();
        self.touches(DATABASE, &name, &[Action::Find]);
        name
    }

    fn stages(&mut self, depth: usize) -> Vec<Value> {
        let count = self.random.usize(0..4);
        (0..count).map(|_| self.stage(depth).into()).collect()
    }

    fn stage(&mut self, depth: usize) -> Document {
        let kinds = if depth < 3 { 7 } else { 4 };
        match self.random.usize(0..kinds) {
            0 => doc! { "$match": { "a": 1 } },
            1 => doc! { "$unionWith": (self.reads()) },
            2 => doc! { "$graphLookup": { "startWith": "$a", "from": (self.reads()), "as": "b" } },
            3 => {
                let name = self.name();
                self.touches("config", &name, &[Action::Find]);
                doc! { "$lookup": { "from": { "db": "config", "coll": name }, "as": "b" } }
            }
            4 => {
                let from = self.reads();
                doc! { "$lookup": { "as": "b", "pipeline": (self.stages(depth + 1)), "from": from } }
            }
            5 => {
                let coll = self.reads();
                doc! { "$unionWith": { "coll": coll, "pipeline": (self.stages(depth + 1)) } }
            }
            _ => doc! { "$facet": { "x": (self.stages(depth + 1)), "y": (self.stages(depth + 1)) } },
        }
    }

    /// The last stage of some pipelines.
    fn output(&mut self) -> Option<Document> {
        let name = self.name();
        match self.random.u8(0..3) {
            0 => {
                self.touches(DATABASE, &name, &[Action::Insert, Action::Remove]);
                Some(doc! { "$out": name })
            }
            1 => {
                self.touches("bank", &name, &[Action::Insert, Action::Update]);
                Some(doc! { "$merge": { "into": { "db": "bank", "coll": name } } })
            }
            _ => None,
        }
    }
}

fn user(privileges: Vec<Privilege>) -> AccessUser {
    let name = RoleName::new("only", "admin");
    let stored = doc! { "user": "u", "db": "admin", "roles": [(name.to_document())] };
    let limits = access::UserLimits::default();
    let role = RoleDefinition { name, privileges, roles: Vec::new(), restrictions: Vec::new(), limits };
    AccessUser::new(stored.to_buf().as_raw(), &RoleGraph::new([role]), 0).expect("a user")
}

fn is_allowed(command: RawDocument<'_>, user: &AccessUser) -> bool {
    let requirement = requirement_of("aggregate").expect("it has a row");
    requirement.is_met(&AccessRequest { database: DATABASE, command, sequences: &[], user })
}

#[test]
fn every_namespace_of_a_pipeline_is_asked_for() {
    let mut left_out = 0;
    for seed in 0..400 {
        let mut made = Made { random: Rng::with_seed(seed), touched: Vec::new(), names: 0 };
        let collection = made.reads();
        let mut stages = made.stages(0);
        stages.extend(made.output().map(Value::from));
        let command = doc! { "aggregate": collection, "pipeline": stages, "cursor": {} }.to_buf();
        let (command, touched) = (command.as_raw(), made.touched);
        assert!(is_allowed(command, &user(touched.clone())), "all that it touches is enough: {command:?}");
        for (position, missing) in touched.iter().enumerate() {
            let mut others = touched.clone();
            others.remove(position);
            assert!(!is_allowed(command, &user(others)), "{missing:?} goes unasked: {command:?}");
            left_out += 1;
        }
    }
    assert!(left_out > 1000, "pipelines touch something: {left_out}");
}

#[test]
fn no_bytes_make_the_walk_panic() {
    let mut random = Rng::with_seed(2);
    let nobody = user(Vec::new());
    let mut parsed = 0;
    for seed in 0..2000 {
        let mut made = Made { random: Rng::with_seed(seed), touched: Vec::new(), names: 0 };
        let command = doc! { "aggregate": "a", "pipeline": (made.stages(0)) }.to_buf();
        let mut bytes = command.as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(4..bytes.len());
            bytes[at] = random.u8(..);
        }
        // What a message may bring was parsed before; the walk is to stand what was not, too.
        parsed += usize::from(RawDocument::parse(&bytes).is_ok());
        let command = RawDocument::trusted(&bytes);
        // One without a pipeline asks for nothing, and is refused as a command.
        let asks = command.get("pipeline").is_some_and(|pipeline| pipeline.as_array().is_some());
        assert!(!is_allowed(command, &nobody) || !asks, "nothing is allowed to nobody: {command:?}");
    }
    assert!(parsed > 100, "some are documents: {parsed}");
}
