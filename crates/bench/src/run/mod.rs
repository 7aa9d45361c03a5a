//! Run.
mod connection_string;
mod load_phase;
mod loader;
mod topology;
