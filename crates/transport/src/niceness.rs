//! How much a thread yields to others, or others to it.

/// Makes the calling thread nicer than the process by this much, or less nice if negative (setpriority(2):
/// each step is worth about a tenth of the processor time). Where the system does not allow that, it competes
/// as an equal.
pub(crate) fn shift(by: i32) {
    if let Ok(usual) = rustix::process::getpriority_process(None) {
        // No thread but the calling one is meant by `None`, and the kernel bounds the sum.
        let _ = rustix::process::setpriority_process(None, usual + by);
    }
}
