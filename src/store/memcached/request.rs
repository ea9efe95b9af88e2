//! The requests to a memcached server, and their bytes.
//!
//! The surprising thing: a version is the server's own number of the writing plus a random number that the server was
//! given when it was first asked. The numbers alone begin anew when it is started again, and a version must never come
//! back; the sum of an earlier life is a number that it will not reach in this one.

use crate::bucket::Key;
use crate::store::compare_and_swap::{Namespace, RecordVersion, StoreError, StoreRecord, Stored};
use crate::time::Span;

use super::response::{MemcachedResponse, MetaCode};
use super::stats::Stats;

/// One question.
#[derive(Debug)]
pub(super) enum MemcachedRequest {
    Load(Key),
    Swap(Key, Option<RecordVersion>, StoreRecord),
    Stats,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemcachedReply {
    Loaded(Option<Stored>),
    Written(RecordVersion),
    /// Something stands there that was not expected.
    Taken,
    /// Nothing stands there any more.
    Gone,
    Stats(Stats),
}

/// What a server calls its writings, as long as a connection to it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(pub(super) u64);

impl Epoch {
    pub(super) fn version(self, cas: u64) -> RecordVersion {
        RecordVersion(self.0.wrapping_add(cas))
    }

    /// The number of the writing; of another epoch, one that no writing ever gets. Zero would mean any.
    fn cas(self, RecordVersion(version): RecordVersion) -> u64 {
        match version.wrapping_sub(self.0) {
            0 => u64::MAX,
            cas => cas,
        }
    }
}

impl MemcachedRequest {
    /// Writes it behind `out`; `now` is the time there in seconds.
    pub(super) fn write(&self, names: &Namespace, epoch: Epoch, now: u64, opaque: u32, out: &mut Vec<u8>) {
        match self {
            Self::Load(key) => {
                out.extend_from_slice(format!("mg {} v c O{opaque}\r\n", names.key(*key)).as_bytes());
            }
            Self::Swap(key, old, new) => {
                let (key, length, ttl) = (names.key(*key), new.bytes.len(), expiry(new.ttl, now));
                let condition = old.map_or("ME".to_owned(), |old| format!("C{}", epoch.cas(old)));
                let line = format!("ms {key} {length} T{ttl} {condition} c O{opaque}\r\n");
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(&new.bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Stats => out.extend_from_slice(b"stats\r\n"),
        }
    }

    /// What the answer to it means.
    pub(super) fn read(&self, answer: MemcachedResponse, epoch: Epoch) -> Result<MemcachedReply, StoreError> {
        let MemcachedResponse::Meta { code, cas, value, .. } = answer else { return Err(wrong_response()) };
        match (self, code, cas, value) {
            (Self::Load(_), MetaCode::Value, Some(1..), Some(bytes)) => {
                let version = epoch.version(cas.unwrap_or_default());
                Ok(MemcachedReply::Loaded(Some(Stored { bytes, version })))
            }
            (Self::Load(_), MetaCode::Miss, _, _) => Ok(MemcachedReply::Loaded(None)),
            (Self::Swap(..), MetaCode::Done, Some(cas @ 1..), _) => {
                Ok(MemcachedReply::Written(epoch.version(cas)))
            }
            (Self::Swap(..), MetaCode::NotStored | MetaCode::Exists, _, _) => Ok(MemcachedReply::Taken),
            (Self::Swap(..), MetaCode::NotFound, _, _) => Ok(MemcachedReply::Gone),
            (_, MetaCode::Value | MetaCode::Done, None | Some(0), _) => Err(no_numbers()),
            _ => Err(wrong_response()),
        }
    }
}

/// The fault of a server that does not number its writings.
pub(super) fn no_numbers() -> StoreError {
    let why = "it does not number what is written: it was started with -C, or is too old (1.6.18 does)";
    StoreError::Refused(why.to_owned())
}

fn wrong_response() -> StoreError {
    StoreError::UnexpectedResponse("the answer to another question".to_owned())
}

/// What memcached takes as the time to live. Its clock ticks once a second, so that a second may be over at once: one more.
/// From thirty days on it takes a date, and none after January 2038.
fn expiry(ttl: Span, now: u64) -> u64 {
    let seconds = ttl.as_secs_ceil().saturating_add(1);
    if seconds <= MAX_RELATIVE { seconds } else { now.saturating_add(seconds).min(LAST_DATE) }
}

const MAX_RELATIVE: u64 = 30 * 24 * 3600;
const LAST_DATE: u64 = 0x7fff_ffff;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Time;

    const NOW: u64 = 1_800_000_000;

    fn written(question: &MemcachedRequest) -> String {
        let mut out = Vec::new();
        question.write(&Namespace::default(), Epoch(1000), NOW, 7, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn record(ttl: Span) -> StoreRecord {
        StoreRecord { bytes: b"abc".to_vec(), ttl, limit: "address".into(), full_at: Time::default() }
    }

    #[test]
    fn the_bytes_of_each_question() {
        let key = Key(0xab);
        let name = "tollgate:1:000000000000000000000000000000ab";
        assert_eq!(written(&MemcachedRequest::Load(key)), format!("mg {name} v c O7\r\n"));
        let new = record(Span::from_nanos(1));
        let insert = MemcachedRequest::Swap(key, None, new.clone());
        assert_eq!(written(&insert), format!("ms {name} 3 T2 ME c O7\r\nabc\r\n"));
        let swap = MemcachedRequest::Swap(key, Some(RecordVersion(1005)), new);
        assert_eq!(written(&swap), format!("ms {name} 3 T2 C5 c O7\r\nabc\r\n"));
        assert_eq!(written(&MemcachedRequest::Stats), "stats\r\n");
    }

    /// G10: no number is taken for a date by mistake.
    #[test]
    fn time_is_rounded_up_and_a_date_from_thirty_days_on() {
        let day = 24 * 3600;
        assert_eq!(expiry(Span::from_secs(1), NOW), 2);
        assert_eq!(expiry(Span::from_millis(1001), NOW), 3);
        assert_eq!(expiry(Span::from_secs(30 * day - 1), NOW), 30 * day);
        assert_eq!(expiry(Span::from_secs(30 * day), NOW), NOW + 30 * day + 1);
        assert_eq!(expiry(Span::from_nanos(u64::MAX), NOW), LAST_DATE);
    }

    #[test]
    fn no_version_means_whatever_stands_there() {
        assert_eq!(Epoch(1000).cas(RecordVersion(1000)), u64::MAX, "zero would be no condition at all");
    }

    #[test]
    fn writings_without_numbers_are_refused_instead_of_written_over() {
        let unnumbered = |code, value| MemcachedResponse::Meta { code, cas: Some(0), opaque: Some(7), value };
        let load =
            MemcachedRequest::Load(Key(1)).read(unnumbered(MetaCode::Value, Some(Vec::new())), Epoch(1));
        assert_eq!(load, Err(no_numbers()));
        let swap = MemcachedRequest::Swap(Key(1), None, record(Span::from_secs(1)));
        assert_eq!(swap.read(unnumbered(MetaCode::Done, None), Epoch(1)), Err(no_numbers()));
    }

    proptest! {
        #[test]
        fn a_version_is_the_number_of_its_writing_in_its_own_epoch(epoch: u64, cas in 1_u64..) {
            prop_assert_eq!(Epoch(epoch).cas(Epoch(epoch).version(cas)), cas);
        }

        #[test]
        fn nothing_is_asked_to_go_before_its_time(nanos in 1_u64..) {
            let asked = expiry(Span::from_nanos(nanos), NOW);
            let from_now = if asked > MAX_RELATIVE { asked - NOW } else { asked };
            // One tick may be over at once.
            let stands = Span::from_secs(from_now - 1);
            prop_assert!(stands >= Span::from_nanos(nanos) || asked == LAST_DATE);
        }
    }
}
