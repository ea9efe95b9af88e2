//! The gate's own answers.

use http::StatusCode;

use crate::time::Span;

/// What the file says about refusals: `[refuse]`.
#[derive(Debug, Clone)]
pub struct RefuseSettings {
    /// The status of a refusal, 4xx or 5xx.
    pub status: StatusCode,
    /// A page of the site's own instead of the built-in one, with `{{retry_after}}`, `{{limit}}`, `{{request_id}}`.
    pub html: Option<String>,
    /// Likewise for programs.
    pub json: Option<String>,
    /// Likewise for the rest.
    pub text: Option<String>,
    /// When `RateLimit` and `RateLimit-Policy` are sent.
    pub headers: ShowLimits,
    /// How long a refusal is held before it is sent.
    pub delay: Span,
    /// Up to this many thousandths of the wait are added to `Retry-After`.
    pub jitter_permille: u32,
}

/// When `RateLimit` and `RateLimit-Policy` are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShowLimits {
    /// With refusals.
    Refused,
    /// With every attempt's answer.
    Always,
    /// Not at all.
    Never,
}

impl Default for RefuseSettings {
    fn default() -> Self {
        Self {
            status: StatusCode::TOO_MANY_REQUESTS,
            html: None,
            json: None,
            text: None,
            headers: ShowLimits::Refused,
            delay: Span::ZERO,
            jitter_permille: 0,
        }
    }
}
