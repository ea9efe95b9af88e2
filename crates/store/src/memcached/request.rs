//! The requests to a memcached server, and their bytes.
//!
//! A version is the server's CAS number plus a random epoch that is stored in the server. The CAS numbers start again
//! when the server restarts, and a version must never come back; the sum of an earlier epoch is a number that the
//! server will not reach in this one. Reading responses is left to [`response`](super::response).

use crate::compare_and_swap::{Namespace, RecordVersion, StoreError, StoreRecord, Stored};
use tollgate_bucket::Key;
use tollgate_bucket::Span;

use super::response::{MemcachedResponse, MetaCode};
use super::stats::Stats;

/// A request to a server.
#[derive(Debug)]
pub(super) enum MemcachedRequest {
    Load(Key),
    Swap(Key, Option<RecordVersion>, StoreRecord),
    /// Appends to the value that is there.
    Append(Key, Vec<u8>),
    Stats,
    /// Writes a record that no gate reads.
    Probe,
}

/// The reply to a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MemcachedReply {
    Loaded(Option<MemcachedValue>),
    Written(RecordVersion),
    /// There is another record than expected.
    Taken,
    /// There is no record any more.
    Gone,
    Stats(Stats),
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MemcachedValue {
    pub(super) stored: Stored,
    /// The seconds that it has left, if they end.
    pub(super) ttl: Option<u64>,
}

/// The random part of a server's versions, fixed for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch(pub(super) u64);

impl Epoch {
    pub(super) fn version(self, cas: u64) -> RecordVersion {
        RecordVersion(self.0.wrapping_add(cas))
    }

    /// The CAS number of a version; for a version of another epoch, a number that no write ever gets. Zero would match
    /// any.
    fn cas(self, RecordVersion(version): RecordVersion) -> u64 {
        match version.wrapping_sub(self.0) {
            0 => u64::MAX,
            cas => cas,
        }
    }
}

impl MemcachedRequest {
    /// Appends the request to `out`; `now` is the server's time in seconds.
    pub(super) fn write(
        &self,
        namespace: &Namespace,
        epoch: Epoch,
        now: u64,
        opaque: u32,
        out: &mut Vec<u8>,
    ) {
        match self {
            Self::Load(key) => {
                out.extend_from_slice(format!("mg {} v c t O{opaque}\r\n", namespace.key(*key)).as_bytes());
            }
            Self::Swap(key, old, new) => {
                let (key, length, ttl) = (namespace.key(*key), new.bytes.len(), expiry(new.ttl, now));
                let condition = old.map_or("ME".to_owned(), |old| format!("C{}", epoch.cas(old)));
                let line = format!("ms {key} {length} T{ttl} {condition} c O{opaque}\r\n");
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(&new.bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Append(key, bytes) => {
                let line = format!("ms {} {} MA c O{opaque}\r\n", namespace.key(*key), bytes.len());
                out.extend_from_slice(line.as_bytes());
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            Self::Stats => out.extend_from_slice(b"stats\r\n"),
            Self::Probe => {
                let line = format!("ms {namespace}:probe 0 T1 c O{opaque}\r\n\r\n");
                out.extend_from_slice(line.as_bytes());
            }
        }
    }

    /// Reads the response to this request.
    pub(super) fn read(&self, answer: MemcachedResponse, epoch: Epoch) -> Result<MemcachedReply, StoreError> {
        let MemcachedResponse::Meta { code, cas, ttl, value, .. } = answer else {
            return Err(wrong_response());
        };
        match (self, code, cas, value) {
            (Self::Load(_), MetaCode::Value, Some(1..), Some(bytes)) => {
                let version = epoch.version(cas.unwrap_or_default());
                Ok(MemcachedReply::Loaded(Some(MemcachedValue { stored: Stored { bytes, version }, ttl })))
            }
            (Self::Load(_), MetaCode::Miss, _, _) => Ok(MemcachedReply::Loaded(None)),
            (Self::Swap(..) | Self::Append(..) | Self::Probe, MetaCode::Done, Some(cas @ 1..), _) => {
                Ok(MemcachedReply::Written(epoch.version(cas)))
            }
            (Self::Append(..), MetaCode::NotStored, _, _) => Ok(MemcachedReply::Gone),
            (Self::Swap(..), MetaCode::NotStored | MetaCode::Exists, _, _) => Ok(MemcachedReply::Taken),
            (Self::Swap(..), MetaCode::NotFound, _, _) => Ok(MemcachedReply::Gone),
            (_, MetaCode::Value | MetaCode::Done, None | Some(0), _) => Err(no_numbers()),
            _ => Err(wrong_response()),
        }
    }
}

/// The error of a server without CAS numbers.
pub(super) fn no_numbers() -> StoreError {
    let why = "it gives no CAS numbers: it was started with -C, or is too old (1.6.18 gives them)";
    StoreError::Refused(why.to_owned())
}

fn wrong_response() -> StoreError {
    StoreError::UnexpectedResponse("the response to another request".to_owned())
}

/// The time to live as memcached takes it. Its clock ticks once a second, so the present second may end at once: one is
/// added. From thirty days on it takes a date, and none after January 2038.
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
    use tollgate_bucket::Time;

    const NOW: u64 = 1_800_000_000;

    fn written(request: &MemcachedRequest) -> String {
        let mut out = Vec::new();
        request.write(&Namespace::default(), Epoch(1000), NOW, 7, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn record(ttl: Span) -> StoreRecord {
        StoreRecord { bytes: b"abc".to_vec(), ttl, limit: "address".into(), full_at: Time::default() }
    }

    #[test]
    fn the_bytes_of_each_question() {
        let key = Key(0xab);
        let name = "tollgate:1:000000000000000000000000000000ab";
        assert_eq!(written(&MemcachedRequest::Load(key)), format!("mg {name} v c t O7\r\n"));
        let new = record(Span::from_nanos(1));
        let insert = MemcachedRequest::Swap(key, None, new.clone());
        assert_eq!(written(&insert), format!("ms {name} 3 T2 ME c O7\r\nabc\r\n"));
        let swap = MemcachedRequest::Swap(key, Some(RecordVersion(1005)), new);
        assert_eq!(written(&swap), format!("ms {name} 3 T2 C5 c O7\r\nabc\r\n"));
        let append = MemcachedRequest::Append(key, b"abc".to_vec());
        assert_eq!(written(&append), format!("ms {name} 3 MA c O7\r\nabc\r\n"));
        assert_eq!(written(&MemcachedRequest::Stats), "stats\r\n");
    }

    /// G10: no number is mistaken for a date.
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
        let unnumbered = |code, value| {
            let (cas, opaque, ttl) = (Some(0), Some(7), None);
            MemcachedResponse::Meta { code, cas, opaque, ttl, value }
        };
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
            let sent = expiry(Span::from_nanos(nanos), NOW);
            let from_now = if sent > MAX_RELATIVE { sent - NOW } else { sent };
            // One tick may be over at once.
            let lasts = Span::from_secs(from_now - 1);
            prop_assert!(lasts >= Span::from_nanos(nanos) || sent == LAST_DATE);
        }
    }
}
