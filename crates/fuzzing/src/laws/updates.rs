//! Updates: what comes out is a document with the same `_id`, what is said to have changed has changed, and
//! what says how things are to be changes nothing the second time.

use document::{DocumentBuf, RawDocument, Value, compare};
use query::matcher::{MatchDetails, Matcher};
use query::update::Update;

use super::{DEPTH_MAX, HOLDS, Met, REFUSED, code, environment};
use crate::generate;
use crate::source::Source;

/// Operators that say how things are to be.
const REPEATABLE: &[&str] = &["$set", "$unset", "$min", "$max", "$pull", "$pullAll", "$addToSet"];

fn parse(update: &Value, filters: &[Value]) -> Result<Update, i32> {
    let filters = Value::from(filters.to_vec());
    update.with_raw(|update| {
        filters.with_raw(|filters| code(Update::parse(update, filters.as_array(), &environment())))
    })
}

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let stored = generate::stored(&mut source).to_buf();
    let before = stored.as_raw();
    let written = generate::update(&mut source, 3);
    let filters = generate::array_filters(&mut source, 1);
    let is_insert = source.one_in(4);
    let details = MatchDetails { array_index: Some(source.below(3)) };
    let form = written.with_raw(|raw| code(Update::check_form(raw)));
    let update = match parse(&written, &filters) {
        Ok(update) => update,
        Err(_) => return met.note(REFUSED),
    };
    assert_eq!(form, Ok(()), "{written:?} parses, and has the form of an update");
    check_upsert(&update, &mut source, &written);
    let Ok(changed) = code(update.apply(before, Some(&details), is_insert)) else { return met.note(REFUSED) };
    let Some(changed) = changed else { return met.note(HOLDS) };
    let after = changed.as_raw();
    assert_ne!(changed.as_bytes(), stored.as_bytes(), "{written:?} of {before:?} changes something");
    check_document(after, &written);
    // The same number of another type is the same `_id`.
    let (id, id_before) = (after.get("_id").expect("it stays"), before.get("_id").expect("it was made so"));
    assert!(compare(id, id_before).is_eq(), "{written:?} makes {id:?} of the _id {id_before:?}");
    #[cfg(feature = "oplog")]
    check_delta(before, after, &written);
    if is_repeatable(&written) {
        let again = code(update.apply(after, Some(&details), is_insert));
        assert_eq!(again, Ok(None), "{written:?} of {before:?} is {after:?}, and something else then");
    }
    met.note(HOLDS);
}

/// What the oplog has of it makes the same, also when it is there already.
#[cfg(feature = "oplog")]
fn check_delta(before: RawDocument<'_>, after: RawDocument<'_>, written: &Value) {
    use replication::oplog::delta;
    if let Some(delta) = delta::between(before, after) {
        for begin in [before, after] {
            let made = delta::apply(begin, delta.as_raw()).expect("a delta of our own");
            assert_eq!(made.as_bytes(), after.as_bytes(), "the delta of {written:?}, of {begin:?}");
        }
    }
}

fn check_document(document: RawDocument<'_>, written: &Value) {
    let parsed = RawDocument::parse(document.as_bytes());
    assert!(parsed.is_ok(), "{written:?} makes no document: {parsed:?}");
    assert!(!document.exceeds_depth(DEPTH_MAX), "{written:?} makes a document that is too deep");
}

/// Whether everything in it says how things are to be, of places that do not depend on what is there.
fn is_repeatable(written: &Value) -> bool {
    let Value::Document(update) = written else { return false };
    update.iter().all(|(name, fields)| {
        let Value::Document(fields) = fields else { return false };
        REPEATABLE.contains(&name) && fields.iter().all(|(path, _)| !path.contains('$'))
    })
}

/// What an upsert would insert has an `_id`, and is a document.
fn check_upsert(update: &Update, source: &mut Source<'_>, written: &Value) {
    let filter = generate::filter(source, 1).to_buf();
    if Matcher::parse(filter.as_raw(), &environment()).is_err() || update.needs_match_details() {
        return;
    }
    let made: Result<DocumentBuf, i32> = code(update.upsert(filter.as_raw()));
    if let Ok(made) = made {
        check_document(made.as_raw(), written);
        let first = made.as_raw().first().map(|first| first.name().to_owned());
        assert_eq!(first.as_deref(), Some("_id"), "{written:?} upserts with {:?}", filter.as_raw());
    }
}
