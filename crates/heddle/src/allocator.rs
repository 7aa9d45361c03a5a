//! The C library's allocator, set up for very many small lives and for a large cache.
//!
//! **Arenas.** It gives threads arenas of their own, eight for each core, and what one thread frees of another's arena fills only
//! there. A connection is born on the lane's thread and lives on a loop's: with many arenas the holes of births stay empty. With as many
//! as cores, two loops came to share one and waited for each other. So there are two for each core, and one.
//!
//! **Huge pages.** Memtables and cached blocks fill fresh memory all the time, and each fresh page is a fault, which is dear on
//! virtual machines. Where the kernel gives huge pages on request only (`madvise`), the allocator requests them if it is
//! told so before the program starts: there is no call for it. So the program starts itself once more.
//!
//! Figures: `docs/design/thread-models.md`.

#[cfg(target_env = "gnu")]
mod gnu {
    use std::env;
    use std::ffi::OsString;
    use std::fs;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    /// The C library reads its settings here, separated by colons.
    const TUNABLES: &str = "GLIBC_TUNABLES";
    const HUGE_PAGES: &str = "glibc.malloc.hugetlb";
    /// When the kernel gives huge pages; the setting in force stands in brackets.
    const KERNEL_SETTING: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

    pub(crate) fn limit_arenas() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let arenas = libc::c_int::try_from(2 * cores + 1).unwrap_or(libc::c_int::MAX);
        // SAFETY: no other thread runs yet, and the parameter is one that the C library documents. A refusal (0) leaves the default,
        // which costs memory only.
        let _ = unsafe { libc::mallopt(libc::M_ARENA_MAX, arenas) };
    }

    pub(crate) fn request_huge_pages() {
        let on_request = fs::read_to_string(KERNEL_SETTING).is_ok_and(|modes| modes.contains("[madvise]"));
        let Some(tunables) = with_huge_pages(env::var_os(TUNABLES)).filter(|_| on_request) else { return };
        let Ok(program) = env::current_exe() else { return };
        let mut arguments = env::args_os();
        let mut command = Command::new(program);
        if let Some(name) = arguments.next() {
            command.arg0(name);
        }
        // Returns only when it fails; then the server runs without.
        let _ = command.args(arguments).env(TUNABLES, tunables).exec();
    }

    /// The settings with the one for huge pages added; `None` when it is there already, whatever it says.
    fn with_huge_pages(given: Option<OsString>) -> Option<OsString> {
        let Some(mut tunables) = given.filter(|given| !given.is_empty()) else {
            return Some(format!("{HUGE_PAGES}=1").into());
        };
        if tunables.to_string_lossy().contains(HUGE_PAGES) {
            return None;
        }
        tunables.push(format!(":{HUGE_PAGES}=1"));
        Some(tunables)
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn the_program_starts_itself_once_at_most() {
            let added = |given: Option<&str>| with_huge_pages(given.map(Into::into));
            let first = added(None);
            assert_eq!(first, Some("glibc.malloc.hugetlb=1".into()));
            assert_eq!(with_huge_pages(first), None, "it would start itself for ever");
            assert_eq!(added(Some("")), Some("glibc.malloc.hugetlb=1".into()));
            assert_eq!(
                added(Some("glibc.malloc.check=3")),
                Some("glibc.malloc.check=3:glibc.malloc.hugetlb=1".into())
            );
            assert_eq!(added(Some("glibc.malloc.hugetlb=0")), None, "the operator's word counts");
        }
    }
}

/// A few arenas for each core. To be called before other threads start.
pub(crate) fn limit_arenas() {
    #[cfg(target_env = "gnu")]
    gnu::limit_arenas();
}

/// Starts this program once more, as the same process, with an allocator that requests huge pages; returns where that is of no use.
/// To be called before anything was opened.
pub(crate) fn request_huge_pages() {
    #[cfg(target_env = "gnu")]
    gnu::request_huge_pages();
}
