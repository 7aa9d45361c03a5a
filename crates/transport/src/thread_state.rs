//! What the kernel says that a thread of this process does: `/proc/self/task/<id>/stat` (proc(5)).

use std::fs::File;
use std::io::Read;

/// `R` for running or ready to, `D` for waiting for the disk, `S` for any other wait; `None` when the kernel
/// does not say.
pub(crate) fn state_of(thread: u32) -> Option<u8> {
    // The state follows the name, which is at most 15 bytes long.
    let mut line = [0; 64];
    let mut file = File::open(format!("/proc/self/task/{thread}/stat")).ok()?;
    let length = file.read(&mut line).ok()?;
    state_in(line.get(..length)?)
}

/// The name stands in parentheses and may contain any bytes: the state follows the last parenthesis, within
/// what was read.
fn state_in(line: &[u8]) -> Option<u8> {
    let name_end = line.iter().rposition(|byte| *byte == b')')?;
    line.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use super::state_in;

    #[test]
    fn states_are_found_behind_any_name() {
        assert_eq!(state_in(b"17 (pool 1) R 1 2 3"), Some(b'R'));
        assert_eq!(state_in(b"17 (a) D (b) S 1 2 3"), Some(b'S'));
        assert_eq!(state_in(b"17 (cut of"), None);
        assert_eq!(state_in(b"17 (cut)"), None);
    }
}
