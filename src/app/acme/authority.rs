//! The authority: an account there, orders, and its advice on renewals.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AccountBuilder, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType,
    Error, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rustix::rand::{GetRandomFlags, getrandom};

use super::https::{Https, RetryAfter};
use super::schedule::Suggestion;
use super::state;
use crate::app::sandbox::Broker;
use crate::net::tls::{
    AcmeSettings, Certificate, CertificateError, OpenValidation, ValidationMethod, Validations,
};
use crate::time::{Span, Time};

/// An authority, for one order.
pub(super) struct Authority<'g> {
    settings: &'g AcmeSettings,
    broker: &'g Broker,
    retry_after: RetryAfter,
}

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum AcmeError {
    #[error("{}", words(.0))]
    Library(#[from] Error),
    #[error("the state cannot be kept: {0}")]
    State(#[from] io::Error),
    #[error("the account's file cannot be read: {0}")]
    Account(#[from] serde_json::Error),
    #[error("the authority does not offer this challenge; others are set by `tls.acme.challenge`")]
    NoChallenge,
    #[error("{0}")]
    Validation(#[from] crate::net::tls::ValidationError),
    #[error("the authority could not check the name: {0}")]
    NotProved(String),
    #[error("what the authority issued {0}")]
    Certificate(#[from] CertificateError),
    #[error("the authority issued a certificate for other names")]
    OtherName,
    #[error("the authority took longer than five minutes")]
    Timeout,
}

impl<'g> Authority<'g> {
    pub(super) fn new(settings: &'g AcmeSettings, broker: &'g Broker) -> Self {
        Self { settings, broker, retry_after: RetryAfter::default() }
    }

    /// The pause that its last refusal asked for.
    pub(super) fn retry_after(&self) -> Option<Span> {
        self.retry_after.get()
    }

    /// Orders a certificate and puts it into its file.
    pub(super) async fn order(
        &self,
        name: &str,
        replaced: Option<&Certificate>,
        validations: &Arc<Validations>,
    ) -> Result<Certificate, AcmeError> {
        let account = self.account().await?;
        let names = [Identifier::Dns(name.to_owned())];
        let mut wanted = NewOrder::new(&names);
        if let Some(id) = replaced.and_then(identifier) {
            wanted = wanted.replaces(id);
        }
        let ordered = account.new_order(&wanted).await;
        if ordered.as_ref().is_err_and(is_unknown_account) {
            // The authority has lost it; the next order makes another one.
            self.forget_account().await?;
        }
        let mut order = ordered?;
        let open = self.prove(&mut order, name, validations).await?;
        match order.poll_ready(&PATIENCE).await {
            Ok(OrderStatus::Ready) => {}
            // An authority may say it of the order, of the challenge or of both.
            Err(Error::Api(problem)) => return Err(AcmeError::NotProved(said(&problem))),
            Ok(_) => return Err(AcmeError::NotProved(why(&mut order).await)),
            Err(error) => return Err(error.into()),
        }
        drop(open);
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&PATIENCE).await?;
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes(), name)?;
        if !certificate.names().iter().any(|known| known == name) {
            return Err(AcmeError::OtherName);
        }
        let (path, text) = (self.settings.file(name), format!("{key}{chain}"));
        self.broker.run(move || state::write(&path, &text)).await??;
        Ok(certificate)
    }

    /// When the authority suggests to renew this certificate; `None` if it suggests nothing.
    pub(super) async fn suggestion(&self, certificate: &Certificate) -> Option<Suggestion> {
        let account = self.known_account().await.ok()??;
        let (advice, ask_again) = account.renewal_info(&identifier(certificate)?).await.ok()?;
        let time = |nanos: i128| u64::try_from(nanos).unwrap_or_default();
        let window = advice.suggested_window;
        let (start, end) =
            (time(window.start.unix_timestamp_nanos()), time(window.end.unix_timestamp_nanos()));
        let renew_at = start.saturating_add(random() % end.saturating_sub(start).max(1));
        let ask_again = Span::from_secs(ask_again.as_secs());
        Some(Suggestion { renew_at: Time::from_nanos(renew_at), ask_again })
    }

    /// Lets the authority check the name; the answers stay until the result is dropped.
    async fn prove(
        &self,
        order: &mut Order,
        name: &str,
        validations: &Arc<Validations>,
    ) -> Result<Vec<OpenValidation>, AcmeError> {
        let kind = match self.settings.validation {
            ValidationMethod::TlsAlpn01 => ChallengeType::TlsAlpn01,
            ValidationMethod::Http01 => ChallengeType::Http01,
        };
        let mut open = Vec::new();
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let mut challenge = authorization.challenge(kind.clone()).ok_or(AcmeError::NoChallenge)?;
            let answer = challenge.key_authorization();
            open.push(validations.open(name, &challenge.token, answer.as_str())?);
            challenge.set_ready().await?;
        }
        Ok(open)
    }

    /// The account of the file, or a new one.
    async fn account(&self) -> Result<Account, AcmeError> {
        if let Some(account) = self.known_account().await? {
            return Ok(account);
        }
        let contact = self.settings.email.as_ref().map(|email| format!("mailto:{email}"));
        let contact: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contact, terms_of_service_agreed: true, only_return_existing: false };
        let directory = self.settings.directory.to_string();
        let (account, credentials) = self.builder().create(&new, directory, None).await?;
        let (path, text) = (self.settings.account(), serde_json::to_string(&credentials)?);
        self.broker.run(move || state::write(&path, &text)).await??;
        Ok(account)
    }

    async fn known_account(&self) -> Result<Option<Account>, AcmeError> {
        let path = self.settings.account();
        let text = match self.broker.run(move || std::fs::read_to_string(path)).await? {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let credentials: AccountCredentials = serde_json::from_str(&text)?;
        Ok(Some(self.builder().from_credentials(credentials).await?))
    }

    async fn forget_account(&self) -> Result<(), AcmeError> {
        let path = self.settings.account();
        Ok(self.broker.run(move || std::fs::remove_file(path)).await??)
    }

    fn builder(&self) -> AccountBuilder {
        let https = Https::new(&self.settings.directory, &self.settings.trust, &self.retry_after);
        Account::builder_with_http(Box::new(https))
    }
}

/// Why an order is invalid, in the authority's words.
async fn why(order: &mut Order) -> String {
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let Ok(state) = authorization.refresh().await else { break };
        if let Some(problem) = state.challenges.iter().find_map(|challenge| challenge.error.as_ref()) {
            return said(problem);
        }
    }
    "it gives no reason".to_owned()
}

/// The certificate as the authority names it (RFC 9773, section 4.1).
fn identifier(certificate: &Certificate) -> Option<CertificateIdentifier<'static>> {
    let (issuer_key, serial) = certificate.authority_key_and_serial()?;
    Some(CertificateIdentifier::new(issuer_key.as_slice().into(), serial.as_slice().into()).into_owned())
}

fn is_unknown_account(error: &Error) -> bool {
    let Error::Api(problem) = error else { return false };
    problem.r#type.as_deref().is_some_and(|kind| kind.ends_with(":accountDoesNotExist"))
}

fn words(error: &Error) -> String {
    match error {
        Error::Api(problem) => format!("the authority refuses: {}", said(problem)),
        Error::Str(what) => format!("the authority's answer is not {what}"),
        Error::Json(error) => format!("the authority's answer cannot be read: {error}"),
        other => format!("the authority cannot be asked: {other}"),
    }
}

/// An authority's words as they may appear in one line of a log.
fn said(problem: &Problem) -> String {
    let text = problem.to_string();
    let text = text.strip_prefix("API error: ").unwrap_or(&text);
    text.chars().filter(|c| !c.is_control()).take(MAX_TEXT).collect()
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the beginning of the window is chosen.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

/// For the authority to check a name, and then to issue.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));
const MAX_TEXT: usize = 500;
