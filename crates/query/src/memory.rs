//! The account of one operation: what its sorts, groups and joins hold in memory together.
//!
//! Each of them has a limit of its own, as in MongoDB. A pipeline can have a thousand, though: when all of
//! them together hold more than the operation may, whoever wants more puts aside what it has, or is refused
//! as if it had passed its own limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What one operation holds.
#[derive(Debug, Clone)]
pub struct Memory {
    most: usize,
    /// One thread at a time works on an operation; it need not be the same one.
    used: Arc<AtomicUsize>,
}

impl Memory {
    /// An account of this many bytes.
    pub fn of(most: usize) -> Self {
        Memory { most, used: Arc::default() }
    }

    /// Bytes that are held now.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// The part of one holder, which holds nothing yet.
    pub fn part(&self) -> MemoryPart {
        MemoryPart { account: self.clone(), bytes: 0 }
    }
}

impl Default for Memory {
    /// An account without a limit.
    fn default() -> Self {
        Memory::of(usize::MAX)
    }
}

/// What one holder has of an account; given back when it is dropped.
#[derive(Debug)]
pub struct MemoryPart {
    account: Memory,
    bytes: usize,
}

/// Holders of less are left alone: what they put aside would hardly make a difference.
const SMALL_BYTES: usize = 1 << 20;

impl MemoryPart {
    /// Says how many bytes are held now.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes >= self.bytes {
            self.account.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        } else {
            self.account.used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
    }

    /// Bytes that are held.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether this holder has to give way: it has more than `most`, or the operation has more than it may,
    /// and this holder a part of it that counts.
    #[inline]
    pub fn is_over(&self, most: usize) -> bool {
        self.bytes > most || self.bytes > SMALL_BYTES.min(most / 8) && self.account.used() > self.account.most
    }
}

impl Drop for MemoryPart {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_count_together() {
        let account = Memory::of(1_000);
        let (mut one, mut other) = (account.part(), account.part());
        one.set(600);
        other.set(300);
        assert!(!one.is_over(800) && !other.is_over(800), "together 900 of 1,000");
        other.set(500);
        assert!(one.is_over(800) && other.is_over(800), "together 1,100");
        let mut small = account.part();
        small.set(50);
        assert!(!small.is_over(800), "there is nothing to be gained from so little");
        drop(one);
        assert_eq!(account.used(), 550);
        assert!(!other.is_over(800) && other.is_over(400));
    }
}
