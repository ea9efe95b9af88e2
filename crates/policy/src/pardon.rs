//! Pardons: what a client may do for another attempt where a limit refuses it.
//!
//! A pardon is a module of a higher layer, like a [`Defence`](super::Defence). The page of a refusal offers it, the client
//! answers with a voucher, and the voucher gives one token to each bucket that refuses. The policy knows none by name. How
//! much vouchers give, and that each counts once, is left to buckets of the engine.

use std::fmt::Debug;
use std::net::IpAddr;

use super::Limit;
use super::key::KeyHasher;
use tollgate_bucket::{Key, Spec, Time};

/// Lifts refusals of limits.
pub trait Pardon: Debug + Send + Sync {
    /// The key that turns it on. Its buckets are named so, and no limit of a file is.
    fn name(&self) -> &'static str;

    /// The tokens that one bucket may be given.
    fn rate(&self) -> Spec;

    /// The bucket of one voucher: it is taken once in its life.
    fn once(&self) -> Spec;

    /// Whether it lifts this limit.
    fn lifts(&self, limit: &Limit) -> bool;

    /// What a refusal offers.
    fn offer(&self, hasher: &KeyHasher, to: &OfferRecipient<'_>, so_far: GivenSoFar, now: Time) -> String;

    /// What names the offer that this voucher answers; `None` if it answers none of this client's.
    fn redeem(&self, hasher: &KeyHasher, of: &OfferRecipient<'_>, voucher: &str, now: Time) -> Option<Key>;

    /// What it adds to the worst case of a limit, before its rate.
    fn describe(&self) -> &'static str;

    /// What the bounds of a route leave out.
    fn exception(&self) -> &'static str;
}

/// Whom a refusal offers something, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfferRecipient<'a> {
    /// The client's prefix.
    pub client: IpAddr,
    /// The name of the route that refused it.
    pub route: &'a str,
}

/// What an offer may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GivenSoFar {
    /// The tokens that the bucket was given lately.
    pub tokens: u32,
    /// The refusals of the gate each second.
    pub load: u32,
}

/// How a pardon is offered in a page, and how a voucher comes back.
#[derive(Debug)]
pub struct OfferForm {
    /// The name of its place in a page.
    pub placeholder: &'static str,
    /// The part of the page: the offer is at its [place](Self::placeholder), `{{text:KEY}}` at those of texts, and
    /// `{{script}}` where the script belongs.
    pub html: &'static str,
    /// The only script of the page.
    pub script: &'static str,
    /// The text before a voucher in the query: the name of a parameter that is the gate's own, and `=`.
    pub parameter: &'static str,
}
