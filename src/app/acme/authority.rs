//! The authority: an account there, orders, and its advice on renewals.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use instant_acme::{
    Account, AccountBuilder, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType,
    Error, ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, Problem, RetryPolicy,
};
use rustix::rand::{GetRandomFlags, getrandom};

use super::dns_hook::{HookError, OpenRecord};
use super::foreign_text::printable;
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

/// What answers the authority while an order is open.
#[derive(Default)]
pub(super) struct Proofs {
    validations: Vec<OpenValidation>,
    records: Vec<OpenRecord>,
}

impl Proofs {
    /// Takes the answers away, as dropping does without waiting for DNS.
    pub(super) async fn close(self) {
        for record in self.records {
            record.close().await;
        }
    }
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
    #[error("the authority does not offer the profile `{wanted}`: {offered}")]
    NoProfile { wanted: String, offered: String },
    #[error("{0}")]
    Validation(#[from] crate::net::tls::ValidationError),
    #[error(transparent)]
    Hook(#[from] HookError),
    #[error("no command is set that changes DNS")]
    NoHook,
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

    /// Orders a certificate and puts it into its file. The caller closes the proofs.
    pub(super) async fn order(
        &self,
        name: &str,
        replaced: Option<&Certificate>,
        validations: &Arc<Validations>,
        proofs: &mut Proofs,
    ) -> Result<Certificate, AcmeError> {
        let account = self.account().await?;
        let names =
            [name.parse::<IpAddr>().map_or_else(|_| Identifier::Dns(name.to_owned()), Identifier::Ip)];
        let mut wanted = NewOrder::new(&names);
        if let Some(profile) = &self.settings.profile {
            wanted = wanted.profile(offered(&account, profile)?);
        }
        if let Some(id) = replaced.and_then(identifier) {
            wanted = wanted.replaces(id);
        }
        let ordered = account.new_order(&wanted).await;
        if ordered.as_ref().is_err_and(is_unknown_account) {
            // The authority has lost it; the next order makes another one.
            self.forget_account().await?;
        }
        let mut order = ordered?;
        self.prove(&mut order, name, validations, proofs).await?;
        match order.poll_ready(&PATIENCE).await {
            Ok(OrderStatus::Ready) => {}
            // An authority may say it of the order, of the challenge or of both.
            Err(Error::Api(problem)) => return Err(AcmeError::NotProved(said(&problem))),
            Ok(_) => return Err(AcmeError::NotProved(why(&mut order).await)),
            Err(error) => return Err(error.into()),
        }
        let key = order.finalize().await?;
        let chain = order.poll_certificate(&PATIENCE).await?;
        let certificate = Certificate::from_pem(chain.as_bytes(), key.as_bytes(), name)?;
        if !certificate.is_for(name) {
            return Err(AcmeError::OtherName);
        }
        let (path, text) = (self.settings.file(name), format!("{key}{chain}"));
        self.broker.run(move || state::write(&path, &text)).await??;
        Ok(certificate)
    }

    /// When the authority suggests to renew this certificate; `None` if it suggests nothing, or no window of time (RFC 9773,
    /// section 4.2).
    pub(super) async fn suggestion(&self, certificate: &Certificate) -> Option<Suggestion> {
        let account = self.known_account().await.ok()??;
        let (advice, ask_again) = account.renewal_info(&identifier(certificate)?).await.ok()?;
        let window = advice.suggested_window;
        let start = u64::try_from(window.start.unix_timestamp_nanos()).ok()?;
        let end = u64::try_from(window.end.unix_timestamp_nanos()).ok()?;
        let length = end.checked_sub(start).filter(|length| *length > 0)?;
        let renew_at = start.saturating_add(random() % length);
        let ask_again = Span::from_secs(ask_again.as_secs());
        Some(Suggestion { renew_at: Time::from_nanos(renew_at), ask_again })
    }

    /// Lets the authority check the name.
    async fn prove(
        &self,
        order: &mut Order,
        name: &str,
        validations: &Arc<Validations>,
        proofs: &mut Proofs,
    ) -> Result<(), AcmeError> {
        let method = self.settings.method(name);
        let kind = match method {
            ValidationMethod::TlsAlpn01 => ChallengeType::TlsAlpn01,
            ValidationMethod::Http01 => ChallengeType::Http01,
            ValidationMethod::Dns01 => ChallengeType::Dns01,
        };
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let mut challenge = authorization.challenge(kind.clone()).ok_or(AcmeError::NoChallenge)?;
            let answer = challenge.key_authorization();
            if method == ValidationMethod::Dns01 {
                let hook = self.settings.dns_hook.as_ref().ok_or(AcmeError::NoHook)?;
                let record = OpenRecord::present(hook, name, answer.dns_value(), self.broker).await?;
                proofs.records.push(record);
            } else {
                proofs.validations.push(validations.open(name, &challenge.token, answer.as_str())?);
            }
            challenge.set_ready().await?;
        }
        Ok(())
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
        let bound = self.settings.external_account.as_ref();
        let bound = bound.map(|account| ExternalAccountKey::new(account.key_id.clone(), &account.key));
        let (account, credentials) = self.builder().create(&new, directory, bound.as_ref()).await?;
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

/// The profile, if it is one of the authority's: another one would be an error of every order.
fn offered<'n>(account: &Account, wanted: &'n str) -> Result<&'n str, AcmeError> {
    let mut names: Vec<&str> = account.profiles().map(|profile| profile.name).collect();
    if names.contains(&wanted) {
        return Ok(wanted);
    }
    names.sort_unstable();
    let offered = match names.is_empty() {
        true => "it has none".to_owned(),
        false => format!("it offers {}", printable(&names.join(", "))),
    };
    Err(AcmeError::NoProfile { wanted: wanted.to_owned(), offered })
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
        Error::Json(error) => {
            format!("the authority's answer cannot be read: {}", printable(&error.to_string()))
        }
        other => format!("the authority cannot be asked: {}", printable(&other.to_string())),
    }
}

/// An authority's words as they may appear in one line of a log.
fn said(problem: &Problem) -> String {
    let text = problem.to_string();
    let text = text.strip_prefix("API error: ").unwrap_or(&text);
    printable(text)
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without randomness the beginning of the window is chosen.
    let _ = getrandom(&mut bytes, GetRandomFlags::empty());
    u64::from_ne_bytes(bytes)
}

/// For the authority to check a name, and then to issue.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));
