//! Whom an attempt is about: the accounts that it names, each as a keyed hash, and the devices that are known for them.
//!
//! Names and passwords are read, hashed and forgotten here. The surprising thing: where nobody can say what a body
//! names, the attempt is about one account that all such attempts share.

use std::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};
use smallvec::{SmallVec, smallvec};

use super::Route;
use super::account::Account;
use super::attempt::Attempt;
use super::device::{Claim, Device, Devices};
use super::field::{Half, NoValues, values};
use super::key::{KeyHasher, TooManyValues, write_bytes};
use crate::time::Time;

/// Whom an attempt is about, as one route reads it; never shown.
#[derive(Clone, Default)]
pub(super) struct Subject {
    /// The accounts that it names; one that stands for none, or for what nobody can read, if it names none.
    pub(super) named: SmallVec<[Named; 1]>,
    /// Of the one password for the one account, if there is one of each.
    pub(super) password: Option<u64>,
    /// How many guesses it makes: pairs of an account and a password.
    pub(super) guesses: u32,
    /// How many accounts it names.
    pub(super) accounts: u32,
    /// What is needed to remember the device if the one account signs in.
    pub(super) claim: Option<Box<Claim>>,
}

/// One account that an attempt names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Named {
    /// A keyed hash of its folded name.
    pub(super) account: u128,
    /// Where it is known from, if the browser has signed in to it before.
    pub(super) device: Option<Device>,
}

impl Named {
    /// The same as if nobody knew the device.
    pub(super) fn stranger(self) -> Self {
        Self { device: None, ..self }
    }
}

impl Subject {
    /// What a route reads out of an attempt.
    ///
    /// # Errors
    /// [`TooManyValues`] beyond eight accounts or passwords.
    pub(super) fn of(
        route: &Route,
        attempt: &Attempt<'_>,
        hasher: &KeyHasher,
        devices: Option<&Devices>,
        now: Time,
    ) -> Result<Self, TooManyValues> {
        let users = match values(&route.user, Half::User, attempt) {
            Ok(users) => users,
            Err(NoValues::TooMany(error)) => return Err(error),
            Err(NoValues::Unreadable) => return Ok(Self::nobody(hasher, UNREADABLE)),
        };
        let mut accounts: SmallVec<[Account; 1]> = SmallVec::new();
        for user in users.iter() {
            let account = Account::fold(user);
            if !accounts.contains(&account) {
                accounts.push(account);
            }
        }
        if accounts.is_empty() {
            return Ok(Self::nobody(hasher, ABSENT));
        }
        let bearer = devices.map(|devices| (devices, devices.wallet(attempt.headers, now)));
        let known = |account: &Account| {
            let (devices, wallet) = bearer.as_ref()?;
            devices.known(wallet, &route.application, account)
        };
        let named = accounts
            .iter()
            .map(|account| Named { account: hasher.of_account(account.as_bytes()), device: known(account) });
        let mut subject = Self { named: named.collect(), guesses: 1, ..Self::default() };
        subject.accounts = u32::try_from(accounts.len()).unwrap_or(u32::MAX);
        subject.read_passwords(route, attempt, hasher)?;
        if let ([only], Some((devices, wallet))) = (&*accounts, &bearer) {
            subject.claim = Some(Box::new(devices.claim(wallet, &route.application, only)));
        }
        Ok(subject)
    }

    /// One that all attempts share that name nobody, for this reason.
    fn nobody(hasher: &KeyHasher, why: u8) -> Self {
        let account = hasher.of_nobody(why);
        Self { named: smallvec![Named { account, device: None }], guesses: 1, ..Self::default() }
    }

    fn read_passwords(
        &mut self,
        route: &Route,
        attempt: &Attempt<'_>,
        hasher: &KeyHasher,
    ) -> Result<(), TooManyValues> {
        let passwords = match values(&route.password, Half::Password, attempt) {
            Ok(passwords) => passwords,
            Err(NoValues::TooMany(error)) => return Err(error),
            Err(NoValues::Unreadable) => return Ok(()),
        };
        let mut all = passwords.iter();
        let first = all.next();
        let count = u32::from(first.is_some()) + u32::try_from(all.count()).unwrap_or(u32::MAX - 1);
        self.guesses = self.accounts.saturating_mul(count.max(1));
        if let (Some(password), [only]) = (first.filter(|_| count == 1), &*self.named) {
            self.password = Some(hasher.of_password(only.account, password));
        }
        Ok(())
    }

    /// The one account that it names, as a hash.
    pub(super) fn account(&self) -> Option<u64> {
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = |named: &Named| named.account as u64;
        self.named.first().filter(|_| self.accounts == 1).map(half)
    }
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Subject({} accounts hidden)", self.accounts)
    }
}

impl KeyHasher {
    /// The account of a folded name.
    pub(super) fn of_account(&self, folded: &[u8]) -> u128 {
        self.of(|hasher| write_bytes(hasher, b'a', folded))
    }

    /// What stands for an account in the log: the same for all spellings of its name, until the secret is another one. 48
    /// bits of a hash that names no bucket.
    #[must_use]
    pub fn brief(&self, account: &Account) -> u64 {
        let whole = self.of(|hasher| write_bytes(hasher, b'b', account.as_bytes()));
        #[expect(clippy::cast_possible_truncation, reason = "a part of a hash is a hash")]
        let half = whole as u64;
        half >> 16
    }

    fn of_nobody(&self, why: u8) -> u128 {
        self.of(|hasher| hasher.write_u8(why))
    }

    fn of_password(&self, account: u128, password: &[u8]) -> u64 {
        let whole = self.of(|hasher| {
            write_bytes(hasher, b'p', password);
            hasher.write_u128(account);
        });
        #[expect(clippy::cast_possible_truncation, reason = "half of a hash is a hash")]
        let half = whole as u64;
        half
    }

    fn of(&self, write: impl FnOnce(&mut SipHasher13)) -> u128 {
        let mut hasher = self.start();
        write(&mut hasher);
        hasher.finish128().as_u128()
    }
}

const UNREADABLE: u8 = b'x';
const ABSENT: u8 = b'-';
