//! After all that everybody has the same: documents, entries of indexes, and the oplog.

use crate::checker::documents;
use crate::client::{self, PAIR};
use crate::member::{Node, Running, host};
use crate::world::World;
use catalog::{Catalog, CatalogEntry, Collection, EncodedRange};
use replication::set::MemberState;
use std::collections::BTreeMap;
use std::sync::Arc;
use storage::{CursorOptions, Direction, ReadView};

/// What a collection has: its identity, its documents, and the entries of each index.
type Content = BTreeMap<String, Vec<Vec<u8>>>;

impl World {
    /// Whether everybody has come as far as the primary, and nobody waits.
    pub(crate) fn has_settled(&self) -> bool {
        let Some(leader) = self.leader() else { return false };
        let Some(leading) = &self.nodes[leader].running else { return false };
        let (applied, committed) = (leading.set.last_applied(), leading.set.last_committed());
        let is_there = |(id, node): (usize, &Node)| {
            let Some(running) = &node.running else { return false };
            let is_level = match running.set.topology().state {
                MemberState::Arbiter => running.mark() == leading.mark(),
                state => state.is_readable() && running.set.last_applied() == applied,
            };
            running.clients.is_empty() && (is_level || !self.is_member(id, leader))
        };
        applied == committed && self.nodes.iter().enumerate().all(is_there)
    }

    /// Whether a machine belongs to the set.
    fn is_member(&self, id: usize, leader: usize) -> bool {
        let config =
            self.nodes[leader].running.as_ref().and_then(|running| running.set.topology().config.clone());
        config.is_some_and(|config| config.members.iter().any(|member| member.host == host(id)))
    }

    pub(crate) fn check_end(&mut self) {
        let settled = self.has_settled();
        assert!(settled, "the members do not come to rest: {}", self.describe());
        let leader = self.leader().expect("a set that has settled has a primary");
        let whole = &self.nodes[leader].running.as_ref().expect("it runs").catalog;
        let view = whole.store().read_view();
        let lists: Vec<_> =
            documents().map(|document| (document, client::list(whole, &view, document))).collect();
        let (content, oplog) = (content(whole), oplog(whole));
        for (id, node) in self.nodes.iter().enumerate() {
            let Some(running) = node.running.as_ref().filter(|_| self.is_member(id, leader)) else {
                continue;
            };
            let is_primary = running.set.topology().state == MemberState::Primary;
            assert_eq!(is_primary, id == leader, "{}", self.describe());
            let own = self::content(&running.catalog);
            match running.set.topology().state {
                MemberState::Arbiter => {
                    assert!(own.is_empty(), "the arbiter {id} has data: {:?}", own.keys())
                }
                _ => check_equal(id, leader, &own, &content),
            }
            let common = check_oplogs(id, leader, &self::oplog(&running.catalog), &oplog);
            // An arbiter keeps what others lack, and so it may have nothing.
            let state = running.set.topology().state;
            assert!(common > 0 || state == MemberState::Arbiter, "the oplog of {state:?} {id} is empty");
            check_valid(id, running);
        }
        let bag = client::bag(whole, &view);
        for (document, list) in lists {
            match document == PAIR[1] {
                true => assert_eq!(list, client::list(whole, &view, PAIR[0]), "one half of a unit is there"),
                false => self.checker.is_whole(document, &list),
            }
        }
        self.checker.has_all(&bag);
    }

    pub(crate) fn describe(&self) -> String {
        let describe = |(id, node): (usize, &Node)| match &node.running {
            None => format!("\n{id}: {:?}, down", node.place),
            Some(running) => {
                let topology = running.set.topology();
                format!(
                    "\n{id}: {:?} {:?} number {:?} term {} primary {:?} applied {:?} committed {:?}, {} \
                     requests, members {:?}",
                    node.place,
                    topology.state,
                    node.number(),
                    topology.term,
                    topology.primary,
                    running.set.last_applied(),
                    running.set.last_committed(),
                    running.clients.len(),
                    topology.config.as_ref().map(|config| config
                        .members
                        .iter()
                        .map(|m| (m.host.clone(), m.votes))
                        .collect::<Vec<_>>()),
                )
            }
        };
        self.nodes.iter().enumerate().map(describe).collect()
    }
}

/// Everything that is replicated.
fn content(catalog: &Arc<Catalog>) -> Content {
    let (state, view) = (catalog.state(), catalog.store().read_view());
    let mut content = Content::new();
    for database in state.databases().into_iter().filter(|database| database != "local") {
        for (namespace, entry) in state.entries(&database) {
            let CatalogEntry::Collection(collection) = entry else { continue };
            let name = namespace.to_string();
            content.insert(format!("{name} {}", collection.uuid()), rows(&collection, &view));
            for index in collection.definition().indexes.iter().filter(|index| !index.clustered) {
                let mut entries = Vec::new();
                let mut cursor = collection
                    .index_entries(
                        &view,
                        index,
                        EncodedRange::default(),
                        Direction::Forward,
                        CursorOptions::default(),
                    )
                    .expect("a cursor");
                while let Some(entry) = cursor.next().expect("entries in memory") {
                    entries.push([entry.fields, entry.type_bits, entry.document_key].concat());
                }
                let spec = index.spec.to_document().to_buf();
                content.insert(format!("{name} {:?} {:?}", spec.as_raw(), index.state), entries);
            }
        }
    }
    content
}

fn rows(collection: &Arc<Collection>, view: &ReadView) -> Vec<Vec<u8>> {
    let (range, options) = (EncodedRange::default(), CursorOptions::default());
    let mut cursor = collection.documents(view, range, Direction::Forward, options).expect("a cursor");
    let mut rows = Vec::new();
    while let Some((key, document)) = cursor.next().expect("documents in memory") {
        rows.push([key, document.as_bytes()].concat());
    }
    rows
}

fn check_equal(id: usize, leader: usize, own: &Content, whole: &Content) {
    assert!(
        own.keys().eq(whole.keys()),
        "members {id} and {leader} have {:?} and {:?}",
        own.keys(),
        whole.keys()
    );
    for (name, rows) in own {
        let same = &whole[name];
        let difference = rows.iter().zip(same).position(|(one, other)| one != other);
        assert!(
            rows == same,
            "members {id} and {leader} differ in {name}: {} and {} rows, first at {difference:?}",
            rows.len(),
            same.len()
        );
    }
}

/// The operations by their places.
fn oplog(catalog: &Arc<Catalog>) -> Vec<Vec<u8>> {
    let oplog = catalog.collection("local", "oplog.rs").expect("a member has an oplog");
    rows(&oplog, &catalog.store().read_view())
}

/// Each has trimmed its own; what both have, which is so many operations, is the same.
fn check_oplogs(id: usize, leader: usize, own: &[Vec<u8>], whole: &[Vec<u8>]) -> usize {
    let common = own.len().min(whole.len());
    let ends = [own, whole].map(|oplog| &oplog[oplog.len() - common..]);
    let difference = ends[0].iter().zip(ends[1]).position(|(one, other)| one != other);
    assert_eq!(
        difference,
        None,
        "the oplogs of members {id} and {leader} differ: {} and {} operations",
        own.len(),
        whole.len()
    );
    common
}

fn check_valid(id: usize, running: &Running) {
    for collection in running.catalog.state().collections() {
        let view = || running.catalog.store().pinned_view();
        let report = pollster::block_on(collection.validate(view)).expect("a collection that is there");
        assert!(report.is_valid(), "member {id}: {report:?}");
    }
}
