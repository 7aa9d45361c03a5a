//! The connection loop against simulated clients: every phase, every way to end.

mod ending;
mod loop_order;
mod service;
