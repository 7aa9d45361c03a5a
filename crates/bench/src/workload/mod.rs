//! Workloads.

#[cfg(test)]
mod chi_square;
mod distribution;
mod keys;
mod random;
mod zipf;
