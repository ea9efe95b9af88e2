use std::collections::BTreeSet;
use std::io::Cursor;
use std::path::PathBuf;

use proptest::prelude::*;
use sha2::{Digest, Sha256};

use super::builder::BuildError;
use super::format::{ENTRY, FormatError, HEAD};
use super::*;

/// A file that goes away with its test.
struct Scratch(PathBuf);

impl Scratch {
    fn with(bytes: &[u8]) -> Self {
        let name = Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect::<String>();
        let thread = format!("{:?}", std::thread::current().id());
        let path =
            std::env::temp_dir().join(format!("tollgate-exposed-{}-{thread}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }

    fn open(&self) -> Result<PasswordFilter, FilterError> {
        PasswordFilter::open(&self.0)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// The SHA-1 of a password, as far as a list is concerned: twenty bytes.
fn hash(number: u64) -> [u8; 20] {
    *Sha256::digest(number.to_be_bytes()).first_chunk().unwrap()
}

fn list(hashes: &BTreeSet<[u8; 20]>) -> String {
    let hex = |hash: &[u8; 20]| hash.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    (1..).zip(hashes).map(|(count, hash)| format!("{}:{count}\r\n", hex(hash))).collect()
}

fn built(list: &str) -> Result<(Built, Vec<u8>), BuildError> {
    let mut out = Cursor::new(Vec::new());
    let built = build(list.as_bytes(), &mut out)?;
    Ok((built, out.into_inner()))
}

fn sample(count: u64) -> (BTreeSet<[u8; 20]>, Vec<u8>) {
    let hashes = (0..count).map(hash).collect();
    let (built, bytes) = built(&list(&hashes)).unwrap();
    assert_eq!((built.hashes, built.bytes), (count, bytes.len() as u64));
    (hashes, bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_hash_of_the_list_is_found(hashes in prop::collection::btree_set(any::<[u8; 20]>(), 1..500)) {
        let file = Scratch::with(&built(&list(&hashes)).unwrap().1);
        let filter = file.open().unwrap();
        let in_file = PasswordFilter::open_within(&file.0, 0).unwrap();
        prop_assert!(hashes.iter().all(|hash| filter.contains(hash) && in_file.contains(hash)));
    }

    #[test]
    fn a_damaged_file_is_an_error(at in any::<prop::sample::Index>(), flip in 1_u8..) {
        let (_, mut bytes) = sample(300);
        let at = at.index(bytes.len());
        bytes[at] ^= flip;
        prop_assert!(Scratch::with(&bytes).open().is_err(), "byte {at}");
    }

    /// With true checksums, whatever the numbers say.
    #[test]
    fn no_file_makes_a_look_up_panic(
        entry in prop::collection::vec(any::<u8>(), ENTRY),
        fingerprints in prop::collection::vec(any::<u8>(), 0..200),
        probe in any::<[u8; 20]>(),
    ) {
        let mut entry = entry;
        entry[16..24].copy_from_slice(&(HEAD as u64).to_le_bytes());
        let slots = u32::try_from(fingerprints.len() * 8 / 10).unwrap();
        entry[24..28].copy_from_slice(&slots.to_le_bytes());
        let (segment, firsts) = (1_u32 << (entry[28] % 6), u32::from(entry[32]) * 4);
        entry[28..32].copy_from_slice(&segment.to_le_bytes());
        entry[32..36].copy_from_slice(&firsts.to_le_bytes());
        entry[36..].copy_from_slice(&format::checksum(&fingerprints).to_le_bytes());
        let directory = (HEAD + fingerprints.len()) as u64;
        let head =
            format::Head { hashes: 1, directory, partitions: 1, checksum: format::checksum(&entry) };
        let bytes = [&head.to_bytes()[..], &fingerprints, &entry].concat();
        if let Ok(filter) = Scratch::with(&bytes).open() {
            filter.contains(&probe);
            filter.contains(&[0xFF; 20]);
        }
    }
}

#[test]
fn one_hash_in_a_thousand_is_found_by_mistake() {
    let (hashes, bytes) = sample(20_000);
    let file = Scratch::with(&bytes);
    let filter = file.open().unwrap();
    let others = (1_000_000..1_100_000).map(hash).filter(|hash| !hashes.contains(hash));
    let found = others.filter(|hash| filter.contains(hash)).count();
    // 98 in the mean, with a standard deviation of 10.
    assert!((50..150).contains(&found), "{found} of 100,000");
    assert!(bytes.len() * 8 < 20_000 * 13, "{} bytes", bytes.len());
}

#[test]
fn a_list_of_one_hash_makes_a_filter() {
    for only in [[0; 20], hash(7), [0xFF; 20]] {
        let file = Scratch::with(&built(&list(&BTreeSet::from([only]))).unwrap().1);
        let filter = file.open().unwrap();
        assert!(filter.contains(&only) && filter.len() == 1);
    }
}

#[test]
fn repeated_hashes_counts_and_letter_case_do_not_matter() {
    let one = "00000000000000000000000000000000000000aa";
    let text = format!("{one}\n\n{}:12\r\n{one}\nff{}", one.to_uppercase(), &one[2..]);
    assert_eq!(built(&text).unwrap().0.hashes, 2);
}

#[test]
fn a_list_that_cannot_be_used_names_the_line() {
    let (low, high) = ("0".repeat(40), "f".repeat(40));
    for (text, line) in [
        (format!("{low}\n{high}\n{low}\n"), "line 3 is out of order"),
        (format!("{low}\n{low}x\n"), "line 2 is no SHA-1"),
        (format!("{}\n", &low[1..]), "line 1 is no SHA-1"),
        (format!("{low}:1x\n"), "line 1 is no SHA-1"),
        (format!("+{}\n", &low[1..]), "line 1 is no SHA-1"),
        ("x".repeat(1 << 20), "line 1 is no SHA-1"),
        (String::new(), "it holds no hash"),
        ("\n\n".into(), "it holds no hash"),
    ] {
        let error = built(&text).unwrap_err().to_string();
        assert!(error.starts_with(line), "{error}");
    }
}

#[test]
fn a_file_that_ends_early_or_goes_on_is_an_error() {
    let (_, bytes) = sample(100);
    for length in [0, 1, HEAD - 1, HEAD, bytes.len() - 1] {
        assert!(Scratch::with(&bytes[..length]).open().is_err(), "{length} bytes");
    }
    let longer = Scratch::with(&[&bytes[..], b"x"].concat());
    assert!(matches!(longer.open(), Err(FilterError::Format(FormatError::Length { .. }))));
    let other = Scratch::with(&[b'x'; 200]);
    assert!(matches!(other.open(), Err(FilterError::Format(FormatError::Magic))));
}

#[test]
fn a_large_filter_that_was_cut_while_it_is_used_finds_nothing() {
    let (hashes, bytes) = sample(1_000);
    let file = Scratch::with(&bytes);
    let filter = PasswordFilter::open_within(&file.0, 0).unwrap();
    std::fs::write(&file.0, b"").unwrap();
    assert!(!hashes.iter().any(|hash| filter.contains(hash)));
}

#[test]
fn what_it_tells_is_listed_and_a_route_that_does_another_thing_is_another_one() {
    let [mark, refuse] =
        [ExposedAction::Mark, ExposedAction::Refuse].map(|action| ExposedPasswords { action, filter: None });
    let (name, value) = mark.mark(ExposedAction::Mark.note()).unwrap();
    assert!(super::super::HEADERS.contains(&name.as_str()) && value == "1");
    assert!(super::super::COUNTERS.contains(&mark.counter().unwrap()));
    assert!(mark.mark(ExposedAction::Observe.note()).is_none());
    assert_ne!(mark.settings(), refuse.settings());
}
