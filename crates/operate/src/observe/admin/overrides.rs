//! `/api/v1/exemptions`, `/api/v1/bans`, `/api/v1/limits/{name}/mode` and `/api/v1/mode`: temporary changes of the rules.
//!
//! It parses requests and passes changes on; the layer above puts them in force, in the order of the reloads. Each change
//! that was made becomes an event with its operator.

use std::error::Error;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Body;
use ipnet::IpNet;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, mpsc, oneshot};

use super::audit_trail::{AuditedChange, MAX_AUDITED, PageContext, audited};
use super::buckets::{Grammar, problem_of};
use super::control::GateCommand;
use super::pages::{BansPage, EndedPage, ExemptionsPage, ModePage, PrefixPart};
use super::request::{AdminProblem, fields_of, has_only, optional_text, text, unescaped, wrong};
use super::response::{AdminResponse, json_response, not_allowed};
use super::token::{OperatorRole, PageNeeds};
use super::unlock::{check_exemption, is_one_client, order_stands};
use crate::engine::{
    BucketView, Engine, ModeOverride, OverrideChange, OverrideError, PrefixBan, PrefixExemption,
    PrefixOverride, Rules,
};
use crate::event::{Event, Events, Operator, OperatorCommand};
use crate::observe::timestamp::rfc3339;
use crate::policy::attempt::Client;
use crate::policy::bucket_ref::BucketSelector;
use crate::policy::{Limit, LimitKind, Mode};
use crate::time::{Span, Time};

/// The handler of temporary changes.
pub(super) struct OverridesApi {
    pub(super) engine: Arc<Engine>,
    pub(super) grammar: Grammar,
    pub(super) commands: mpsc::Sender<GateCommand>,
    pub(super) events: Events,
    /// As that of buckets.
    pub(super) turn: Mutex<()>,
}

/// The pages by path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum OverridesPath {
    Exemptions,
    /// A prefix, escaped.
    Exemption(String),
    Bans,
    /// A prefix, escaped.
    Ban(String),
    /// The name of a limit, escaped; `None` for all limits.
    Mode(Option<String>),
}

impl OverridesPath {
    pub(super) fn parse(path: &str) -> Option<Self> {
        match path.strip_prefix("/api/v1/")? {
            "exemptions" => Some(Self::Exemptions),
            "bans" => Some(Self::Bans),
            "mode" => Some(Self::Mode(None)),
            // The slash of a prefix need not be escaped.
            rest if rest.starts_with("exemptions/") => {
                Some(Self::Exemption(rest.strip_prefix("exemptions/")?.to_owned()))
            }
            rest if rest.starts_with("bans/") => Some(Self::Ban(rest.strip_prefix("bans/")?.to_owned())),
            rest => {
                let name = rest.strip_prefix("limits/")?.strip_suffix("/mode")?;
                (!name.contains('/')).then(|| Self::Mode(Some(name.to_owned())))
            }
        }
    }

    fn methods(&self) -> &'static str {
        match self {
            Self::Exemptions | Self::Bans => "GET, HEAD",
            Self::Exemption(_) | Self::Ban(_) => "PUT, DELETE",
            Self::Mode(_) => "PUT",
        }
    }
}

impl OverridesApi {
    /// Does what the request asks for.
    pub(super) async fn handle<B>(
        &self,
        cx: &PageContext<'_>,
        page: OverridesPath,
        request: Request<B>,
    ) -> AdminResponse
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let allowed = page.methods();
        if !allowed.split(", ").any(|method| method == head.method.as_str()) {
            return not_allowed(allowed);
        }
        let done = async {
            if head.uri.query().is_some() {
                return Err(wrong("this page takes no query"));
            }
            let fields = fields_of(body).await?;
            if let Some(list) = self.list(&page) {
                return Ok(list);
            }
            if let OverridesPath::Mode(Some(limit)) = &page {
                cx.seen.check_limit(&unescaped(limit)?)?;
            }
            let why = cx.asker.reason(optional_text(&fields, "why", "a text")?)?;
            let mut change = self.change_of(&page, &head.method, &fields, (cx.asker.by, &why))?;
            if cx.asker.role() < OperatorRole::Operate {
                self.narrow_to_unlock(&mut change).await?;
            }
            self.make(cx, change, why).await
        };
        done.await.unwrap_or_else(AdminResponse::from)
    }

    fn list(&self, page: &OverridesPath) -> Option<AdminResponse> {
        let rules = self.engine.rules();
        match page {
            OverridesPath::Exemptions => {
                let exemptions = rules.overrides.exemptions().iter().map(exempt).collect();
                Some(json_response(StatusCode::OK, &ExemptionsPage { exemptions }))
            }
            OverridesPath::Bans => {
                let bans = rules.overrides.bans().iter().map(banned).collect();
                Some(json_response(StatusCode::OK, &BansPage { bans }))
            }
            _ => None,
        }
    }

    fn change_of(
        &self,
        page: &OverridesPath,
        method: &Method,
        fields: &Map<String, Value>,
        said: (Operator, &str),
    ) -> Result<OverrideChange, AdminProblem> {
        let change = match page {
            OverridesPath::Exemption(prefix) if *method == Method::DELETE => {
                has_only(fields, &[])?;
                OverrideChange::EndExemption(self.prefix(prefix)?)
            }
            OverridesPath::Exemption(prefix) => {
                has_only(fields, &["for", "why"])?;
                let clients = self.clients(prefix, fields, said)?;
                OverrideChange::Exempt(PrefixExemption { clients, is_of_address_limits: false })
            }
            OverridesPath::Ban(prefix) if *method == Method::DELETE => {
                has_only(fields, &[])?;
                OverrideChange::EndBan(self.prefix(prefix)?)
            }
            OverridesPath::Ban(prefix) => {
                has_only(fields, &["for", "why", "all"])?;
                let is_of_all_requests = switch(fields, "all")?;
                OverrideChange::Ban(PrefixBan {
                    clients: self.clients(prefix, fields, said)?,
                    is_of_all_requests,
                })
            }
            OverridesPath::Mode(limit) => {
                has_only(fields, &["mode", "for"])?;
                let mode = match text(fields, "mode", MODES)? {
                    "observe" => Mode::Observe,
                    "enforce" => Mode::Enforce,
                    _ => return Err(wrong(format!("`mode` has to be {MODES}"))),
                };
                let limit = limit.as_deref().map(unescaped).transpose()?.map(Arc::from);
                OverrideChange::SetMode(ModeOverride { limit, mode, until: self.until(fields)? })
            }
            OverridesPath::Exemptions | OverridesPath::Bans => {
                return Err(wrong("a list is not changed as a whole"));
            }
        };
        Ok(change)
    }

    fn clients(
        &self,
        prefix: &str,
        fields: &Map<String, Value>,
        (by, why): (Operator, &str),
    ) -> Result<PrefixOverride, AdminProblem> {
        let (prefix, until, why) = (self.prefix(prefix)?, self.end(fields)?, why.to_owned());
        Ok(PrefixOverride { prefix, since: self.engine.time(), until, by: by.to_string(), why })
    }

    fn prefix(&self, escaped: &str) -> Result<IpNet, AdminProblem> {
        let prefix = (self.grammar.prefix)(&unescaped(escaped)?)?;
        match prefix.prefix_len() {
            0 => Err(wrong(format!(
                "{prefix} is everyone: change the mode of limits, or their rates, instead"
            ))),
            _ => Ok(prefix),
        }
    }

    /// The end that `for` has to name.
    fn end(&self, fields: &Map<String, Value>) -> Result<Time, AdminProblem> {
        self.until(fields)?.ok_or_else(|| wrong("`for` is missing: a duration, as in \"1h\""))
    }

    /// The end that `for` names.
    fn until(&self, fields: &Map<String, Value>) -> Result<Option<Time>, AdminProblem> {
        let Some(lasts) = optional_text(fields, "for", "a duration, as in \"1h\"")? else { return Ok(None) };
        let lasts = (self.grammar.span)(lasts)?;
        match lasts.as_nanos() {
            0 => Err(wrong("`for` is zero")),
            _ => Ok(Some(self.engine.time().after(lasts))),
        }
    }

    /// Makes a change one of a role that lets people in: one client is exempt from what `ip:ADDRESS` is exempt from, which
    /// is not the limits of accounts.
    ///
    /// # Errors
    /// 403 if it is for more than that role, or would lift a ban or a rate of an operator.
    async fn narrow_to_unlock(&self, change: &mut OverrideChange) -> Result<(), AdminProblem> {
        match change {
            OverrideChange::Exempt(PrefixExemption { clients, is_of_address_limits }) => {
                let lasts = clients.until.since(clients.since);
                check_exemption(is_one_client(clients.prefix), lasts)?;
                self.spare_orders(clients.prefix).await?;
                *is_of_address_limits = true;
                Ok(())
            }
            OverrideChange::EndExemption(prefix) => check_exemption(is_one_client(*prefix), Span::ZERO),
            // No other page is for that role.
            OverrideChange::Ban(_) | OverrideChange::EndBan(_) | OverrideChange::SetMode(_) => Ok(()),
        }
    }

    /// Limits do not see an exempt client, and so they see neither its ban nor its own rate.
    async fn spare_orders(&self, prefix: IpNet) -> Result<(), AdminProblem> {
        if let Some(banned) = self.banned_within(prefix) {
            let detail = format!("{banned} is banned, which only the role `operate` may end");
            return Err(AdminProblem::new(StatusCode::FORBIDDEN, detail));
        }
        let selector = BucketSelector::of_client(Client::from_ip(prefix.addr()));
        let report = self.engine.show(&selector).await.map_err(|error| problem_of(&error))?;
        let is_order = |bucket: &&BucketView| bucket.own.is_some() && bucket.exempt_until().is_none();
        match report.buckets.iter().find(is_order) {
            None => Ok(()),
            Some(bucket) => Err(order_stands(&bucket.limit)),
        }
    }

    /// A prefix that is banned and has clients of this one.
    fn banned_within(&self, prefix: IpNet) -> Option<IpNet> {
        let (rules, now) = (self.engine.rules(), self.engine.time());
        let mut bans = rules.overrides.bans().iter().map(|ban| &ban.clients).filter(|ban| ban.until > now);
        let banned = bans.find(|ban| ban.prefix.contains(&prefix) || prefix.contains(&ban.prefix));
        banned.map(|ban| ban.prefix)
    }

    /// Exempts an operator who opened the dashboard from limits by address, so that a trial with wrong passwords does not
    /// shut them out. The addresses of this machine are those of all callers of a tunnel, and are never exempt. Nor is one
    /// who may not exempt a prefix.
    pub(super) async fn welcome(&self, cx: &PageContext<'_>, peer: IpAddr) {
        if cx.asker.may_have(WELCOME_NEEDS).is_err() {
            return;
        }
        let now = self.engine.time();
        let peer = peer.to_canonical();
        let is_welcome = self.engine.rules().overrides.exemptions().iter().any(|known| {
            known.clients.prefix.contains(&peer) && known.clients.until.since(now) > WELCOME_AGAIN
        });
        if is_welcome || peer == Ipv4Addr::LOCALHOST || peer == Ipv6Addr::LOCALHOST {
            return;
        }
        let why = "opened the dashboard".to_owned();
        let clients = PrefixOverride {
            prefix: peer.into(),
            since: now,
            until: now.after(WELCOME),
            by: cx.asker.by.to_string(),
            why: why.clone(),
        };
        let exemption = PrefixExemption { clients, is_of_address_limits: true };
        // The page does not depend on it.
        let _ = self.make(cx, OverrideChange::Exempt(exemption), why).await;
    }

    async fn make(
        &self,
        cx: &PageContext<'_>,
        change: OverrideChange,
        why: String,
    ) -> Result<AdminResponse, AdminProblem> {
        let _turn = if cx.audit.is_on() { Some(self.turn.lock().await) } else { None };
        let recorded = cx.audit.record(cx.asker, self.audited(&change, why)).await?;
        let made = self.put_in_force(&change).await;
        if let Err(problem) = &made {
            cx.audit.tell(recorded, Err(problem.to_string())).await;
        }
        made?;
        self.events.emit(&Event::CommandReceived { command: command_of(&change), by: cx.asker.by });
        Ok(match &change {
            OverrideChange::Exempt(exemption) => json_response(StatusCode::OK, &exempt(exemption)),
            OverrideChange::Ban(ban) => json_response(StatusCode::OK, &banned(ban)),
            OverrideChange::EndExemption(prefix) | OverrideChange::EndBan(prefix) => {
                json_response(StatusCode::OK, &EndedPage { prefix: prefix.to_string(), ended: true })
            }
            OverrideChange::SetMode(mode) => json_response(StatusCode::OK, &ModePage::from(mode)),
        })
    }

    async fn put_in_force(&self, change: &OverrideChange) -> Result<(), AdminProblem> {
        let (reply, answer) = oneshot::channel();
        // Fails once the gate drains: no rules change any more.
        let _ = self.commands.send(GateCommand::Override { change: change.clone(), reply }).await;
        match answer.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(AdminProblem::new(status_of(&error), error.to_string())),
            Err(_) => {
                let detail = "the gate drains and changes no rules";
                Err(AdminProblem::new(StatusCode::SERVICE_UNAVAILABLE, detail))
            }
        }
    }

    /// A change with what is in force before it.
    fn audited(&self, change: &OverrideChange, why: String) -> AuditedChange {
        let rules = self.engine.rules();
        let exempt_now = |prefix: &IpNet| {
            let all = rules.overrides.exemptions().iter();
            audited(&all.filter(|known| known.clients.prefix == *prefix).map(exempt).next_back())
        };
        let banned_now = |prefix: &IpNet| {
            let all = rules.overrides.bans().iter();
            audited(&all.filter(|known| known.clients.prefix == *prefix).map(banned).next_back())
        };
        let of_prefix = |what, prefix: &IpNet, before, after| (what, prefix.to_string(), before, after);
        let (what, target, before, after) = match change {
            OverrideChange::Exempt(new) => {
                let prefix = &new.clients.prefix;
                of_prefix("prefix.exempt", prefix, exempt_now(prefix), audited(&exempt(new)))
            }
            OverrideChange::EndExemption(prefix) => {
                of_prefix("prefix.exempt.end", prefix, exempt_now(prefix), Value::Null)
            }
            OverrideChange::Ban(new) => {
                let prefix = &new.clients.prefix;
                of_prefix("prefix.ban", prefix, banned_now(prefix), audited(&banned(new)))
            }
            OverrideChange::EndBan(prefix) => {
                of_prefix("prefix.ban.end", prefix, banned_now(prefix), Value::Null)
            }
            OverrideChange::SetMode(new) => {
                let (limit, after) = (new.limit.as_deref(), audited(&ModePage::from(new)));
                let target = limit.map_or_else(|| "all limits".to_owned(), |limit| format!("limit {limit}"));
                ("mode", target, audited(&modes_now(&rules, limit)), after)
            }
        };
        AuditedChange { what, target: Some(target), why, before, after }
    }
}

impl From<&ModeOverride> for ModePage {
    fn from(ModeOverride { limit, mode, until }: &ModeOverride) -> Self {
        let limit = limit.as_deref().map(str::to_owned);
        Self { limit, mode: mode.name().to_owned(), until: until.map(rfc3339) }
    }
}

impl std::fmt::Debug for OverridesApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OverridesApi")
    }
}

fn exempt(PrefixExemption { clients, is_of_address_limits }: &PrefixExemption) -> PrefixPart {
    PrefixPart { all: is_of_address_limits.then_some(false).into(), ..part(clients) }
}

fn banned(PrefixBan { clients, is_of_all_requests }: &PrefixBan) -> PrefixPart {
    PrefixPart { all: Some(*is_of_all_requests).into(), ..part(clients) }
}

fn part(PrefixOverride { prefix, since, until, by, why }: &PrefixOverride) -> PrefixPart {
    PrefixPart {
        prefix: prefix.to_string(),
        since: Some(*since).filter(|since| *since > Time::default()).map(rfc3339).into(),
        until: rfc3339(*until),
        by: Some(by.clone()).filter(|by| !by.is_empty()).into(),
        why: why.clone(),
        all: None.into(),
    }
}

fn command_of(change: &OverrideChange) -> OperatorCommand<'_> {
    match change {
        OverrideChange::Exempt(PrefixExemption { clients, is_of_address_limits }) => {
            let PrefixOverride { prefix, until, why, .. } = clients;
            let is_of_address_limits = *is_of_address_limits;
            OperatorCommand::Exempt { prefix: *prefix, is_of_address_limits, until: *until, why }
        }
        OverrideChange::EndExemption(prefix) => OperatorCommand::EndExemption { prefix: *prefix },
        OverrideChange::Ban(PrefixBan { clients: PrefixOverride { prefix, until, why, .. }, .. }) => {
            OperatorCommand::Ban { prefix: *prefix, until: *until, why }
        }
        OverrideChange::EndBan(prefix) => OperatorCommand::EndBan { prefix: *prefix },
        OverrideChange::SetMode(ModeOverride { limit, mode, until }) => {
            OperatorCommand::SetMode { limit: limit.as_deref(), mode: *mode, until: *until }
        }
    }
}

fn status_of(error: &OverrideError) -> StatusCode {
    match error {
        OverrideError::TooMany | OverrideError::TooManyBans => StatusCode::CONFLICT,
        OverrideError::NoExemption(_) | OverrideError::NoBan(_) | OverrideError::NoLimit(_) => {
            StatusCode::NOT_FOUND
        }
        OverrideError::Frozen | OverrideError::Capacity(_) | OverrideError::Store(_) => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}

/// Whether this field is true.
fn switch(fields: &Map<String, Value>, name: &str) -> Result<bool, AdminProblem> {
    match fields.get(name) {
        None => Ok(false),
        Some(Value::Bool(is)) => Ok(*is),
        Some(_) => Err(wrong(format!("`{name}` has to be true or false"))),
    }
}

/// The modes in force of a limit, or of all limits. A candidate for another one has its own name.
fn modes_now(rules: &Rules, limit: Option<&str>) -> Vec<ModePage> {
    let of_rates = rules.policy.limits.iter().filter(|known| known.kind == LimitKind::Rate);
    let meant = of_rates.filter(|known| limit.is_none_or(|limit| *known.name == *limit));
    let configured = |known: &Limit| {
        let same = rules.configured.limits.iter().find(|other| other.name == known.name);
        same.map_or(known.mode, |other| other.mode)
    };
    let page = |known: &Limit| ModePage {
        limit: Some(known.name.to_string()),
        mode: known.mode.name().to_owned(),
        until: rules.mode_until(&known.name, configured(known)).map(rfc3339),
    };
    meant.take(MAX_AUDITED).map(page).collect()
}

const MODES: &str = "\"observe\" or \"enforce\"";
/// How long an operator who opened the dashboard is exempt.
const WELCOME: Span = Span::from_secs(3600);
/// It begins again when less than this is left.
const WELCOME_AGAIN: Span = Span::from_secs(1800);
/// Exempting an operator who opened the dashboard is a change like any other exemption of a prefix.
const WELCOME_NEEDS: PageNeeds = PageNeeds { role: OperatorRole::Operate, is_narrowed: false };
