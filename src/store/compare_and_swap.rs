//! The contract of a database: one compare-and-swap; nothing else is written for each of them.
//!
//! Retrying, deadlines, what to do while the database is away and what stands in the bytes are not its business: that is
//! written once, in [`shared`](super::shared). The surprising thing: an answer brings the database's clock along, because
//! gates whose own clocks disagree have to decide by one.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::str::FromStr;
use std::sync::Arc;

use crate::bucket::{Key, LAYOUT};
use crate::time::{Span, Time};

/// A database in which buckets can be kept.
///
/// Every method is one question: it asks at most what its own words say, never twice what may have been written, and
/// never waits on purpose. Whoever asks drops the future when it takes too long; the next question has to work then.
pub trait CompareAndSwap: Send + Sync {
    /// What stands under this key. What has outlived its time does not stand there any more, whether it was cleaned away
    /// or not.
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>>;

    /// Writes `new` if what stands there still has the version `old` (`None`: if nothing stands there). Otherwise writes
    /// nothing, and says what stands there now.
    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap>;

    /// Asks for the clock and for no bucket: to see whether the database is there, with the table if it needs one, and what
    /// time it is.
    fn probe(&self) -> StoreFuture<'_, ()>;

    /// What an operator should know of the way the database is set up, one sentence each; for example that it drops what
    /// is still needed when its memory is full.
    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(async { Ok(Clocked { value: Vec::new(), clock: None }) })
    }

    /// Removes a small batch of what has outlived its time, and says how many that were. Nothing where the database does
    /// so by itself, and nothing if another gate is at it.
    fn purge(&self) -> StoreFuture<'_, u64> {
        Box::pin(async { Ok(Clocked { value: 0, clock: None }) })
    }

    /// What [`migrate`](Self::migrate) does, as statements for whoever would rather do it by hand; none where nothing has to
    /// be prepared.
    fn schema(&self) -> Vec<String> {
        Vec::new()
    }

    /// Prepares the database, as far as that was not done yet; changes nothing that is there.
    fn migrate(&self) -> StoreFuture<'_, ()> {
        Box::pin(async { Ok(Clocked { value: (), clock: None }) })
    }
}

/// A question on its way.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<Clocked<T>, StoreError>> + Send + 'a>>;

/// What a database said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clocked<T> {
    /// To the question.
    pub value: T,
    /// What time it was there when it answered, if it said so.
    pub clock: Option<StoreClock>,
}

/// What time it is at the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreClock {
    /// To the microsecond or better.
    Exact(Time),
    /// In whole seconds: it may be up to one second later there.
    Seconds(Time),
}

/// What stands under a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// As they were written, or whatever somebody else wrote there.
    pub bytes: Vec<u8>,
    /// Which writing that was.
    pub version: RecordVersion,
}

/// Which writing of a key something is. No two writings of a key have the same, not even if it was gone between them:
/// backends that have no number of the database's own draw one at [random](Version::random).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordVersion(pub u64);

/// What is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreRecord {
    /// A bucket's bytes, at most [`LONGEST_RECORD`](crate::bucket::LONGEST_RECORD).
    pub bytes: Vec<u8>,
    /// How long it has to stand there at least, counted from when the database writes it; rounded up to what the
    /// database knows, never down. More than zero.
    pub ttl: Span,
    /// For people who look into the database: the limit that the bucket belongs to.
    pub limit: Arc<str>,
    /// For people who look into the database: when the bucket is full again.
    pub full_at: Time,
}

/// What came of a swap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Swap {
    /// It was written, and has this version now.
    Done(RecordVersion),
    /// Something else stands there, or nothing.
    Conflict(Option<Stored>),
}

/// Why a database did not answer as it should.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There is no connection to it, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It answered that it will not: credentials, rights, a full memory, a missing table.
    #[error("refused: {0}")]
    Refused(String),
    /// It answered something that it should not have.
    #[error("answered what nobody understands: {0}")]
    UnexpectedResponse(String),
    /// It wrote nothing because somebody else was writing, and cannot say what: ask again (SQLSTATE 40001, 40P01).
    #[error("somebody else was writing")]
    WriteConflict,
}

/// The name under which an installation's buckets stand: `store.prefix`. Part of every key or table, so it is made of
/// letters that every database takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace(Arc<str>);

/// Not a name for an installation's buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("1 to 32 letters a to z, digits, `-` or `_`, a letter first")]
pub struct BadNamespace;

impl Namespace {
    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name of a table: `-` is no letter of SQL.
    #[must_use]
    pub fn table(&self) -> String {
        format!("{}_buckets", self.0.replace('-', "_"))
    }

    /// The name of a key where all kinds of things share a database, in ASCII without blanks: the layout's version, so that
    /// gates of two versions never read each other's bytes, and 32 hexadecimal digits.
    #[must_use]
    pub fn key(&self, Key(key): Key) -> String {
        format!("{}:{LAYOUT}:{key:032x}", self.0)
    }
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
    /// An answer by a database's exact clock.
    #[must_use]
    pub fn with_clock(value: T, clock: Time) -> Self {
        Self { value, clock: Some(StoreClock::Exact(clock)) }
    }

    /// An answer without a clock.
    #[must_use]
    pub fn without_clock(value: T) -> Self {
        Self { value, clock: None }
    }
}

impl RecordVersion {
    /// One that nobody has, but for a chance of one in ten million million million: 63 bits, so that every database's
    /// integers hold it, and never zero.
    #[must_use]
    pub fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The standard library seeds the first `RandomState` of a thread from the operating system, and counts on from there.
        Self(RandomState::new().hash_one(0_u8) >> 1 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// G16: names and keys have no letter that any database's language or protocol could take for more.
    #[test]
    fn a_key_is_made_of_letters_that_mean_nothing_else() {
        for name in ["a b", "a\r\nset x", "a:b", "A", "", "9", "-a", "a'b", "a\0", "ä", &"a".repeat(33)] {
            assert_eq!(name.parse::<Namespace>(), Err(BadNamespace), "{name:?}");
        }
        let key = "shop-2_b".parse::<Namespace>().unwrap().key(Key(u128::MAX));
        assert_eq!(key, "shop-2_b:1:ffffffffffffffffffffffffffffffff");
    }
}
