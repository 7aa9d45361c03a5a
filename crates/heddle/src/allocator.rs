//! The allocator of the whole process: mimalloc, in the place of the C library's, so that RocksDB's memory
//! comes from it as well.
//!
//! Memtables and cached blocks come and go by the hundred megabytes. What is given back to the kernel between
//! two of them costs a page fault for each 4 KiB when it is wanted again, so free memory is kept for a while.
//! Huge pages (`no_thp` leaves them out) took a tenth off the updates.
//!
//! Figures: `docs/design/thread-models.md`.
#![expect(unsafe_code, reason = "the interface of mimalloc")]

use std::ffi::c_long;
use std::time::Duration;

use libmimalloc_sys::{mi_collect, mi_option_set_default, mi_option_t, mi_process_info};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of mimalloc.h, which the binding leaves out.
const PURGE_DELAY: mi_option_t = 15;

/// Keeps free memory for so long before it goes back to the kernel, unless `MIMALLOC_PURGE_DELAY` in the
/// environment says otherwise.
pub(crate) fn keep_free_memory(time: Duration) {
    let milliseconds = c_long::try_from(time.as_millis()).unwrap_or(c_long::MAX);
    // SAFETY: changes one word that mimalloc reads as it is. The option's number belongs to the version that
    // is linked; the test below compares its default.
    unsafe { mi_option_set_default(PURGE_DELAY, milliseconds) };
}

/// Bytes that the allocator has from the kernel now.
pub(crate) fn committed_bytes() -> u64 {
    let mut figures = [0_usize; 8];
    let [elapsed, user, system, resident, resident_max, committed, committed_max, faults] = &mut figures;
    // SAFETY: writes one word through each pointer.
    unsafe {
        mi_process_info(elapsed, user, system, resident, resident_max, committed, committed_max, faults)
    };
    *committed as u64
}

/// Gives back what has been free for longer than [`keep_free_memory`] says. The allocator looks for it only
/// when memory is asked for, and a server that idles asks for none.
pub(crate) fn give_back_expired() {
    // SAFETY: it frees memory that nobody uses.
    unsafe { mi_collect(false) };
}

/// As [`give_back_expired`], and frees what the calling thread keeps for itself. Not forced: that would give
/// back at once what other threads have freed just now.
pub(crate) fn give_back_of_thread() {
    /// A page that a thread keeps in reserve is freed when the thread has looked at it so often
    /// (`MI_RETIRE_CYCLES` in mimalloc's `page.c`).
    const LOOKS: usize = 16;
    (0..LOOKS).for_each(|_| give_back_expired());
}

/// Gives all free memory back to the kernel at once, what other threads have freed just now as well: for when
/// memory is short.
pub(crate) fn give_back_all() {
    // SAFETY: it frees memory that nobody uses.
    unsafe { mi_collect(true) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use libmimalloc_sys::{mi_is_in_heap_region, mi_option_get};

    #[test]
    fn tells_what_it_holds() {
        const BLOCK: usize = 64 << 20;
        let before = committed_bytes();
        let block = vec![1_u8; BLOCK];
        assert!(committed_bytes() >= before.max(BLOCK as u64), "before {before}, with {} more", block.len());
    }

    #[test]
    fn serves_the_c_library_as_well() {
        // SAFETY: the block is freed by its allocator, once.
        unsafe {
            let block = libc::malloc(100);
            assert!(mi_is_in_heap_region(block));
            libc::free(block);
        }
    }

    #[test]
    fn the_purge_delay_has_this_number() {
        // SAFETY: reads one word.
        let default = unsafe { mi_option_get(PURGE_DELAY) };
        assert_eq!(
            default, 1_000,
            "mimalloc 3 purges after a second by default, and no other option has this default"
        );
        keep_free_memory(Duration::from_secs(60));
        // SAFETY: as above.
        assert_eq!(unsafe { mi_option_get(PURGE_DELAY) }, 60_000);
    }
}
