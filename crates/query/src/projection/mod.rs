//! Projections: which fields of a document a reply shows, of `find` and of the stages built on the same
//! rules.
//!
//! ```text
//!  {a: 1, "b.c": 1, d: "$x"} ──▶ parse ──▶ tree of rules ──▶ apply: one walk over the raw elements
//!                                 │  a: keep                    kept elements are copied as bytes,
//!                                 │  b: ─ c: keep               new fields are appended behind them
//!                                 └  d: computed
//! ```
//!
//! * An *inclusion* shows the named fields and `_id`; an *exclusion* shows all but the named ones; an
//!   *addition* (`$addFields`) shows all and sets the named ones.
//! * Existing fields keep the document's order; computed fields and `$elemMatch` results follow in the order
//!   of the projection.
//!
//! Source: MongoDB manual, "Project Fields to Return from Query", "$project", "$addFields" (rules since 4.4).

mod addition;
mod apply;
mod array;
mod parse;
mod tree;

#[cfg(test)]
mod tests;

use document::{DocumentBuf, DocumentBuilder, RawDocument};

use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::Variables;
use crate::matcher::MatchDetails;
use tree::{ProjectionNode, ProjectionRule};

/// Which fields a projection shows besides the ones it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProjectionMode {
    /// Only the named fields (and `_id`, unless it is excluded).
    Inclusion,
    /// All but the named fields.
    Exclusion,
    /// All fields; the named ones are set.
    Addition,
}

/// A parsed projection.
#[derive(Debug)]
pub struct Projection {
    mode: ProjectionMode,
    root: ProjectionNode,
    /// The path in front of `.$`, when the projection asks for the array element that matched.
    positional: Option<Vec<String>>,
}

impl Projection {
    /// Parses the projection of `find`: `$slice`, `$elemMatch` and a final `.$` are understood. An empty
    /// projection shows everything.
    ///
    /// # Errors
    /// 31249 and 31250 for colliding paths, 31253 and 31254 for a mixture of inclusion and exclusion, and the
    /// others of MongoDB's projection parser.
    pub fn parse(spec: RawDocument<'_>, environment: &Environment) -> Result<Self, QueryError> {
        parse::ProjectionParser::new(environment, true).projection(spec)
    }

    /// Parses the operand of `$project`: everything that begins with `$` is an expression.
    ///
    /// # Errors
    /// As [`Projection::parse`], and 51272 for an empty one.
    pub fn parse_stage(spec: RawDocument<'_>, environment: &Environment) -> Result<Self, QueryError> {
        if spec.is_empty() {
            bail!(51272, "projection specification must have at least one field");
        }
        parse::ProjectionParser::new(environment, false).projection(spec)
    }

    /// Parses the operand of `$addFields` and `$set`.
    ///
    /// # Errors
    /// Colliding or malformed paths and refused expressions.
    pub fn parse_addition(spec: RawDocument<'_>, environment: &Environment) -> Result<Self, QueryError> {
        addition::parse(spec, environment)
    }

    /// The exclusion of these paths (`$unset`).
    ///
    /// # Errors
    /// Colliding or malformed paths.
    pub fn excluding<'p>(paths: impl IntoIterator<Item = &'p str>) -> Result<Self, QueryError> {
        let mut root = ProjectionNode::default();
        for path in paths {
            root.insert(path, ProjectionRule::Drop)?;
        }
        Ok(Projection { mode: ProjectionMode::Exclusion, root, positional: None })
    }

    /// Whether the projection names what to show, to hide or to add.
    pub fn mode(&self) -> ProjectionMode {
        self.mode
    }

    /// Whether every document comes out as it went in.
    pub fn is_identity(&self) -> bool {
        self.mode != ProjectionMode::Inclusion && self.root.is_empty()
    }

    /// Whether the projection needs to know which array element matched (`.$`).
    pub fn is_positional(&self) -> bool {
        self.positional.is_some()
    }

    /// Whether only whole top-level fields are shown or hidden (`PROJECTION_SIMPLE` in explain).
    pub fn is_simple(&self) -> bool {
        self.positional.is_none()
            && self
                .root
                .children()
                .all(|(_, rule)| matches!(rule, ProjectionRule::Keep | ProjectionRule::Drop))
    }

    /// The dotted paths whose values are all that the projection reads; `None` when it may read the whole
    /// document.
    ///
    /// A plan whose index delivers these paths need not fetch the document.
    pub fn needs(&self) -> Option<Vec<String>> {
        if self.mode != ProjectionMode::Inclusion || self.positional.is_some() {
            return None;
        }
        let mut paths = Vec::new();
        self.root.kept_paths("", &mut paths).then_some(paths)
    }

    /// Whether values are computed, for as long as expressions like.
    pub const fn computes(&self) -> bool {
        self.root.appends
    }

    /// Projects one document. `details` says which array element matched, for `.$`.
    ///
    /// # Errors
    /// What its expressions raise; 51246 when `.$` has no matched element.
    pub fn project(
        &self,
        document: RawDocument<'_>,
        details: Option<&MatchDetails>,
        variables: &mut Variables,
    ) -> Result<DocumentBuf, QueryError> {
        let mut bytes = Vec::with_capacity(document.as_bytes().len().min(INITIAL_CAPACITY_BYTES));
        let mut builder = DocumentBuilder::new(&mut bytes);
        self.project_into(document, details, variables, &mut builder)?;
        builder.finish();
        Ok(DocumentBuf::trusted(bytes))
    }

    /// Appends the projected fields of one document to `out`.
    ///
    /// # Errors
    /// As [`Projection::project`]; `out` may then hold some fields already.
    pub fn project_into(
        &self,
        document: RawDocument<'_>,
        details: Option<&MatchDetails>,
        variables: &mut Variables,
        out: &mut DocumentBuilder<'_>,
    ) -> Result<(), QueryError> {
        let mut walk = apply::DocumentProjector { mode: self.mode, root: document, variables };
        let Some(path) = &self.positional else { return walk.document(&self.root, document, out) };
        let mut bytes = Vec::with_capacity(document.as_bytes().len().min(INITIAL_CAPACITY_BYTES));
        let mut shown = DocumentBuilder::new(&mut bytes);
        walk.document(&self.root, document, &mut shown)?;
        shown.finish();
        // The position that matched is taken in the array as it is shown: values in front of it that have no
        // such field are gone.
        let index = details.and_then(|details| details.array_index);
        array::keep_matched(RawDocument::trusted(&bytes), path, index, out)
    }
}

/// Most projected documents are small; a larger one grows its buffer.
const INITIAL_CAPACITY_BYTES: usize = 512;
