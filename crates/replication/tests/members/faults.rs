//! What goes wrong.

use crate::clock::RATES;
use crate::disk::Fullness;
use crate::planted::Bug;
use crate::world::{Event, World};
use replication::MemberId;
use std::time::Duration;

impl World {
    pub(crate) fn fault(&mut self) {
        if self.is_healed() {
            return;
        }
        let after = Duration::from_millis(self.random.u64(50..1_500));
        self.at(after, 0, Event::Fault);
        if self.bug == Some(Bug::ForgottenVote) {
            return self.have_elections();
        }
        let id = match self.random.bool() {
            true => self.leader().unwrap_or(0),
            false => self.random.usize(..self.nodes.len()),
        };
        let kind = self.random.u8(..18);
        self.say(|| format!("fault {kind} of member {id}"));
        match kind {
            0..=2 => self.crash(id),
            3 => (0..self.nodes.len()).for_each(|id| self.crash(id)),
            4 | 5 => {
                let members: Vec<MemberId> = (0..self.nodes.len() as MemberId).collect();
                self.network.partition(&members, &mut self.random);
            }
            6 => self.network.mend(),
            7 => self.network.change(&mut self.random),
            8 | 9 => {
                let node = &mut self.nodes[id];
                node.sync_delay_max = [500, 20_000, 500_000][self.random.usize(..3)];
                if self.random.bool() {
                    node.paused_until = self.now + Duration::from_millis(self.random.u64(..4_000));
                }
            }
            10 => {
                let node = &mut self.nodes[id];
                node.clock.wall_offset = Duration::from_secs(1_000_000 + self.random.u64(..100));
                node.clock.drift(self.now, self.random.u32(RATES));
            }
            11 | 12 => {
                let node = &mut self.nodes[id];
                node.full_until = self.now + Duration::from_millis(self.random.u64(1..4_000));
                let refusals = [None, Some(1), Some(4), Some(16)][self.random.usize(..4)];
                node.disk.fill(Some(Fullness { refusals, ends: self.random.u8(..4) == 0 }));
                self.figures.full_disks += 1;
            }
            17 => {
                let pair = self.copies().next();
                let ends = |(receiver, source)| if self.random.bool() { receiver } else { source };
                let id = pair.map_or(id, ends);
                self.crash(id);
            }
            13 => self.nodes.iter_mut().for_each(|node| node.dies_with_vote = self.random.bool()),
            _ => self.operate(id, kind),
        }
    }

    /// Nothing fails any more from now on.
    pub(crate) fn heal(&mut self) {
        self.say(|| "all is healed".to_owned());
        self.network.heal();
        // Who stays behind goes by its own clock.
        let latest = self.nodes.iter().map(|node| node.clock.wall_offset).max().filter(|_| self.has_delay);
        for id in 0..self.nodes.len() {
            let node = &mut self.nodes[id];
            (node.sync_delay_max, node.paused_until, node.dies_with_vote) = (500, self.now, false);
            if !node.full_until.is_zero() {
                node.full_until = self.now;
            }
            node.clock.drift(self.now, 1_000);
            node.clock.wall_offset = latest.unwrap_or(node.clock.wall_offset);
            if node.running.is_none() {
                self.start(id);
            }
        }
    }
}
