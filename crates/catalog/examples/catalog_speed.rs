//! Times the catalog's hot paths on RocksDB: bulk load, find by `_id`, update, index build, scan.
//!
//! `cargo run --release -p catalog --example catalog_speed [documents]`

use catalog::{Catalog, Collection, Decision, IndexSpec, Namespace, OperationContext, Receipts, WriteError};
use document::{DocumentBuf, RawDocument, RawValue, doc};
use pollster::block_on;
use std::time::Instant;
use storage::{CursorOptions, Direction, ReadTier, StorageOptions, Store};

fn timed<R>(name: &str, operations: usize, run: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = run();
    let elapsed = start.elapsed();
    println!(
        "{name:<28} {:>9.3} s {:>9.3} µs each",
        elapsed.as_secs_f64(),
        elapsed.as_secs_f64() * 1e6 / operations as f64
    );
    result
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count: usize = std::env::args().nth(1).map_or(Ok(100_000), |count| count.parse())?;
    let directory = tempfile::tempdir()?;
    let store = Store::open(directory.path().join("data"), &StorageOptions::default())?;
    let catalog = Catalog::open(store.clone())?;
    let receipts = Receipts::default();
    let context = OperationContext::writing(&store, &receipts);
    let things = block_on(catalog.collection_or_create(&context, "bench", "things"))?;
    let pad = "x".repeat(950);
    let documents: Vec<DocumentBuf> = (0..count)
        .map(|id| doc! { "_id": id as i32, "n": (id % 1000) as i32, "pad": pad.as_str() }.to_buf())
        .collect();
    let raw: Vec<_> = documents.iter().map(DocumentBuf::as_raw).collect();
    let report = timed("bulk insert", count, || block_on(things.insert_many(&context, &raw, true)));
    assert_eq!(report.inserted, count);
    let view = store.read_view();
    timed("find by _id", count, || {
        (0..count)
            .filter(|id| {
                let id = (id * 7919 % count) as i32;
                things.get(&view, RawValue::Int32(id), ReadTier::Any).is_ok_and(|found| found.is_some())
            })
            .count()
    });
    timed("the storage get alone", count, || {
        let mut key = things.id().to_be_bytes().to_vec();
        (0..count)
            .filter(|id| {
                key.truncate(4);
                document::key::encode_value(&mut key, RawValue::Int32((id * 7919 % count) as i32));
                view.get(storage::Keyspace::Documents, &key).is_ok_and(|found| found.is_some())
            })
            .count()
    });
    timed("update of one field by _id", count, || {
        (0..count).try_for_each(|id| {
            let key = Collection::document_key_of_id(RawValue::Int32((id * 7919 % count) as i32));
            block_on(things.update(&context, &key, |found: Option<RawDocument<'_>>| {
                let mut bytes = found.map(|found| found.as_bytes().to_vec()).unwrap_or_default();
                // `_id` takes 9 bytes behind the length, `n` its type and name 3: the number is at 16.
                if let Some(byte) = bytes.get_mut(16) {
                    *byte ^= 1;
                }
                Ok::<_, WriteError>(Decision::Replace(DocumentBuf::trusted(bytes)))
            }))
            .map(drop)
        })
    })?;
    timed("scan", count, || -> Result<(), catalog::ReadError> {
        let mut cursor =
            things.documents(&view, Default::default(), Direction::Forward, CursorOptions::default())?;
        while cursor.next()?.is_some() {}
        Ok(())
    })?;
    let spec = IndexSpec::parse(doc! { "key": { "n": 1 }, "name": "n" }.to_buf().as_raw())?;
    timed("index build", count, || {
        let namespace = Namespace::new("bench", "things");
        block_on(catalog.create_indexes(&context, &namespace, std::slice::from_ref(&spec)))
    })?;
    let report = timed("validate", count, || block_on(things.validate(|| store.pinned_view())))?;
    assert!(report.is_valid(), "{report:?}");
    Ok(())
}
