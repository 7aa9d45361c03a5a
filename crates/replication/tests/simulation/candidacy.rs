//! Who stands when: two members that may stay leaders, and a third that stands for them.

use crate::disk::{Disk, DiskLog};
use replication::{Candidacy, Checkpoint, Config, Member, MemberId, RaftRole};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const STEP: Duration = Duration::from_millis(10);
/// The third member stands by itself after four election time-outs.
const UNASKED: Duration = Duration::from_secs(4);
const THIRD: MemberId = 3;
const SEEDS: u64 = 40;

struct Three {
    members: Vec<(Member<DiskLog>, Rc<RefCell<Disk>>)>,
    now: Duration,
    /// Nothing goes to it or comes from it.
    away: Option<MemberId>,
    /// The third one has asked for votes since this was cleared.
    third_stood: bool,
}

impl Three {
    fn new(seed: u64) -> Self {
        let start = |number: MemberId| {
            let disk = Rc::<RefCell<Disk>>::default();
            let config = Config::new(number, seed * 3 + number);
            let log = DiskLog(Rc::clone(&disk));
            let data = Checkpoint::initial(&[1, 2, THIRD]);
            let mut member = Member::open(&config, log, data, Duration::ZERO).unwrap();
            if number == THIRD {
                member.set_candidacy(Candidacy::ForOthers);
            }
            (member, disk)
        };
        let members = (1..=THIRD).map(start).collect();
        Three { members, now: Duration::ZERO, away: None, third_stood: false }
    }

    fn member(&mut self, number: MemberId) -> &mut Member<DiskLog> {
        &mut self.members[number as usize - 1].0
    }

    fn step(&mut self) {
        self.now += STEP;
        for (member, _) in &mut self.members {
            member.advance(self.now);
        }
        while self.exchange() {}
        self.third_stood |= self.member(THIRD).leadership().role != RaftRole::Follower;
    }

    /// Whether anything was sent.
    fn exchange(&mut self) -> bool {
        let mut sent = Vec::new();
        for (member, disk) in &mut self.members {
            let effects = member.effects().unwrap();
            if let Some(ticket) = effects.sync {
                let changes = disk.borrow().begin_sync();
                disk.borrow_mut().end_sync(changes);
                member.synced(ticket);
            }
            if let Some(last) = effects.committed.last() {
                member.applied(last.entry.position.index);
            }
            sent.extend(effects.messages);
            sent.extend(member.effects().unwrap().messages);
        }
        let any = !sent.is_empty();
        let is_here = |number, away: Option<MemberId>| away != Some(number);
        for message in sent {
            if is_here(message.from(), self.away) && is_here(message.to(), self.away) {
                self.member(message.to()).receive(message).unwrap();
            }
        }
        any
    }

    fn wait_for(&mut self, what: &str, is_so: impl Fn(&mut Self) -> bool) {
        for _ in 0..3_000 {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("half a minute went by before {what}");
    }

    /// The leader and the other one that may be.
    fn with_leader(seed: u64) -> (Self, MemberId, MemberId) {
        let mut three = Three::new(seed);
        three.wait_for("one of two leads", |three| (1..THIRD).any(|one| three.member(one).is_writable()));
        let leader = if three.member(1).is_writable() { 1 } else { 2 };
        (three, leader, THIRD - leader)
    }

    fn write(&mut self, leader: MemberId) {
        let now = self.now;
        self.member(leader).propose(now, 1, |_| vec![0; 8]).unwrap();
        self.step();
    }

    fn has_all_of(&mut self, one: MemberId, other: MemberId) -> bool {
        self.member(one).last() == self.member(other).last()
    }
}

#[test]
fn who_alone_has_the_end_of_the_log_stands_soon_after_it_has_refused_a_vote() {
    for seed in 0..SEEDS {
        let (mut three, leader, other) = Three::with_leader(seed);
        three.away = Some(other);
        three.write(leader);
        assert!(three.has_all_of(THIRD, leader) && !three.has_all_of(other, leader));
        three.away = Some(leader);
        let began = three.now;
        three.wait_for("the third leads", |three| three.member(THIRD).leadership().role == RaftRole::Leader);
        let took = three.now - began;
        assert!(took < UNASKED, "seed {seed}: {took:?}, as if nobody had asked for its vote");
    }
}

#[test]
fn who_stands_for_others_does_not_where_another_one_may_be_elected() {
    for seed in 0..SEEDS {
        let (mut three, leader, other) = Three::with_leader(seed);
        // It asks for votes with a log that is behind, also when it is back and has not heard the leader yet.
        three.away = Some(other);
        three.write(leader);
        (0..500).for_each(|_| three.step());
        three.away = None;
        three.wait_for("the other one has all", |three| three.has_all_of(other, THIRD));
        three.third_stood = false;
        three.away = Some(leader);
        three.wait_for("the other one leads", |three| three.member(other).is_writable());
        assert!(!three.third_stood, "seed {seed}: it was not its turn");
    }
}
