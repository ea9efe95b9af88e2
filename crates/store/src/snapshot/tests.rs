use super::*;
use crate::memory::{BucketKey, Buckets};
use tollgate_bucket::Span;
use tollgate_bucket::{Continuous, Key, Op, Spec, Time};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000);

fn spec() -> Spec {
    Spec::Continuous(Continuous::new(1, Span::from_secs(60), 10).unwrap())
}

fn bucket(key: u128) -> BucketKey {
    BucketKey { key: Key(key << 64 | key), class: 0, spec: spec() }
}

fn snapshot() -> Snapshot {
    let buckets = Buckets::new(100, &[spec()]).unwrap();
    for key in 1..20 {
        let _ = buckets.apply(&bucket(key << 58 | key), NOW, Op::Take(u32::try_from(key % 10).unwrap()));
    }
    let limit = LimitSnapshot {
        name: "address".to_owned(),
        kind: "rate".to_owned(),
        classes: vec![
            (String::new(), EncodedSpec::of(Some(spec()))),
            ("off".to_owned(), EncodedSpec::of(None)),
        ],
        buckets: buckets.snapshot(NOW),
    };
    Snapshot { secret: [1, 2], limits: vec![limit], overrides: b"{}".to_vec() }
}

fn folder() -> PathBuf {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("tollgate-snapshot-{}-{number}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder
}

#[test]
fn a_snapshot_is_read_and_only_its_user_may_read_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let (folder, snapshot) = (folder(), snapshot());
    let path = folder.join("buckets");
    assert!(Snapshot::read(&path).unwrap().is_none(), "there is none yet");
    for _ in 0..2 {
        snapshot.write(&path).unwrap();
        assert_eq!(Snapshot::read(&path).unwrap().unwrap(), snapshot);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "no other file is left");
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn whatever_is_not_as_it_was_written_is_told() {
    let bytes = snapshot().encode().unwrap();
    assert!(Snapshot::decode(&bytes).is_ok());
    for at in 0..bytes.len() {
        let mut other = bytes.clone();
        other[at] ^= 1 << (at % 8);
        assert!(Snapshot::decode(&other).is_err(), "byte {at}");
        assert!(Snapshot::decode(&bytes[..at]).is_err(), "the first {at} bytes");
    }
    assert!(Snapshot::decode(&[&bytes[..], b"more"].concat()).is_err());
}

/// I11: a file of another version is neither read nor lost.
#[test]
fn a_file_of_another_version_is_moved_aside_whole() {
    let folder = folder();
    let path = folder.join("buckets");
    fs::write(&path, b"tollgate buckets 9\nwho knows").unwrap();
    assert!(matches!(Snapshot::read(&path), Err(SnapshotError::Foreign)));
    let aside = set_aside(&path).unwrap();
    assert_eq!(fs::read(aside).unwrap(), b"tollgate buckets 9\nwho knows");
    assert!(Snapshot::read(&path).unwrap().is_none());
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_snapshot_of_a_gate_that_kept_no_changes_is_read() {
    let content = postcard::to_stdvec(&(snapshot().secret, snapshot().limits)).unwrap();
    let bytes = [MAGIC, &Sha256::digest(&content)[..], &content].concat();
    assert_eq!(Snapshot::decode(&bytes).unwrap(), Snapshot { overrides: Vec::new(), ..snapshot() });
}
