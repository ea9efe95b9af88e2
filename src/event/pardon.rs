//! Events of pardons: what is offered to refused clients, and what vouchers are worth.

/// What became of a pardon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PardonResult {
    /// A page offered it.
    Offered,
    /// A voucher gave an attempt.
    Redeemed,
    /// A voucher gave nothing: no answer to an offer, used, or beyond the rate.
    Refused,
}
