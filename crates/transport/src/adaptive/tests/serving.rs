//! The running model, fed with tasks that are no connections.
