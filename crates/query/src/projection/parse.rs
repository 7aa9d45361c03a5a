//! Parsing projections: MongoDB's rules for what may stand beside what.

use document::{DocumentBuilder, Element, ElementType, RawArray, RawDocument, RawValue, quote};

use super::tree::{ProjectionNode, ProjectionRule, Section};
use super::{Projection, ProjectionMode};
use crate::environment::Environment;
use crate::error::QueryError;
use crate::expression::{Expression, ParseScope};
use crate::matcher::Matcher;

/// What was seen so far of one projection.
pub(super) struct ProjectionParser<'e> {
    environment: &'e Environment,
    scope: ParseScope<'e>,
    /// Whether the array operators of `find` are understood.
    find: bool,
    root: ProjectionNode,
    mode: Option<ProjectionMode>,
    /// What the projection says of `_id` as a whole.
    id: Option<bool>,
    positional: Option<Vec<String>>,
    saw_slice: bool,
    saw_first_match: bool,
}

impl<'e> ProjectionParser<'e> {
    pub(super) fn new(environment: &'e Environment, find: bool) -> Self {
        ProjectionParser {
            environment,
            scope: ParseScope::new(environment),
            find,
            root: ProjectionNode::default(),
            mode: None,
            id: None,
            positional: None,
            saw_slice: false,
            saw_first_match: false,
        }
    }

    pub(super) fn projection(mut self, spec: RawDocument<'_>) -> Result<Projection, QueryError> {
        for element in spec {
            self.field("", element)?;
        }
        let mode = self.mode.unwrap_or(match self.id {
            _ if self.saw_first_match => ProjectionMode::Inclusion,
            _ if self.saw_slice => ProjectionMode::Exclusion,
            Some(true) => ProjectionMode::Inclusion,
            _ => ProjectionMode::Exclusion,
        });
        self.place_id(mode)?;
        Ok(Projection { mode, root: self.root, positional: self.positional })
    }

    /// `_id` is shown unless it is hidden, whatever the mode.
    fn place_id(&mut self, mode: ProjectionMode) -> Result<(), QueryError> {
        let inclusion = mode == ProjectionMode::Inclusion;
        match self.id {
            Some(false) if inclusion => Ok(()),
            Some(false) => self.root.insert("_id", ProjectionRule::Drop),
            _ if inclusion && self.root.find(b"_id").is_none() => {
                self.root.insert("_id", ProjectionRule::Keep)
            }
            _ => Ok(()),
        }
    }

    fn field(&mut self, prefix: &str, element: Element<'_>) -> Result<(), QueryError> {
        let path = join(prefix, element.name());
        if path.ends_with(".$") && !self.find {
            bail!(31324, "Cannot use positional projection in aggregation projection");
        }
        if path.ends_with(".$") || path.contains(".$.") {
            return self.positional(&path, element);
        }
        match element.value() {
            RawValue::Document(inner) if inner.is_empty() => Err(QueryError::new(
                51270,
                "An empty sub-projection is not a valid value. Found empty object at path",
            )),
            RawValue::Document(inner) if is_operator(inner) => self.operator(&path, prefix, inner, element),
            RawValue::Document(inner) => inner.iter().try_for_each(|below| self.field(&path, below)),
            value if value.is_number() || value.kind() == ElementType::Boolean => {
                self.shown(&path, value.truthy())
            }
            value => {
                if self.mode == Some(ProjectionMode::Exclusion) {
                    bail!(
                        31310,
                        "Cannot use an expression {} in an exclusion projection",
                        quote::element(element.name(), value)
                    );
                }
                self.mode = Some(ProjectionMode::Inclusion);
                let expression = Expression::parse(value, &self.scope)?;
                self.root.insert(&path, ProjectionRule::Computed(expression))
            }
        }
    }

    /// `path: true` or `path: false`.
    fn shown(&mut self, path: &str, show: bool) -> Result<(), QueryError> {
        if path == "_id" {
            if self.id.is_some() || self.root.find(b"_id").is_some() {
                bail!(31250, "Path collision at _id");
            }
            self.id = Some(show);
            return Ok(());
        }
        match (self.mode, show) {
            (Some(ProjectionMode::Inclusion), false) => {
                Err(query_error!(31254, "Cannot do exclusion on field {path} in inclusion projection"))
            }
            (Some(ProjectionMode::Exclusion), true) => {
                Err(query_error!(31253, "Cannot do inclusion on field {path} in exclusion projection"))
            }
            (_, true) => {
                self.mode = Some(ProjectionMode::Inclusion);
                self.insert(path, ProjectionRule::Keep)
            }
            (_, false) => {
                self.mode = Some(ProjectionMode::Exclusion);
                self.insert(path, ProjectionRule::Drop)
            }
        }
    }

    fn insert(&mut self, path: &str, rule: ProjectionRule) -> Result<(), QueryError> {
        if self.id.is_some() && path.starts_with("_id.") {
            bail!(31250, "Path collision at {path}");
        }
        self.root.insert(path, rule)
    }

    fn positional(&mut self, path: &str, element: Element<'_>) -> Result<(), QueryError> {
        let Some(array) = path.strip_suffix(".$").filter(|array| !array.contains(".$.")) else {
            bail!(
                31394,
                "As of 4.4, it's illegal to specify positional operator in the middle of a path.Positional \
                 projection may only be used at the end, for example: a.b.$. If the query previously used a \
                 form like a.b.$.d, remove the parts following the '$' and the results will be equivalent."
            );
        };
        if !element.value().truthy() || self.mode == Some(ProjectionMode::Exclusion) {
            bail!(31395, "positional projection cannot be used with exclusion");
        }
        if self.positional.is_some() {
            bail!(31276, "Cannot specify more than one positional projection per query.");
        }
        if self.saw_first_match {
            bail!(31256, "Cannot specify positional operator and $elemMatch.");
        }
        self.mode = Some(ProjectionMode::Inclusion);
        self.insert(array, ProjectionRule::Keep)?;
        self.positional = Some(array.split('.').map(str::to_owned).collect());
        Ok(())
    }

    fn operator(
        &mut self,
        path: &str,
        prefix: &str,
        operand: RawDocument<'_>,
        element: Element<'_>,
    ) -> Result<(), QueryError> {
        let first = operand.first().filter(|_| self.find);
        match first {
            Some(first) if first.name() == "$slice" && is_find_slice(first.value()) => {
                if self.positional.as_ref().is_some_and(|positional| positional.join(".") == path) {
                    bail!(31250, "Path collision at {path}");
                }
                self.saw_slice = true;
                let section = section(first.value())?;
                self.insert(path, ProjectionRule::Slice(section))
            }
            Some(first) if first.name() == "$elemMatch" => self.first_match(path, prefix, first),
            Some(first) if first.name() == "$meta" => {
                Err(QueryError::new(115, "$meta is not supported in a projection"))
            }
            _ => {
                if self.mode == Some(ProjectionMode::Exclusion) {
                    bail!(31252, "Cannot use expression other than $meta in exclusion projection");
                }
                self.mode = Some(ProjectionMode::Inclusion);
                let expression = Expression::parse(element.value(), &self.scope).map_err(|error| {
                    match (error.code, operand.first()) {
                        (168, Some(first)) if error.message.ends_with(&format!("'{}'", first.name())) => {
                            query_error!(31325, "Unknown expression {}", first.name())
                        }
                        _ => error,
                    }
                })?;
                self.insert(path, ProjectionRule::Computed(expression))
            }
        }
    }

    fn first_match(&mut self, path: &str, prefix: &str, operand: Element<'_>) -> Result<(), QueryError> {
        if !prefix.is_empty() || path.contains('.') {
            bail!(31275, "Cannot use $elemMatch projection on a nested field.");
        }
        if operand.kind() != ElementType::Document {
            bail!(31274, "elemMatch: Invalid argument, object required, but got {}", operand.kind().alias());
        }
        if self.positional.is_some() {
            bail!(31255, "Cannot specify positional operator and $elemMatch.");
        }
        let mut bytes = Vec::new();
        let mut filter = DocumentBuilder::new(&mut bytes);
        filter.start_document(path).append_element(operand);
        filter.finish();
        let matcher = Matcher::parse(RawDocument::trusted(&bytes), self.environment)?;
        self.saw_first_match = true;
        self.insert(path, ProjectionRule::FirstMatch(Box::new(matcher)))
    }
}

pub(super) fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// Whether an object is a call; beside other fields a name with a dollar sign is a field that cannot be.
pub(super) fn is_operator(document: RawDocument<'_>) -> bool {
    let mut fields = document.iter();
    fields.next().is_some_and(|first| first.name().starts_with('$')) && fields.next().is_none()
}

/// `$slice` with an array that does not begin with a number is the expression of the same name.
fn is_find_slice(operand: RawValue<'_>) -> bool {
    match operand {
        RawValue::Array(array) => array.get(0).is_some_and(RawValue::is_number) || array.len() < 2,
        _ => true,
    }
}

fn section(operand: RawValue<'_>) -> Result<Section, QueryError> {
    if let Some(count) = whole(operand) {
        let skip = if count < 0 { count } else { 0 };
        return Ok(Section { skip, limit: count.saturating_abs() });
    }
    match operand {
        RawValue::Array(array) => pair(array),
        other => Err(query_error!(
            28667,
            "Invalid $slice syntax. The given syntax {{ $slice: {} }} did not match the find() syntax \
                 because :: Location31273: $slice only supports numbers and [skip, limit] arrays :: The \
                 given syntax did not match the expression $slice syntax. :: caused by :: Expression $slice \
                 takes at least 2 arguments, and at most 3, but 1 were passed in.",
            other.quoted()
        )),
    }
}

fn pair(array: RawArray<'_>) -> Result<Section, QueryError> {
    let refuse = |reason: &str| {
        query_error!(
            28667,
            "Invalid $slice syntax. The given syntax did not match the find() syntax because :: {reason}"
        )
    };
    let mut numbers = array.iter().map(whole);
    match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(skip)), Some(Some(limit)), None) if limit > 0 => Ok(Section { skip, limit }),
        (Some(Some(_)), Some(Some(_)), None) => {
            Err(refuse("Location31272: $slice limit must be positive in [skip, limit]"))
        }
        _ => Err(refuse("Location31272: $slice array argument should be of form [skip, limit]")),
    }
}

/// The number without its fraction, as `$slice` takes it.
fn whole(value: RawValue<'_>) -> Option<i64> {
    value.as_number().map(|number| number.to_i64_saturating())
}
