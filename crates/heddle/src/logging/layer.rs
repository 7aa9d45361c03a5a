//! Takes events from `tracing` and hands their lines to the log.

use super::{Log, line};
use std::sync::Arc;
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// The only layer of the process.
pub(super) struct JsonLayer {
    log: Arc<Log>,
}

impl JsonLayer {
    pub(super) const fn new(log: Arc<Log>) -> Self {
        JsonLayer { log }
    }
}

impl<S: Subscriber> Layer<S> for JsonLayer {
    /// Answers are kept by `tracing` until the verbosity changes, so that events that are off cost a load.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match self.log.verbosity.allows(metadata.target(), *metadata.level()) {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _context: Context<'_, S>) -> bool {
        self.log.verbosity.allows(metadata.target(), *metadata.level())
    }

    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        let level = *event.metadata().level();
        let line = line::write(event, self.log.redacts());
        self.log.write(line, level <= Level::WARN);
    }
}
