//! Projections: what comes out is a document, of what they say they need; what only shows and hides changes
//! nothing the second time.

use document::RawDocument;
use query::expression::Variables;
use query::matcher::MatchDetails;
use query::projection::{Projection, ProjectionMode};

use super::{DEPTH_MAX, HOLDS, Met, REFUSED, code, environment, only};
use crate::generate;
use crate::source::Source;

pub(super) fn check(bytes: &[u8], met: &mut Met) {
    let mut source = Source::new(bytes);
    let stored = generate::stored(&mut source).to_buf();
    let is_stage = source.one_in(2);
    let written = generate::projection(&mut source, 3);
    let spec = written.to_buf();
    let environment = environment();
    let parsed = match is_stage {
        true => Projection::parse_stage(spec.as_raw(), &environment),
        false => Projection::parse(spec.as_raw(), &environment),
    };
    let Ok(projection) = code(parsed) else { return met.note(REFUSED) };
    let details = MatchDetails { array_index: Some(source.below(3)) };
    let project = |document: RawDocument<'_>| {
        code(projection.project(document, Some(&details), &mut Variables::with_seed(1)))
    };
    let Ok(shown) = project(stored.as_raw()) else { return met.note(REFUSED) };
    if !shown.as_raw().exceeds_depth(DEPTH_MAX) {
        let parsed = RawDocument::parse(shown.as_bytes());
        assert!(parsed.is_ok(), "{written:?} makes no document: {parsed:?}");
    }
    if projection.is_identity() {
        assert_eq!(shown.as_bytes(), stored.as_bytes(), "{written:?} changes nothing");
    }
    if projection.is_simple() && !projection.computes() {
        let twice = project(shown.as_raw());
        assert_eq!(twice.as_ref(), Ok(&shown), "{written:?} twice");
    }
    if let Some(paths) = projection.needs()
        && !paths.is_empty()
    {
        assert_eq!(projection.mode(), ProjectionMode::Inclusion, "{written:?} says what it needs");
        if let Some(part) = only(&stored, &paths) {
            let found = project(part.as_raw());
            assert_eq!(found, Ok(shown), "{written:?} of what it needs of {:?}", stored.as_raw());
        }
    }
    met.note(HOLDS);
}
