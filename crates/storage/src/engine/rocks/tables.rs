//! Table files written beside the database and taken into it.

use std::path::{Path, PathBuf};

use rocksdb::{IngestExternalFileOptions, SstFileWriter};

use super::errors::storage_error;
use super::{Database, options};
use crate::engine::table::{FinishedTable, TableContent, TableRows};
use crate::error::StorageError;
use crate::keyspace::Keyspace;

/// How many rows are written between two looks at the size of the file.
const ROWS_PER_LOOK: usize = 1024;

impl Database {
    /// As [`crate::Engine::write_tables`]: files of the usual size of tables.
    pub(super) fn write_tables(
        &self,
        keyspace: Keyspace,
        rows: &mut dyn TableRows,
        path: &Path,
    ) -> Result<Vec<FinishedTable>, StorageError> {
        let storage_options = self.current_options();
        let mut family = options::keyspace_options(keyspace, &storage_options, &self.cache);
        self.files.install(&mut family);
        let mut tables = Vec::new();
        loop {
            let mut name = path.as_os_str().to_owned();
            name.push(format!("-{}.sst", tables.len()));
            let file = PathBuf::from(name);
            // Before the file is there, so that none is left when writing it fails.
            let table = FinishedTable { content: TableContent::File(file.clone()) };
            let mut writer = SstFileWriter::create(&family);
            let mut is_open = false;
            let is_full = loop {
                if is_open && writer.file_size() >= storage_options.table_bytes {
                    break true;
                }
                let mut written = 0;
                while written < ROWS_PER_LOOK
                    && let Some((key, value)) = rows.next()?
                {
                    if !std::mem::replace(&mut is_open, true) {
                        writer.open(&file).map_err(storage_error)?;
                    }
                    writer.put(key, value).map_err(storage_error)?;
                    written += 1;
                }
                if written < ROWS_PER_LOOK {
                    break false;
                }
            };
            if is_open {
                writer.finish().map_err(storage_error)?;
                tables.push(table);
            }
            if !is_full {
                return Ok(tables);
            }
        }
    }

    /// As [`crate::Engine::ingest`]: the files are moved. One sequence number covers all of them where a
    /// reader of an older state is open or their range is not empty.
    pub(super) fn ingest(&self, keyspace: Keyspace, tables: &[FinishedTable]) -> Result<(), StorageError> {
        let paths: Vec<&Path> = tables
            .iter()
            .map(|table| match &table.content {
                TableContent::File(path) => path.as_path(),
                TableContent::Memory(_) => panic!("a table in memory came to an engine of files"),
            })
            .collect();
        if paths.is_empty() {
            return Ok(());
        }
        let mut ingestion = IngestExternalFileOptions::default();
        ingestion.set_move_files(true);
        ingestion.set_snapshot_consistency(true);
        let family = self.family(keyspace);
        self.rocks.ingest_external_file_cf_opts(family, &ingestion, paths).map_err(storage_error)
    }
}
