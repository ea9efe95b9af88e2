//! Pardons: what a client may do for another attempt where a limit refuses it.
//!
//! A pardon is a module of a higher layer, like a [`Defence`](super::Defence). The page of a refusal offers it, the client
//! answers with a voucher, and the voucher gives one token to each bucket that refuses. The policy knows none by name. How
//! much vouchers give, and that each counts once, is left to buckets of the engine.

use std::fmt::Debug;
use std::net::IpAddr;

use http::HeaderName;

use super::Limit;
use super::key::KeyHasher;
use tollgate_bucket::{Key, Span, Spec, Time};

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

    /// The header of an answer in which the application asks that the client earns its next attempt; `None` if it cannot.
    fn demand(&self) -> Option<HeaderName> {
        None
    }

    /// What a refusal offers.
    fn offer(&self, hasher: &KeyHasher, to: &OfferRecipient<'_>, so_far: &GivenSoFar<'_>, now: Time)
    -> Offer;

    /// What names the offer that this voucher answers; `None` if it answers none of this client's.
    fn redeem(&self, hasher: &KeyHasher, of: &OfferRecipient<'_>, voucher: &str, now: Time) -> Option<Key>;

    /// What names all [pauses](OfferedPause) of this client; `None` if there are none.
    fn pause_voucher(&self, _: &KeyHasher, _: &OfferRecipient<'_>) -> Option<Key> {
        None
    }

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
pub struct GivenSoFar<'a> {
    /// The tokens that the bucket was given lately.
    pub tokens: u32,
    /// For how long no [pause](OfferedPause) of this client counts, because one was used.
    pub used_for: Span,
    /// The refusals of the gate each second.
    pub load: u32,
    /// The wait of the refusal, if it ends.
    pub wait: Option<Span>,
    /// The voucher that the refused request came with, if it had one.
    pub voucher: Option<&'a str>,
}

/// What a refusal offers: a client does one of both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// What the script of the page works on. It needs no escaping.
    pub task: String,
    /// What a browser without scripts does.
    pub pause: Option<OfferedPause>,
}

/// A voucher that counts after a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedPause {
    /// The voucher, which needs no escaping in a query.
    pub ticket: String,
    /// What is left of the pause.
    pub left: Span,
}

/// How a pardon is offered in a page, and how a voucher comes back.
#[derive(Debug)]
pub struct OfferForm {
    /// The name of its place in a page.
    pub placeholder: &'static str,
    /// The part of the page: the task is at its [place](Self::placeholder), `{{text:KEY}}` at those of texts, `{{pause}}` where
    /// the pause belongs, and `{{script}}` where the script does.
    pub html: &'static str,
    /// The part of a pause: a form with `{{action}}`, and then a text with `{{wait}}`.
    pub pause: &'static str,
    /// The only script of the page.
    pub script: &'static str,
    /// The text before a voucher in the query: the name of a parameter that is the gate's own, and `=`.
    pub parameter: &'static str,
}
