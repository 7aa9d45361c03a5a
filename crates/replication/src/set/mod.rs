//! A replica set as its operators and clients see it: what it is made of, and what they are told.

pub mod config;
mod error;

pub use config::{Copies, MemberConfig, ReplSetConfig, Settings};
pub use error::SetError;
