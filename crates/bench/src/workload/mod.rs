//! Workloads.

#[cfg(test)]
mod chi_square;
mod distribution;
mod keys;
mod plan;
mod random;
mod template;
mod zipf;
