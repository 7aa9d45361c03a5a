//! A server for unit tests: in memory, without surroundings.

use crate::host::Host;
use crate::parameters::Parameters;
use crate::server::Server;
use catalog::Catalog;
use std::sync::Arc;
use storage::{StorageOptions, Store};

/// A fresh server.
pub(crate) fn server() -> Arc<Server> {
    let store = Store::in_memory(&StorageOptions::small()).expect("memory is to be had");
    let catalog = Catalog::open(store).expect("an empty store has a catalog");
    Server::new(Arc::new(Parameters::default()), catalog, Host::detached()).expect("threads are to be had")
}
