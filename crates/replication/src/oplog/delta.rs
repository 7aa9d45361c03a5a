//! The delta from one version of a document to the next: what `$v: 2` entries have under `diff`.
//!
//! ```text
//!  { d: { gone: false }, u: { changed: value }, i: { new: value }, s<field>: delta of what is nested there }
//!  of an array: { a: true, l: its new length, u<index>: value, s<index>: delta }
//! ```
//! A field under `i` goes to the end also where it is there already: so applying a run of deltas once more
//! leads to the same order of fields.

use super::MalformedEntry;
use document::{ArrayBuilder, DocumentBuf, DocumentBuilder, Element, RawArray, RawDocument, RawValue};

/// How far behind an array's end an element may be put, with nulls in between.
const PADDING_MAX: usize = 1_500_000;

/// The delta that makes `after` of `before`, byte for byte; `None` where the whole document is shorter, or no
/// delta does it (a field name is there twice).
pub fn between(before: RawDocument<'_>, after: RawDocument<'_>) -> Option<DocumentBuf> {
    let delta = DocumentDelta::between(before, after);
    if delta.size >= after.as_bytes().len() {
        return None;
    }
    let mut bytes = Vec::with_capacity(delta.size);
    delta.write(&mut DocumentBuilder::new(&mut bytes));
    debug_assert_eq!(bytes.len(), delta.size, "the size of a delta is known before it is written");
    let is_right = delta.only_updates_of(before);
    let delta = DocumentBuf::trusted(bytes);
    let makes = || apply(before, delta.as_raw()).is_ok_and(|made| made.as_bytes() == after.as_bytes());
    (is_right || makes()).then_some(delta)
}

/// What a delta makes of a document. What it changes within a field that is not there, or is no document or
/// array any more, is left: a later entry of the log has taken it away.
///
/// # Errors
/// A delta that makes no sense.
pub fn apply(before: RawDocument<'_>, delta: RawDocument<'_>) -> Result<DocumentBuf, MalformedEntry> {
    let mut bytes = Vec::with_capacity(before.as_bytes().len() + delta.as_bytes().len());
    apply_to_document(before, delta, &mut DocumentBuilder::new(&mut bytes))?;
    Ok(DocumentBuf::trusted(bytes))
}

/// What changed in a nested value.
enum Nested<'d> {
    Document(DocumentDelta<'d>),
    Array(ArrayDelta<'d>),
}

impl<'d> Nested<'d> {
    /// `None` where the new value is to be told as a whole.
    fn between(before: &Element<'d>, after: &Element<'d>) -> Option<Self> {
        let nested = match (before.value(), after.value()) {
            (RawValue::Document(before), RawValue::Document(after)) => {
                Nested::Document(DocumentDelta::between(before, after))
            }
            (RawValue::Array(before), RawValue::Array(after)) => {
                Nested::Array(ArrayDelta::between(before, after))
            }
            _ => return None,
        };
        (nested.size() < after.value_bytes().len()).then_some(nested)
    }

    fn size(&self) -> usize {
        match self {
            Nested::Document(delta) => delta.size,
            Nested::Array(delta) => delta.size,
        }
    }

    fn write(&self, mut builder: DocumentBuilder<'_>) {
        match self {
            Nested::Document(delta) => delta.write(&mut builder),
            Nested::Array(delta) => delta.write(&mut builder),
        }
    }
}

/// Bytes of an element but its value.
fn head(name: usize) -> usize {
    1 + name + 1
}

/// Names that are looked for among all fields, each by itself, at most.
const NAMES_SOUGHT_MAX: usize = 8;

/// Bytes of a document without its elements.
const FRAME: usize = 5;

struct DocumentDelta<'d> {
    gone: Vec<&'d str>,
    updated: Vec<Element<'d>>,
    inserted: Vec<Element<'d>>,
    nested: Vec<(&'d str, Nested<'d>)>,
    size: usize,
}

impl<'d> DocumentDelta<'d> {
    fn between(before: RawDocument<'d>, after: RawDocument<'d>) -> Self {
        let (mut gone, mut updated, mut nested) = (Vec::new(), Vec::new(), Vec::new());
        let (mut fields, mut rest) = (before.iter(), after.iter());
        loop {
            fields.pass_same(&mut rest);
            let Some(old) = fields.next() else { break };
            let mut behind = rest.clone();
            let Some(new) = behind.next().filter(|new| new.name_bytes() == old.name_bytes()) else {
                gone.push(old.name());
                continue;
            };
            rest = behind;
            match Nested::between(&old, &new) {
                Some(delta) => nested.push((new.name(), delta)),
                None => updated.push(new),
            }
        }
        let inserted: Vec<_> = rest.collect();
        // What only goes to another place is inserted and not gone.
        let mut names: Vec<&str> = inserted.iter().map(Element::name).collect();
        names.sort_unstable();
        gone.retain(|name| names.binary_search(name).is_err());
        let mut delta = DocumentDelta { gone, updated, inserted, nested, size: 0 };
        delta.size = delta.measure();
        delta
    }

    /// Whether there are only new values of fields that are there once: nothing to try out.
    fn only_updates_of(&self, before: RawDocument<'_>) -> bool {
        let is_once = |updated: &Element<'_>| {
            let mut fields = before.iter();
            fields.find_name(updated.name_bytes()).is_some()
                && fields.find_name(updated.name_bytes()).is_none()
        };
        let stays = self.gone.is_empty() && self.inserted.is_empty() && self.nested.is_empty();
        stays && self.updated.len() <= NAMES_SOUGHT_MAX && self.updated.iter().all(is_once)
    }

    fn measure(&self) -> usize {
        let section = |count: usize, bytes: usize| if count == 0 { 0 } else { head(1) + FRAME + bytes };
        let raw = |elements: &[Element<'_>]| elements.iter().map(|element| element.raw().len()).sum();
        let nested = self.nested.iter().map(|(name, delta)| head(name.len() + 1) + delta.size());
        FRAME
            + section(self.gone.len(), self.gone.iter().map(|name| head(name.len()) + 1).sum())
            + section(self.updated.len(), raw(&self.updated))
            + section(self.inserted.len(), raw(&self.inserted))
            + nested.sum::<usize>()
    }

    fn write(&self, builder: &mut DocumentBuilder<'_>) {
        if !self.gone.is_empty() {
            let mut section = builder.start_document("d");
            for name in &self.gone {
                section.append(name, false);
            }
        }
        for (section, elements) in [("u", &self.updated), ("i", &self.inserted)] {
            if !elements.is_empty() {
                let mut section = builder.start_document(section);
                for element in elements {
                    section.append_element(*element);
                }
            }
        }
        for (name, delta) in &self.nested {
            delta.write(builder.start_document(&format!("s{name}")));
        }
    }
}

struct ArrayDelta<'d> {
    /// Where it is shorter than before.
    length: Option<u32>,
    changes: Vec<(String, ArrayChange<'d>)>,
    size: usize,
}

enum ArrayChange<'d> {
    Set(Element<'d>),
    Nested(Nested<'d>),
}

impl<'d> ArrayDelta<'d> {
    fn between(before: RawArray<'d>, after: RawArray<'d>) -> Self {
        let mut old = before.elements();
        let (mut changes, mut count, mut size) = (Vec::new(), 0u32, FRAME + head(1) + 1);
        for (index, new) in after.elements().enumerate() {
            count += 1;
            let (name, change) = match old.next() {
                Some(old) if (old.kind(), old.value_bytes()) == (new.kind(), new.value_bytes()) => continue,
                Some(old) => match Nested::between(&old, &new) {
                    Some(nested) => (format!("s{index}"), ArrayChange::Nested(nested)),
                    None => (format!("u{index}"), ArrayChange::Set(new)),
                },
                None => (format!("u{index}"), ArrayChange::Set(new)),
            };
            size += head(name.len());
            size += match &change {
                ArrayChange::Set(element) => element.value_bytes().len(),
                ArrayChange::Nested(nested) => nested.size(),
            };
            changes.push((name, change));
        }
        let length = old.next().map(|_| count);
        if length.is_some() {
            size += head(1) + size_of::<i32>();
        }
        ArrayDelta { length, changes, size }
    }

    fn write(&self, builder: &mut DocumentBuilder<'_>) {
        builder.append("a", true);
        if let Some(length) = self.length {
            builder.append("l", i32::try_from(length).expect("a document has fewer elements than bytes"));
        }
        for (name, change) in &self.changes {
            match change {
                ArrayChange::Set(element) => {
                    builder.append_raw(element.kind(), name.as_bytes(), element.value_bytes());
                }
                ArrayChange::Nested(nested) => nested.write(builder.start_document(name)),
            }
        }
    }
}

/// What a delta does to one field.
enum Action<'d> {
    Remove,
    Set {
        value: Element<'d>,
        done: bool,
    },
    /// It goes to the end.
    Insert,
    Within(RawDocument<'d>),
}

/// The actions of a delta by the names of their fields, sorted.
fn actions<'d>(delta: RawDocument<'d>) -> Result<Vec<(&'d [u8], Action<'d>)>, MalformedEntry> {
    let mut actions = Vec::new();
    for section in delta.iter() {
        let fields = section.value().as_document().ok_or_else(|| {
            MalformedEntry::new(format!("'{}' in a diff is to be a document", section.name()))
        })?;
        match section.name_bytes() {
            b"d" => actions.extend(fields.iter().map(|field| (field.name_bytes(), Action::Remove))),
            b"u" => actions.extend(
                fields.iter().map(|field| (field.name_bytes(), Action::Set { value: field, done: false })),
            ),
            b"i" => actions.extend(fields.iter().map(|field| (field.name_bytes(), Action::Insert))),
            [b's', name @ ..] => actions.push((name, Action::Within(fields))),
            _ => return Err(MalformedEntry::new(format!("unknown section '{}' in a diff", section.name()))),
        }
    }
    actions.sort_by_key(|(name, _)| *name);
    for (pair, next) in actions.iter().zip(actions.iter().skip(1)) {
        if pair.0 == next.0 {
            let name = String::from_utf8_lossy(pair.0);
            return Err(MalformedEntry::new(format!("a diff changes the field '{name}' twice")));
        }
    }
    Ok(actions)
}

fn apply_to_document(
    before: RawDocument<'_>,
    delta: RawDocument<'_>,
    builder: &mut DocumentBuilder<'_>,
) -> Result<(), MalformedEntry> {
    let mut actions = actions(delta)?;
    for element in before.iter() {
        let found = actions.binary_search_by_key(&element.name_bytes(), |(name, _)| *name);
        let action = found.ok().and_then(|position| actions.get_mut(position));
        match action.map(|(_, action)| action) {
            None => drop(builder.append_element(element)),
            Some(Action::Remove | Action::Insert) => {}
            Some(Action::Set { value, done }) => {
                builder.append_element(*value);
                *done = true;
            }
            Some(Action::Within(delta)) => match (element.value(), is_of_array(*delta)) {
                (RawValue::Document(within), false) => {
                    apply_to_document(within, *delta, &mut builder.start_document(element.name()))?;
                }
                (RawValue::Array(within), true) => {
                    apply_to_array(within, *delta, &mut builder.start_array(element.name()))?;
                }
                _ => drop(builder.append_element(element)),
            },
        }
    }
    for section in [b"u", b"i"] {
        let fields = delta.element(section).and_then(|section| section.value().as_document());
        for field in fields.unwrap_or_default().iter() {
            let found = actions.binary_search_by_key(&field.name_bytes(), |(name, _)| *name);
            let action = found.ok().and_then(|position| actions.get(position));
            if !matches!(action, Some((_, Action::Set { done: true, .. }))) {
                builder.append_element(field);
            }
        }
    }
    Ok(())
}

fn is_of_array(delta: RawDocument<'_>) -> bool {
    delta.first().is_some_and(|first| first.name() == "a" && first.value().as_bool() == Some(true))
}

fn apply_to_array(
    before: RawArray<'_>,
    delta: RawDocument<'_>,
    builder: &mut ArrayBuilder<'_>,
) -> Result<(), MalformedEntry> {
    let mut changes = delta.iter().skip(1).peekable();
    let length = match changes.next_if(|change| change.name() == "l") {
        None => usize::MAX,
        Some(length) => {
            let length = length.value().as_i64_exact().and_then(|length| usize::try_from(length).ok());
            length.ok_or_else(|| MalformedEntry::new("the length 'l' of an array is to be a whole number"))?
        }
    };
    let mut old = before.elements().take(length);
    for change in changes {
        let (is_nested, index) = array_change(&change)?;
        if index < builder.count() {
            return Err(MalformedEntry::new("the positions in the diff of an array are to ascend"));
        }
        while builder.count() < index
            && let Some(element) = old.next()
        {
            builder.push_raw(element.kind(), element.value_bytes());
        }
        if index - builder.count() > PADDING_MAX {
            return Err(MalformedEntry::new(format!("position {index} is too far behind an array's end")));
        }
        let replaced = if builder.count() == index { old.next() } else { None };
        match (change.value().as_document().filter(|_| is_nested), replaced) {
            (None, _) => {
                while builder.count() < index {
                    builder.push(RawValue::Null);
                }
                builder.push_raw(change.kind(), change.value_bytes());
            }
            (Some(delta), Some(element)) => match (element.value(), is_of_array(delta)) {
                (RawValue::Document(within), false) => {
                    apply_to_document(within, delta, &mut builder.start_document())?;
                }
                (RawValue::Array(within), true) => {
                    apply_to_array(within, delta, &mut builder.start_array())?;
                }
                _ => drop(builder.push_raw(element.kind(), element.value_bytes())),
            },
            // A later entry has made the array shorter.
            (Some(_), None) => {}
        }
    }
    for element in old {
        builder.push_raw(element.kind(), element.value_bytes());
    }
    Ok(())
}

/// Which element is changed, and whether by a delta of its own.
fn array_change(change: &Element<'_>) -> Result<(bool, usize), MalformedEntry> {
    let unknown =
        || MalformedEntry::new(format!("unknown field '{}' in the diff of an array", change.name()));
    let (is_nested, digits) = match change.name().split_at_checked(1) {
        Some(("u", digits)) => (false, digits),
        Some(("s", digits)) if change.value().as_document().is_some() => (true, digits),
        _ => return Err(unknown()),
    };
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    match digits.parse() {
        Ok(index) if plain => Ok((is_nested, index)),
        _ => Err(unknown()),
    }
}
