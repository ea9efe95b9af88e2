//! Forgets the addresses that an account is known from, when an operator asks for it.
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
    /// Forgets the addresses that an account is known from: its owner is a stranger there until the next success.
    ///
    /// # Errors
    /// See [`BucketAdminError`].
    pub async fn forget_addresses(
        &self,
        selector: &BucketSelector,
        by: Operator,
    ) -> Result<BucketReport, BucketAdminError> {
        let account = selector.account().ok_or_else(no_account)?;
        let Some(known) = self.rules().policy.addresses else {
            return Err(BucketAdminError::NoAddresses);
        };
        self.forget_all(account).await?;
        let (owner, limits) = (BucketOwner::Account(self.hasher.log_id(account)), [known.name.into()]);
        let change = Change::AddressesForgotten;
        self.events.emit(&Event::BucketsChanged(BucketsChanged { by, owner, limits: &limits, change }));
        self.show(selector).await
    }

    async fn forget_all(&self, account: &Account) -> Result<(), BucketAdminError> {
        for _ in 0..MAX_TRIES {
            let rules = self.rules.load_full();
            let Some(sets) = &rules.addresses else { return Ok(()) };
            let mut done = Ok(());
            for (_, key) in rules.policy.address_sets_of(account, &self.hasher) {
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
