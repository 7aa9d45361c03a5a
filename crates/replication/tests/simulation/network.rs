//! A network that loses, delays, doubles, overtakes and cuts.

use fastrand::Rng;
use replication::MemberId;
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) struct Network {
    /// From whom to whom nothing goes.
    cut: BTreeSet<(MemberId, MemberId)>,
    loss: f64,
    doubling: f64,
    delay_max: u64,
}

impl Network {
    pub(crate) fn new(random: &mut Rng) -> Self {
        let mut network = Network { cut: BTreeSet::new(), loss: 0.0, doubling: 0.0, delay_max: 2_000 };
        network.change(random);
        network
    }

    /// Another weather.
    pub(crate) fn change(&mut self, random: &mut Rng) {
        self.loss = [0.0, 0.0, 0.02, 0.2][random.usize(..4)];
        self.doubling = [0.0, 0.05, 0.3][random.usize(..3)];
        self.delay_max = [1_000, 5_000, 50_000, 400_000][random.usize(..4)];
    }

    pub(crate) fn heal(&mut self) {
        *self = Network { cut: BTreeSet::new(), loss: 0.0, doubling: 0.0, delay_max: 2_000 };
    }

    /// Cuts both ways between two parts, or one way, or one pair of members only.
    pub(crate) fn partition(&mut self, members: &[MemberId], random: &mut Rng) {
        let mut order = members.to_vec();
        random.shuffle(&mut order);
        let (one, others) = order.split_at(random.usize(1..order.len().max(2)));
        let kind = random.u8(..4);
        for a in one {
            for b in others {
                if kind != 1 {
                    self.cut.insert((*a, *b));
                }
                if kind != 2 {
                    self.cut.insert((*b, *a));
                }
                if kind == 3 {
                    return;
                }
            }
        }
    }

    pub(crate) fn mend(&mut self) {
        self.cut.clear();
    }

    pub(crate) fn reaches(&self, from: MemberId, to: MemberId) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// When the copies of a message arrive.
    pub(crate) fn send(&self, from: MemberId, to: MemberId, random: &mut Rng) -> Vec<Duration> {
        if !self.reaches(from, to) || random.f64() < self.loss {
            return Vec::new();
        }
        let copies = if random.f64() < self.doubling { 2 } else { 1 };
        (0..copies).map(|_| Duration::from_micros(random.u64(100..self.delay_max.max(101)))).collect()
    }
}
