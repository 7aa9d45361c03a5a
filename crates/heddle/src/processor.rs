//! Whether the processor has what the program was compiled for (`.cargo/config.toml`).

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__cpuid;

/// Instructions that the compiler was allowed to use, by their bit in register ECX of CPUID leaf 1.
#[cfg(target_arch = "x86_64")]
const NEEDED: [(&str, u32, bool); 6] = [
    ("SSE3", 0, cfg!(target_feature = "sse3")),
    ("PCLMULQDQ", 1, cfg!(target_feature = "pclmulqdq")),
    ("SSSE3", 9, cfg!(target_feature = "ssse3")),
    ("SSE4.1", 19, cfg!(target_feature = "sse4.1")),
    ("SSE4.2", 20, cfg!(target_feature = "sse4.2")),
    ("POPCNT", 23, cfg!(target_feature = "popcnt")),
];

/// The program would end with an illegal instruction sooner or later.
#[derive(Debug, thiserror::Error)]
#[error(
    "this program was built for processors with {missing}, which this one lacks: build it here with \
    RUSTFLAGS=\"\" make build"
)]
pub(crate) struct TooOld {
    missing: String,
}

/// # Errors
/// The processor lacks instructions, which the error names.
pub(crate) fn check() -> Result<(), TooOld> {
    #[cfg(target_arch = "x86_64")]
    check_features(__cpuid(1).ecx)?;
    Ok(())
}

#[cfg(target_arch = "x86_64")]
fn check_features(has: u32) -> Result<(), TooOld> {
    let lacks = NEEDED.iter().filter(|(_, bit, needed)| *needed && has & (1 << bit) == 0);
    let missing: Vec<_> = lacks.map(|(name, ..)| *name).collect();
    if missing.is_empty() { Ok(()) } else { Err(TooOld { missing: missing.join(", ") }) }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn a_processor_that_lacks_instructions_is_named_what_it_lacks() {
        assert!(check().is_ok(), "this test runs");
        assert!(check_features(u32::MAX).is_ok());
        let without = check_features(!(1 << 20));
        let told = without.err().map(|error| error.to_string()).unwrap_or_default();
        // Whoever builds with other flags needs less.
        let expected = if cfg!(target_feature = "sse4.2") { "processors with SSE4.2, which" } else { "" };
        assert!(told.contains(expected), "{told}");
    }
}
