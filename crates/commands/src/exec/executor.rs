//! Running one query: scans, filter, sort, skip, limit.

use super::drive::Read;
use super::query::Query;
use super::scan::{Located, Reading, Scan, ScanFigures, Verdict};
use super::seen::SeenDocuments;
use super::slice::Slice;
use crate::error::{CommandError, CommandResult};
use catalog::{Collection, HiddenDocuments, ReadError};
use document::{DocumentBuf, Timestamp, Value};
use query::QueryError;
use query::aggregate::{Flow, Pause, Sink, YieldPolicy};
use query::checkpoint;
use query::matcher::Matcher;
use query::plan::{Access, NeededFields, Plan, values_of_field};
use query::sort::{SortLimits, Sorter, SpillStore};
use std::sync::Arc;
use storage::{ReadSource, ReadTier, ReadView};

/// One running query.
#[derive(Debug)]
pub(crate) struct Executor {
    plan: Plan,
    stream: Stream,
    order: Order,
    window: Window,
    sort_figures: SortFigures,
}

/// Documents that pass the filter, in the order of the walk.
#[derive(Debug)]
struct Stream {
    collection: Arc<Collection>,
    source: ReadSource,
    /// The state of it that is read from, until the walk is put aside; `None` before its next step.
    view: Option<ReadView>,
    matcher: Matcher,
    residual: Option<Matcher>,
    /// What is not shown; `None` where everything is.
    hidden: Option<HiddenDocuments>,
    scans: Vec<Scan>,
    current: usize,
    /// Documents met so far, where they can be met twice.
    seen: Option<SeenDocuments>,
}

/// Where documents stand on their way through the sort.
#[derive(Debug)]
enum Order {
    /// They come as they are wanted.
    AsFound,
    /// They are sorted; with the document that the sink refused.
    Sorted(Box<Sorter>, Option<DocumentBuf>),
}

/// Skip and limit.
#[derive(Debug)]
struct Window {
    skip_left: u64,
    limit_left: Option<u64>,
    skipped: u64,
    returned: u64,
}

/// What a sort took.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SortFigures {
    /// Bytes in memory at the end of the input.
    pub(crate) bytes: usize,
    /// Runs on disk.
    pub(crate) spilled_runs: usize,
    /// Documents that were sorted.
    pub(crate) documents: u64,
}

impl Executor {
    /// Plans the query; nothing is read yet.
    ///
    /// # Errors
    /// What the planner says about hint, min and max.
    pub(crate) fn open(
        source: &ReadSource,
        collection: &Arc<Collection>,
        query: Query,
    ) -> CommandResult<Self> {
        let plan = query.plan(&collection.definition_for(source))?;
        Self::with_plan(source, collection, query, plan)
    }

    /// Runs a plan made of this query.
    ///
    /// # Errors
    /// `QueryPlanKilled` when an index of the plan is gone.
    pub(crate) fn with_plan(
        source: &ReadSource,
        collection: &Arc<Collection>,
        query: Query,
        plan: Plan,
    ) -> CommandResult<Self> {
        let definition = collection.definition();
        let hidden = query.moment_ms.and_then(|moment_ms| definition.hidden_at(moment_ms));
        let bare = query.needs == NeededFields::Nothing && query.sort.is_empty() && hidden.is_none();
        let mut scans = Vec::new();
        let mut seen = None;
        match &plan.access {
            Access::Union(branches) => {
                seen = Some(SeenDocuments::default());
                for branch in branches {
                    scans.extend(Scan::new(branch, &definition, bare, query.tailable)?);
                }
            }
            access => scans.extend(Scan::new(access, &definition, bare, query.tailable)?),
        }
        if collection.is_oplog()
            && let Some(since) = earliest_wanted(&query.matcher)
        {
            scans.iter_mut().for_each(|scan| scan.begin_at(since));
        }
        let mut order = Order::AsFound;
        if !plan.sort_provided && !query.sort.is_empty() {
            let wanted = query.limit.map(|limit| limit.saturating_add(query.skip));
            let limits = SortLimits {
                documents: wanted.map(|wanted| usize::try_from(wanted).unwrap_or(usize::MAX)),
                memory_bytes: query.sort_memory_bytes,
            };
            let spill = query.spill.map(|spill| -> Arc<dyn SpillStore> { Arc::new(spill) });
            order = Order::Sorted(Box::new(Sorter::new(query.sort, limits, spill, &query.memory)), None);
        }
        let stream = Stream {
            collection: Arc::clone(collection),
            source: source.clone(),
            view: None,
            matcher: query.matcher,
            residual: plan.residual.clone(),
            hidden,
            scans,
            current: 0,
            seen,
        };
        let window = Window { skip_left: query.skip, limit_left: query.limit, skipped: 0, returned: 0 };
        Ok(Executor { plan, stream, order, window, sort_figures: SortFigures::default() })
    }

    /// As [`Read::run`], for a pipeline: it may read as far as it needs.
    ///
    /// # Errors
    /// What reading, the filter and the sink say.
    pub(crate) fn show(
        &mut self,
        policy: &mut dyn YieldPolicy,
        sink: &mut Sink<'_>,
    ) -> Result<Pause, QueryError> {
        let (mut raised, mut stopped) = (None, false);
        let pause = self.walk(ReadTier::Any, policy, &mut |located| {
            let flow = sink(located.document).unwrap_or_else(|error| {
                raised = Some(error);
                Flow::Pause
            });
            stopped = flow == Flow::Pause;
            Ok(if stopped { Verdict::TakeAndStop } else { Verdict::Take })
        });
        match (raised, pause) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(QueryError::new(error.code, error.message)),
            // The last document that a limit lets through may be held back by whoever stopped at it.
            (None, Ok(Pause::End)) if stopped => Ok(Pause::Stopped),
            (None, Ok(pause)) => Ok(pause),
        }
    }

    fn walk(
        &mut self,
        tier: ReadTier,
        policy: &mut (impl YieldPolicy + ?Sized),
        sink: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        if self.window.is_closed() {
            return Ok(Pause::End);
        }
        let pause = match &mut self.order {
            Order::Sorted(sorter, refused) => {
                match collect(sorter, &mut self.stream, &mut self.sort_figures, (tier, &mut *policy))? {
                    Pause::End => {}
                    pause => return Ok(pause),
                }
                let window = &mut self.window;
                run_sorted(sorter, refused, policy, |located| window.show(located, sink))?
            }
            Order::AsFound => {
                let window = &mut self.window;
                self.stream.run(tier, policy, &mut |located| window.show(located, sink))?
            }
        };
        Ok(if self.window.is_closed() { Pause::End } else { pause })
    }

    /// Lets go of every state and cursor of the store, to be called when a batch is complete; before the next
    /// one comes [`Executor::read_from`].
    pub(crate) fn save(&mut self) {
        self.stream.save();
        self.stream.source = ReadSource::Released;
    }

    /// As [`Executor::save`], unless an index is walked, along which documents move: such a walk goes on in
    /// the state that it began with. Returns whether it was done.
    pub(crate) fn refresh(&mut self) -> bool {
        let by_documents = !self.stream.scans.iter().any(Scan::walks_an_index);
        if by_documents {
            self.stream.save();
        }
        by_documents
    }

    /// What the walk reads from when it goes on after having been put aside.
    pub(crate) fn read_from(&mut self, source: &ReadSource) {
        self.stream.source = source.clone();
    }

    /// How the query is run.
    pub(crate) const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The collection.
    pub(crate) const fn collection(&self) -> &Arc<Collection> {
        &self.stream.collection
    }

    /// Whether documents are sorted in memory: work that takes long and may use files.
    pub(crate) const fn sorts(&self) -> bool {
        !matches!(self.order, Order::AsFound)
    }

    /// Whether a tailable walk has seen any document yet.
    pub(crate) fn has_position(&self) -> bool {
        self.stream.scans.iter().any(|scan| scan.last_seen().is_some())
    }

    /// Fails when a tailable walk's position was trimmed away.
    ///
    /// # Errors
    /// `CappedPositionLost`, storage errors.
    pub(crate) fn check_capped_position(&self, tier: ReadTier) -> Result<(), ReadError> {
        match self.stream.scans.first().and_then(Scan::last_seen) {
            Some(last) => {
                let collection = &self.stream.collection;
                collection.check_capped_position(self.stream.source.view(), last, tier)
            }
            None => Ok(()),
        }
    }

    /// What was done so far: each scan, in the order of the plan.
    pub(crate) fn scan_figures(&self) -> Vec<ScanFigures> {
        self.stream.scans.iter().map(|scan| scan.figures).collect()
    }

    /// What was done so far, all scans together.
    pub(crate) fn figures(&self) -> ScanFigures {
        self.stream.scans.iter().fold(ScanFigures::default(), |sum, scan| ScanFigures {
            keys: sum.keys + scan.figures.keys,
            documents: sum.documents + scan.figures.documents,
            seeks: sum.seeks + scan.figures.seeks,
            returned: sum.returned + scan.figures.returned,
        })
    }

    /// What the sort took.
    pub(crate) const fn sort_figures(&self) -> SortFigures {
        self.sort_figures
    }

    /// Documents left out in front so far.
    pub(crate) const fn skipped(&self) -> u64 {
        self.window.skipped
    }

    /// Documents that the sink took.
    pub(crate) const fn returned(&self) -> u64 {
        self.window.returned
    }
}

impl Read for Executor {
    fn surely_outlasts(&self) -> bool {
        self.sorts() || self.stream.matcher.is_heavy()
    }

    fn run(
        &mut self,
        slice: &mut Slice,
        sink: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        self.walk(slice.tier(), slice, sink)
    }
}

impl Window {
    const fn is_closed(&self) -> bool {
        matches!(self.limit_left, Some(0))
    }

    #[inline]
    fn show(
        &mut self,
        located: Located<'_>,
        sink: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Verdict> {
        if self.skip_left > 0 {
            self.skip_left -= 1;
            self.skipped += 1;
            return Ok(Verdict::Take);
        }
        let verdict = sink(located)?;
        if matches!(verdict, Verdict::Take | Verdict::TakeAndStop) {
            self.returned += 1;
            if let Some(left) = &mut self.limit_left {
                *left -= 1;
                if *left == 0 {
                    return Ok(Verdict::TakeAndStop);
                }
            }
        }
        Ok(verdict)
    }
}

impl Stream {
    fn run(
        &mut self,
        tier: ReadTier,
        policy: &mut (impl YieldPolicy + ?Sized),
        sink: &mut impl FnMut(Located<'_>) -> CommandResult<Verdict>,
    ) -> CommandResult<Pause> {
        let view = match &self.view {
            Some(view) => view,
            None => self.view.insert(view_for(&self.source, &self.scans)),
        };
        let reading = Reading { collection: &self.collection, view, tier };
        // An event loop gives up a document that takes long, and the walk pauses in front of it.
        let _short = (tier != ReadTier::Any).then(checkpoint::short);
        while let Some(scan) = self.scans.get_mut(self.current) {
            let (all, residual, hidden) = (&self.matcher, self.residual.as_ref(), self.hidden.as_ref());
            let (mut returned, mut outlasts) = (0, false);
            let mut show = |located: Located<'_>| {
                checkpoint::pass_bytes(located.document.as_bytes().len())?;
                let filter = if located.as_planned { residual } else { Some(all) };
                if let Some(filter) = filter
                    && !filter.matches(located.document)?
                {
                    return Ok(Verdict::Ignore);
                }
                if hidden.map_or(Ok(false), |hidden| hidden.has(located.document))? {
                    return Ok(Verdict::Ignore);
                }
                let verdict = sink(located)?;
                returned += u64::from(verdict != Verdict::Refuse);
                Ok(verdict)
            };
            let pause = scan.run(&reading, policy, &mut self.seen, &mut |located| {
                show(located).or_else(|error: CommandError| {
                    outlasts = checkpoint::is_not_short(error.code);
                    if outlasts { Ok(Verdict::Refuse) } else { Err(error) }
                })
            });
            scan.figures.returned += returned;
            match pause? {
                Pause::Stopped if outlasts => return Ok(Pause::Sliced),
                Pause::End if self.current + 1 < self.scans.len() => self.current += 1,
                pause => return Ok(pause),
            }
        }
        Ok(Pause::End)
    }

    fn save(&mut self) {
        self.scans.iter_mut().for_each(Scan::save);
        self.view = None;
    }
}

/// The first timestamp at which an operation can pass the filter of a walk over the oplog.
fn earliest_wanted(filter: &Matcher) -> Option<Timestamp> {
    let wanted = values_of_field(filter, "ts")?;
    match wanted.as_slice().first()?.from.value {
        Value::Timestamp(timestamp) => Some(timestamp),
        _ => None,
    }
}

/// What these scans read from. An entry of an index and the document that it leads to have to be of one
/// moment, and so have two ways on which a changed document can be met; a single walk over documents is of
/// one moment by itself.
fn view_for(source: &ReadSource, scans: &[Scan]) -> ReadView {
    match scans.iter().any(Scan::walks_an_index) {
        true => source.moment(),
        false => source.view().clone(),
    }
}

/// Sorts what the stream has. [`Pause::End`]: the sorter gives it back.
fn collect(
    sorter: &mut Sorter,
    stream: &mut Stream,
    figures: &mut SortFigures,
    (tier, policy): (ReadTier, &mut (impl YieldPolicy + ?Sized)),
) -> CommandResult<Pause> {
    loop {
        let pause = sorter.resume(policy)?;
        if pause != Pause::End || sorter.has_ended() {
            return Ok(pause);
        }
        let pause = stream.run(tier, policy, &mut |located| {
            figures.documents += 1;
            Ok(match sorter.push(located.document)? {
                Flow::More => Verdict::Take,
                Flow::Pause => Verdict::TakeAndStop,
            })
        })?;
        match pause {
            Pause::End => {
                stream.save();
                (figures.bytes, figures.spilled_runs) = (sorter.used_bytes(), sorter.spilled_runs());
                sorter.end();
            }
            Pause::Stopped => {}
            pause => return Ok(pause),
        }
    }
}

fn run_sorted(
    sorted: &mut Sorter,
    refused: &mut Option<DocumentBuf>,
    policy: &mut (impl YieldPolicy + ?Sized),
    mut sink: impl FnMut(Located<'_>) -> CommandResult<Verdict>,
) -> CommandResult<Pause> {
    loop {
        let document = match refused.take() {
            Some(document) => document,
            None => match sorted.next()? {
                Some(document) => document,
                None => return Ok(Pause::End),
            },
        };
        match sink(Located::of(document.as_raw()))? {
            Verdict::Take | Verdict::Ignore => {}
            Verdict::TakeAndStop => return Ok(Pause::Stopped),
            Verdict::Refuse => {
                *refused = Some(document);
                return Ok(Pause::Stopped);
            }
        }
        if policy.should_yield() {
            return Ok(Pause::Sliced);
        }
    }
}
