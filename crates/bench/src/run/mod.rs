//! Run.
mod connection_string;
