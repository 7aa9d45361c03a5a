//! A node of nothing, for tests of what every server has.

use crate::command::Command;
use crate::concern::WriteConcern;
use crate::error::CommandResult;
use crate::host::Host;
use crate::node::Node;
use crate::parameters::Parameters;
use crate::server::ServiceContext;
use std::sync::Arc;
use std::time::Duration;

impl Node for () {
    type Source = ();
    type Receipts = ();

    fn commands() -> &'static [&'static Command<Self>] {
        &[]
    }

    fn source(&self) -> &() {
        &()
    }

    fn has_collection(&self, _database: &str, _name: &str) -> bool {
        false
    }

    async fn acknowledged(&self, _receipts: &(), _concern: &WriteConcern, _database: &str) -> CommandResult {
        Ok(())
    }

    fn waited(_receipts: &()) -> Duration {
        Duration::ZERO
    }
}

/// A server that has the generic commands only.
pub(crate) fn server() -> Arc<ServiceContext<()>> {
    ServiceContext::new((), Arc::new(Parameters::default()), Host::detached()).expect("threads are to be had")
}
