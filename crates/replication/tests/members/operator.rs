//! What operators ask members, and how they bring machines into the set and out of it.

use crate::disk::MemberDisk;
use crate::member::{Place, host, machine};
use crate::world::{Event, World};
use replication::set::{MemberConfig, ReplSetConfig};
use replication::{LocalState, Membership};
use std::time::Duration;

/// What the leader of the latest term says of the set.
struct Known {
    leader: usize,
    config: ReplSetConfig,
    membership: Membership,
}

impl World {
    fn known(&self) -> Option<Known> {
        let leader = self.leader()?;
        let node = &self.nodes[leader];
        let running = node.running.as_ref()?;
        let topology = running.set.topology();
        if topology.term != self.term_max || node.paused_until > self.now {
            return None;
        }
        let local = LocalState::new(running.catalog.store().clone());
        let membership = local.applied().expect("a whole disk")?.membership;
        let config = (*topology.config.clone()?).clone();
        Some(Known { leader, config, membership })
    }

    /// What an operator asks a member.
    pub(crate) fn operate(&mut self, id: usize, kind: u8) {
        let force = self.random.bool();
        let (other, votes, priority) = (self.random.usize(..), self.random.bool(), self.random.i32(0..4));
        let count = self.nodes.len();
        if self.nodes[id].paused_until > self.now {
            return;
        }
        let Some(running) = &mut self.nodes[id].running else { return };
        let set = running.set.clone();
        if force {
            // Those that have no vote follow that member.
            set.sync_from((other % count) as i32);
        }
        running.operators.push(match kind {
            14 => Box::pin(async move {
                let (wait, lasts) = (Duration::from_secs(1), Duration::from_secs(2));
                drop(set.step_down(wait, lasts, force).await);
            }),
            15 => Box::pin(async move { drop(set.step_up().await) }),
            _ => {
                let Some(config) = set.topology().config.clone() else { return };
                let mut asked = (*config).clone();
                let count = asked.members.len();
                let member = &mut asked.members[other % count];
                member.votes = votes;
                member.priority = if votes { f64::from(priority) } else { 0.0 };
                return self.reconfigure(id, asked);
            }
        });
        self.settle(id);
    }

    /// Whether somebody of a configuration who has the data can be primary.
    fn can_lead(&self, config: &ReplSetConfig) -> bool {
        let can_lead = |member: &MemberConfig| {
            let running = self.nodes[machine(&member.host)].running.as_ref();
            member.is_electable() && running.is_some_and(|running| running.set.topology().state.is_readable())
        };
        config.members.iter().any(can_lead)
    }

    fn reconfigure(&mut self, id: usize, mut asked: ReplSetConfig) {
        asked.version += 1;
        if !self.can_lead(&asked) {
            return;
        }
        let Ok(asked) = ReplSetConfig::parse(asked.to_document().to_buf().as_raw()) else { return };
        let Some(running) = &mut self.nodes[id].running else { return };
        let set = running.set.clone();
        self.say(|| {
            let members = asked.members.iter().map(|member| (member.id, member.host.clone(), member.votes));
            format!(
                "asked of member {id}: configuration {} of {:?}",
                asked.version,
                members.collect::<Vec<_>>()
            )
        });
        let Some(running) = &mut self.nodes[id].running else { return };
        running.operators.push(Box::pin(async move { drop(set.reconfigure(asked, false).await) }));
        self.settle(id);
    }

    /// Looks after the machines.
    pub(crate) fn look_after(&mut self) {
        let after = Duration::from_millis(self.random.u64(200..1_500));
        self.at(after, 0, Event::LookAfter);
        let Some(known) = self.known() else { return };
        if known.config.version > self.config_seen {
            self.config_seen = known.config.version;
            for (id, node) in self.nodes.iter_mut().enumerate() {
                let is_configured = known.config.members.iter().any(|member| member.host == host(id));
                node.place = match (node.place, is_configured) {
                    (_, true) => Place::Configured,
                    (Place::Configured, false) => Place::Removed,
                    (place, false) => place,
                };
            }
        }
        let id = self.random.usize(..self.nodes.len());
        match self.nodes[id].place {
            Place::Removed => self.empty(id, &known),
            Place::Spare if !self.is_healed() => self.add(id, known),
            Place::Configured if !self.is_healed() && self.random.u8(..4) == 0 => self.remove(id, known),
            _ => {}
        }
    }

    /// A machine that was removed gets an empty disk, once it has no vote any more.
    fn empty(&mut self, id: usize, known: &Known) {
        let Some(number) = self.nodes[id].number() else { return };
        if known.membership.members().contains(&number) {
            return;
        }
        self.say(|| format!("member {id} gets an empty disk"));
        self.crash(id);
        self.nodes[id].disk = MemberDisk::new();
        self.nodes[id].place = Place::Spare;
    }

    fn add(&mut self, id: usize, Known { leader, mut config, .. }: Known) {
        let is_known = |id: i32| config.members.iter().any(|member| member.id == id);
        let mut number = self.random.i32(0..20);
        while is_known(number) {
            number = (number + 1) % 20;
        }
        let Some(other) = config.members.first().cloned() else { return };
        config.members.push(MemberConfig {
            id: number,
            host: host(id),
            votes: true,
            priority: 1.0,
            arbiter_only: false,
            ..other
        });
        self.figures.added += 1;
        self.reconfigure(leader, config);
    }

    fn remove(&mut self, id: usize, Known { leader, mut config, .. }: Known) {
        if config.members.len() < 3 || id == leader {
            return;
        }
        config.members.retain(|member| machine(&member.host) != id);
        self.figures.removed += 1;
        self.reconfigure(leader, config);
    }
}
