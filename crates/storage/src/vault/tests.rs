//! Every file comes back as it was written, in part where a crash has cut it, or not at all.

use super::writer::{PAGE_BYTES, RECORD_BYTES_MAX};
use super::*;
use crate::directory::DirectoryLock;
use crate::error::OpenError;

const KEY: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const OTHER_KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";

fn master() -> MasterKey {
    MasterKey::parse(KEY).unwrap()
}

fn vault() -> (tempfile::TempDir, Vault) {
    let directory = tempfile::tempdir().unwrap();
    let vault = Vault::make(directory.path(), Some(&master())).unwrap();
    (directory, vault)
}

fn content(bytes: usize) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(bytes as u64);
    (0..bytes).map(|_| random.u8(..)).collect()
}

/// What RocksDB writes with these appends.
fn records(vault: &Vault, pieces: &[&[u8]]) -> Vec<u8> {
    let (mut sealer, header) = vault.sealer(SealLayout::Records).unwrap();
    let mut file = header.to_vec();
    pieces.iter().for_each(|piece| file.extend_from_slice(sealer.append(piece).unwrap()));
    assert!(sealer.finish().is_empty(), "nothing is left to be written at a crash");
    file
}

fn read_back(vault: &Vault, path: &Path, bytes: &[u8]) -> io::Result<Vec<u8>> {
    std::fs::write(path, bytes).unwrap();
    vault.read(path)
}

fn is_damage(read: &io::Result<Vec<u8>>) -> bool {
    matches!(read, Err(error) if error.kind() == io::ErrorKind::InvalidData)
}

const SIZES: [usize; 13] = [
    0,
    1,
    15,
    16,
    17,
    PAGE_BYTES - 1,
    PAGE_BYTES,
    PAGE_BYTES + 1,
    2 * PAGE_BYTES - 1,
    2 * PAGE_BYTES,
    2 * PAGE_BYTES + 1,
    70 * PAGE_BYTES,
    70 * PAGE_BYTES + 3,
];

#[test]
fn files_in_pages_come_back_whatever_their_size() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    for bytes in SIZES {
        let expect = content(bytes);
        for piece in [1000, PAGE_BYTES, PAGE_BYTES + 16, 1 << 20] {
            let mut writer = vault.create(&path).unwrap();
            expect.chunks(piece).for_each(|piece| writer.write_all(piece).unwrap());
            writer.finish().unwrap();
            assert_eq!(vault.read(&path).unwrap(), expect, "{bytes} bytes in pieces of {piece}");
        }
        assert_eq!(vault.length(&path).unwrap(), bytes as u64);
        let pages = vault.page_file(&path).unwrap().unwrap();
        assert_eq!(pages.bytes(), bytes as u64);
        for offset in SIZES.into_iter().chain([PAGE_BYTES / 2, 5 * PAGE_BYTES + 77]) {
            for length in [1, 100, PAGE_BYTES, 3 * PAGE_BYTES + 5] {
                let mut into = vec![0_u8; length];
                let read = pages.read_at(offset as u64, &mut into, None).unwrap();
                let end = (offset + length).min(bytes);
                let expect = expect.get(offset..end).unwrap_or_default();
                assert_eq!(&into[..read], expect, "{length} from {offset} of {bytes}");
            }
            let mut reader = vault.open(&path).unwrap();
            reader.seek_to(offset as u64).unwrap();
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, expect.get(offset..).unwrap_or_default(), "from {offset} of {bytes}");
        }
    }
}

#[test]
fn files_in_records_come_back_whatever_was_appended() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    for sizes in [&[][..], &[0], &[1], &[100, 1, 0, 70_000, 3], &[RECORD_BYTES_MAX + 1, 5]] {
        let pieces: Vec<Vec<u8>> = sizes.iter().map(|size| content(*size)).collect();
        let pieces: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
        let expect = pieces.concat();
        assert_eq!(read_back(&vault, &path, &records(&vault, &pieces)).unwrap(), expect);
        assert_eq!(vault.length(&path).unwrap(), expect.len() as u64);
        for offset in [0, 1, 100, 101, 5000, expect.len()].into_iter().filter(|at| *at <= expect.len()) {
            let mut reader = vault.open(&path).unwrap();
            reader.seek_to(offset as u64).unwrap();
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).unwrap();
            assert_eq!(rest, &expect[offset..], "from {offset}");
        }
    }
}

#[test]
fn nothing_of_a_file_is_in_the_clear() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    let text = b"a word that tells";
    vault.write(&path, text).unwrap();
    for sealed in [std::fs::read(&path).unwrap(), records(&vault, &[text])] {
        assert!(!sealed.windows(6).any(|part| text.windows(6).any(|of_text| of_text == part)));
    }
    assert_ne!(records(&vault, &[text]), records(&vault, &[text]), "no two files have a key in common");
}

#[test]
fn every_flipped_byte_is_found() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    let expect = content(2 * PAGE_BYTES + 100);
    vault.write(&path, &expect).unwrap();
    let in_pages = std::fs::read(&path).unwrap();
    let in_records = records(&vault, &[&expect[..300], &expect[300..5000], &expect[5000..]]);
    for whole in [in_pages, in_records] {
        assert_eq!(read_back(&vault, &path, &whole).unwrap(), expect);
        for at in (0..whole.len()).filter(|at| *at < 500 || at % 13 == 0 || at + 200 > whole.len()) {
            let mut flipped = whole.clone();
            flipped[at] ^= 4;
            assert!(is_damage(&read_back(&vault, &path, &flipped)), "byte {at}");
            let mut lenient = vault.open_leniently(&path).unwrap();
            let mut read = Vec::new();
            lenient.read_to_end(&mut read).unwrap();
            assert!(lenient.is_damaged(), "byte {at}");
            let differs = |(read, expect): (&u8, &u8)| read != expect && *read != 0;
            assert!(!read.iter().zip(&expect).any(differs), "byte {at}: only zeros are read for it");
        }
    }
}

#[test]
fn what_is_behind_a_damaged_record_is_read_where_that_is_wanted() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    let expect = content(3000);
    let mut file = records(&vault, &[&expect[..1000], &expect[1000..2000], &expect[2000..]]);
    let second = cipher::HEADER_BYTES + 8 + 1000 + 16;
    file[second + 8 + 500] ^= 1;
    std::fs::write(&path, &file).unwrap();
    let mut read = Vec::new();
    vault.open_leniently(&path).unwrap().read_to_end(&mut read).unwrap();
    assert_eq!(read, [&expect[..1000], &[0; 1000], &expect[2000..]].concat());
}

#[test]
fn a_file_in_pages_that_is_cut_is_damaged() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    vault.write(&path, &content(2 * PAGE_BYTES + 100)).unwrap();
    let whole = std::fs::read(&path).unwrap();
    let page_ends = (0..=2).map(|page| cipher::HEADER_BYTES + page * (PAGE_BYTES + 16));
    for length in page_ends.chain((0..whole.len()).step_by(37)).chain([whole.len() - 1]) {
        let read = read_back(&vault, &path, &whole[..length]);
        // One that was made and never written to holds nothing, as without encryption.
        let is_new = length < cipher::HEADER_BYTES;
        assert!(is_damage(&read) || is_new && read.as_ref().is_ok_and(Vec::is_empty), "{length} bytes of it");
    }
    let longer = [&whole[..], &[0; 50]].concat();
    assert!(is_damage(&read_back(&vault, &path, &longer)));
}

#[test]
fn a_file_in_records_that_a_crash_has_cut_ends_with_the_last_whole_record() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    let expect = content(900);
    let whole = records(&vault, &[&expect[..200], &expect[200..300], &expect[300..]]);
    let ends = [64, 64 + 224, 64 + 224 + 124, whole.len()];
    for length in 0..=whole.len() {
        let records = ends.iter().filter(|end| **end <= length).count();
        let kept = [0, 200, 300, 900][records.max(1) - 1];
        let read = read_back(&vault, &path, &whole[..length]).unwrap();
        assert_eq!(read, &expect[..kept], "{length} bytes of it");
        assert_eq!(vault.length(&path).unwrap(), kept as u64);
    }
}

#[test]
fn sectors_that_did_not_reach_the_disk_end_a_file_in_records() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    let expect = content(5000);
    let whole = records(&vault, &[&expect[..1000], &expect[1000..]]);
    let last = cipher::HEADER_BYTES + 1024;
    for (from, to) in [(1536, 2048), (2048, 2560), (4608, whole.len()), (last, whole.len())] {
        let mut torn = whole.clone();
        torn[from..to].fill(0);
        assert_eq!(read_back(&vault, &path, &torn).unwrap(), &expect[..1000], "{from} to {to}");
        let mut reader = vault.open_leniently(&path).unwrap();
        io::copy(&mut reader, &mut io::sink()).unwrap();
        assert!(!reader.is_damaged(), "{from} to {to}");
    }
    let none = vec![0; 3000];
    assert_eq!(read_back(&vault, &path, &none).unwrap(), b"", "nothing of it has come");
}

#[test]
fn pages_and_records_belong_to_their_place_and_file() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    let (page, begin) = (PAGE_BYTES + 16, cipher::HEADER_BYTES);
    let write = |seed: usize| {
        vault.write(&path, &content(3 * PAGE_BYTES + seed)).unwrap();
        std::fs::read(&path).unwrap()
    };
    let (one, other) = (write(10), write(11));
    let mut swapped = one.clone();
    swapped[begin..begin + page].copy_from_slice(&one[begin + page..begin + 2 * page]);
    assert!(is_damage(&read_back(&vault, &path, &swapped)), "a page in the place of another one");
    let mut mixed = one.clone();
    mixed[begin..begin + page].copy_from_slice(&other[begin..begin + page]);
    assert!(is_damage(&read_back(&vault, &path, &mixed)), "a page of another file");
    let pieces = [content(100), content(101)];
    let whole = records(&vault, &[&pieces[0][..100], &pieces[1][..100]]);
    let (first, second) = whole[begin..].split_at(124);
    let swapped = [&whole[..begin], second, first].concat();
    assert!(is_damage(&read_back(&vault, &path, &swapped)), "records that have changed places");
    let without_first = [&whole[..begin], second].concat();
    assert!(is_damage(&read_back(&vault, &path, &without_first)), "a record that is missing");
}

#[test]
fn a_file_that_is_not_encrypted_is_not_read() {
    let (directory, vault) = vault();
    let path = directory.path().join("file");
    for bytes in [&b"MANIFEST-000001\n"[..], &[7; 5000]] {
        assert!(is_damage(&read_back(&vault, &path, bytes)));
    }
    let (_other, others) = self::vault();
    assert!(is_damage(&read_back(&vault, &path, &records(&others, &[b"of another directory"]))));
}

#[test]
fn a_file_whose_write_failed_goes_no_further() {
    let (mut sealer, _) = vault().1.sealer(SealLayout::Records).unwrap();
    assert!(sealer.append(b"one").is_some());
    sealer.give_up();
    assert!(sealer.append(b"two").is_none());
    let (mut pages, _) = vault().1.sealer(SealLayout::Pages).unwrap();
    assert!(pages.append(b"one").is_some_and(<[u8]>::is_empty), "a page waits until it is full");
    assert!(!pages.finish().is_empty());
    assert!(pages.append(b"two").is_none(), "its last page is written");
}

#[test]
fn a_directory_is_opened_with_its_key_only() {
    let (directory, vault) = vault();
    let path = directory.path();
    let before = std::fs::read(path.join(KEYRING)).unwrap();
    assert_eq!(vault.key_id(), Some(master().id()));
    assert!(matches!(Vault::of(path, None), Err(OpenError::Encrypted { key, .. }) if key == master().id()));
    let other = MasterKey::parse(OTHER_KEY).unwrap();
    assert!(
        matches!(Vault::of(path, Some(&other)), Err(OpenError::WrongKey { given, .. }) if given == other.id())
    );
    let clear = tempfile::tempdir().unwrap();
    assert!(matches!(Vault::of(clear.path(), Some(&other)), Err(OpenError::NotEncrypted { .. })));
    assert!(!Vault::of(clear.path(), None).unwrap().is_on());
    assert_eq!(std::fs::read(path.join(KEYRING)).unwrap(), before);
    for at in 0..before.len() {
        let mut flipped = before.clone();
        flipped[at] ^= 1;
        std::fs::write(path.join(KEYRING), flipped).unwrap();
        assert!(Vault::of(path, Some(&master())).is_err(), "byte {at}");
        std::fs::write(path.join(KEYRING), &before[..at]).unwrap();
        assert!(Vault::of(path, Some(&master())).is_err(), "{at} bytes of it");
    }
}

#[test]
fn another_master_key_reads_what_was_written_before() {
    let (directory, vault) = vault();
    let (path, other) = (directory.path(), MasterKey::parse(OTHER_KEY).unwrap());
    vault.write(&path.join("old"), b"old").unwrap();
    assert!(matches!(rotate_master_key(path, None, &other), Err(OpenError::Encrypted { .. })));
    assert!(matches!(rotate_master_key(path, Some(&other), &other), Err(OpenError::WrongKey { .. })));
    let used = DirectoryLock::take(path).unwrap();
    assert!(matches!(rotate_master_key(path, Some(&master()), &other), Err(OpenError::Locked { .. })));
    drop(used);
    rotate_master_key(path, Some(&master()), &other).unwrap();
    assert!(matches!(Vault::of(path, Some(&master())), Err(OpenError::WrongKey { .. })));
    let rotated = Vault::of(path, Some(&other)).unwrap();
    assert_eq!(rotated.read(&path.join("old")).unwrap(), b"old");
    rotated.write(&path.join("new"), b"new").unwrap();
    assert_eq!(rotated.read(&path.join("new")).unwrap(), b"new");
    assert!(is_damage(&vault.read(&path.join("new"))), "what is new has a key that is new");
}

#[test]
fn a_master_key_is_32_bytes_in_base64() {
    for text in ["", "MDEy", &KEY[..43], &format!("{KEY}AAAA"), &KEY.replace('=', "?"), &"A".repeat(64)] {
        assert_eq!(MasterKey::parse(text).err(), Some(InvalidMasterKey), "{text}");
    }
    assert_eq!(MasterKey::parse(&format!("  {KEY}\n")).unwrap().id(), master().id());
    assert!(!format!("{:?}", master()).contains("MDEy"));
}
