//! Aggregation expressions: one operator table, parsing and evaluation.
