//! Buckets in Amazon DynamoDB: an item for each, written by one conditional `PutItem`, read by one consistent
//! `GetItem`.
//!
//! The client is our own, because it must never send a write twice: signed JSON over a few pooled connections.
//! Expiry is decided here and not by DynamoDB, which deletes days later; by the server's clock, so that gates with
//! wrong clocks agree ([`clock_offset`](super::clock_offset)).

mod address;
mod client;
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
use super::address::{BadStoreAddress, Remote};
use super::compare_and_swap::{
    Clocked, CompareAndSwap, Namespace, RecordVersion, ServerId, StoreError, StoreFuture, StoreRecord,
    Stored, Swap,
};
use tollgate_bucket::{Key, Span, Time};

/// Parses an address.
pub(super) fn parse(url: &str) -> Result<Arc<dyn Remote>, BadStoreAddress> {
    Ok(Arc::new(DynamoDbAddress::parse(url, environment)?))
}

/// Buckets in a table.
struct DynamoDb {
    client: DynamoDbClient,
    namespace: Namespace,
}

impl Remote for DynamoDbAddress {
    fn open(&self, namespace: &Namespace) -> Result<Arc<dyn CompareAndSwap>, StoreError> {
        let client = DynamoDbClient::new(self.clone(), environment)?;
        Ok(Arc::new(DynamoDb { client, namespace: namespace.clone() }))
    }
}

impl CompareAndSwap for DynamoDb {
    fn load(&self, key: Key) -> StoreFuture<'_, Option<Stored>> {
        Box::pin(async move { self.get(&self.namespace.key(key)).await })
    }

    fn swap(&self, key: Key, old: Option<RecordVersion>, new: StoreRecord) -> StoreFuture<'_, Swap> {
        Box::pin(async move { self.put(&self.namespace.key(key), old, &new).await })
    }

    /// Writes an item that is never read; that it was written by another gate a moment ago is as good.
    fn probe(&self, _server: ServerId) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let ttl = Span::from_secs(1);
            let (limit, full_at) = ("probe".into(), Time::default());
            let new = StoreRecord { bytes: vec![0], ttl, limit, full_at };
            let Clocked { clock, .. } = self.put(&format!("{}:probe", self.namespace), None, &new).await?;
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
        let stored = value.get("Item").and_then(|item| item::stored(item, self.client.server_now()));
        Ok(Clocked { value: stored, clock })
    }

    async fn read(&self, key: &str, is_consistent: bool) -> Result<Clocked<Value>, StoreError> {
        let table = &self.client.address.table;
        let request = item::get(table, key, is_consistent);
        self.client.call("GetItem", &request, ITEM_TIMEOUT).await?.into_result(table)
    }

    async fn put(
        &self,
        key: &str,
        old: Option<RecordVersion>,
        new: &StoreRecord,
    ) -> Result<Clocked<Swap>, StoreError> {
        let table = &self.client.address.table;
        let version = RecordVersion::random();
        let now = self.client.server_now();
        let request = item::put(table, key, old, new, version, now);
        let reply = self.client.call("PutItem", &request, ITEM_TIMEOUT).await?;
        let value = match reply.value {
            Ok(_) => Swap::Done(version),
            Err(error) if error.is("ConditionalCheckFailedException") => match &error.item {
                Some(item) => Swap::Conflict(item::stored(item, now)),
                // There is no item, or the server does not return it.
                None => {
                    let Clocked { value, clock } = self.get(key).await?;
                    return Ok(Clocked { value: Swap::Conflict(value), clock });
                }
            },
            Err(error) => return Err(error.into_error(table)),
        };
        Ok(Clocked { value, clock: reply.clock })
    }
}

fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// For a response about an item. The caller usually gives up long before; its connection is given up after this.
const ITEM_TIMEOUT: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests;
