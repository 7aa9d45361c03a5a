//! Aggregation pipelines: parsing, stages, and the pull model that runs them.
