//! `/api/v1/forget`: takes a person out of this gate, its store and its files, or counts where they are named.
//!
//! One person at a time. The answer comes at once, since files may be long; the same page then tells how far it is. The audit gets
//! a line before and one after, both with keyed hashes only. What files there are is left to the layer above.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, Request, StatusCode};
use hyper::body::Body;
use serde_json::{Map, Value, json};

use super::audit_trail::{AuditTrail, AuditedChange, PageContext, RecordedChange};
use super::pages::{ForgetPage, ForgetPlace};
use super::request::{AdminProblem, fields_of, has_only, wrong};
use super::response::{AdminResponse, json_response, not_allowed};
use crate::engine::{BucketAdminError, Engine, ForgetScope, ForgottenBuckets};
use crate::event::{Event, Events, OperatorCommand};
use crate::observe::client_format::ClientFormatter;
use crate::observe::heavy_hitters::HeavyHitters;
use crate::observe::traces::Traces;
use crate::observe::wiring::Wiring;
use crate::policy::person::Person;

/// The places of files that only the layer above knows; a dry run counts.
pub type ForgetFiles = Box<dyn Fn(Arc<Traces>, bool) -> ForgottenFiles + Send + Sync>;

/// What was done about each place.
pub type ForgottenFiles = Pin<Box<dyn Future<Output = Vec<ForgetPlace>> + Send>>;

/// The handler of the page.
#[derive(Clone)]
pub(super) struct ForgetApi {
    pub(super) engine: Arc<Engine>,
    pub(super) hitters: Arc<HeavyHitters>,
    pub(super) wiring: Arc<Wiring>,
    pub(super) clients: ClientFormatter,
    pub(super) events: Events,
    pub(super) files: Arc<ForgetFiles>,
    /// The last one, or the one under way.
    pub(super) page: Arc<Mutex<ForgetPage>>,
}

/// A person to forget.
struct ForgetTask {
    person: Person,
    traces: Arc<Traces>,
    scope: ForgetScope,
}

impl ForgetApi {
    pub(super) async fn handle<B>(&self, cx: &PageContext<'_>, request: Request<B>) -> AdminResponse
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        match *request.method() {
            Method::GET | Method::HEAD => json_response(StatusCode::OK, &*self.page()),
            Method::POST => match self.begin(cx, request.into_body()).await {
                Ok(page) => json_response(StatusCode::ACCEPTED, &page),
                Err(refusal) => refusal.into(),
            },
            _ => not_allowed("GET, HEAD, POST"),
        }
    }

    async fn begin<B>(&self, cx: &PageContext<'_>, body: B) -> Result<ForgetPage, AdminProblem>
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let fields = fields_of(body).await?;
        has_only(&fields, &["who", "dry_run", "bans"])?;
        let person = self.person(&fields)?;
        let scope =
            ForgetScope { is_dry_run: is_set(&fields, "dry_run")?, ends_rates: is_set(&fields, "bans")? };
        let traces = Traces::of(&person, &self.engine.owners_of(&person), &self.clients);
        if traces.are_in_words_of(&cx.asker.why) {
            return Err(wrong("the reason names the person, and the audit log would keep it: name a ticket"));
        }
        let page = self.take_turn(scope)?;
        let change = match self.record(cx, &person, scope).await {
            Ok(change) => change,
            Err(refusal) => {
                *self.page() = ForgetPage { done: true, ..ForgetPage::default() };
                return Err(refusal);
            }
        };
        let (api, audit) = (self.clone(), cx.audit.clone());
        let task = ForgetTask { person, traces: Arc::new(traces), scope };
        let running = tokio::spawn(async move { api.run(task, change, &audit).await });
        let api = self.clone();
        tokio::spawn(async move {
            if running.await.is_err() {
                api.add(vec![ForgetPlace::failed("this gate", "places", &"it failed: please report this")]);
                api.page().done = true;
            }
        });
        Ok(page)
    }

    fn person(&self, fields: &Map<String, Value>) -> Result<Person, AdminProblem> {
        let form = || wrong("`who` has to be a list, as in [\"user:NAME\", \"ip:ADDRESS\"]");
        let who = fields.get("who").and_then(Value::as_array).ok_or_else(form)?;
        let words = who.iter().map(Value::as_str).collect::<Option<Vec<_>>>().ok_or_else(form)?;
        let rules = Arc::clone(&self.engine.rules());
        rules.policy.person(words).map_err(|error| wrong(error.to_string()))
    }

    fn take_turn(&self, scope: ForgetScope) -> Result<ForgetPage, AdminProblem> {
        let mut page = self.page();
        if !page.done {
            let detail = "a person is being forgotten: wait until that is done";
            return Err(AdminProblem::new(StatusCode::CONFLICT, detail));
        }
        *page = ForgetPage { done: false, dry_run: scope.is_dry_run, places: Vec::new() };
        Ok(page.clone())
    }

    /// Nothing is recorded of a dry run, which changes nothing.
    async fn record(
        &self,
        cx: &PageContext<'_>,
        person: &Person,
        scope: ForgetScope,
    ) -> Result<Option<RecordedChange>, AdminProblem> {
        if scope.is_dry_run {
            return Ok(None);
        }
        let who = self.engine.tombstone(person);
        let (what, target, why) = ("forget", Some(who.clone()), cx.asker.why.clone());
        let change = AuditedChange { what, target, why, before: Value::Null, after: Value::Null };
        let change = cx.audit.record(cx.asker, change).await?;
        let command = OperatorCommand::Forget { who: &who };
        self.events.emit(&Event::CommandReceived { command, by: cx.asker.by });
        Ok(Some(change))
    }

    async fn run(&self, task: ForgetTask, change: Option<RecordedChange>, audit: &AuditTrail) {
        let ForgetTask { person, traces, scope } = task;
        let buckets = self.engine.forget(&person, scope).await;
        self.add(places_of(buckets, &self.engine));
        let rules = Arc::clone(&self.engine.rules());
        let owners = self.engine.owners_of(&person);
        let counters = self.hitters.forget(&rules.policy, &owners, scope.is_dry_run);
        let warnings = self.wiring.forget(&traces, scope.is_dry_run);
        self.add(vec![
            ForgetPlace::of("memory: busiest clients", "counters", counters),
            ForgetPlace::of("memory: warnings", "warnings", warnings),
        ]);
        drop(rules);
        self.add((self.files)(traces, scope.is_dry_run).await);
        let (removed, failed) = {
            let page = self.page();
            let failed = page.places.iter().filter(|place| place.failed.is_some());
            let failed: Vec<String> = failed.map(|place| place.place.clone()).collect();
            (page.places.iter().map(|place| place.removed).sum::<u64>(), failed)
        };
        if let Some(change) = change {
            audit.tell(change, Ok(json!({ "removed": removed, "not_reached": failed }))).await;
        }
        self.page().done = true;
    }

    fn add(&self, places: Vec<ForgetPlace>) {
        self.page().places.extend(places);
    }

    fn page(&self) -> MutexGuard<'_, ForgetPage> {
        self.page.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ForgetPlace {
    /// A place with so many of what was removed there.
    #[must_use]
    pub fn of(place: impl Into<String>, what: &str, removed: u64) -> Self {
        Self { place: place.into(), what: what.to_owned(), removed, ..Self::default() }
    }

    /// The same with a remark.
    #[must_use]
    pub fn noting(self, note: impl Into<String>) -> Self {
        Self { note: Some(note.into()).into(), ..self }
    }

    /// A place that was not reached.
    #[must_use]
    pub fn failed(place: impl Into<String>, what: &str, why: &impl fmt::Display) -> Self {
        Self { failed: Some(why.to_string()).into(), ..Self::of(place, what, 0) }
    }
}

impl fmt::Debug for ForgetApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ForgetApi")
    }
}

fn is_set(fields: &Map<String, Value>, name: &str) -> Result<bool, AdminProblem> {
    match fields.get(name) {
        None => Ok(false),
        Some(Value::Bool(is_set)) => Ok(*is_set),
        Some(_) => Err(wrong(format!("`{name}` has to be true or false"))),
    }
}

fn places_of(found: Result<ForgottenBuckets, BucketAdminError>, engine: &Engine) -> Vec<ForgetPlace> {
    let place = if engine.store().ends_with_process() { "memory: buckets" } else { "store: buckets" };
    let found = match found {
        Ok(found) => found,
        Err(error) => return vec![ForgetPlace::failed(place, "buckets", &error)],
    };
    let mut buckets = ForgetPlace::of(place, "buckets", found.buckets);
    if !found.shared.is_empty() {
        let networks: Vec<String> = found.shared.iter().map(ToString::to_string).collect();
        buckets = buckets.noting(format!("neighbours in {} shared them", networks.join(", ")));
    }
    let mut places = vec![
        buckets,
        ForgetPlace::of("known addresses of accounts", "addresses", found.clients),
        ForgetPlace::of("memory: recent sign-ins", "cookies", found.sign_ins),
    ];
    let rates = ForgetPlace::of("bans and rates by operators", "buckets", found.rates_ended);
    let kept = found.rates_kept;
    if kept > 0 {
        let note = format!(
            "{kept} stay, of the person or a prefix: an operator decided them (--bans ends the person's; `buckets ban --end` or `exempt --end` a prefix's)"
        );
        places.push(rates.noting(note));
    } else if found.rates_ended > 0 {
        places.push(rates);
    }
    if !found.unknown.is_empty() {
        let note =
            format!("{}: their keys have other parts, and end when they are full", found.unknown.join(", "));
        places.push(ForgetPlace::of("buckets of other keys", "buckets", 0).noting(note));
    }
    places
}
