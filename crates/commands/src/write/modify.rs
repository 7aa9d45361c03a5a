//! Finding documents and changing each under its latch: the heart of `update`, `delete` and `findAndModify`.

use super::is_long_write;
use crate::context::{CommandContext, OnDataNode};
use crate::error::{CommandError, CommandResult, code};
use crate::exec::{Candidates, Gathered, StatementFilter};
use catalog::{Collection, Decision, FoundDocuments, OperationContext, WriteError};
use document::{DocumentBuf, RawDocument};
use query::checkpoint;
use query::matcher::MatchDetails;
use query::update::Update;
use std::sync::Arc;
use storage::ReadTier;

/// What is done to a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Modification<'u> {
    /// The update is applied.
    Update(&'u Update),
    /// The document goes.
    Remove,
}

/// One statement: which documents, and what is done to them.
#[derive(Debug)]
pub(crate) struct Statement<'s> {
    /// The collection; `None` when there is none yet.
    pub(crate) collection: &'s Arc<Collection>,
    /// Which documents, and in which order they are tried.
    pub(crate) filter: &'s StatementFilter<'s>,
    pub(crate) modification: Modification<'s>,
    /// What each of its writes is given.
    pub(crate) writing: OperationContext<'s>,
    /// Keep the versions of documents before and after the change.
    pub(crate) keeps_versions: bool,
}

/// One document that a statement matched.
#[derive(Debug, Default)]
pub(crate) struct Modified {
    /// Whether the document is different now.
    pub(crate) changed: bool,
    /// The version before; only when asked for.
    pub(crate) before: Option<DocumentBuf>,
    /// The version after; only when asked for and not removed.
    pub(crate) after: Option<DocumentBuf>,
}

/// Why a latched change did not happen.
pub(crate) enum Refusal {
    Command(CommandError),
    Write(WriteError),
    /// The document is too long for an event loop, or the change takes too long.
    Elsewhere,
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Self {
        Refusal::Write(error)
    }
}

/// How often one change finds a key taken by a document that is hidden and goes: one of each unique index.
const WAYS_MAX: usize = 100;

impl From<CommandError> for Refusal {
    fn from(error: CommandError) -> Self {
        Refusal::Command(error)
    }
}

impl Refusal {
    /// Whether nothing was done because a read would have had to wait for the disk, or a change would have
    /// taken long.
    const fn would_block(&self) -> bool {
        match self {
            Refusal::Command(_) => false,
            Refusal::Write(error) => error.would_block(),
            Refusal::Elsewhere => true,
        }
    }
}

impl From<Refusal> for CommandError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Command(error) => error,
            Refusal::Write(error) => error.into(),
            Refusal::Elsewhere => CommandError::internal("a document was too long where none is"),
        }
    }
}

/// As [`Collection::update`]; where a document that is hidden has a key that is wanted, it goes first, and
/// `decide` is asked again.
pub(crate) async fn update_past_hidden(
    collection: &Collection,
    writing: &OperationContext<'_>,
    document_key: &[u8],
    mut decide: impl FnMut(Option<RawDocument<'_>>) -> Result<Decision, Refusal>,
) -> Result<(), Refusal> {
    let mut left = WAYS_MAX;
    loop {
        let refusal = match collection.update(writing, document_key, &mut decide).await {
            Ok(_) => return Ok(()),
            Err(refusal) => refusal,
        };
        let Refusal::Write(error @ WriteError::DuplicateKey(_)) = &refusal else { return Err(refusal) };
        // In a box: few come here, and every update has room for what is in its future.
        if left == 0 || !Box::pin(collection.make_way(writing, error)).await? {
            return Err(refusal);
        }
        left -= 1;
    }
}

impl Statement<'_> {
    /// Changes the document with this key if it still matches. `None` when it does not.
    async fn modify(
        &self,
        context: &CommandContext<'_>,
        document_key: &[u8],
    ) -> CommandResult<Option<Modified>> {
        let scheduling = context.scheduling();
        let modified = match self.modify_within(document_key, scheduling.tier()).await {
            Err(refusal) if refusal.would_block() => {
                scheduling.offload_briefly().await;
                self.modify_within(document_key, ReadTier::Any).await?
            }
            result => result?,
        };
        self.count(context, u64::from(modified.as_ref().is_some_and(|modified| modified.changed)));
        Ok(modified)
    }

    /// Counts what is done, whatever becomes of the command.
    fn count(&self, context: &CommandContext<'_>, changed: u64) {
        let counters = &context.server.counters;
        match self.modification {
            Modification::Update(_) => counters.documents_updated.add(changed),
            Modification::Remove => counters.documents_deleted.add(changed),
        }
    }

    async fn modify_within(&self, document_key: &[u8], tier: ReadTier) -> Result<Option<Modified>, Refusal> {
        let writing = OperationContext { tier, ..self.writing };
        let mut modified = None;
        let decide = |found: Option<RawDocument<'_>>| {
            modified = None;
            self.decide(found, false, tier, &mut modified)
        };
        update_past_hidden(self.collection, &writing, document_key, decide).await?;
        Ok(modified)
    }

    /// `matches` when it is known that the document still does.
    fn decide(
        &self,
        found: Option<RawDocument<'_>>,
        matches: bool,
        tier: ReadTier,
        modified: &mut Option<Modified>,
    ) -> Result<Decision, Refusal> {
        let Some(document) = found else { return Ok(Decision::Keep) };
        if tier == ReadTier::Any {
            return Ok(self.decide_on(document, matches, modified)?);
        }
        if is_long_write(self.collection, document.as_bytes().len()) {
            return Err(Refusal::Elsewhere);
        }
        let _short = checkpoint::short();
        self.decide_on(document, matches, modified).map_err(|error| {
            match checkpoint::is_not_short(error.code) {
                true => Refusal::Elsewhere,
                false => Refusal::Command(error),
            }
        })
    }

    fn decide_on(
        &self,
        document: RawDocument<'_>,
        matches: bool,
        modified: &mut Option<Modified>,
    ) -> CommandResult<Decision> {
        let Some(details) = self.matched(document, matches)? else { return Ok(Decision::Keep) };
        if self.collection.hides(document, self.filter.moment_ms())? {
            return Ok(Decision::Keep);
        }
        let result = modified.insert(Modified::default());
        if self.keeps_versions {
            result.before = Some(document.to_buf());
        }
        let update = match self.modification {
            Modification::Remove => {
                result.changed = true;
                return Ok(Decision::Remove);
            }
            Modification::Update(update) => update,
        };
        let after = update.apply(document, Some(&details), false)?;
        result.changed = after.is_some();
        if self.keeps_versions {
            result.after = Some(after.clone().unwrap_or_else(|| document.to_buf()));
        }
        Ok(match after {
            None => Decision::Keep,
            Some(after) if update.is_replacement() => Decision::Replace(after),
            Some(after) => Decision::Update(after),
        })
    }

    /// Changes those of these documents that still match, as many as possible in one write unit.
    async fn modify_all(
        &self,
        context: &CommandContext<'_>,
        candidates: &FoundDocuments,
    ) -> CommandResult<Counts> {
        let mut tier = context.scheduling().tier();
        let mut counts = Counts::default();
        let mut next = 0;
        // How many are changed one by one before a unit is tried again.
        let (mut alone, mut backoff) = (usize::from(candidates.len() == 1), 1);
        while let Some(document_key) = candidates.document_key(next) {
            context.interrupt().check()?;
            if alone > 0 {
                alone -= 1;
                counts.add(self.modify(context, document_key).await?.as_ref());
                next += 1;
                continue;
            }
            // In a box: few commands come here, and all have room for what is in theirs.
            let (settled, result) =
                Box::pin(self.modify_unit(context, candidates, next, tier, &mut counts)).await;
            next += settled;
            match result {
                Ok(()) if settled == 0 => {
                    alone = backoff;
                    backoff *= 2;
                }
                Ok(()) => backoff = 1,
                Err(refusal) if refusal.would_block() => {
                    context.offload().await;
                    tier = ReadTier::Any;
                }
                // Changed by itself it finds whether the one that has the key is hidden, and may go.
                Err(Refusal::Write(WriteError::DuplicateKey(_))) if self.collection.hides_expired() => {
                    alone = 1;
                }
                Err(refusal) => {
                    // A key may be another document's.
                    context.receipts.observed();
                    return Err(refusal.into());
                }
            }
        }
        Ok(counts)
    }

    /// Changes documents in one write unit, those that are settled afterwards.
    async fn modify_unit(
        &self,
        context: &CommandContext<'_>,
        candidates: &FoundDocuments,
        from: usize,
        tier: ReadTier,
        counts: &mut Counts,
    ) -> (usize, Result<(), Refusal>) {
        let writing = OperationContext { tier, ..self.writing };
        // Before each document and behind the last: what counts is known when the unit is written.
        let mut counted = vec![Counts::default()];
        let decide = |found: Option<RawDocument<'_>>, seen: bool| {
            context.interrupt().check()?;
            let mut modified = None;
            // A walk's filter does not tell which element of an array has matched.
            let decision = self.decide(found, seen && !self.needs_match_details(), tier, &mut modified);
            let mut after = *counted.last().expect("the counts before the first document");
            after.add(modified.as_ref());
            counted.push(after);
            decision
        };
        let (settled, result) = self.collection.update_many(&writing, candidates, from, decide).await;
        let changed = *counted.get(settled).expect("what is settled was decided on");
        counts.matched += changed.matched;
        counts.changed += changed.changed;
        self.count(context, changed.changed);
        (settled, result)
    }
}

/// How many documents matched, and how many are different now.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    matched: u64,
    changed: u64,
}

impl Counts {
    fn add(&mut self, modified: Option<&Modified>) {
        self.matched += u64::from(modified.is_some());
        self.changed += u64::from(modified.is_some_and(|modified| modified.changed));
    }
}

impl Statement<'_> {
    /// Whether the change of a single document may take long.
    const fn computes(&self) -> bool {
        matches!(self.modification, Modification::Update(update) if update.computes())
    }

    fn needs_match_details(&self) -> bool {
        matches!(self.modification, Modification::Update(update) if update.needs_match_details())
    }

    /// Whether the document is meant, and which array element made it so.
    fn matched(&self, document: RawDocument<'_>, matches: bool) -> CommandResult<Option<MatchDetails>> {
        // One that was found by its `_id`, which never changes, still matches.
        if matches || self.filter.is_id_lookup() {
            return Ok(Some(MatchDetails::default()));
        }
        match self.needs_match_details() {
            true => Ok(self.filter.matcher()?.matches_positional(document)?),
            false => Ok(self.filter.matcher()?.matches(document)?.then(MatchDetails::default)),
        }
    }
}

/// Changes the first document that matches; `None` when none does.
pub(crate) async fn modify_one(
    context: &CommandContext<'_>,
    statement: &Statement<'_>,
) -> CommandResult<Option<Modified>> {
    if let Some(document_key) = statement.filter.id_document_key(statement.collection) {
        if statement.computes() {
            context.offload().await;
        }
        return statement.modify(context, &document_key).await;
    }
    let mut walk = open(context, statement).await?;
    let mut candidate = FoundDocuments::default();
    loop {
        let gathered = walk.gather(&mut candidate, 1)?;
        if let Some(document_key) = candidate.document_key(0)
            && let Some(modified) = statement.modify(context, document_key).await?
        {
            return Ok(Some(modified));
        }
        candidate.clear();
        match gathered {
            Gathered::Enough => {}
            Gathered::Yield => context.scheduling().end_slice().await?,
            Gathered::WouldBlock => context.scheduling().leave_memory().await?,
            Gathered::End => break,
        }
    }
    context.receipts.observed();
    Ok(None)
}

/// Changes every document that matches, each once; returns how many matched and how many are different now.
pub(crate) async fn modify_many(
    context: &CommandContext<'_>,
    statement: &Statement<'_>,
) -> CommandResult<(u64, u64)> {
    if statement.filter.id_document_key(statement.collection).is_some() {
        let modified = modify_one(context, statement).await?;
        return Ok(modified.map_or((0, 0), |modified| (1, u64::from(modified.changed))));
    }
    let mut walk = open(context, statement).await?;
    let mut total = Counts::default();
    let mut candidates = FoundDocuments::default();
    loop {
        let gathered = walk.gather(&mut candidates, unit_documents_max(context));
        let counts = statement.modify_all(context, &candidates).await?;
        total.matched += counts.matched;
        total.changed += counts.changed;
        candidates.clear();
        match gathered? {
            Gathered::Enough => {}
            Gathered::Yield => context.scheduling().end_slice().await?,
            Gathered::WouldBlock => context.scheduling().leave_memory().await?,
            Gathered::End => break,
        }
        if context.scheduling().may_block() {
            walk.refresh();
        }
    }
    if total.matched == 0 {
        context.receipts.observed();
    }
    Ok((total.matched, total.changed))
}

/// How many documents are changed by one write unit at most.
const UNIT_DOCUMENTS_MAX: usize = if cfg!(test) { 256 } else { 1024 };
/// The same on a thread that serves others too: it makes short steps.
const LOOP_UNIT_DOCUMENTS_MAX: usize = 16;

fn unit_documents_max(context: &CommandContext<'_>) -> usize {
    if context.scheduling().may_block() { UNIT_DOCUMENTS_MAX } else { LOOP_UNIT_DOCUMENTS_MAX }
}

async fn open<'c>(context: &CommandContext<'c>, statement: &Statement<'_>) -> CommandResult<Candidates<'c>> {
    let candidates = Candidates::open(context, statement.collection, statement.filter)?;
    if candidates.surely_outlasts() || statement.computes() {
        context.offload().await;
    }
    Ok(candidates)
}

/// `CommandNotSupportedOnView`.
pub(crate) fn not_on_a_view(database: &str, name: &str) -> CommandError {
    let message = format!("Namespace {database}.{name} is a view, not a collection");
    CommandError::new(code::COMMAND_NOT_SUPPORTED_ON_VIEW, message)
}
