//! Buckets in a table, one row for each: what is asked of every database of tables, whichever it is.
//!
//! What a database is told, and how its answers are read, is its own ([`Questions`]). The surprising thing: a probe names
//! the table too. A database that is there without it answers no question, and one that seemed to be back would be asked
//! and given up again several times a second.

use std::sync::Arc;

use super::{Broom, Dial, Lines, Link};
use crate::bucket::Key;
use crate::store::compare_and_swap::{
    Answer, Asking, CompareAndSwap, Record, StoreError, Stored, Swap, Version,
};

/// What a database said, or why it did not.
pub(in crate::store) type Heard<T> = Result<Answer<T>, StoreError>;

/// A connection, and the questions as its database hears them.
pub(in crate::store) trait Questions: Link {
    /// What is said in order to clean.
    type Tidy: Send + Sync + 'static;

    fn load(
        &self,
        texts: &Statements<Self::Tidy>,
        key: Key,
    ) -> impl Future<Output = Heard<Option<Stored>>> + Send;

    fn swap(
        &self,
        texts: &Statements<Self::Tidy>,
        key: Key,
        old: Option<Version>,
        new: &Record,
    ) -> impl Future<Output = Heard<Swap>> + Send;

    fn probe(&self, texts: &Statements<Self::Tidy>) -> impl Future<Output = Heard<()>> + Send;

    /// Cleans the next window, unless another gate is at it.
    fn tidy(&self, texts: &Statements<Self::Tidy>, broom: &Broom) -> impl Future<Output = Heard<u64>> + Send;

    /// Says something about this table that is answered by nothing.
    fn say(&self, table: &str, text: &str) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// What is said about one table.
pub(in crate::store) struct Statements<T> {
    pub(in crate::store) table: String,
    pub(in crate::store) load: String,
    /// Where a version is expected.
    pub(in crate::store) replace: String,
    /// Where nothing is expected.
    pub(in crate::store) take: String,
    pub(in crate::store) probe: String,
    /// Do nothing, but need the rights that the others need.
    pub(in crate::store) trials: [String; 4],
    pub(in crate::store) tidy: T,
    pub(in crate::store) schema: Vec<String>,
}

/// Buckets in one table.
pub(in crate::store) struct Table<D: Dial<Link: Questions>> {
    lines: Lines<D>,
    texts: Arc<Statements<Tidy<D>>>,
    broom: Arc<Broom>,
    is_exposed: bool,
}

/// What cleans the table at the other end.
type Tidy<D> = <<D as Dial>::Link as Questions>::Tidy;

impl<D: Dial<Link: Questions>> Table<D> {
    /// Not asked yet; `is_exposed` says whether what is said to it can be read on the way.
    ///
    /// # Errors
    /// If there is no runtime here to ask in.
    pub(in crate::store) fn new(
        dial: D,
        texts: Statements<Tidy<D>>,
        is_exposed: bool,
    ) -> Result<Self, StoreError> {
        Ok(Self { lines: Lines::new(dial)?, texts: Arc::new(texts), broom: Arc::default(), is_exposed })
    }
}

impl<D: Dial<Link: Questions>> CompareAndSwap for Table<D> {
    fn load(&self, key: Key) -> Asking<'_, Option<Stored>> {
        let texts = Arc::clone(&self.texts);
        Box::pin(self.lines.ask(move |link| async move { link.load(&texts, key).await }))
    }

    fn swap(&self, key: Key, old: Option<Version>, new: Record) -> Asking<'_, Swap> {
        let texts = Arc::clone(&self.texts);
        Box::pin(self.lines.ask(move |link| async move { link.swap(&texts, key, old, &new).await }))
    }

    fn probe(&self) -> Asking<'_, ()> {
        let texts = Arc::clone(&self.texts);
        Box::pin(self.lines.ask(|link| async move { link.probe(&texts).await }))
    }

    fn inspect(&self) -> Asking<'_, Vec<String>> {
        let texts = Arc::clone(&self.texts);
        let mut found = exposed(self.is_exposed);
        Box::pin(self.lines.ask_alone(|link| async move {
            let mut trials = Vec::new();
            for trial in &texts.trials {
                trials.push(link.say(&texts.table, trial).await);
            }
            found.extend(refusals(trials)?);
            Ok(Answer::timeless(found))
        }))
    }

    fn tidy(&self) -> Asking<'_, u64> {
        let (texts, broom) = (Arc::clone(&self.texts), Arc::clone(&self.broom));
        Box::pin(self.lines.ask_alone(|link| async move { link.tidy(&texts, &broom).await }))
    }

    fn schema(&self) -> Vec<String> {
        self.texts.schema.clone()
    }

    fn migrate(&self) -> Asking<'_, ()> {
        let texts = Arc::clone(&self.texts);
        Box::pin(self.lines.ask_alone(|link| async move {
            for statement in &texts.schema {
                link.say(&texts.table, statement).await?;
            }
            Ok(Answer::timeless(()))
        }))
    }
}

/// What an operator should know of a connection in clear text.
fn exposed(is_exposed: bool) -> Vec<String> {
    let said = is_exposed
        .then(|| "the connection is not encrypted: add `sslmode=verify-full` to the address".to_owned());
    said.into_iter().collect()
}

/// The refusals among what came of the trials, each once.
fn refusals(trials: impl IntoIterator<Item = Result<(), StoreError>>) -> Result<Vec<String>, StoreError> {
    let mut refusals = Vec::new();
    for trial in trials {
        match trial {
            Err(StoreError::Refused(why)) if refusals.contains(&why) => {}
            Err(StoreError::Refused(why)) => refusals.push(why),
            other => other?,
        }
    }
    Ok(refusals)
}
