//! A view with units above it that are not committed: what it would be if they were.
//!
//! ```text
//!  get:    layer has the key? ── put: its value │ deleted: nothing │ no ──▶ the view below
//!  cursor: the nearer of the two next keys; of one key the layer's
//! ```

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use crate::engine::{EngineCursor, EngineReader};
use crate::error::StorageError;
use crate::keyspace::{CursorOptions, Direction, KeyRange, Keyspace, ReadTier};
use crate::unit::Mutation;
use crate::view::{KeyValue, PinnedBytes};

/// What units leave under their keys: a value, or none.
type Layer = BTreeMap<Vec<u8>, Option<Arc<[u8]>>>;
type LayerEntry = (Vec<u8>, Option<Arc<[u8]>>);

pub(crate) struct LayeredReader {
    below: Arc<dyn EngineReader>,
    layers: [Arc<Layer>; Keyspace::ALL.len()],
}

impl LayeredReader {
    /// # Panics
    /// With a unit that removes ranges: what is in them would have to be read.
    pub(crate) fn new<'m>(
        below: Arc<dyn EngineReader>,
        mutations: impl Iterator<Item = Mutation<'m>>,
    ) -> LayeredReader {
        let mut layers: [Layer; Keyspace::ALL.len()] = Default::default();
        for mutation in mutations {
            let (key, value) = match mutation {
                Mutation::Put { key, value, .. } => (key, Some(Arc::from(value))),
                Mutation::Delete { key, .. } => (key, None),
                Mutation::DeleteRange { .. } => panic!("a range is removed above a view: {mutation:?}"),
            };
            if let Some(layer) = layers.get_mut(mutation.keyspace() as usize) {
                layer.insert(key.to_vec(), value);
            }
        }
        LayeredReader { below, layers: layers.map(Arc::new) }
    }

    #[expect(clippy::indexing_slicing, reason = "there is one for each keyspace")]
    fn layer(&self, keyspace: Keyspace) -> &Arc<Layer> {
        &self.layers[keyspace as usize]
    }
}

impl EngineReader for LayeredReader {
    fn get(
        &self,
        keyspace: Keyspace,
        key: &[u8],
        tier: ReadTier,
    ) -> Result<Option<PinnedBytes>, StorageError> {
        match self.layer(keyspace).get(key) {
            Some(value) => Ok(value.clone().map(PinnedBytes::shared)),
            None => self.below.get(keyspace, key, tier),
        }
    }

    fn cursor(
        &self,
        keyspace: Keyspace,
        range: KeyRange,
        direction: Direction,
        options: CursorOptions,
    ) -> Result<Box<dyn EngineCursor>, StorageError> {
        let below = self.below.cursor(keyspace, range.clone(), direction, options)?;
        let layer = Arc::clone(self.layer(keyspace));
        let place = Place::Start;
        Ok(Box::new(LayeredCursor { below, waiting: Waiting::Unread, layer, place, range, direction }))
    }

    fn sequence(&self) -> u64 {
        self.below.sequence()
    }
}

/// Where a cursor goes on in the layer.
enum Place {
    Start,
    At(Vec<u8>),
    Behind(Vec<u8>),
}

/// The next entry of the cursor below.
enum Waiting {
    Unread,
    Entry(Vec<u8>, Vec<u8>),
    /// Lent: it is read over when the cursor goes on.
    Lent(Vec<u8>, Vec<u8>),
    End,
}

struct LayeredCursor {
    below: Box<dyn EngineCursor>,
    waiting: Waiting,
    layer: Arc<Layer>,
    place: Place,
    range: KeyRange,
    direction: Direction,
}

impl LayeredCursor {
    /// The next key of the layer within the range.
    fn next_above(&self) -> Option<LayerEntry> {
        if self.range.is_empty() {
            return None;
        }
        let lower = self.range.lower.as_deref().map_or(Bound::Unbounded, Bound::Included);
        let upper = self.range.upper.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let found = match self.direction {
            Direction::Forward => {
                let from = match &self.place {
                    Place::Start => lower,
                    Place::At(key) => Bound::Included(key.as_slice()),
                    Place::Behind(key) => Bound::Excluded(key.as_slice()),
                };
                self.layer.range::<[u8], _>((from, Bound::Unbounded)).next()
            }
            Direction::Backward => {
                let to = match &self.place {
                    Place::Start => upper,
                    Place::At(key) => Bound::Included(key.as_slice()),
                    Place::Behind(key) => Bound::Excluded(key.as_slice()),
                };
                self.layer.range::<[u8], _>((Bound::Unbounded, to)).next_back()
            }
        };
        // A place outside of the range leads to its first entry or to its end, as below.
        let (key, value) = found?;
        if self.range.contains(key) {
            return Some((key.clone(), value.clone()));
        }
        let inside = self.layer.range::<[u8], _>((lower, upper));
        let is_before = |key: &[u8]| match self.direction {
            Direction::Forward => self.range.lower.as_deref().is_some_and(|lower| key < lower),
            Direction::Backward => self.range.upper.as_deref().is_some_and(|upper| key >= upper),
        };
        let mut inside = inside.filter(|_| is_before(key));
        let first = match self.direction {
            Direction::Forward => inside.next(),
            Direction::Backward => inside.next_back(),
        };
        first.map(|(key, value)| (key.clone(), value.clone()))
    }

    fn read_below(&mut self) -> Result<(), StorageError> {
        if matches!(self.waiting, Waiting::Unread | Waiting::Lent(..)) {
            self.waiting = match self.below.next() {
                Ok(Some((key, value))) => Waiting::Entry(key.to_vec(), value.to_vec()),
                Ok(None) => Waiting::End,
                Err(error) => {
                    // It is sought again before it goes on.
                    self.waiting = Waiting::Unread;
                    return Err(error);
                }
            };
        }
        Ok(())
    }
}

impl EngineCursor for LayeredCursor {
    fn seek(&mut self, key: &[u8]) {
        self.below.seek(key);
        self.waiting = Waiting::Unread;
        self.place = Place::At(key.to_vec());
    }

    fn next(&mut self) -> Result<Option<KeyValue<'_>>, StorageError> {
        loop {
            self.read_below()?;
            let above = self.next_above();
            let Some((key, value)) = above.filter(|(key, _)| match (&self.waiting, self.direction) {
                (Waiting::Entry(below, _), Direction::Forward) => key <= below,
                (Waiting::Entry(below, _), Direction::Backward) => key >= below,
                _ => true,
            }) else {
                let Waiting::Entry(key, value) = std::mem::replace(&mut self.waiting, Waiting::End) else {
                    return Ok(None);
                };
                self.place = Place::Behind(key.clone());
                self.waiting = Waiting::Lent(key, value);
                let Waiting::Lent(key, value) = &self.waiting else { unreachable!("it was put there") };
                return Ok(Some((key, value)));
            };
            let hides = matches!(&self.waiting, Waiting::Entry(below, _) if *below == key);
            self.place = Place::Behind(key.clone());
            if let Some(value) = value {
                if hides {
                    self.waiting = Waiting::Lent(key, value.to_vec());
                    let Waiting::Lent(key, value) = &self.waiting else { unreachable!("it was put there") };
                    return Ok(Some((key, value)));
                }
                // What waits below comes after it.
                return Ok(self
                    .layer
                    .get_key_value(&key)
                    .and_then(|(key, value)| Some((key.as_slice(), value.as_deref()?))));
            }
            if hides {
                self.waiting = Waiting::Unread;
            }
        }
    }
}
