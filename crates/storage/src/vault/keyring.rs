//! The keys of a data directory: they are in it, and themselves encrypted with a key that is not.
//!
//! ```text
//!  <dbpath>/encryption   "heddle encryption 1"
//!                        "cipher AES256-GCM"
//!                        "master <its id, 16 hex digits>"
//!                        "key <number> <nonce ×12, key ×32, tag ×16 in hex>"     one line for each
//! ```
//! A key of the directory is encrypted with the master key; its number and the id of the master key are
//! authenticated with it. New files get the last one. Replaced by a rename, as a whole.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write as _};
use std::path::Path;
use std::sync::Arc;

use base64ct::{Base64, Encoding};
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use zeroize::Zeroizing;

use super::cipher::{DataKey, MAGIC, TAG_BYTES, random};
use super::{KEYRING, Keys, Vault};
use crate::directory::{DirectoryLock, ENGINE_DIRECTORY};
use crate::error::OpenError;
use crate::files::sync_names;

const KEY_BYTES: usize = 32;
const INTRODUCTION: &str = "heddle encryption 1\ncipher AES256-GCM\n";
/// The id of a master key is the beginning of what it makes of these bytes.
const ID_OF: &[u8] = b"heddle: the id of a master key";
const ID_BYTES: usize = 8;

/// The key from outside with which the keys of data directories are encrypted.
#[derive(Clone)]
pub struct MasterKey {
    key: Arc<Zeroizing<[u8; KEY_BYTES]>>,
    id: Arc<str>,
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MasterKey").field("id", &self.id).finish_non_exhaustive()
    }
}

impl MasterKey {
    /// Of a text: 32 bytes in base64; white space around it does not count.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<MasterKey, InvalidMasterKey> {
        let mut key = Zeroizing::new([0; KEY_BYTES]);
        let decoded = Base64::decode(text.trim(), &mut *key).map(<[u8]>::len);
        if decoded != Ok(KEY_BYTES) {
            return Err(InvalidMasterKey);
        }
        let signed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &*key), ID_OF);
        let id = hex(signed.as_ref().get(..ID_BYTES).unwrap_or_default());
        Ok(MasterKey { key: Arc::new(key), id: id.into() })
    }

    /// What it is called: nothing of the key can be told from it.
    pub fn id(&self) -> &str {
        &self.id
    }

    fn cipher(&self) -> LessSafeKey {
        LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &**self.key).expect("a key has 32 bytes"))
    }

    fn about(&self, number: u32) -> Aad<Vec<u8>> {
        Aad::from([&number.to_le_bytes()[..], self.id.as_bytes()].concat())
    }

    fn seal(&self, number: u32, key: &DataKey) -> String {
        let nonce: [u8; NONCE_LEN] = random();
        let mut sealed = key.to_vec();
        self.cipher()
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), self.about(number), &mut sealed)
            .expect("a key is short");
        hex(&[&nonce[..], &sealed].concat())
    }

    fn open(&self, number: u32, sealed: &str) -> Option<DataKey> {
        let bytes = from_hex(sealed)?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut rest = Zeroizing::new(rest.to_vec());
        if rest.len() != KEY_BYTES + TAG_BYTES {
            return None;
        }
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let key = self.cipher().open_in_place(nonce, self.about(number), &mut rest).ok()?;
        key.first_chunk().copied().map(Zeroizing::new)
    }
}

/// A text that is no master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected a key of 32 bytes in base64, as `openssl rand -base64 32` makes one")]
pub struct InvalidMasterKey;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: &u8| (*digit as char).to_digit(16).map(|value| value as u8);
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    text.as_bytes().chunks(2).map(byte).collect()
}

/// The id of the master key, and each key as it is written.
struct Keyring {
    master: String,
    sealed: BTreeMap<u32, String>,
}

impl Keyring {
    fn parse(text: &str) -> Option<Keyring> {
        let rest = text.strip_prefix(INTRODUCTION)?.strip_suffix('\n')?;
        let mut lines = rest.split('\n');
        let master = lines.next()?.strip_prefix("master ")?.to_owned();
        let key = |line: &str| {
            let (number, sealed) = line.strip_prefix("key ")?.split_once(' ')?;
            Some((number.parse().ok()?, sealed.to_owned()))
        };
        let sealed: BTreeMap<u32, String> = lines.map(key).collect::<Option<_>>()?;
        (!sealed.is_empty()).then_some(Keyring { master, sealed })
    }

    /// `None`: there is none.
    fn read(path: &Path) -> Result<Option<Keyring>, OpenError> {
        let file = path.join(KEYRING);
        let damaged = || OpenError::Corrupt {
            path: path.to_owned(),
            detail: format!("the file of its keys, {KEYRING}, is not as it was written"),
        };
        match std::fs::read_to_string(&file) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == ErrorKind::InvalidData => Err(damaged()),
            Err(source) => Err(OpenError::Unreadable { path: file, source }),
            Ok(text) => Keyring::parse(&text).map(Some).ok_or_else(damaged),
        }
    }

    fn open(&self, path: &Path, master: &MasterKey) -> Result<Keys, OpenError> {
        if self.master != master.id() {
            return Err(OpenError::WrongKey {
                path: path.to_owned(),
                expected: self.master.clone(),
                given: master.id().to_owned(),
            });
        }
        let open = |(number, sealed): (&u32, &String)| Some((*number, master.open(*number, sealed)?));
        let keys = self.sealed.iter().map(open).collect::<Option<BTreeMap<_, _>>>();
        let keys = keys.ok_or_else(|| OpenError::Corrupt {
            path: path.to_owned(),
            detail: format!("a key in the file of its keys, {KEYRING}, is not as it was written"),
        })?;
        Ok(Keys { master: master.id().to_owned(), keys })
    }
}

fn write(path: &Path, keys: &BTreeMap<u32, DataKey>, master: &MasterKey) -> io::Result<()> {
    let sealed = keys.iter().map(|(number, key)| (*number, master.seal(*number, key))).collect();
    Keyring { master: master.id().to_owned(), sealed }.write(path)
}

/// Takes all keys but one away. On stable storage when it returns.
pub(super) fn forget_all_but(path: &Path, number: u32) -> io::Result<()> {
    let ring = Keyring::read(path).map_err(io::Error::other)?;
    let mut ring = ring.ok_or_else(|| io::Error::other("the keys of the directory are gone"))?;
    ring.sealed.retain(|known, _| *known == number);
    if ring.sealed.is_empty() {
        return Err(io::Error::other(format!("key {number} is none of the directory")));
    }
    ring.write(path)
}

impl Keyring {
    /// Replaces what is there.
    fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = format!("{INTRODUCTION}master {}\n", self.master);
        for (number, sealed) in &self.sealed {
            let _ = writeln!(text, "key {number} {sealed}");
        }
        let draft = path.join(format!("{KEYRING}.new"));
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&draft, path.join(KEYRING))?;
        sync_names(path)
    }
}

/// Whether the engine's files are encrypted, keys or not.
fn has_encrypted_files(path: &Path) -> bool {
    let mut begin = [0; MAGIC.len()];
    let current = File::open(path.join(ENGINE_DIRECTORY).join("CURRENT"));
    current.is_ok_and(|mut file| file.read_exact(&mut begin).is_ok() && begin == MAGIC)
}

/// Whether a directory has keys of its own.
pub(crate) fn has_keys(path: &Path) -> bool {
    path.join(KEYRING).exists()
}

impl Vault {
    /// That of a data directory that has data. Nothing is written.
    ///
    /// # Errors
    /// [`OpenError::Encrypted`], [`OpenError::WrongKey`], [`OpenError::NotEncrypted`]; [`OpenError::Corrupt`]
    /// where the keys of the directory are lost.
    pub fn of(path: &Path, master: Option<&MasterKey>) -> Result<Vault, OpenError> {
        let path = || path.to_owned();
        match (Keyring::read(&path())?, master) {
            (Some(ring), Some(master)) => Ok(Vault(Some(Arc::new(ring.open(&path(), master)?)))),
            (Some(ring), None) => Err(OpenError::Encrypted { path: path(), key: ring.master }),
            (None, _) if has_encrypted_files(&path()) => Err(OpenError::Corrupt {
                path: path(),
                detail: format!("it is encrypted, and the file of its keys, {KEYRING}, is missing"),
            }),
            (None, Some(_)) => Err(OpenError::NotEncrypted { path: path() }),
            (None, None) => Ok(Vault::default()),
        }
    }

    /// That of a data directory without data: it gets keys, unless it has some from a start before or from
    /// who made it.
    pub(crate) fn make(path: &Path, master: Option<&MasterKey>) -> Result<Vault, OpenError> {
        if let Some(master) = master
            && !has_keys(path)
        {
            let keys = BTreeMap::from([(1, Zeroizing::new(random()))]);
            write(path, &keys, master)
                .map_err(|source| OpenError::Unreadable { path: path.to_owned(), source })?;
        }
        Vault::of(path, master)
    }
}

/// Encrypts the keys of a data directory that nobody uses with another master key. Files that are written
/// from then on get a key that is new.
///
/// # Errors
/// As [`Vault::of`], [`OpenError::Locked`]; and what the file system says. The old key or the new one is that
/// of the directory then.
pub fn rotate_master_key(path: &Path, old: Option<&MasterKey>, new: &MasterKey) -> Result<(), OpenError> {
    let Vault(Some(_)) = Vault::of(path, old)? else {
        return Err(OpenError::NotEncrypted { path: path.to_owned() });
    };
    let _lock = DirectoryLock::take(path)?;
    let Vault(Some(opened)) = Vault::of(path, old)? else { unreachable!("it is locked, and was encrypted") };
    let mut keys = opened.keys.clone();
    let last = keys.last_key_value().map_or(0, |(number, _)| *number);
    keys.insert(last + 1, Zeroizing::new(random()));
    write(path, &keys, new).map_err(|source| OpenError::Unreadable { path: path.to_owned(), source })
}
