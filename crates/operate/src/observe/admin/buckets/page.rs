//! Buckets as a page.
//!
//! A response never repeats the key of its buckets, which may be the name of an account.

use tollgate_grammar::record::Optional;
use tollgate_grammar::records;

use crate::bucket::{Admission, Own};
use crate::engine::{BucketLevel, BucketReport, BucketView, FilledBucket, RememberedCount};
use crate::observe::timestamp::rfc3339;
use crate::policy::LimitKind;
use crate::time::Span;

records! {
    /// The buckets of a client or an account.
    pub BucketsPage {
        /// Each under a limit.
        buckets: Vec<BucketPart>,
        /// Limits that do not see the client.
        exempt: Vec<String>,
        /// Limits that are kept for more than the key names.
        not_shown: Vec<String>,
        /// Addresses that an account is known from.
        addresses: Optional<Vec<AddressesPart>>,
        /// The account, as lists and logs write it: twelve digits of a keyed hash.
        account: Optional<String>,
        /// The buckets that a reset has filled.
        filled: Optional<Vec<FilledPart>>,
    }

    /// A bucket that a reset has filled.
    pub FilledPart {
        /// The limit.
        limit: String,
        /// The prefix that shares the bucket.
        network: Optional<String>,
    }

    /// A bucket.
    pub BucketPart {
        /// The limit.
        limit: String,
        /// The mode of the limit.
        mode: String,
        /// Tokens that are left.
        tokens: u32,
        /// The size of the bucket.
        burst: u32,
        /// Seconds until the next token.
        next: f64,
        /// When it is full.
        full_at: String,
        /// The class of clients that has this rate.
        class: Optional<String>,
        /// The prefix that shares the bucket.
        network: Optional<String>,
        /// The temporary rate.
        own: Optional<OwnRatePart>,
        /// When an exemption ends.
        exempt_until: Optional<String>,
        /// When a ban ends.
        banned_until: Optional<String>,
        /// Failures in a row, of `max_failures`.
        max_failures: Optional<FailuresPart>,
        /// Growing waits, of `escalate`.
        escalate: Optional<WaitsPart>,
    }

    /// A rate of a bucket's own.
    pub OwnRatePart {
        /// The size of the bucket.
        burst: u32,
        /// Seconds for a token.
        seconds_per_token: f64,
        /// When it ends.
        until: String,
    }

    /// Failures in a row.
    pub FailuresPart {
        /// Those that are left.
        left: u32,
        /// All of them.
        most: u32,
    }

    /// Growing waits.
    pub WaitsPart {
        /// Strikes until the next wait.
        left: u32,
        /// Strikes in all.
        after: u32,
        /// Seconds that are left of a wait.
        wait: f64,
        /// When all strikes are forgotten.
        forgotten_at: String,
    }

    /// Addresses that an account is known from.
    pub AddressesPart {
        /// The application, by the name of its route.
        application: String,
        /// How many.
        known: u32,
        /// When the last one is forgotten.
        until: String,
    }
}

pub(super) fn page(report: &BucketReport) -> BucketsPage {
    let addresses: Vec<_> = report.remembered.iter().map(addresses).collect();
    BucketsPage {
        buckets: report.buckets.iter().map(bucket).collect(),
        exempt: report.exempt.iter().map(|name| name.to_string()).collect(),
        not_shown: report.not_shown.iter().map(|name| name.to_string()).collect(),
        addresses: Optional(Some(addresses).filter(|addresses| !addresses.is_empty())),
        account: report.account.map(|account| format!("{account:012x}")).into(),
        filled: report.filled.as_ref().map(|filled| filled.iter().map(filled_part).collect()).into(),
    }
}

fn filled_part(FilledBucket { limit, network }: &FilledBucket) -> FilledPart {
    FilledPart { limit: limit.to_string(), network: network.map(|network| network.to_string()).into() }
}

fn addresses(RememberedCount { application, known, until }: &RememberedCount) -> AddressesPart {
    AddressesPart { application: application.to_string(), known: *known, until: rfc3339(*until) }
}

fn bucket(view: &BucketView) -> BucketPart {
    let BucketLevel { spec, verdict } = view.rate;
    BucketPart {
        limit: view.limit.to_string(),
        mode: view.mode.name().to_owned(),
        tokens: verdict.left,
        burst: spec.burst(),
        next: seconds(verdict.next_token),
        full_at: rfc3339(verdict.full_at),
        class: Some(view.class.to_string()).filter(|class| !class.is_empty()).into(),
        network: view.network.map(|network| network.to_string()).into(),
        own: view.own.as_ref().map(own_part).into(),
        exempt_until: view.exempt_until().map(rfc3339).into(),
        banned_until: view.banned_until().map(rfc3339).into(),
        max_failures: view.level_of(LimitKind::Cap).map(failures).into(),
        escalate: view.level_of(LimitKind::Escalation).map(waits).into(),
    }
}

pub(super) fn own_part(own: &Own) -> OwnRatePart {
    OwnRatePart {
        burst: own.rate.burst(),
        seconds_per_token: seconds(own.rate.per_token()),
        until: rfc3339(own.until),
    }
}

fn failures(BucketLevel { spec, verdict }: BucketLevel) -> FailuresPart {
    FailuresPart { left: verdict.left, most: spec.burst() }
}

fn waits(BucketLevel { spec, verdict }: BucketLevel) -> WaitsPart {
    let wait = match verdict.admission {
        Admission::Refused { wait } => seconds(wait),
        _ => 0.0,
    };
    WaitsPart { left: verdict.left, after: spec.burst(), wait, forgotten_at: rfc3339(verdict.full_at) }
}

/// Rounded up to a millisecond, so a client that waits this long has waited enough.
pub(in super::super) fn seconds(span: Span) -> f64 {
    let millis = span.as_nanos().div_ceil(1_000_000);
    std::time::Duration::from_millis(millis).as_secs_f64()
}
