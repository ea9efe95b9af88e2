//! Forgets the clients that an account signed in from, when an operator asks for it.
//!
//! `bucket_admin` shows how many there are.

use super::bucket_admin::{BucketAdminError, BucketReport};
use super::{Engine, MAX_TRIES};
use crate::event::{BucketOwner, BucketsChanged, Change, Event, Operator};
use crate::policy::account::Account;
use crate::policy::bucket_ref::BucketSelector;
use crate::store::memory::{OwnRateError, Stale};
use crate::store::{BucketChange, BucketChangeError};

impl Engine {
    /// Forgets the clients that an account signed in from: its owner is a stranger there until the next success.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn forget_clients(
        &self,
        selector: &BucketSelector,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let account = selector.account().ok_or_else(no_account)?;
        let Some(memory) = self.rules().policy.owner_memory.clone() else {
            return Err(BucketAdminError::NothingRemembered);
        };
        self.forget_all(account).await?;
        let (owner, limits) = (BucketOwner::Account(self.hasher.log_id(account)), [memory.name().into()]);
        let change = Change::AddressesForgotten;
        self.events.emit(&Event::BucketsChanged(BucketsChanged { by, owner, limits: &limits, change }));
        self.show(selector).await
    }

    pub(super) async fn forget_all(&self, account: &Account) -> Result<(), BucketAdminError> {
        for _ in 0..MAX_TRIES {
            let rules = self.rules.load_full();
            let Some(sets) = &rules.remembered else { return Ok(()) };
            let mut done = Ok(());
            for (_, key) in rules.policy.remembered_sets_of(account, &self.hasher) {
                done =
                    done.and(self.store.change(&sets.buckets, sets.bucket(key), BucketChange::Reset).await);
            }
            match done {
                Err(BucketChangeError::OwnRate(OwnRateError::Stale(Stale))) => std::thread::yield_now(),
                Err(BucketChangeError::OwnRate(error)) => return Err(error.into()),
                Err(BucketChangeError::Unavailable(error)) => return Err(error.into()),
                Ok(()) => return Ok(()),
            }
        }
        Err(OwnRateError::Stale(Stale).into())
    }
}

fn no_account() -> BucketAdminError {
    BucketAdminError::NoBucket("accounts have addresses: user:NAME".to_owned())
}
