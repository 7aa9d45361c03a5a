//! Sorted runs on disk: what a sort puts aside when it needs more memory than it may have.

use crate::parameters::{Parameter, Parameters};
use query::QueryError;
use query::memory::MemoryPool;
use query::sort::{RunReader, RunRecord, RunWriter, SortedRun, SpillStore};
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use storage::{Store, Vault, VaultReader, VaultWriter};

/// Code of an error of the operating system (`FileStreamFailed`).
const FILE_STREAM_FAILED: i32 = 39;
/// Of each file that is written or merged.
const BUFFER_BYTES: std::ops::RangeInclusive<usize> = 16 << 10..=256 << 10;
/// A sort may have some hundred files open; their buffers are to be small beside what all sorts may hold.
const BUFFERS_PER_POOL: usize = 4096;

/// Numbers the files of this process.
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

/// A directory for sorted runs. Each run is a file that has no name any more once it is open, so that nothing
/// of it is left when the sort or the process ends.
#[derive(Debug, Clone)]
pub(crate) struct Spill {
    directory: Arc<Path>,
    /// Whose disk it is.
    store: Option<Store>,
    /// How its files are written.
    vault: Vault,
    buffer_bytes: usize,
}

impl Spill {
    /// Spills into this directory, which is made when it is first needed.
    #[cfg(test)]
    pub(crate) fn into_directory(directory: PathBuf) -> Self {
        let (store, vault) = (None, Vault::default());
        Spill { directory: directory.into(), store, vault, buffer_bytes: *BUFFER_BYTES.start() }
    }

    /// Spills into `_tmp` of the data directory; into the system's own where there is none (a store in
    /// memory). Looks at the disk: a server does so once, at its start.
    pub(crate) fn beside_data(parameters: &Parameters, store: &Store) -> Self {
        let data = PathBuf::from(parameters.text(Parameter::DbPath));
        let directory = if data.is_dir() { data.join("_tmp") } else { std::env::temp_dir() };
        let (vault, store) = (store.vault(), Some(store.clone()));
        Spill { directory: directory.into(), store, vault, buffer_bytes: *BUFFER_BYTES.end() }
    }

    /// The same for sorts that have their memory from this pool.
    pub(crate) fn within(&self, pool: &MemoryPool) -> Self {
        let share = pool.most() / BUFFERS_PER_POOL;
        Spill { buffer_bytes: share.clamp(*BUFFER_BYTES.start(), *BUFFER_BYTES.end()), ..self.clone() }
    }

    fn create(&self) -> std::io::Result<File> {
        std::fs::create_dir_all(&self.directory)?;
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let path = self.directory.join(format!("sort-{}-{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path)?;
        std::fs::remove_file(&path)?;
        Ok(file)
    }
}

impl SpillStore for Spill {
    fn create_run(&self) -> Result<Box<dyn RunWriter>, QueryError> {
        if let Some(Err(error)) = self.store.as_ref().map(Store::check_room) {
            return Err(QueryError::new(wire::ErrorCode::OutOfDiskSpace as i32, error.to_string()));
        }
        let file = self.create().map_err(|error| failed(&error))?;
        let file = self.vault.write_to(file).map_err(|error| failed(&error))?;
        let file = BufWriter::with_capacity(self.buffer_bytes, file);
        Ok(Box::new(FileWriter { file, vault: self.vault.clone(), buffer_bytes: self.buffer_bytes }))
    }
}

#[derive(Debug)]
struct FileWriter {
    file: BufWriter<VaultWriter>,
    vault: Vault,
    buffer_bytes: usize,
}

impl RunWriter for FileWriter {
    fn write(&mut self, record: &RunRecord) -> Result<(), QueryError> {
        write(&mut self.file, record).map_err(|error| failed(&error))
    }

    fn finish(self: Box<Self>) -> Result<Box<dyn SortedRun>, QueryError> {
        let written = self.file.into_inner().map_err(|error| failed(error.error()))?;
        let file = written.finish().map_err(|error| failed(&error))?;
        Ok(Box::new(FileRun { file, vault: self.vault, buffer_bytes: self.buffer_bytes }))
    }
}

#[derive(Debug)]
struct FileRun {
    file: File,
    vault: Vault,
    buffer_bytes: usize,
}

impl SortedRun for FileRun {
    fn open(mut self: Box<Self>) -> Result<Box<dyn RunReader>, QueryError> {
        std::io::Seek::rewind(&mut self.file).map_err(|error| failed(&error))?;
        let file = self.vault.read_from(self.file).map_err(|error| failed(&error))?;
        Ok(Box::new(FileReader { reader: BufReader::with_capacity(self.buffer_bytes, file) }))
    }
}

fn write(writer: &mut impl Write, record: &RunRecord) -> std::io::Result<()> {
    writer.write_all(&(record.key.len() as u32).to_le_bytes())?;
    writer.write_all(&(record.document.len() as u32).to_le_bytes())?;
    writer.write_all(&record.key)?;
    writer.write_all(&record.document)
}

#[derive(Debug)]
struct FileReader {
    reader: BufReader<VaultReader>,
}

impl FileReader {
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

impl RunReader for FileReader {
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
    use document::RawDocument;
    use query::aggregate::{Flow, YieldPolicy};
    use query::memory::Memory;
    use query::sort::{SortLimits, Sorter};

    #[test]
    fn runs_come_back_and_leave_nothing() {
        let directory = std::env::temp_dir().join(format!("heddle-spill-{}", std::process::id()));
        let spill = Spill::into_directory(directory.clone());
        let record =
            |key: &str, document: &str| RunRecord { key: key.into(), document: document.as_bytes().to_vec() };
        for records in [vec![record("a", "one"), record("b", "")], Vec::new()] {
            let mut writer = spill.create_run().expect("room on the disk");
            records.iter().for_each(|record| writer.write(record).expect("room on the disk"));
            assert_eq!(
                std::fs::read_dir(&directory).expect("the directory").count(),
                0,
                "no file has a name"
            );
            let mut reader = writer.finish().and_then(SortedRun::open).expect("the run is there");
            let mut read = RunRecord::default();
            for expect in records {
                assert!(reader.read_next(&mut read).expect("readable"));
                assert_eq!(read, expect);
            }
            assert!(!reader.read_next(&mut read).expect("readable"), "the run is over");
        }
        std::fs::remove_dir(directory).expect("the directory is empty");
    }

    /// Files of the directory that this process has open.
    fn open_files(directory: &Path) -> Vec<PathBuf> {
        let descriptors = std::fs::read_dir("/proc/self/fd").expect("the descriptors");
        let paths = descriptors.flatten().map(|entry| entry.path());
        paths.filter(|path| std::fs::read_link(path).is_ok_and(|name| name.starts_with(directory))).collect()
    }

    #[test]
    fn runs_beside_an_encrypted_store_are_encrypted() {
        let word = "a word that tells";
        let directory = tempfile::tempdir().expect("a directory");
        let key = storage::MasterKey::parse("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=").expect("a key");
        let options = storage::StorageOptions { master_key: Some(key), ..storage::StorageOptions::small() };
        let store = Store::open(directory.path().join("data"), &options).expect("it opens");
        let runs = directory.path().join("runs");
        let spill = Spill { vault: store.vault(), ..Spill::into_directory(runs.clone()) };
        let records = |count: u32| {
            (0..count)
                .map(|n| RunRecord { key: n.to_be_bytes().to_vec(), document: word.as_bytes().to_vec() })
        };
        for count in [0, 1, 50_000] {
            let mut writer = spill.create_run().expect("room on the disk");
            records(count).for_each(|record| writer.write(&record).expect("room on the disk"));
            let run = writer.finish().expect("room on the disk");
            let files = open_files(&runs);
            let [file] = files.as_slice() else { panic!("{files:?}") };
            let bytes = std::fs::read(file).expect("readable");
            assert!(bytes.len() > count as usize * word.len());
            assert!(!bytes.windows(word.len()).any(|part| part == word.as_bytes()));
            let (mut reader, mut read) = (run.open().expect("readable"), RunRecord::default());
            for expect in records(count) {
                assert!(reader.read_next(&mut read).expect("readable"));
                assert_eq!(read, expect);
            }
            assert!(!reader.read_next(&mut read).expect("readable"), "the run is over");
        }
    }

    /// A slice without an end.
    struct Endless;

    impl YieldPolicy for Endless {
        fn should_yield(&mut self) -> bool {
            false
        }
    }

    #[test]
    fn a_large_sort_has_few_files_open() {
        let directory = std::env::temp_dir().join(format!("heddle-files-{}", std::process::id()));
        let spill: Arc<dyn SpillStore> = Arc::new(Spill::into_directory(directory.clone()));
        let limits = SortLimits { documents: None, memory_bytes: 1 };
        let mut sorter = Sorter::new(Arc::default(), limits, Some(spill), &Memory::default());
        let mut most = 0;
        for number in 0..1_000_u32 {
            let pushed = sorter.push_keyed(&number.to_be_bytes(), RawDocument::EMPTY).expect("it is taken");
            assert_eq!(pushed, Flow::Pause, "each document is a run");
            most = most.max(open_files(&directory).len());
            sorter.resume(&mut Endless).expect("room on the disk");
        }
        assert!((60..=130).contains(&most), "1,000 runs are in {most} files");
        sorter.end();
        sorter.resume(&mut Endless).expect("readable runs");
        assert!(sorter.next().expect("readable").is_some());
        drop(sorter);
        std::fs::remove_dir(directory).expect("the directory is empty");
    }
}
