//! A set of one member, step by step: what it answers, and when.

use crate::disk::{Disk, DiskLog};
use document::Timestamp;
use replication::{Checkpoint, Committed, Config, LogEntryKind, Member, ProposeError, RaftRole, ReadId};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const WALL: Duration = Duration::from_secs(1_000);

struct Alone {
    member: Member<DiskLog>,
    disk: Rc<RefCell<Disk>>,
    readable: Vec<ReadId>,
}

fn config() -> Config {
    Config { message_bytes_max: 1 << 10, uncommitted_bytes_max: 4 << 10, ..Config::new(1, 7) }
}

impl Alone {
    fn open(disk: Rc<RefCell<Disk>>, data: Checkpoint) -> Self {
        let member = Member::open(&config(), DiskLog(Rc::clone(&disk)), data, Duration::ZERO).unwrap();
        Alone { member, disk, readable: Vec::new() }
    }

    fn new() -> Self {
        Alone::open(Rc::default(), Checkpoint::initial(&[1]))
    }

    fn leader() -> Self {
        let mut alone = Alone::new();
        alone.wait();
        alone.settle();
        alone
    }

    fn wait(&mut self) {
        for tick in 1..100 {
            self.member.advance(Duration::from_millis(50) * tick);
        }
    }

    /// All that is to be done but applying.
    fn work(&mut self) -> Vec<Committed> {
        let mut committed = Vec::new();
        loop {
            let effects = self.member.effects().unwrap();
            assert!(effects.messages.is_empty(), "there is nobody to send to");
            self.readable.extend(effects.readable.iter().map(|(read, _)| *read));
            committed.extend(effects.committed);
            let Some(ticket) = effects.sync else { return committed };
            let changes = self.disk.borrow().begin_sync();
            self.disk.borrow_mut().end_sync(changes);
            self.member.synced(ticket);
        }
    }

    fn settle(&mut self) -> Vec<Committed> {
        let committed = self.work();
        if let Some(last) = committed.last() {
            self.member.applied(last.entry.position.index);
        }
        committed
    }

    fn propose(&mut self, bytes: usize) -> Result<(), ProposeError> {
        self.member.propose(WALL, 1, |_| vec![0; bytes]).map(drop)
    }
}

#[test]
fn it_leads_after_the_election_timeout() {
    let mut alone = Alone::new();
    alone.member.advance(Duration::from_millis(900));
    alone.settle();
    assert_eq!(alone.member.leadership().role, RaftRole::Follower);
    alone.wait();
    alone.settle();
    assert_eq!(alone.member.leadership().role, RaftRole::Leader);
    assert!(alone.member.is_writable());
}

#[test]
fn who_is_not_electable_does_not_lead() {
    let mut alone = Alone::new();
    alone.member.set_candidacy(replication::Candidacy::None);
    alone.wait();
    alone.settle();
    assert_eq!(alone.member.leadership().role, RaftRole::Follower);
    assert_eq!(alone.propose(1), Err(ProposeError::NotLeader { leader: None }));
}

#[test]
fn an_operation_is_committed_after_its_sync() {
    let mut alone = Alone::leader();
    alone.propose(3).unwrap();
    let effects = alone.member.effects().unwrap();
    assert!(effects.committed.is_empty());
    alone.member.synced(effects.sync.expect("the entry is to be synced"));
    assert_eq!(alone.settle().len(), 1);
}

#[test]
fn a_restart_goes_on_where_the_data_are() {
    let mut alone = Alone::leader();
    let data = alone.member.membership().clone();
    (1..=3).for_each(|bytes| alone.propose(bytes).unwrap());
    let committed = alone.settle();
    let first = &committed[0].entry;
    let LogEntryKind::Operation(timestamp) = first.kind else { panic!("{first:?} is no operation") };
    let data = Checkpoint { position: first.position, timestamp, membership: data };
    let mut alone = Alone::open(alone.disk, data);
    alone.wait();
    let again = alone.settle();
    assert_eq!(again[..2], committed[1..], "what was not in the data is given out again");
    alone.propose(1).unwrap();
    let next = &alone.settle()[0].entry;
    let LogEntryKind::Operation(next) = next.kind else { panic!("{next:?} is no operation") };
    assert_eq!(next, Timestamp { time: 1_000, increment: 4 });
}

#[test]
fn what_was_observed_is_earlier() {
    let mut alone = Alone::leader();
    alone.member.observe(Timestamp { time: 2_000, increment: 9 });
    let mut given = Vec::new();
    let group = |optime: replication::OpTime| {
        given.push(optime.timestamp);
        Vec::new()
    };
    alone.member.propose(WALL, 2, group).unwrap();
    assert_eq!(given, [10, 11].map(|increment| Timestamp { time: 2_000, increment }));
}

#[test]
fn a_leader_that_has_not_applied_what_was_before_refuses() {
    let mut alone = Alone::new();
    alone.wait();
    let committed = alone.work();
    assert_eq!(alone.member.leadership().role, RaftRole::Leader);
    assert_eq!(alone.propose(1), Err(ProposeError::Draining));
    alone.member.applied(committed.last().unwrap().entry.position.index);
    assert_eq!(alone.propose(1), Ok(()));
}

#[test]
fn too_much_that_is_not_committed_is_refused() {
    let mut alone = Alone::leader();
    assert_eq!(alone.propose(3 << 10), Ok(()));
    assert_eq!(alone.propose(3 << 10), Err(ProposeError::Full));
    alone.settle();
    assert_eq!(alone.propose(3 << 10), Ok(()));
}

#[test]
fn changes_of_members_that_cannot_be_are_refused() {
    let mut alone = Alone::leader();
    let mut change = |voters: &[u64], learners: &[u64]| alone.member.change_members(voters, learners, vec![]);
    assert_eq!(change(&[1], &[]), Err(ProposeError::Unchanged));
    assert_eq!(change(&[2], &[]), Err(ProposeError::WithoutLeader));
    assert!(change(&[1], &[2]).is_ok());
    assert_eq!(change(&[1, 2], &[]), Err(ProposeError::Changing));
}

#[test]
fn reads_of_one_turn_share_a_question() {
    let mut alone = Alone::leader();
    let first = alone.member.read().unwrap();
    assert_eq!(alone.member.read(), Ok(first));
    alone.settle();
    let second = alone.member.read().unwrap();
    alone.settle();
    assert!(second > first);
    assert_eq!(alone.readable, [first, second]);
}

#[test]
fn who_resigns_takes_no_operations() {
    let mut alone = Alone::leader();
    alone.member.resign();
    alone.settle();
    assert_eq!(alone.member.leadership().role, RaftRole::Follower);
    assert_eq!(alone.propose(1), Err(ProposeError::NotLeader { leader: None }));
    assert_eq!(alone.member.read(), Err(ProposeError::NotLeader { leader: None }));
}
