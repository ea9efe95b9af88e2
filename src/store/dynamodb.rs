//! Buckets in Amazon DynamoDB: an item for each, written by one conditional `PutItem`, read by one consistent `GetItem`.
//!
//! A client of its own, because Amazon's wants a newer compiler than ours: signed JSON over a few kept connections. The
//! surprising thing: what has outlived its time is judged here and not by DynamoDB, which deletes days later; by the
//! server's clock, so that gates with wrong clocks agree ([`reckoning`]).

mod address;
mod client;
mod clock_offset;
mod connection;
mod credentials;
mod item;
mod pool;
mod sign;
mod table;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use self::address::DynamoDbAddress;
use self::client::DynamoDbClient;
use super::address::Remote;
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, StoreError, StoreFuture, StoreRecord, Stored, Swap,
};
use crate::bucket::Key;

/// Reads an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, String> {
    Ok(Arc::new(DynamoDbAddress::parse(url, environment)?))
}

/// Buckets in a table.
struct DynamoDb {
    client: DynamoDbClient,
    namespace: Namespace,
}

impl Remote for DynamoDbAddress {
    fn open(&self, names: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let client = DynamoDbClient::new(self.clone(), environment)?;
        Ok(Arc::new(DynamoDb { client, namespace: names.clone() }))
    }
}

impl CompareAndSwap for DynamoDb {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move { self.get(&self.namespace.key(key)).await })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move { self.put(&self.namespace.key(key), old, &new).await })
    }

    /// Reads an item that nobody writes: that asks for all that a bucket's load needs, and costs half as much.
    fn probe(&self) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let Clocked { clock, .. } = self.read(&format!("{}:probe", self.namespace), false).await?;
            Ok(Clocked { value: (), clock })
        })
    }

    fn inspect(&self) -> StoreFuture<'_, Vec<String>> {
        Box::pin(table::inspect(&self.client))
    }

    fn schema(&self) -> Vec<String> {
        table::schema(&self.client)
    }

    fn migrate(&self) -> StoreFuture<'_, ()> {
        Box::pin(table::migrate(&self.client))
    }
}

impl DynamoDb {
    async fn get(&self, key: &str) -> Result<Clocked<Option<Stored>>, StoreError> {
        let Clocked { value, clock } = self.read(key, true).await?;
        let stored =
            value.get("Item").and_then(|item| item::stored(item, self.client.clock_estimate.server_now()));
        Ok(Clocked { value: stored, clock })
    }

    async fn read(&self, key: &str, is_consistent: bool) -> Result<Clocked<Value>, StoreError> {
        let table = &self.client.address.table;
        let question = item::get(table, key, is_consistent);
        self.client.call("GetItem", &question, ITEM_TIMEOUT).await?.into_result(table)
    }

    async fn put(
        &self,
        key: &str,
        old: Option<RecordVersion>,
        new: &StoreRecord,
    ) -> Result<Clocked<Swap>, StoreError> {
        let table = &self.client.address.table;
        let version = RecordVersion::random();
        let now = self.client.clock_estimate.server_now();
        let question = item::put(table, key, old, new, version, now);
        let said = self.client.call("PutItem", &question, ITEM_TIMEOUT).await?;
        let value = match said.value {
            Ok(_) => Swap::Done(version),
            Err(fault) if fault.is("ConditionalCheckFailedException") => match &fault.item {
                Some(item) => Swap::Conflict(item::stored(item, now)),
                // There is nothing, or the server is one that does not say what there is.
                None => {
                    let Clocked { value, clock } = self.get(key).await?;
                    return Ok(Clocked { value: Swap::Conflict(value), clock });
                }
            },
            Err(fault) => return Err(fault.into_error(table)),
        };
        Ok(Clocked { value, clock: said.clock })
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// For an answer about an item. Whoever asks gives up long before as a rule, and takes the dead connection along.
const ITEM_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
