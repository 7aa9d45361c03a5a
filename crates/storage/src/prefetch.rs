//! Asking for memory before it is needed.
#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "an instruction of the processor"))]

pub(crate) const CACHE_LINE_BYTES: usize = 64;
/// More than this the processor cannot have under way, and fetches by itself.
const BYTES_MAX: usize = 1 << 10;

/// Has the processor fetch so many bytes from here on, as far as it pays.
#[inline]
pub(crate) fn prefetch(start: *const u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for offset in (0..bytes.min(BYTES_MAX)).step_by(CACHE_LINE_BYTES) {
            // SAFETY: a prefetch is a hint: it reads nothing and cannot fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes.min(BYTES_MAX));
}
