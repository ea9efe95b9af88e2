//! A cookie that makes the owner of an account known: a client gets it after a sign-in, and carries it from then on.
//!
//! It is a module of a higher layer, like a [`Defence`](super::Defence). The policy charges what comes with it to a bucket
//! of the owner, and does not know what is in it. It proves no identity: an owner still needs the password.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use super::account::Account;
use super::key::OwnerId;
use tollgate_bucket::Time;

/// Knows the owners of accounts by a cookie.
pub trait OwnerCookie: Any + Debug + Send + Sync {
    /// Whether both have the same settings.
    fn is_same(&self, other: &dyn OwnerCookie) -> bool;

    /// What a request carries of it: verified once, whatever accounts the request names.
    fn read(&self, headers: &HeaderMap, now: Time) -> Box<dyn VerifiedCookie + '_>;

    /// The lines of `Cookie` of a request without it; `None` if it is in none.
    fn others(&self, headers: &HeaderMap) -> Option<Vec<HeaderValue>>;
}

/// What one request carries of an [`OwnerCookie`].
pub trait VerifiedCookie {
    /// The owner of this account of this application, if the client has signed in to it before.
    fn owner(&self, application: &str, account: &Account) -> Option<OwnerId>;

    /// The claim of this client, for a sign-in to this account.
    fn claim(&self, application: &str, account: &Account) -> Arc<dyn OwnerClaim>;
}

/// What makes a client known as the owner of an account once its attempt has succeeded.
pub trait OwnerClaim: Debug + Send + Sync {
    /// The account and its application, as a keyed hash: two claims of one request with the same are one.
    fn account(&self) -> [u8; 16];

    /// The `Set-Cookie` after a success; `None` if the system gives no randomness. `is_secure` is whether the client uses
    /// TLS.
    fn grant(&self, now: Time, is_secure: bool) -> Option<HeaderValue>;
}

/// How people name the owners that a cookie makes known.
#[derive(Debug)]
pub struct OwnerWords {
    /// Their part of a limit's `key`, their kind of bucket, and their table in the file.
    pub key: &'static str,
    /// Several of them.
    pub several: &'static str,
    /// Why none is known to an access log.
    pub not_logged: &'static str,
    /// The owner that an operator names by a text from the cookie. It is not verified, because it proves nothing.
    pub owner_of: fn(&[u8]) -> Option<OwnerId>,
    /// What an operator reads who has them forgotten, where none is remembered.
    pub not_remembered: &'static str,
    /// What is wrong with a text that names none.
    pub no_owner: &'static str,
}

impl PartialEq for dyn OwnerCookie {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other)
    }
}

impl PartialEq for dyn OwnerClaim {
    fn eq(&self, other: &Self) -> bool {
        self.account() == other.account()
    }
}

impl Eq for dyn OwnerClaim {}

#[cfg(test)]
pub(crate) mod tests {
    use http::header::COOKIE;

    use super::*;

    /// Owners are those with the cookie `seven=7`.
    #[derive(Debug)]
    pub(crate) struct SevenCookie;

    pub(crate) const WORDS: OwnerWords = OwnerWords {
        key: "seven",
        several: "sevens",
        not_logged: "the log has no sevens",
        owner_of: |text| (text == b"7").then_some(OwnerId(7)),
        not_remembered: "no seven is remembered",
        no_owner: "no seven",
    };

    struct Carried(bool);

    #[derive(Debug)]
    struct NoClaim;

    impl OwnerCookie for SevenCookie {
        fn is_same(&self, _: &dyn OwnerCookie) -> bool {
            true
        }

        fn read(&self, headers: &HeaderMap, _: Time) -> Box<dyn VerifiedCookie + '_> {
            Box::new(Carried(headers.get_all(COOKIE).iter().any(|line| line == "seven=7")))
        }

        fn others(&self, _: &HeaderMap) -> Option<Vec<HeaderValue>> {
            None
        }
    }

    impl VerifiedCookie for Carried {
        fn owner(&self, _: &str, _: &Account) -> Option<OwnerId> {
            self.0.then_some(OwnerId(7))
        }

        fn claim(&self, _: &str, _: &Account) -> Arc<dyn OwnerClaim> {
            Arc::new(NoClaim)
        }
    }

    impl OwnerClaim for NoClaim {
        fn account(&self) -> [u8; 16] {
            [7; 16]
        }

        fn grant(&self, _: Time, _: bool) -> Option<HeaderValue> {
            None
        }
    }
}
