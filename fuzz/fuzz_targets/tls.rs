#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    transport::tls_law::check(bytes);
});
