//! Buckets in Amazon DynamoDB: an item for each, written by one conditional `PutItem`, read by one consistent `GetItem`.
//!
//! A client of its own, because Amazon's wants a newer compiler than ours: signed JSON over a few kept connections. The
//! surprising thing: what has outlived its time is judged here and not by DynamoDB, which deletes days later; by the
//! server's clock, so that gates with wrong clocks agree ([`reckoning`]).

mod client;
mod connection;
mod credentials;
mod item;
mod place;
mod pool;
mod reckoning;
mod sign;
mod table;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::client::Client;
use self::place::Place;
use super::address::Remote;
use super::compare_and_swap::{
    Answer, Asking, CompareAndSwap, Namespace, Record, StoreError, Stored, Swap, Version,
};
use crate::bucket::Key;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(Place::parse(url, environment)?))
}

/// Buckets in a table.
struct DynamoDb {
    client: Client,
    names: Namespace,
}

impl Remote for Place {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let client = Client::new(self.clone(), environment)?;
        Ok(Arc::new(DynamoDb { client, names: names.clone() }))
    }
}

impl CompareAndSwap for DynamoDb {
    fn load(&self, key: Key) -> Asking<'_, Option<Stored>> {
        Box::pin(async move { self.get(&self.names.key(key)).await })
    }

    fn swap(&self, key: Key, old: Option<Version>, new: Record) -> Asking<'_, Swap> {
        Box::pin(async move { self.put(&self.names.key(key), old, &new).await })
    }

    /// Reads an item that nobody writes: that asks for all that a bucket's load needs, and costs half as much.
    fn probe(&self) -> Asking<'_, ()> {
        Box::pin(async move {
            let Answer { clock, .. } = self.read(&format!("{}:probe", self.names), false).await?;
            Ok(Answer { value: (), clock })
        })
    }

    fn inspect(&self) -> Asking<'_, Vec<String>> {
        Box::pin(table::inspect(&self.client))
    }

    fn schema(&self) -> Vec<String> {
        table::schema(&self.client)
    }

    fn migrate(&self) -> Asking<'_, ()> {
        Box::pin(table::migrate(&self.client))
    }
}

impl DynamoDb {
    async fn get(&self, key: &str) -> Result<Answer<Option<Stored>>, StoreError> {
        let Answer { value, clock } = self.read(key, true).await?;
        let stored = value.get("Item").and_then(|item| item::stored(item, self.client.reckoning.there()));
        Ok(Answer { value: stored, clock })
    }

    async fn read(&self, key: &str, is_consistent: bool) -> Result<Answer<Value>, StoreError> {
        let table = &self.client.place.table;
        let question = item::get(table, key, is_consistent);
        self.client.ask("GetItem", &question, PATIENCE).await?.good(table)
    }

    async fn put(&self, key: &str, old: Option<Version>, new: &Record) -> Result<Answer<Swap>, StoreError> {
        let table = &self.client.place.table;
        let version = Version::random();
        let now = self.client.reckoning.there();
        let question = item::put(table, key, old, new, version, now);
        let said = self.client.ask("PutItem", &question, PATIENCE).await?;
        let value = match said.value {
            Ok(_) => Swap::Done(version),
            Err(fault) if fault.is("ConditionalCheckFailedException") => match &fault.item {
                Some(item) => Swap::Lost(item::stored(item, now)),
                // There is nothing, or the server is one that does not say what there is.
                None => {
                    let Answer { value, clock } = self.get(key).await?;
                    return Ok(Answer { value: Swap::Lost(value), clock });
                }
            },
            Err(fault) => return Err(fault.into_error(table)),
        };
        Ok(Answer { value, clock: said.clock })
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// For an answer about an item. Whoever asks gives up long before as a rule, and takes the dead connection along.
const PATIENCE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
