//! Forgets a person: resets the buckets of their accounts and addresses, what accounts are known from, and recent sign-ins.
//!
//! Rates and bans that operators gave stay unless they are meant as well. Buckets that an address shares with more neighbours than
//! others do stay, too: they count a network, and no person. Where lines are written is left to the layers above.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::{BucketAdminError, ChangeScope, is_rate, network_of};
use crate::bucket::Own;
use crate::engine::Engine;
use crate::event::{BucketOwner, Change};
use crate::policy::account::Account;
use crate::policy::attempt::Client;
use crate::policy::bucket_ref::BucketSelector;
use crate::policy::key::KeyPart;
use crate::policy::person::Person;
use crate::policy::second_step::SignedInAccount;
use crate::time::Time;

/// How a person is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgetScope {
    /// Only counts.
    pub is_dry_run: bool,
    /// Whether bans and own rates end as well.
    pub ends_rates: bool,
}

/// What was kept for a person, and what still is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForgottenBuckets {
    /// Buckets that were not full.
    pub buckets: u64,
    /// Clients that accounts were known from.
    pub clients: u64,
    /// Cookies of recent sign-ins.
    pub sign_ins: u64,
    /// Bans and own rates that ended.
    pub rates_ended: u64,
    /// Bans, exemptions and own rates that stay, of the person or of a prefix.
    pub rates_kept: u64,
    /// Networks whose clients shared a bucket that was reset.
    pub shared: Vec<IpNet>,
    /// Limits whose keys have other parts: their buckets cannot be found.
    pub unknown: Vec<Arc<str>>,
}

impl Engine {
    /// Forgets a person, or counts what there is. After an error some of it is forgotten, and the same may be asked again.
    ///
    /// # Errors
    /// [`BucketAdminError::Unavailable`].
    pub async fn forget(
        &self,
        person: &Person,
        scope: ForgetScope,
    ) -> Result<ForgottenBuckets, BucketAdminError> {
        let mut found = ForgottenBuckets::default();
        for selector in self.selectors(person) {
            self.forget_buckets(&selector, scope, &mut found).await?;
        }
        for account in person.accounts() {
            let known = self.count_remembered(&self.rules.load_full(), account).await?;
            found.clients += known.iter().map(|known| u64::from(known.known)).sum::<u64>();
            if !scope.is_dry_run {
                self.forget_all(account).await?;
            }
        }
        let is_theirs =
            |account: &SignedInAccount| person.accounts().iter().any(|name| account.is(name, &self.hasher));
        found.sign_ins = self.sign_ins.forget(is_theirs, scope.is_dry_run) as u64;
        if !scope.is_dry_run {
            let owners = self.owners_of(person);
            self.forget_owners(|owner| owners.contains(owner), scope.ends_rates);
        }
        found.rates_kept += self.overrides_about(person) as u64;
        Ok(found)
    }

    /// A person's accounts and addresses, as lists have them.
    #[must_use]
    pub fn owners_of(&self, person: &Person) -> Vec<BucketOwner> {
        let accounts =
            person.accounts().iter().map(|account| BucketOwner::Account(self.hasher.log_id(account)));
        let clients = person.addresses().iter().map(|address| BucketOwner::Client(Client::from_ip(*address)));
        accounts.chain(clients).collect()
    }

    /// Keyed hashes of a person's accounts and addresses, which name nobody: the audit line of the change has them.
    #[must_use]
    pub fn tombstone(&self, person: &Person) -> String {
        let account = |account: &Account| format!("user:#{:012x}", self.hasher.log_id(account));
        let address = |address: &IpAddr| {
            let text = Account::fold(format!("ip {address}").as_bytes());
            format!("ip:#{:012x}", self.hasher.log_id(&text))
        };
        let all = person.accounts().iter().map(account).chain(person.addresses().iter().map(address));
        all.collect::<Vec<_>>().join(" ")
    }

    /// How many changes of operators are about a prefix that holds an address of the person: they stay.
    fn overrides_about(&self, person: &Person) -> usize {
        let rules = self.rules.load();
        let overrides = &rules.overrides;
        let bans = overrides.bans().iter().map(|ban| ban.clients.prefix);
        let exemptions = overrides.exemptions().iter().map(|exemption| exemption.clients.prefix);
        let holds = |prefix: &IpNet| person.addresses().iter().any(|address| prefix.contains(address));
        bans.chain(exemptions).filter(holds).count()
    }

    fn forget_owners(&self, is_theirs: impl Fn(&BucketOwner) -> bool, ends_rates: bool) {
        let now: Time = self.time();
        self.rate_owners.forget(&self.rules.load(), now, is_theirs, ends_rates);
    }

    /// All buckets that are found by names and addresses alone, each once.
    fn selectors(&self, person: &Person) -> Vec<BucketSelector> {
        let mut all: Vec<BucketSelector> = person.selectors().collect();
        let rules = self.rules.load();
        for account in person.accounts() {
            for address in person.addresses() {
                let owners = rules.policy.known_owners_of(account, Client::from_ip(*address), &self.hasher);
                for owner in owners {
                    if !all.contains(&owner) {
                        all.push(owner);
                    }
                }
            }
        }
        all
    }

    async fn forget_buckets(
        &self,
        selector: &BucketSelector,
        scope: ForgetScope,
        found: &mut ForgottenBuckets,
    ) -> Result<(), BucketAdminError> {
        let rules = self.rules.load_full();
        let selected = rules.policy.buckets_of(selector, &self.hasher);
        let narrowest = ChangeScope { limit: None, spares_neighbours: true, within: None };
        let targets = rules.targets(selector, &selected, narrowest, |_| true)?;
        for bucket in &selected.buckets {
            let target = rules.target(bucket);
            if !targets.contains(&target) {
                continue;
            }
            let limit = &rules.policy.limits[bucket.limit];
            let (level, own) = self.level(&rules, bucket).await?;
            let own = own.filter(|_| is_rate(limit.kind));
            found.count_rate(own, scope);
            let change = match own {
                Some(_) if scope.ends_rates => Change::BanEnded,
                // Without its tokens a ban would be over.
                Some(own) if own.is_ban() || own.rate.burst() == 1 => continue,
                _ => Change::Reset,
            };
            if level.verdict.full_at > self.time() {
                found.buckets += 1;
                let network =
                    network_of(selector, limit).filter(|net| net.prefix_len() < net.max_prefix_len());
                found.shared.extend(network.filter(|network| !found.shared.contains(network)));
            }
            if !scope.is_dry_run {
                self.change_one(selector, &target, change).await?;
            }
        }
        let names_somebody =
            |limit: &&usize| rules.policy.limits[**limit].key.iter().any(|part| *part != KeyPart::All);
        for &limit in selected.not_addressable.iter().filter(names_somebody) {
            let name = &rules.policy.limits[limit].name;
            if !found.unknown.contains(name) {
                found.unknown.push(Arc::clone(name));
            }
        }
        Ok(())
    }
}

impl ForgottenBuckets {
    fn count_rate(&mut self, own: Option<Own>, scope: ForgetScope) {
        match own {
            Some(_) if scope.ends_rates => self.rates_ended += 1,
            Some(_) => self.rates_kept += 1,
            None => {}
        }
    }
}
