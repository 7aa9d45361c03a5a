//! Compiles the few calls of RocksDB's that its C interface lacks (`*.cc` in `src/engine/rocks`).

fn main() {
    const SHIMS: [&str; 3] =
        ["src/engine/rocks/compressor.cc", "src/engine/rocks/limiter.cc", "src/engine/rocks/sealed.cc"];
    for shim in SHIMS {
        println!("cargo:rerun-if-changed={shim}");
    }
    println!("cargo:rerun-if-env-changed=ROCKSDB_CXX_STD");
    // Told by the build script of librocksdb-sys, on which this crate depends directly: the headers are those
    // of the library that is linked.
    let sources = std::env::var("DEP_ROCKSDB_CARGO_MANIFEST_DIR")
        .expect("librocksdb-sys tells where its sources are (DEP_ROCKSDB_CARGO_MANIFEST_DIR)");
    // As that script chooses it.
    let standard = std::env::var("ROCKSDB_CXX_STD").unwrap_or_else(|_| "c++20".to_owned());
    let mut build = cc::Build::new();
    // As the crate itself (`make sanitize`).
    println!("cargo:rerun-if-env-changed=SANITIZER");
    if let Ok(sanitizer) = std::env::var("SANITIZER") {
        build.flag(format!("-fsanitize={sanitizer}")).flag("-fno-omit-frame-pointer");
    }
    build
        .cpp(true)
        .include(format!("{sources}/rocksdb/include"))
        .flag(format!("-std={}", standard.trim_start_matches("-std=")))
        .flag("-include")
        .flag("cstdint")
        .define("NDEBUG", "1")
        .warnings(false)
        .files(SHIMS)
        .compile("heddle_shims");
}
