//! The accounts and clients that a person is, as an operator names them: `user:NAME` and `ip:ADDRESS`.
//!
//! A name is read as the routes read it: folded, cut to `user_length`, and without its domain where a route reads domains.

use std::net::IpAddr;

use super::Policy;
use super::account::Account;
use super::attempt::Client;
use super::bucket_ref::BucketSelector;
use super::route::SlottedRoute;

/// A person; the `Debug` form hides all of it.
#[derive(Clone, Default)]
pub struct Person {
    accounts: Vec<Account>,
    addresses: Vec<IpAddr>,
}

/// Why a text names no person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PersonError {
    /// Another kind, or none.
    #[error("a person is user:NAME or ip:ADDRESS")]
    Kind,
    /// No name.
    #[error("the name after user: is empty")]
    Name,
    /// A name that cannot be told from others.
    #[error("a name with markup or escapes stands for many accounts")]
    Ambiguous,
    /// No address.
    #[error("what follows ip: is not an address")]
    Address,
    /// Nobody, or too many.
    #[error("name one to {MAX_WORDS} accounts and addresses of a person")]
    Count,
}

impl Policy {
    /// The person of these words, each `user:NAME` or `ip:ADDRESS`.
    ///
    /// # Errors
    /// See [`PersonError`].
    pub fn person<'w>(&self, words: impl IntoIterator<Item = &'w str>) -> Result<Person, PersonError> {
        let (mut person, mut count) = (Person::default(), 0);
        for word in words {
            count += 1;
            match word.split_once(':') {
                Some(("user", "")) => return Err(PersonError::Name),
                Some(("user", name)) if Account::fold(name.as_bytes()).is_ambiguous() => {
                    return Err(PersonError::Ambiguous);
                }
                Some(("user", name)) => person.add_name(self, name.as_bytes()),
                Some(("ip", address)) => {
                    let address: IpAddr = address.parse().map_err(|_| PersonError::Address)?;
                    person.addresses.push(address.to_canonical());
                }
                _ => return Err(PersonError::Kind),
            }
        }
        if (1..=MAX_WORDS).contains(&count) { Ok(person) } else { Err(PersonError::Count) }
    }
}

impl Person {
    /// The accounts, in each form that a route reads.
    #[must_use]
    pub fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// The addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Selectors of all that is kept for an account, for an address, and for both together.
    pub fn selectors(&self) -> impl Iterator<Item = BucketSelector> {
        let client = |address: &IpAddr| Client::from_ip(*address);
        let accounts = self.accounts.iter().map(|account| BucketSelector::of_account(account.clone()));
        let clients = self.addresses.iter().map(move |address| BucketSelector::of_client(client(address)));
        let pairs = self.accounts.iter().flat_map(move |account| {
            let pair = move |address| BucketSelector::of_pair(account.clone(), client(address));
            self.addresses.iter().map(pair)
        });
        accounts.chain(clients).chain(pairs)
    }

    fn add_name(&mut self, policy: &Policy, name: &[u8]) {
        self.add_forms(name, |account| account);
        for SlottedRoute { route, slots } in (0..policy.routes.len()).map(|at| policy.slotted(at)) {
            let is_of_domain = slots.has_domains;
            let user = if is_of_domain { Account::without_domain(name) } else { name };
            for cut in Account::cuts(user, route.reading.user_length) {
                self.add_forms(
                    cut,
                    |account| {
                        if is_of_domain { account.without_folded_domain() } else { account }
                    },
                );
            }
        }
    }

    fn add_forms(&mut self, name: &[u8], form: impl Fn(Account) -> Account) {
        let forms = std::iter::once(Account::fold(name)).chain(Account::fold_without_later(name));
        for account in forms.map(form) {
            if !account.as_bytes().is_empty() && !self.accounts.contains(&account) {
                self.accounts.push(account);
            }
        }
    }
}

impl std::fmt::Debug for Person {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Person({} accounts and {} addresses hidden)", self.accounts.len(), self.addresses.len())
    }
}

/// Accounts and addresses of one person.
const MAX_WORDS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;
    use crate::{Route, RouteReading};

    fn policy(user_length: usize) -> Policy {
        let reading = RouteReading { user: vec![Field::Basic], user_length, ..RouteReading::default() };
        let route = Route { reading, ..Route::new("login", vec!["POST /login".parse().unwrap()]) };
        Policy::new(vec![route], vec![])
    }

    #[test]
    fn a_name_stands_for_each_form_that_a_route_reads() {
        let accounts = |policy: &Policy, word: &str| policy.person([word]).unwrap().accounts().to_vec();
        let fold = |name: &str| Account::fold(name.as_bytes());
        assert_eq!(accounts(&policy(100), "user:Alice").len(), 1);
        assert!(accounts(&policy(100), "user:Alice")[0] == fold("alice"));
        let cut = accounts(&policy(4), "user:Alice");
        assert!(cut.contains(&fold("alice")) && cut.contains(&fold("alic")));
    }

    #[test]
    fn what_is_neither_a_name_nor_an_address_is_no_person() {
        let policy = policy(100);
        let error = |words: &[&str]| policy.person(words.iter().copied()).unwrap_err();
        assert_eq!(error(&["alice"]), PersonError::Kind);
        assert_eq!(error(&["host:a"]), PersonError::Kind);
        assert_eq!(error(&["user:"]), PersonError::Name);
        assert_eq!(error(&["user:a<i>b"]), PersonError::Ambiguous);
        assert_eq!(error(&["ip:203.0.113.0/24"]), PersonError::Address);
        assert_eq!(error(&[]), PersonError::Count);
        assert_eq!(error(&["user:a"; 17]), PersonError::Count);
        let person = policy.person(["user:a:b", "ip:::ffff:203.0.113.9"]).unwrap();
        assert_eq!(person.addresses(), ["203.0.113.9".parse::<IpAddr>().unwrap()]);
        assert_eq!(person.selectors().count(), 3, "the account, the address, and both together");
    }
}
