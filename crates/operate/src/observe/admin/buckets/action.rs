//! What a request asks of buckets: parsed, recorded, done.

use http::Method;
use serde::Serialize;
use tollgate_grammar::record::Optional;

use super::super::audit_trail::{AuditedChange, MAX_AUDITED, PageContext, audited};
use super::super::request::AdminProblem;
use super::super::token::OperatorRole;
use super::super::unlock::{check_exemption, order_stands};
use super::page::{BucketPart, OwnRatePart, own_part};
use super::request::{BucketRequest, BucketResource};
use super::{BucketsApi, page, problem_of};
use crate::bucket::{Continuous, Own};
use crate::engine::{BucketAdminError, BucketReport, ChangeScope};
use crate::observe::timestamp::rfc3339;
use crate::policy::bucket_ref::BucketSelector;
use crate::time::{Span, Time};

/// What a request asks of the buckets that it names.
#[derive(Debug, Clone, Copy)]
pub(super) enum BucketAction {
    Show,
    Reset { spares_neighbours: bool },
    Credit(u32),
    GiveRate { rate: Continuous, lasts: Span },
    EndRate,
    Exempt { lasts: Span },
    EndExemption,
    Ban { lasts: Span },
    EndBan,
    ForgetClients,
}

/// A bucket, as the audit has it. It names no client: those who read logs may not all see addresses.
#[derive(Debug, Clone, Serialize)]
struct AuditedBucket {
    limit: String,
    tokens: u32,
    burst: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    own: Option<OwnRatePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exempt_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    banned_until: Option<String>,
}

impl BucketAction {
    pub(super) fn parse(
        resource: BucketResource,
        method: &Method,
        request: &BucketRequest,
    ) -> Result<Self, AdminProblem> {
        let is_put = *method == Method::PUT;
        Ok(match resource {
            BucketResource::Bucket if *method == Method::DELETE => {
                request.has_only(&["limit", "only"])?;
                Self::Reset { spares_neighbours: request.is_set("only")? }
            }
            BucketResource::Bucket => {
                request.has_only(&[])?;
                Self::Show
            }
            BucketResource::Credit => {
                request.has_only(&["tokens", "limit"])?;
                Self::Credit(request.tokens()?)
            }
            BucketResource::Addresses => {
                request.has_only(&[])?;
                Self::ForgetClients
            }
            BucketResource::Rate if is_put => {
                let (rate, lasts) = request.rate()?;
                request.limit()?;
                Self::GiveRate { rate, lasts }
            }
            BucketResource::Exemption if is_put => {
                request.has_only(&["limit", "for"])?;
                Self::Exempt { lasts: request.lasts("an exemption is ended by DELETE")? }
            }
            BucketResource::Ban if is_put => {
                request.has_only(&["limit", "for"])?;
                Self::Ban { lasts: request.lasts("a ban is ended by DELETE")? }
            }
            BucketResource::Rate | BucketResource::Exemption | BucketResource::Ban => {
                request.has_only(&["limit"])?;
                match resource {
                    BucketResource::Rate => Self::EndRate,
                    BucketResource::Ban => Self::EndBan,
                    _ => Self::EndExemption,
                }
            }
        })
    }

    /// As in the audit; `None` changes nothing.
    fn what(self) -> Option<&'static str> {
        Some(match self {
            Self::Show => return None,
            Self::Reset { .. } => "bucket.reset",
            Self::Credit(_) => "bucket.credit",
            Self::GiveRate { .. } => "bucket.rate",
            Self::EndRate => "bucket.rate.end",
            Self::Exempt { .. } => "bucket.exempt",
            Self::EndExemption => "bucket.exempt.end",
            Self::Ban { .. } => "bucket.ban",
            Self::EndBan => "bucket.ban.end",
            Self::ForgetClients => "addresses.forget",
        })
    }

    /// Whether it is for those limits only that count an address with the fewest neighbours.
    fn spares_neighbours(self, limit: Option<&str>) -> bool {
        match self {
            Self::Reset { spares_neighbours } => spares_neighbours,
            Self::Ban { .. } | Self::EndBan => limit.is_none(),
            _ => false,
        }
    }

    /// What becomes of a bucket.
    fn after(self, before: &AuditedBucket, now: Time) -> AuditedBucket {
        let bucket = before.clone();
        let without_own =
            AuditedBucket { own: None, exempt_until: None, banned_until: None, ..bucket.clone() };
        let until = |lasts| Some(rfc3339(now.after(lasts)));
        let may_fill = bucket.banned_until.is_none();
        match self {
            Self::Show | Self::ForgetClients => bucket,
            Self::Reset { .. } if may_fill => AuditedBucket { tokens: bucket.burst, ..bucket },
            Self::Credit(tokens) if may_fill => {
                AuditedBucket { tokens: bucket.tokens.saturating_add(tokens).min(bucket.burst), ..bucket }
            }
            Self::Reset { .. } | Self::Credit(_) => bucket,
            Self::GiveRate { rate, lasts } => {
                let own = own_part(&Own { rate, until: now.after(lasts) });
                AuditedBucket { own: Some(own), ..without_own }
            }
            Self::EndRate | Self::EndExemption => without_own,
            Self::Exempt { lasts } => AuditedBucket { exempt_until: until(lasts), ..without_own },
            Self::Ban { lasts } => AuditedBucket { tokens: 0, banned_until: until(lasts), ..without_own },
            Self::EndBan => AuditedBucket { tokens: bucket.burst, ..without_own },
        }
    }
}

impl BucketsApi {
    /// Does what a request asks for, if its operator may.
    pub(super) async fn act(
        &self,
        cx: &PageContext<'_>,
        selector: &BucketSelector,
        action: BucketAction,
        limit: Option<&str>,
    ) -> Result<BucketReport, AdminProblem> {
        if let BucketSelector::All(name) = selector {
            cx.seen.check_limit(name)?;
        }
        limit.map_or(Ok(()), |limit| cx.seen.check_limit(limit))?;
        let Some(what) = action.what() else {
            return self.show(cx, selector).await.map_err(|error| problem_of(&error));
        };
        let spares_neighbours = action.spares_neighbours(limit);
        let scope = ChangeScope { limit, spares_neighbours, within: cx.seen.limits() };
        let is_limited = cx.asker.role() < OperatorRole::Operate;
        if is_limited {
            check_unlock(action, selector)?;
        }
        let is_looked_at = is_limited || cx.audit.is_on();
        let _turn = if is_looked_at { Some(self.turn.lock().await) } else { None };
        let before = match is_looked_at {
            true => self.before(selector, scope).await?,
            false => Vec::new(),
        };
        if is_limited {
            spare_orders(action, &before)?;
        }
        let recorded = cx.audit.record(cx.asker, self.audited(cx, selector, what, action, &before)).await?;
        let done = self.change(cx, selector, action, scope).await;
        match done {
            Ok(mut report) => {
                cx.seen.narrow_report(&mut report);
                Ok(report)
            }
            Err(error) => {
                let problem = problem_of(&error);
                cx.audit.tell(recorded, Err(problem.to_string())).await;
                Err(problem)
            }
        }
    }

    async fn show(
        &self,
        cx: &PageContext<'_>,
        selector: &BucketSelector,
    ) -> Result<BucketReport, BucketAdminError> {
        let mut report = self.engine.show(selector).await?;
        cx.seen.narrow_report(&mut report);
        Ok(report)
    }

    async fn change(
        &self,
        cx: &PageContext<'_>,
        selector: &BucketSelector,
        action: BucketAction,
        scope: ChangeScope<'_>,
    ) -> Result<BucketReport, BucketAdminError> {
        let (engine, by) = (&self.engine, cx.asker.by);
        match action {
            BucketAction::Show => engine.show(selector).await,
            BucketAction::Reset { .. } => engine.reset(selector, scope, by).await,
            BucketAction::Credit(tokens) => engine.credit(selector, scope, tokens, by).await,
            BucketAction::GiveRate { rate, lasts } => {
                engine.give_rate(selector, scope, rate, lasts, by).await
            }
            BucketAction::Exempt { lasts } => engine.exempt(selector, scope, lasts, by).await,
            BucketAction::EndRate | BucketAction::EndExemption => engine.end_rate(selector, scope, by).await,
            BucketAction::Ban { lasts } => engine.ban(selector, scope, lasts, by).await,
            BucketAction::EndBan => engine.end_ban(selector, scope, by).await,
            BucketAction::ForgetClients => engine.forget_clients(selector, by).await,
        }
    }

    /// The buckets that a change is for.
    async fn before(
        &self,
        selector: &BucketSelector,
        scope: ChangeScope<'_>,
    ) -> Result<Vec<BucketPart>, AdminProblem> {
        let found = self.engine.show_within(selector, scope).await;
        let mut report = found.map_err(|error| problem_of(&error))?;
        for bucket in &mut report.buckets {
            // It is another change, about the prefix.
            bucket.prefix_banned_until = None;
        }
        Ok(page::page(&report).buckets)
    }

    fn audited(
        &self,
        cx: &PageContext<'_>,
        selector: &BucketSelector,
        what: &'static str,
        action: BucketAction,
        before: &[BucketPart],
    ) -> AuditedChange {
        let now = self.engine.time();
        let before: Vec<_> = before.iter().take(MAX_AUDITED).map(AuditedBucket::from).collect();
        let after: Vec<_> = before.iter().map(|bucket| action.after(bucket, now)).collect();
        let target = cx.audit.is_on().then(|| cx.audit.owner(self.engine.owner(selector)));
        AuditedChange {
            what,
            target,
            why: cx.asker.why.clone(),
            before: audited(&before),
            after: audited(&after),
        }
    }
}

impl From<&BucketPart> for AuditedBucket {
    fn from(part: &BucketPart) -> Self {
        let Optional(exempt_until) = part.exempt_until.clone();
        let Optional(banned_until) = part.banned_until.clone();
        let Optional(own) = part.own.clone();
        // An exemption and a ban are rates as well.
        let own = own.filter(|_| exempt_until.is_none() && banned_until.is_none());
        Self {
            limit: part.limit.clone(),
            tokens: part.tokens,
            burst: part.burst,
            own,
            exempt_until,
            banned_until,
        }
    }
}

fn check_unlock(action: BucketAction, selector: &BucketSelector) -> Result<(), AdminProblem> {
    match action {
        BucketAction::Exempt { lasts } => check_exemption(selector.is_of_one(), lasts),
        _ => Ok(()),
    }
}

/// An exemption would replace the rate or the ban that an operator gave the bucket, and its end would end them.
fn spare_orders(action: BucketAction, before: &[BucketPart]) -> Result<(), AdminProblem> {
    let replaces = matches!(action, BucketAction::Exempt { .. } | BucketAction::EndExemption);
    let is_order = |bucket: &&BucketPart| bucket.own.is_some() && bucket.exempt_until.is_none();
    match before.iter().find(is_order).filter(|_| replaces) {
        None => Ok(()),
        Some(bucket) => Err(order_stands(&bucket.limit)),
    }
}
