//! Compiles the few calls of RocksDB's that its C interface lacks (`src/engine/rocks/limiter.cc`).

fn main() {
    const SHIM: &str = "src/engine/rocks/limiter.cc";
    println!("cargo:rerun-if-changed={SHIM}");
    println!("cargo:rerun-if-env-changed=ROCKSDB_CXX_STD");
    // Told by the build script of librocksdb-sys, on which this crate depends directly: the headers are those
    // of the library that is linked.
    let sources = std::env::var("DEP_ROCKSDB_CARGO_MANIFEST_DIR")
        .expect("librocksdb-sys tells where its sources are (DEP_ROCKSDB_CARGO_MANIFEST_DIR)");
    // As that script chooses it.
    let standard = std::env::var("ROCKSDB_CXX_STD").unwrap_or_else(|_| "c++20".to_owned());
    cc::Build::new()
        .cpp(true)
        .include(format!("{sources}/rocksdb/include"))
        .flag(format!("-std={}", standard.trim_start_matches("-std=")))
        .flag("-include")
        .flag("cstdint")
        .define("NDEBUG", "1")
        .warnings(false)
        .file(SHIM)
        .compile("heddle_limiter");
}
