//! Plan choice.
