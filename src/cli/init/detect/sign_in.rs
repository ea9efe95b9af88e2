//! How a sign-in is made at a site, and what a policy makes of it and of its answer.

use std::net::{IpAddr, Ipv4Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use rustix::rand::{GetRandomFlags, getrandom};
use serde_json::Value;

use super::html::{HtmlForm, SignInFields};
use super::site::{FetchedPage, SignInRequest, SiteVisitor, resolved};
use crate::policy::Policy;
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::field::{Field, Half, values};
use crate::policy::outcome::{Judgement, Outcome};
use crate::policy::response::{BodyPrefix, Glob, ResponseView};

/// Where and how a person signs in.
pub(super) struct SignInWay {
    /// The page that has the form, or that comes before a sign-in.
    pub(super) page: Uri,
    pub(super) kind: SignInKind,
}

pub(super) enum SignInKind {
    /// A form with these fields for the account and the password; without names the first form with one password. A script may
    /// send it to another address than the form's `action`.
    Form { users: Vec<String>, passwords: Vec<String>, action: Option<Uri> },
    /// A script's request.
    Json { address: Uri, body: Value, token: Option<(HeaderName, Glob)> },
    /// The page itself, with Basic.
    Basic,
}

/// An account and a password, to be tried once.
pub(super) struct SignInCredentials {
    pub(super) user: String,
    pub(super) password: String,
}

/// What a policy makes of a sign-in and its answer.
pub(super) struct SignInVerdict {
    /// The status of the answer.
    pub(super) status: StatusCode,
    /// Whether any route counts it.
    pub(super) is_counted: bool,
    /// Whether the account is found in it, or is not looked for.
    pub(super) names_account: bool,
    pub(super) outcome: Outcome,
}

impl SignInWay {
    /// The form with these fields on one of the pages, the last first.
    pub(super) fn by_form(
        pages: &[FetchedPage],
        (users, passwords): &(Vec<String>, Vec<String>),
        action: Option<&Uri>,
    ) -> Option<Self> {
        let kind = || SignInKind::Form {
            users: users.clone(),
            passwords: passwords.clone(),
            action: action.cloned(),
        };
        let pages = pages.iter().rev().filter(|page| form_of(page, users, passwords).is_some());
        pages.map(|page| Self { page: page.address.clone(), kind: kind() }).next()
    }

    /// Whether the account has to be a mail address, as far as the form says.
    pub(super) fn takes_mail(&self, page: &FetchedPage) -> bool {
        let SignInKind::Form { users, passwords, .. } = &self.kind else { return false };
        form_of(page, users, passwords).is_some_and(|(form, fields)| form.takes_mail(fields))
    }

    /// The request that signs in from this page; `None` if the page has no such form.
    pub(super) fn request(
        &self,
        page: &FetchedPage,
        visitor: &SiteVisitor,
        SignInCredentials { user, password }: &SignInCredentials,
    ) -> Option<SignInRequest> {
        match &self.kind {
            SignInKind::Form { users, passwords, action } => {
                let (form, fields) = form_of(page, users, passwords)?;
                let address = action.clone().or_else(|| resolved(&page.address, &form.action))?;
                let body = form.body(fields, user, password);
                Some(SignInRequest::post(address, &page.address, "application/x-www-form-urlencoded", body))
            }
            SignInKind::Json { address, body, token } => {
                let body = filled(body, user, password).to_string();
                let mut request =
                    SignInRequest::post(address.clone(), &page.address, "application/json", body);
                if let Some((header, cookie)) = token {
                    request.headers.insert(header, HeaderValue::from_str(visitor.cookie(cookie)?).ok()?);
                }
                Some(request)
            }
            SignInKind::Basic => {
                let value = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
                let mut value = HeaderValue::from_str(&value).ok()?;
                value.set_sensitive(true);
                let headers = HeaderMap::from_iter([(AUTHORIZATION, value)]);
                Some(SignInRequest {
                    method: Method::GET,
                    address: self.page.clone(),
                    headers,
                    body: Bytes::new(),
                })
            }
        }
    }
}

impl SignInCredentials {
    /// An account that no application has, and a password that nobody chose.
    ///
    /// # Errors
    /// If the system gives no random numbers.
    pub(super) fn of_nobody(is_mail: bool) -> std::io::Result<Self> {
        let mut bytes = [0_u8; 8];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        let number = u64::from_le_bytes(bytes);
        // The domain is nobody's (RFC 2606).
        let domain = if is_mail { "@example.com" } else { "" };
        Ok(Self { user: format!("nobody-{number:016x}{domain}"), password: format!("wrong-{number:016x}") })
    }
}

impl SignInVerdict {
    /// What the policy makes of it.
    pub(super) fn of(policy: &Policy, sent: &SignInRequest, answer: &FetchedPage, user: &str) -> Self {
        let attempt = Attempt {
            method: &sent.method,
            path: sent.address.path(),
            query: sent.address.query(),
            host: sent.address.host().unwrap_or_default(),
            client: Client::from_ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            headers: &sent.headers,
            body: AttemptBody::Whole(&sent.body),
            descriptor: None,
            tls: None,
        };
        let routes = policy.routes_of(&attempt);
        let response = ResponseView { method: &sent.method, status: answer.status, headers: &answer.headers };
        let complete = answer.body.len() <= BodyPrefix::MAX;
        let bytes = answer.body.get(..BodyPrefix::MAX).unwrap_or(&answer.body);
        let mut judgement: Option<Judgement> = None;
        let mut names_account = false;
        for route in routes.iter().filter_map(|&route| policy.routes.get(route)) {
            let by_head = route.rules.by_head(&response);
            let own =
                by_head.unwrap_or_else(|| route.rules.by_body(&response, BodyPrefix { bytes, complete }));
            judgement = Some(judgement.map_or(own, |others| others.and(own)));
            let found = values(&route.reading.user, Half::User, &attempt);
            let is_there = found.is_ok_and(|found| found.iter().any(|name| name[..] == *user.as_bytes()));
            names_account |= is_there || route.reading.user.is_empty();
        }
        let outcome = judgement.map_or(Outcome::Failure, |judgement| judgement.outcome);
        Self { status: answer.status, is_counted: judgement.is_some(), names_account, outcome }
    }
}

/// The names of form fields that a policy reads accounts and passwords from.
pub(super) fn form_fields(policy: &Policy) -> (Vec<String>, Vec<String>) {
    let name = |field: &Field| match field {
        Field::Form(name) => Some(name.clone()),
        _ => None,
    };
    let routes = || policy.routes.iter().map(|route| &route.reading);
    let users = routes().flat_map(|reading| &reading.user).filter_map(name).collect();
    (users, routes().flat_map(|reading| &reading.password).filter_map(name).collect())
}

/// A form of this page that a program can fill in and send.
pub(super) fn form_of<'p>(
    page: &'p FetchedPage,
    users: &[String],
    passwords: &[String],
) -> Option<(&'p HtmlForm, SignInFields)> {
    let forms = page.html.forms.iter().filter(|form| form.is_post && form.is_urlencoded);
    let fields = |form: &HtmlForm| match passwords.is_empty() {
        true => form.sign_in(),
        false => form.sign_in_of(users, passwords),
    };
    forms.filter_map(|form| Some((form, fields(form)?))).next()
}

/// The body of a preset with the account and the password in it.
fn filled(template: &Value, user: &str, password: &str) -> Value {
    match template {
        Value::String(text) if text == "NAME" => user.into(),
        Value::String(text) if text == "PASSWORD" => password.into(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), filled(value, user, password))).collect()
        }
        other => other.clone(),
    }
}
