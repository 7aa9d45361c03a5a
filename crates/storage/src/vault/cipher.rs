//! The key of one file, and what it seals.
//!
//! ```text
//!  header, 64 bytes:  "heddle-E" │ layout u8 │ 0 ×3 │ number of the data key u32 LE │ salt ×32 │ tag ×16
//!  key of the file:   HKDF-SHA-256(salt, data key, the 16 bytes before the salt)
//!  sealed:            AES-256-GCM; nonce: kind of part u8 │ 0 ×3 │ its number u64 LE
//! ```
//! The salt is random and of this file only, and nothing of a file is sealed twice: no key meets a nonce
//! again.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, Salt};
use ring::rand::{SecureRandom, SystemRandom};
use zeroize::Zeroizing;

pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) const TAG_BYTES: usize = 16;
pub(crate) const MAGIC: [u8; 8] = *b"heddle-E";
const SALT_AT: usize = 16;
const CHECK_AT: usize = 48;
const LAYOUT_AT: usize = 8;
const NUMBER_AT: usize = 12;

/// A key that files' keys are derived from.
pub(super) type DataKey = Zeroizing<[u8; 32]>;

/// How the bytes of a file are sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SealLayout {
    /// Written once and read anywhere: pages of one size.
    Pages = 1,
    /// Appended to and read from its beginning on: a record for each piece that was appended.
    Records = 2,
}

/// What of a file is sealed; each has its own numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SealedPart {
    Header = 0,
    Page = 1,
    /// The end of a file in pages: one that is cut has none.
    LastPage = 2,
    Record = 3,
}

/// What the beginning of a file says.
pub(super) enum FileHeader {
    Sealed(SealLayout, FileKey),
    /// The file was made, and what was written then has not come to the disk.
    NotWritten,
    /// It is none of an encrypted file.
    Foreign,
    /// It is one, and not as it was written, or of a key that is not there.
    Damaged,
}

/// The key of a file; with what is computed of it ahead it is large.
pub(crate) struct FileKey(Box<LessSafeKey>);

fn nonce(part: SealedPart, number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    let (kind, counted) = nonce.split_at_mut(NONCE_LEN - size_of::<u64>());
    kind.iter_mut().take(1).for_each(|byte| *byte = part as u8);
    counted.copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(nonce)
}

pub(super) fn random<const BYTES: usize>() -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    SystemRandom::new().fill(&mut bytes).expect("the system has random bytes");
    bytes
}

impl FileKey {
    fn derive(data_key: &DataKey, described: &[u8], salt: &[u8]) -> FileKey {
        let secret = Salt::new(HKDF_SHA256, salt).extract(&**data_key);
        let about = [described];
        let key = secret.expand(&about, &AES_256_GCM).expect("a key is shorter than HKDF's most");
        FileKey(Box::new(LessSafeKey::new(UnboundKey::from(key))))
    }

    /// Seals bytes in place.
    #[inline]
    pub(crate) fn seal(&self, part: SealedPart, number: u64, bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        self.seal_with(part, number, &[], bytes)
    }

    fn seal_with(&self, part: SealedPart, number: u64, about: &[u8], bytes: &mut [u8]) -> [u8; TAG_BYTES] {
        let sealed = self.0.seal_in_place_separate_tag(nonce(part, number), Aad::from(about), bytes);
        let tag = sealed.expect("a part is shorter than what AES-GCM seals at most");
        tag.as_ref().first_chunk().copied().expect("a tag has 16 bytes")
    }

    /// Opens bytes with their tag behind them in place; `None`: they are not what was sealed so.
    #[inline]
    pub(crate) fn open<'b>(
        &self,
        part: SealedPart,
        number: u64,
        bytes: &'b mut [u8],
    ) -> Option<&'b mut [u8]> {
        self.0.open_in_place(nonce(part, number), Aad::empty(), bytes).ok()
    }
}

/// Makes the header and the key of a new file.
pub(super) fn new_file(data_key: &DataKey, number: u32, layout: SealLayout) -> ([u8; HEADER_BYTES], FileKey) {
    let mut header = [0; HEADER_BYTES];
    let salt: [u8; CHECK_AT - SALT_AT] = random();
    for (at, bytes) in
        [(0, &MAGIC[..]), (LAYOUT_AT, &[layout as u8]), (NUMBER_AT, &number.to_le_bytes()), (SALT_AT, &salt)]
    {
        header.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
    }
    let (described, check) = header.split_at_mut(CHECK_AT);
    let key = FileKey::derive(data_key, described.get(..SALT_AT).unwrap_or_default(), &salt);
    check.copy_from_slice(&key.seal_with(SealedPart::Header, 0, described, &mut []));
    (header, key)
}

/// The number of the data key that the beginning of a file names; `None`: it is none of an encrypted file.
pub(super) fn key_number(header: &[u8]) -> Option<u32> {
    let number = header.get(NUMBER_AT..)?.first_chunk().copied()?;
    header.starts_with(&MAGIC).then(|| u32::from_le_bytes(number))
}

/// Reads the beginning of a file, up to [`HEADER_BYTES`] of it.
pub(super) fn read_header<'k>(
    header: &[u8],
    data_key: impl FnOnce(u32) -> Option<&'k DataKey>,
) -> FileHeader {
    let is_begun = MAGIC.starts_with(header) || header.starts_with(&MAGIC);
    if header.len() < HEADER_BYTES && is_begun || header.iter().all(|byte| *byte == 0) {
        return FileHeader::NotWritten;
    }
    let Some((described, check)) = header.split_at_checked(CHECK_AT) else { return FileHeader::Foreign };
    if !described.starts_with(&MAGIC) {
        return FileHeader::Foreign;
    }
    let layout = match described.get(LAYOUT_AT) {
        Some(1) => SealLayout::Pages,
        Some(2) => SealLayout::Records,
        _ => return FileHeader::Damaged,
    };
    let number = described.get(NUMBER_AT..).and_then(|rest| rest.first_chunk()).copied();
    let Some(data_key) = data_key(u32::from_le_bytes(number.unwrap_or_default())) else {
        return FileHeader::Damaged;
    };
    let (about, salt) = described.split_at(SALT_AT);
    let key = FileKey::derive(data_key, about, salt);
    let mut tag = check.to_vec();
    let opened = key.0.open_in_place(nonce(SealedPart::Header, 0), Aad::from(described), &mut tag).is_ok();
    match opened {
        true => FileHeader::Sealed(layout, key),
        false => FileHeader::Damaged,
    }
}
