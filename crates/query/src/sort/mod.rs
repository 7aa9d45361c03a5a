//! Sort patterns, sort keys, and sorting within a byte limit.
