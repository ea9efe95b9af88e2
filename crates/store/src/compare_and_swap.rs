//! The contract of a database backend: one compare-and-swap, and little else. A database that can do arithmetic may
//! also offer a step.
//!
//! Retries, deadlines, outages and the format of the bytes are left to [`shared`](super::shared). Every reply carries
//! the database's clock, because gates whose own clocks disagree must decide by one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use sha2::{Digest, Sha256};
#[cfg(feature = "tls")]
use tollgate_base::tls::TlsClientError;

use crate::attempt_probe;
use crate::step_program::{StepProgram, StepShape};
use tollgate_bucket::{Key, LAYOUT, Span, Time};

/// A database that stores buckets.
///
/// Every method is one request. It sends only what its documentation says, never repeats what may have been a write,
/// and never waits on purpose. The caller drops the future at its deadline; the next request must work then.
pub trait CompareAndSwap: Send + Sync {
    /// The record under this key. An expired record counts as absent, whether the database has removed it or not.
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>>;

    /// Writes `new` if the record still has the version `old` (`None`: if there is no record). Otherwise writes nothing
    /// and returns the current record.
    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap>;

    /// Whether the database can do the arithmetic of this shape: then it [steps](Self::swap_or_step) such a record.
    fn can_step(&self, _shape: &StepShape) -> bool {
        false
    }

    /// As [`swap`](Self::swap), but if the record has another version and only its state differs from `new`, takes the
    /// step that `program` describes there, in the same request. May swap only, whatever is asked.
    ///
    /// A swap that is repeated is done once; a step would be taken twice. So none is taken from
    /// [`until`](StepProgram::until) on.
    fn swap_or_step(
        &self,
        key: Key,
        old: Option<RecordVersion>,
        new: StoreRecord,
        _program: StepProgram,
    ) -> StoreFuture<'_, Swap> {
        self.swap(key, old, new)
    }

    /// Whether a step that is refused costs little more than a [load](Self::load).
    fn refuses_cheaply(&self) -> bool {
        false
    }

    /// Whether these buckets can be [written together](Self::swap_all).
    fn can_swap_together(&self, _keys: &[Key]) -> bool {
        false
    }

    /// As [`swap_or_step`](Self::swap_or_step) for several keys in one request, each by itself: one that is lost does not
    /// hinder the others. The results are in the order of the swaps; one is [`StoreError::WriteConflict`] if it was lost and
    /// the record is unknown. Only for keys that can be [written
    /// together](Self::can_swap_together).
    fn swap_all(&self, _swaps: Vec<SwapRequest>) -> StoreFuture<'_, SwapResults> {
        Box::pin(async { Err(StoreError::Refused("writes one bucket at a time".to_owned())) })
    }

    /// The servers that hold buckets, as far as they are known; at least one.
    fn servers(&self) -> Vec<ServerEntry> {
        vec![ServerEntry { id: ServerId::ONLY, name: "".into() }]
    }

    /// The server that holds this key, as far as is known. The clock of a reply counts as that server's if this is the
    /// same before and after the request.
    fn server_of(&self, _key: Key) -> ServerId {
        ServerId::ONLY
    }

    /// Writes a short-lived record that no gate reads, and reads the clock: checks that this server takes writes, and
    /// that its table exists if it needs one. A server that answers and takes no writes fails this.
    fn probe(&self, server: ServerId) -> StoreFuture<'_, ()>;

    /// Asks what an attempt asks, about this key, which no bucket has: a user who may write what a probe writes may lack
    /// another right.
    fn probe_attempt(&self, key: Key, now: Time) -> StoreFuture<'_, ()> {
        Box::pin(
            async move { attempt_probe::probe_attempt(self, key, now).await.map(Clocked::without_clock) },
        )
    }

    /// The version of the record of this key, which no gate changes or removes; written if there is none.
    fn marker(&self, key: Key) -> StoreFuture<'_, RecordVersion> {
        Box::pin(async move { attempt_probe::marker(self, key).await.map(Clocked::without_clock) })
    }

    /// Warnings for the operator about the database's settings, one sentence each; for example that it evicts live
    /// records when its memory is full.
    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async { Ok(Clocked { value: Vec::new(), clock: None }) })
    }

    /// Removes a small batch of expired records and returns their number. Does nothing where the database expires
    /// records by itself, or while another gate purges.
    fn purge(&self) -> StoreFuture<'_, u64> {
        Box::pin(async { Ok(Clocked { value: 0, clock: None }) })
    }

    /// What [`migrate`](Self::migrate) does, as statements or commands that an operator can run by hand; empty if there is nothing
    /// to prepare.
    fn schema(&self) -> Vec<String> {
        Vec::new()
    }

    /// Prepares the database: creates what is missing and changes nothing that exists.
    fn migrate(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(Clocked { value: (), clock: None }) })
    }
}

/// One server of a database, for as long as the database is open. The number of a server that is gone is never that of
/// another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

/// A server, and its name for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// Its number.
    pub id: ServerId,
    /// Its host and port; empty if the database has one server only.
    pub name: Arc<str>,
}

/// A request in flight.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<Clocked<T>, StoreError>> + Send + 'a>>;

/// A database's reply, with the time there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocked<T> {
    /// The reply itself.
    pub value: T,
    /// The database's clock when it replied, if it sent it.
    pub clock: Option<StoreClock>,
}

/// The time at the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreClock {
    /// Exact to the microsecond or better.
    Exact(Time),
    /// In whole seconds: the true time is up to one second later.
    Seconds(Time),
}

/// The record under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// The bytes as written; another program may have written them.
    pub bytes: Vec<u8>,
    /// The version of this write.
    pub version: RecordVersion,
}

/// The version of a record. No two writes of a key have the same version, even if the record was gone between them:
/// backends whose database has no version number draw a [random](Self::random) one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordVersion(pub u64);

/// A record to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRecord {
    /// A bucket's bytes, at most [`MAX_RECORD_LEN`](tollgate_bucket::MAX_RECORD_LEN), or a text of gates
    /// ([`Fleet`](crate::Fleet)), at most [`MAX_TEXT_LEN`](crate::MAX_TEXT_LEN) and a little more.
    pub bytes: Vec<u8>,
    /// The minimum time to live, from the database's write on; more than zero. A backend rounds it up to the database's
    /// unit, never down.
    pub ttl: Span,
    /// For people who look into the database: the limit of the bucket.
    pub limit: Arc<str>,
    /// For people who look into the database: when the bucket is full again.
    pub full_at: Time,
}

/// One swap of several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwapRequest {
    /// The key of the record.
    pub key: Key,
    /// The version that is replaced; `None` if there is no record.
    pub old: Option<RecordVersion>,
    /// What is written.
    pub new: StoreRecord,
    /// The step that is taken if the record has another version.
    pub program: Option<StepProgram>,
}

/// The result of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// The record was written and has this version now.
    Done(RecordVersion),
    /// Another record was found, or none.
    Conflict(Option<Stored>),
    /// Another record was found, and the database stepped it.
    Stepped {
        /// The bytes that were found.
        found: Vec<u8>,
        /// The time of the step.
        now: Time,
        /// The version of the record after the step.
        version: RecordVersion,
    },
}

/// The result of each of several swaps.
pub type SwapResults = Vec<Result<Swap, StoreError>>;

/// Why a request to a database failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no connection at present: nothing was sent, or nothing was done.
    #[error("cannot be reached: {0}")]
    NotConnected(String),
    /// The connection broke, or no reply came in time: what was sent may have been done.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// The database refused: credentials, permissions, full memory, a missing table.
    #[error("refused: {0}")]
    Refused(String),
    /// The server takes no writes: another one may have become the writer. The connection is closed.
    #[error("refused: {0}")]
    ReadOnly(String),
    /// The database does not take more requests about this key at present; others may go on.
    #[error("throttled: {0}")]
    Throttled(String),
    /// The response breaks the protocol or makes no sense.
    #[error("unexpected response: {0}")]
    UnexpectedResponse(String),
    /// A concurrent write came first, and the current record is unknown: try again (SQLSTATE 40001, 40P01).
    #[error("write conflict")]
    WriteConflict,
}

#[cfg(feature = "tls")]
impl From<TlsClientError> for StoreError {
    fn from(error: TlsClientError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl StoreError {
    pub(crate) fn unreachable(why: impl fmt::Display) -> Self {
        Self::Unreachable(why.to_string())
    }

    /// Whether the database answered and did not do what it was asked, for another reason than contention.
    pub(crate) fn is_refusal(&self) -> bool {
        !matches!(self, Self::NotConnected(_) | Self::Unreachable(_) | Self::WriteConflict)
    }

    /// The same while there is no connection.
    #[cfg(any(feature = "redis", feature = "memcached", feature = "postgres", feature = "mysql"))]
    pub(crate) fn not_connected(self) -> Self {
        match self {
            // Nothing was sent: a replica may be about to be promoted.
            Self::Unreachable(why) | Self::ReadOnly(why) => Self::NotConnected(why),
            other => other,
        }
    }
}

/// The prefix of an installation's buckets: `store.prefix`. It is part of every key or table name, so its letters are
/// valid in every database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(Arc<str>);

/// The error for an invalid [`Namespace`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("1 to 32 letters a to z, digits, `-` or `_`, a letter first")]
pub struct BadNamespace;

impl Namespace {
    /// The hasher of an installation, by which all its gates compute the same keys: of its prefix in the store and of
    /// its secret. With an empty secret every reader of the store can compute keys as the gates do. Gates of two
    /// versions with different record layouts compute different keys and never read each other's buckets.
    #[must_use]
    pub fn key_secret(&self, secret: &[u8]) -> [u64; 2] {
        self.key_secret_of(LAYOUT, secret)
    }

    /// The key of a record that is not a bucket. Two names, or a name and a bucket, have the same key with a chance of
    /// one in 10^38.
    pub(crate) fn document_key(&self, name: &[u8]) -> Key {
        let hash = hash_of(&[b"tollgate document", self.as_str().as_bytes(), name]);
        Key(hash.first_chunk().map_or(0, |bytes| u128::from_be_bytes(*bytes)))
    }

    fn key_secret_of(&self, layout: u8, secret: &[u8]) -> [u64; 2] {
        let bytes = hash_of(&[b"tollgate bucket names", &[layout], self.as_str().as_bytes(), secret]);
        let half = |at: usize| bytes[at..].first_chunk().map_or(0, |half| u64::from_le_bytes(*half));
        [half(0), half(8)]
    }

    /// The prefix as written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of the table, with `_` for `-`, which SQL names cannot contain.
    #[must_use]
    pub fn table(&self) -> String {
        format!("{}_buckets", self.0.replace('-', "_"))
    }

    /// A key for a database that holds other data too, in ASCII without blanks: the prefix, the layout's version and 32
    /// hexadecimal digits. The version keeps gates of two layouts from reading each other's bytes.
    #[must_use]
    pub fn key(&self, Key(key): Key) -> String {
        format!("{}:{LAYOUT}:{key:032x}", self.0)
    }
}

/// The hash of these parts, each with its length before it.
fn hash_of(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

impl Default for Namespace {
    fn default() -> Self {
        Self("tollgate".into())
    }
}

impl FromStr for Namespace {
    type Err = BadNamespace;

    fn from_str(text: &str) -> Result<Self, BadNamespace> {
        let is_usual = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte);
        let begins_well = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
        if begins_well && text.len() <= 32 && text.bytes().all(is_usual) {
            Ok(Self(text.into()))
        } else {
            Err(BadNamespace)
        }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<T> Clocked<T> {
    /// A reply with the database's exact clock.
    #[must_use]
    pub fn with_clock(value: T, clock: Time) -> Self {
        Self { value, clock: Some(StoreClock::Exact(clock)) }
    }

    /// A reply without a clock.
    #[must_use]
    pub fn without_clock(value: T) -> Self {
        Self { value, clock: None }
    }
}

impl ServerId {
    /// The server of a database that has only one.
    pub const ONLY: Self = Self(0);
}

impl RecordVersion {
    /// A random version of 63 bits, never zero, so that every database's integers hold it. Two of them are equal with a
    /// chance of one in 10^19.
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The standard library seeds a thread's first `RandomState` from the operating system, and counts on from
        // there.
        Self(RandomState::new().hash_one(0_u8) >> 1 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G16: prefixes and keys have no letter with a meaning in any database's language or protocol.
    #[test]
    fn a_key_is_made_of_letters_that_mean_nothing_else() {
        for name in ["a b", "a\r\nset x", "a:b", "A", "", "9", "-a", "a'b", "a\0", "ä", &"a".repeat(33)] {
            assert_eq!(name.parse::<Namespace>(), Err(BadNamespace), "{name:?}");
        }
        let key = "shop-2_b".parse::<Namespace>().unwrap().key(Key(u128::MAX));
        assert_eq!(key, "shop-2_b:1:ffffffffffffffffffffffffffffffff");
    }

    /// G18: while gates of two versions share a store, each has its own buckets.
    #[test]
    fn gates_that_write_buckets_in_different_ways_name_nothing_alike() {
        let secret = |layout, prefix: &str, secret: &[u8]| {
            let name: Namespace = prefix.parse().unwrap();
            name.key_secret_of(layout, secret)
        };
        assert_eq!(secret(1, "tollgate", b"secret"), secret(1, "tollgate", b"secret"));
        for (layout, prefix, other) in
            [(2, "tollgate", b"secret"), (1, "shop", b"secret"), (1, "tollgate", b"Secret")]
        {
            assert_ne!(secret(layout, prefix, other), secret(1, "tollgate", b"secret"));
        }
    }
}
