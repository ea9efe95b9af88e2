//! Writes back what this gate knows of a server that has lost its records: bans and rates of operators first, then the
//! buckets without tokens.
//!
//! Each is written as after an outage: the state here and the one there are joined. Which buckets are known is left to
//! [`recent_buckets`](super::recent_buckets).

use std::sync::Arc;
use std::time::Duration;

use super::SharedStore;
use super::mirror::Mirror;
use super::request::{StoreOp, StoreReply, StoreRequest};
use crate::ServerId;
use crate::memory::BucketKey;
use tollgate_bucket::Op;

impl SharedStore {
    /// Remembers a bucket that would be written back.
    pub(super) fn keep_in_mind(
        &self,
        StoreRequest { bucket, mirror, .. }: &StoreRequest,
        reply: &StoreReply,
    ) {
        if reply.own.is_some() {
            self.ordered.add(bucket, mirror);
        } else if reply.verdict.left == 0 {
            self.drained.add(bucket, mirror);
        }
    }

    /// Writes back all that is known of a server's records, some at a time.
    pub(super) async fn write_back(self: Arc<Self>, server: ServerId, name: Arc<str>) {
        let of_server = |(bucket, _): &(BucketKey, Arc<Mirror>)| self.backend.server_of(bucket.key) == server;
        let mut known: Vec<_> = self.ordered.list().into_iter().filter(of_server).collect();
        let orders = known.len();
        known.extend(self.drained.list().into_iter().filter(of_server));
        self.observer.warned(&told(&name, orders, known.len() - orders));
        for _ in 0..MAX_TRIES {
            known = self.write_back_once(known).await;
            if known.is_empty() {
                return;
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }

    /// Returns those that the store did not answer.
    async fn write_back_once(
        self: &Arc<Self>,
        known: Vec<(BucketKey, Arc<Mirror>)>,
    ) -> Vec<(BucketKey, Arc<Mirror>)> {
        let mut left = Vec::new();
        for some in known.chunks(AT_ONCE) {
            // A look at a record that may be lost joins it with what is known here.
            let look = |(bucket, mirror): &'_ (BucketKey, Arc<Mirror>)| {
                self.call(mirror, *bucket, StoreOp::Step(Op::Peek(1)))
            };
            let replies: Vec<_> = some.iter().map(look).collect();
            for (one, reply) in some.iter().zip(replies) {
                if reply.await.is_err() {
                    left.push(one.clone());
                }
            }
            tokio::time::sleep(PAUSE).await;
        }
        left
    }
}

fn told(name: &str, orders: usize, drained: usize) -> String {
    let server = if name.is_empty() { "the store".to_owned() } else { format!("the store's server {name}") };
    format!(
        "{server} has lost its records, so clients have full buckets: this gate writes back what it knows, {orders} bans and \
         rates of operators and {drained} empty buckets"
    )
}

/// Buckets at once, and the time between: three thousand a second at most.
const AT_ONCE: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
const MAX_TRIES: u32 = 5;
const RETRY_PAUSE: Duration = Duration::from_millis(500);
