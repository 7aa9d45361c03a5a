//! Sorted runs on disk: what a sort puts aside when it needs more memory than it may have.

use crate::parameters::{Parameter, Parameters};
use query::QueryError;
use query::aggregate::SpillStore;
use query::sort::{RunReader, RunRecord, RunStore};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::Store;

/// Code of an error of the operating system (`FileStreamFailed`).
const FILE_STREAM_FAILED: i32 = 39;
const BUFFER_BYTES: usize = 256 << 10;

/// Numbers the files of this process.
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

/// A directory for sorted runs. Each run is a file that has no name any more once it is open, so that nothing
/// of it is left when the sort or the process ends.
#[derive(Debug, Clone)]
pub(crate) struct Spill {
    directory: Arc<Path>,
    /// Whose disk it is.
    store: Option<Store>,
}

impl Spill {
    /// Spills into this directory, which is made when it is first needed.
    #[cfg(test)]
    pub(crate) fn into_directory(directory: PathBuf) -> Self {
        Spill { directory: directory.into(), store: None }
    }

    /// Spills into `_tmp` of the data directory; into the system's own where there is none (a store in
    /// memory). Looks at the disk: a server does so once, at its start.
    pub(crate) fn beside_data(parameters: &Parameters, store: &Store) -> Self {
        let data = PathBuf::from(parameters.text(Parameter::DbPath));
        let directory = if data.is_dir() { data.join("_tmp") } else { std::env::temp_dir() };
        Spill { directory: directory.into(), store: Some(store.clone()) }
    }

    /// A place for the runs of one sort.
    pub(crate) fn run_store(&self) -> Box<dyn RunStore> {
        Box::new(FileRuns { spill: self.clone(), files: Vec::new() })
    }
}

impl SpillStore for Spill {
    fn runs(&self) -> Result<Box<dyn RunStore>, QueryError> {
        Ok(self.run_store())
    }
}

#[derive(Debug)]
struct FileRuns {
    spill: Spill,
    files: Vec<File>,
}

impl FileRuns {
    fn create(&self) -> std::io::Result<File> {
        let directory = &self.spill.directory;
        std::fs::create_dir_all(directory)?;
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!("sort-{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

impl RunStore for FileRuns {
    fn write_run(&mut self, records: &mut dyn RunReader) -> Result<(), QueryError> {
        if let Some(Err(error)) = self.spill.store.as_ref().map(Store::check_room) {
            return Err(QueryError::new(wire::ErrorCode::OutOfDiskSpace as i32, error.to_string()));
        }
        let file = self.create().map_err(|error| failed(&error))?;
        let mut writer = BufWriter::with_capacity(BUFFER_BYTES, file);
        let mut record = RunRecord::default();
        while records.read_next(&mut record)? {
            write(&mut writer, &record).map_err(|error| failed(&error))?;
        }
        let file = writer.into_inner().map_err(|error| failed(error.error()))?;
        self.files.push(file);
        Ok(())
    }

    fn open_runs(&mut self, most: usize) -> Result<Vec<Box<dyn RunReader>>, QueryError> {
        let mut readers: Vec<Box<dyn RunReader>> = Vec::with_capacity(most);
        for mut file in self.files.drain(..most.min(self.files.len())) {
            std::io::Seek::rewind(&mut file).map_err(|error| failed(&error))?;
            readers.push(Box::new(FileRun { reader: BufReader::with_capacity(BUFFER_BYTES, file) }));
        }
        Ok(readers)
    }
}

fn write(writer: &mut impl Write, record: &RunRecord) -> std::io::Result<()> {
    writer.write_all(&(record.key.len() as u32).to_le_bytes())?;
    writer.write_all(&(record.document.len() as u32).to_le_bytes())?;
    writer.write_all(&record.key)?;
    writer.write_all(&record.document)
}

#[derive(Debug)]
struct FileRun {
    reader: BufReader<File>,
}

impl FileRun {
    /// The lengths of key and document; `None` at the end.
    fn lengths(&mut self) -> std::io::Result<Option<(usize, usize)>> {
        let mut length = [0; 4];
        match self.reader.read_exact(&mut length) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other?,
        }
        let key = u32::from_le_bytes(length) as usize;
        self.reader.read_exact(&mut length)?;
        Ok(Some((key, u32::from_le_bytes(length) as usize)))
    }

    fn read(&mut self, record: &mut RunRecord) -> std::io::Result<bool> {
        let Some((key, document)) = self.lengths()? else { return Ok(false) };
        record.key.resize(key, 0);
        record.document.resize(document, 0);
        self.reader.read_exact(&mut record.key)?;
        self.reader.read_exact(&mut record.document)?;
        Ok(true)
    }
}

impl RunReader for FileRun {
    fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
        self.read(record).map_err(|error| failed(&error))
    }
}

fn failed(error: &std::io::Error) -> QueryError {
    let code = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => wire::ErrorCode::OutOfDiskSpace as i32,
        _ => FILE_STREAM_FAILED,
    };
    QueryError::new(code, format!("a sort could not use its file on disk: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Records(std::vec::IntoIter<RunRecord>);

    impl RunReader for Records {
        fn read_next(&mut self, record: &mut RunRecord) -> Result<bool, QueryError> {
            Ok(self.0.next().map(|next| *record = next).is_some())
        }
    }

    #[test]
    fn runs_come_back_and_leave_nothing() {
        let directory = std::env::temp_dir().join(format!("heddle-spill-{}", std::process::id()));
        let mut runs = Spill::into_directory(directory.clone()).run_store();
        let record =
            |key: &str, document: &str| RunRecord { key: key.into(), document: document.as_bytes().to_vec() };
        let records = vec![record("a", "one"), record("b", "")];
        for written in [records.clone(), Vec::new(), vec![record("c", "two")]] {
            runs.write_run(&mut Records(written.into_iter())).expect("room on the disk");
        }
        assert_eq!(std::fs::read_dir(&directory).expect("the directory").count(), 0, "no file has a name");
        let mut readers = runs.open_runs(2).expect("the runs are there");
        assert_eq!(readers.len(), 2);
        let mut read = RunRecord::default();
        for expect in records {
            assert!(readers.first_mut().expect("a run").read_next(&mut read).expect("readable"));
            assert_eq!(read, expect);
        }
        for reader in &mut readers {
            assert!(!reader.read_next(&mut read).expect("readable"), "the run is over");
        }
        assert_eq!(runs.open_runs(2).expect("the last run").len(), 1);
        std::fs::remove_dir(directory).expect("the directory is empty");
    }
}
