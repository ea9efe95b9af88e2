//! The caller of a page: what they may do, what they may see, and why they change something.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::header::{HeaderMap, HeaderName};
use http::{Method, StatusCode};

use super::pages::LimitsPage;
use super::request::{AdminProblem, wrong};
use super::token::{NamedToken, OperatorRole, PageNeeds};
use crate::engine::BucketReport;
use crate::event::Operator;
use crate::observe::metrics::RoutesPage;
use crate::policy::{Policy, Site};

/// An operator who asks for a page.
#[derive(Debug, Clone)]
pub(super) struct Asker {
    pub(super) by: Operator,
    /// `None` for a caller on a Unix socket, who may do everything.
    token: Option<Arc<NamedToken>>,
    /// The reason in the header; may be empty.
    pub(super) why: String,
}

/// The limits and routes that an operator sees.
#[derive(Debug, Clone)]
pub(super) struct SeenSites(Option<SeenNames>);

#[derive(Debug, Clone)]
struct SeenNames {
    routes: BTreeSet<Arc<str>>,
    /// Limits of which all routes are seen.
    limits: BTreeSet<Arc<str>>,
}

impl Asker {
    /// A caller on a Unix socket.
    pub(super) fn local(by: Operator) -> Self {
        Self { by, token: None, why: String::new() }
    }

    /// A caller over TCP.
    pub(super) fn with_token(by: Operator, token: Arc<NamedToken>) -> Self {
        let by = Operator { name: Some(token.name), ..by };
        Self { by, token: Some(token), why: String::new() }
    }

    /// With the reason that the header gives.
    ///
    /// # Errors
    /// 422 for a reason that is too long, not UTF-8 or has control characters, or for two of them.
    pub(super) fn because_of(self, method: &Method, headers: &HeaderMap) -> Result<Self, AdminProblem> {
        let mut reasons = headers.get_all(&REASON_HEADER).iter();
        let Some(reason) = reasons.next().filter(|_| !matches!(*method, Method::GET | Method::HEAD)) else {
            return Ok(self);
        };
        let text = std::str::from_utf8(reason.as_bytes()).ok().filter(|_| reasons.next().is_none());
        match text.filter(|text| is_reason(text)) {
            Some(text) => Ok(Self { why: text.to_owned(), ..self }),
            None => Err(wrong(format!("`X-Tollgate-Reason` {REASON_RULE}"))),
        }
    }

    /// The reason in the header, or this one of the body.
    ///
    /// # Errors
    /// 422 if both are given, or the body's is no reason.
    pub(super) fn reason(&self, of_body: Option<&str>) -> Result<String, AdminProblem> {
        match of_body.unwrap_or_default() {
            "" => Ok(self.why.clone()),
            _ if !self.why.is_empty() => Err(wrong("`why` and `X-Tollgate-Reason` are given: one is enough")),
            why if is_reason(why) => Ok(why.to_owned()),
            _ => Err(wrong(format!("`why` {REASON_RULE}"))),
        }
    }

    /// `None` for a caller on a Unix socket.
    pub(super) fn token(&self) -> Option<Arc<NamedToken>> {
        self.token.clone()
    }

    pub(super) fn role(&self) -> OperatorRole {
        self.token.as_ref().map_or(OperatorRole::Operate, |token| token.role)
    }

    pub(super) fn is_narrowed(&self) -> bool {
        self.token.as_ref().is_some_and(|token| token.sites.is_some())
    }

    /// Whether the operator may have a page.
    ///
    /// # Errors
    /// 403 otherwise.
    pub(super) fn may_have(&self, needs: PageNeeds) -> Result<(), AdminProblem> {
        let role = self.role();
        if role < needs.role {
            let detail = format!(
                "this needs a token with the role `{}`: yours has `{}`",
                needs.role.name(),
                role.name()
            );
            return Err(AdminProblem::new(StatusCode::FORBIDDEN, detail));
        }
        if self.is_narrowed() && !needs.is_narrowed {
            let detail = "this is about all sites, and your token is for some: `sites` of `admin.tokens`";
            return Err(AdminProblem::new(StatusCode::FORBIDDEN, detail));
        }
        Ok(())
    }

    /// What the operator sees of this policy.
    pub(super) fn sees(&self, policy: &Policy) -> SeenSites {
        let sites = self.token.as_ref().and_then(|token| token.sites.as_ref());
        SeenSites(sites.map(|sites| SeenNames::of(sites, policy)))
    }
}

impl SeenNames {
    /// A limit that also counts attempts of other routes is not seen: its buckets are theirs as well.
    fn of(sites: &BTreeSet<Arc<str>>, policy: &Policy) -> Self {
        let of_sites = Site::all(policy).into_iter().filter(|site| sites.contains(site.name));
        let of_sites = of_sites.flat_map(|site| site.routes);
        let named = policy.routes.iter().filter(|route| sites.contains(&route.name));
        let routes: BTreeSet<Arc<str>> = of_sites.chain(named).map(|route| Arc::clone(&route.name)).collect();
        let (mut limits, mut others) = (BTreeSet::new(), BTreeSet::new());
        for route in &policy.routes {
            let side = if routes.contains(&route.name) { &mut limits } else { &mut others };
            side.extend(route.limits.iter().filter_map(|at| Some(Arc::clone(&policy.limits.get(*at)?.name))));
            side.extend(route.defences.byte_limits_here().map(|limit| Arc::clone(&limit.name)));
        }
        limits.retain(|limit| !others.contains(limit));
        Self { routes, limits }
    }
}

impl SeenSites {
    /// The only limits that may be changed; `None` is all of them.
    pub(super) fn limits(&self) -> Option<&BTreeSet<Arc<str>>> {
        self.0.as_ref().map(|seen| &seen.limits)
    }

    pub(super) fn has_limit(&self, name: &str) -> bool {
        self.limits().is_none_or(|limits| limits.contains(name))
    }

    /// # Errors
    /// 403 for a limit that is not seen, whether or not it exists.
    pub(super) fn check_limit(&self, name: &str) -> Result<(), AdminProblem> {
        match self.has_limit(name) {
            true => Ok(()),
            false => {
                let detail = format!("`{}` is no limit of your sites alone", name.escape_debug());
                Err(AdminProblem::new(StatusCode::FORBIDDEN, detail))
            }
        }
    }

    pub(super) fn narrow_report(&self, report: &mut BucketReport) {
        let Some(SeenNames { limits, .. }) = &self.0 else { return };
        report.buckets.retain(|bucket| limits.contains(&bucket.limit));
        report.exempt.retain(|limit| limits.contains(limit));
        report.not_shown.retain(|limit| limits.contains(limit));
        // What is remembered of accounts belongs to applications, which several sites may be.
        report.remembered.clear();
        for bucket in &mut report.buckets {
            // A ban of a prefix is about all sites.
            bucket.prefix_banned_until = None;
        }
    }

    pub(super) fn narrow_limits(&self, page: &mut LimitsPage) {
        page.limits.retain(|limit| self.has_limit(&limit.name));
    }

    pub(super) fn narrow_routes(&self, page: &mut RoutesPage) {
        let Some(SeenNames { routes, .. }) = &self.0 else { return };
        page.routes.retain(|route| routes.contains(route.name.as_str()));
    }
}

/// Whether a text may be a reason: short, and of characters that only show themselves.
fn is_reason(text: &str) -> bool {
    // Line and paragraph separators, and `Bidi_Control` of Unicode (UAX 9).
    let turns = |letter: char| matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars().count() <= MAX_REASON_LEN && !text.chars().any(|letter| letter.is_control() || turns(letter))
}

/// Characters of a reason.
const MAX_REASON_LEN: usize = 200;
const REASON_RULE: &str = "may have 200 characters, and none that control";
const REASON_HEADER: HeaderName = HeaderName::from_static("x-tollgate-reason");
