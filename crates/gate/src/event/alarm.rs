//! What operators are told at once: alarms and guesses of routes, and troubles of the gate as a whole.

use http::Uri;

use crate::policy::{AlarmFigures, AlarmWords, Route};
use crate::time::Time;

/// A success of an unknown client after at least [`GuessWorked::MIN_FAILURES`] failures in a row of its account.
#[derive(Debug, Clone, Copy)]
pub struct GuessWorked<'a> {
    /// The route.
    pub route: &'a Route,
    /// The account: a keyed hash of 48 bits, as in the decision log.
    pub account: u64,
    /// The failures before it.
    pub failures: u32,
    /// When it was settled.
    pub at: Time,
}

impl GuessWorked<'_> {
    /// People who mistype a password sign in after fewer failures.
    pub const MIN_FAILURES: u32 = 5;
}

/// Begin or end of an alarm on a route.
#[derive(Debug, Clone, Copy)]
pub struct AlarmChange<'a> {
    /// The name of the route.
    pub route: &'a str,
    /// How it is told.
    pub words: &'static AlarmWords,
    /// Where it is reported.
    pub report_to: Option<&'a Uri>,
    /// Whether the alarm begins; otherwise it ends.
    pub begins: bool,
    /// What it saw within the last minute.
    pub figures: AlarmFigures,
    /// When it saw that.
    pub at: Time,
}

/// A trouble that begins or ends. The code that finds it logs it as well.
#[derive(Debug, Clone, Copy)]
pub struct Trouble<'a> {
    /// What it is.
    pub kind: TroubleKind,
    /// The server, the certificate or the restriction; empty if there is only one.
    pub subject: &'a str,
    /// The reason, in words for operators.
    pub why: &'a str,
    /// When it was found.
    pub at: Time,
}

/// The kinds of troubles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TroubleKind {
    /// A server of the store does not answer.
    StoreDown,
    /// It answers again.
    StoreUp,
    /// A certificate ends within a week, or has ended.
    CertificateExpires,
    /// An authority issued no new certificate.
    CertificateNotIssued,
    /// The kernel cannot do a part of the sandbox.
    SandboxIncomplete,
}

impl TroubleKind {
    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::StoreDown => "store_down",
            Self::StoreUp => "store_up",
            Self::CertificateExpires => "certificate_expires",
            Self::CertificateNotIssued => "certificate_not_issued",
            Self::SandboxIncomplete => "sandbox_incomplete",
        }
    }
}
