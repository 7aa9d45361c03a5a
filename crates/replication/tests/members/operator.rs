//! What operators ask members, and how they bring machines into the set and out of it.

use crate::disk::MemberDisk;
use crate::member::{Place, host, machine};
use crate::world::{Event, World};
use replication::set::{MemberConfig, ReplSetConfig};
use replication::{LocalState, Membership};
use std::time::Duration;

/// A configuration that was forced has a later version.
const FORCED_FROM: i64 = 10_000;

/// Who has its disk, where all others have lost theirs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Survivor {
    id: usize,
    /// It was seen not to be the primary any more.
    has_lost: bool,
}

/// What the leader of the latest term says of the set.
struct Known {
    leader: usize,
    config: ReplSetConfig,
    membership: Membership,
    /// All of them vote, as clients are told.
    all_vote: bool,
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
        let all_vote = topology.voters == membership.voters.len();
        Some(Known { leader, config, membership, all_vote })
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
                // With a vote, who stays behind and never leads may alone have the end of the log.
                let votes = votes && member.delay.is_zero();
                member.votes = votes;
                member.priority = if votes { f64::from(priority) } else { 0.0 };
                return self.reconfigure(id, asked);
            }
        });
        self.settle(id);
    }

    /// The machines of a configuration that have the data and can be primary.
    fn can_lead(&self, config: &ReplSetConfig) -> Vec<usize> {
        let electable = config.members.iter().filter(|member| member.is_electable());
        let is_readable = |id: &usize| {
            let running = self.nodes[*id].running.as_ref();
            running.is_some_and(|running| running.set.topology().state.is_readable())
        };
        electable.map(|member| machine(&member.host)).filter(is_readable).collect()
    }

    /// Whether a configuration has a majority, while disks that were lost are not replaced yet.
    fn can_lose_votes(&self, config: &ReplSetConfig) -> bool {
        if !self.nodes.iter().any(|node| node.is_new) {
            return true;
        }
        let Some(known) = self.known() else { return false };
        let sound = self.sound_voters(config, &known.membership).len();
        2 * sound > config.members.iter().filter(|member| member.votes).count()
    }

    fn reconfigure(&mut self, id: usize, mut asked: ReplSetConfig) {
        asked.version += 1;
        if self.can_lead(&asked).is_empty() || !self.can_lose_votes(&asked) {
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
        if let Some(survivor) = self.survivor {
            return self.force(survivor);
        }
        let Some(known) = self.known() else { return };
        if known.config.version > self.config_seen {
            self.config_seen = known.config.version;
            for (id, node) in self.nodes.iter_mut().enumerate() {
                let member = known.config.members.iter().find(|member| member.host == host(id));
                node.is_arbiter = member.map_or(node.is_arbiter, |member| member.arbiter_only);
                node.place = match (node.place, member) {
                    (_, Some(_)) => Place::Configured,
                    (Place::Configured, None) => Place::Removed,
                    (place, None) => place,
                };
            }
        }
        for (id, node) in self.nodes.iter_mut().enumerate() {
            let member = known.config.members.iter().find(|member| member.host == host(id));
            let has_joined = |number| match member {
                Some(member) if member.votes => known.membership.voters.contains(&number),
                _ => true,
            };
            node.is_new &= !node.number().is_some_and(has_joined);
        }
        let id = self.random.usize(..self.nodes.len());
        match (self.nodes[id].place, self.random.u8(..8)) {
            (Place::Removed, 0..4) => self.empty(id, &known),
            _ if self.is_healed() => {}
            // An arbiter's disk is none of a member with data.
            (Place::Removed, _) if self.nodes[id].is_arbiter => {}
            (Place::Removed, _) => {
                self.figures.added_again += 1;
                self.add(id, known);
            }
            (Place::Spare, _) => self.add(id, known),
            (Place::Configured, 0 | 1) => self.remove(id, known),
            (Place::Configured, 2 | 3) => self.lose_disk(id, &known),
            (Place::Configured, 4) if self.random.u8(..8) == 0 => self.lose_all_others(&known),
            (Place::Configured, _) => {}
        }
    }

    /// The voters of a configuration whose disks have what they have promised, as far as that is seen.
    fn sound_voters(&self, config: &ReplSetConfig, membership: &Membership) -> Vec<usize> {
        let voters = config.members.iter().filter(|member| member.votes).map(|member| machine(&member.host));
        let is_sound =
            |id: &usize| self.nodes[*id].number().is_some_and(|number| membership.voters.contains(&number));
        voters.filter(is_sound).collect()
    }

    /// A machine loses its disk, where a majority is left whatever is under way.
    fn lose_disk(&mut self, id: usize, known: &Known) {
        let membership = &known.membership;
        let is_calm =
            self.nodes.iter().filter_map(|node| node.running.as_ref()).all(|one| one.operators.is_empty());
        // Who has caught up may get its vote at any moment.
        let configured = known.config.members.iter().filter(|member| member.votes).count();
        let mut sound = self.sound_voters(&known.config, membership);
        sound.retain(|other| *other != id);
        let leaves_majority = 2 * sound.len() > configured.max(membership.voters.len());
        if is_calm && known.all_vote && !membership.is_changing() && leaves_majority {
            self.say(|| format!("member {id} loses its disk"));
            self.figures.lost_disks += 1;
            self.crash(id);
            self.nodes[id].disk = MemberDisk::new();
            self.nodes[id].is_new = true;
            if self.random.u8(..4) == 0 {
                // What the others have not synced is gone with it.
                (0..self.nodes.len()).for_each(|id| self.crash(id));
            }
        }
    }

    /// All disks are lost but that of the primary, where it has everything that was acknowledged or shown.
    fn lose_all_others(&mut self, known: &Known) {
        // Followers show what is on a majority of disks, whether that of the primary is among them or not.
        let running = self.nodes[known.leader].running.as_ref();
        let has_all = running.is_some_and(|running| running.set.last_durable() >= self.shown_through);
        // Forced once more it is a set of its own, which those who have joined do not belong to.
        let is_forced = known.config.version > FORCED_FROM;
        if known.membership.voters.len() < 2 || !has_all || is_forced {
            return;
        }
        self.say(|| format!("all but member {} lose their disks", known.leader));
        for id in (0..self.nodes.len()).filter(|id| *id != known.leader) {
            self.crash(id);
            let node = &mut self.nodes[id];
            (node.disk, node.is_new) = (MemberDisk::new(), true);
            if node.place == Place::Removed {
                node.place = Place::Spare;
            }
        }
        self.survivor = Some(Survivor { id: known.leader, has_lost: false });
    }

    /// The set is to go on from one member, as soon as that one knows that it has no majority.
    fn force(&mut self, survivor: Survivor) {
        let Survivor { id, has_lost } = survivor;
        let Some(running) = &mut self.nodes[id].running else { return };
        match (running.set.is_writable(), has_lost) {
            (true, false) => return,
            (true, true) => {
                self.say(|| format!("the set goes on from member {id}"));
                self.figures.forced += 1;
                self.survivor = None;
                return;
            }
            (false, _) => self.survivor = Some(Survivor { has_lost: true, ..survivor }),
        }
        let topology = running.set.topology();
        let Some(mut asked) = topology.config.as_deref().cloned() else { return };
        for member in asked.members.iter_mut().filter(|member| machine(&member.host) == id) {
            (member.votes, member.priority) = (true, 1.0);
        }
        if asked.version > FORCED_FROM {
            // That was done; it is about to be primary.
            return;
        }
        let Ok(asked) = ReplSetConfig::parse(asked.to_document().to_buf().as_raw()) else { return };
        let set = running.set.clone();
        running.operators.push(Box::pin(async move { drop(set.reconfigure(asked, true).await) }));
        self.settle(id);
    }

    /// A machine that was removed gets an empty disk, once it has no vote any more.
    fn empty(&mut self, id: usize, known: &Known) {
        let Some(number) = self.nodes[id].number() else { return };
        if known.membership.members().contains(&number) || !known.all_vote {
            return;
        }
        self.say(|| format!("member {id} gets an empty disk"));
        self.crash(id);
        let node = &mut self.nodes[id];
        (node.disk, node.is_arbiter, node.place) = (MemberDisk::new(), false, Place::Spare);
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
