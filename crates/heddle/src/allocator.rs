//! The C library's allocator, set up for very many small lives.
//!
//! It gives threads arenas of their own, eight for each core, and what one thread frees of another's arena fills only there. A
//! connection is born on the lane's thread and lives on a loop's: with many arenas the holes of births stay empty. Measured
//! with 8,000 connections whose first requests came at once: 5.0 to 7.1 KiB resident each with the default, 3.0 to 3.5 with two
//! arenas on two cores, at the same processor time per request (`docs/design/thread-models.md`).

/// As many arenas as cores. To be called before other threads start.
pub(crate) fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = libc::c_int::try_from(cores).unwrap_or(libc::c_int::MAX);
        // SAFETY: no other thread runs yet, and the parameter is one that the C library documents. A refusal (0) leaves the default,
        // which costs memory only.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }
}
