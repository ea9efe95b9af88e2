//! Troubles of the gate as a whole that its operator has to hear of at once.

use crate::time::Time;

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
