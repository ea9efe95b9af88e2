//! The questions and reports of Dovecot's `auth_policy`: JSON over HTTP, as weakforced understands it.
//!
//! `POST /?command=allow` asks before a sign-in, `POST /?command=report` tells its outcome. Neither refers to the other one, so
//! what both say of the sign-in ties them together. `transaction::auth_policy` answers.
//!
//! Dovecot hashes passwords, and cuts the hash to 12 bits by default: one of 4,096 others has the same. So `repeats` and
//! `unit = "passwords"` do not use it.

use std::borrow::Cow;
use std::net::IpAddr;

use http::{Method, Request};
use serde::Deserialize;

use crate::engine::{AttemptReceipt, Engine};
use crate::proxy::error::{Error, MalformedRequest};

/// What Dovecot wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::proxy) enum PolicyCommand {
    /// To know whether a sign-in may be tried.
    Allow,
    /// To tell what came of it.
    Report,
}

impl PolicyCommand {
    /// The command of a request. Its path and its other parameters are Dovecot's settings.
    ///
    /// # Errors
    /// [`MalformedRequest::PolicyRequest`] without exactly one command.
    pub(in crate::proxy) fn of<B>(request: &Request<B>) -> Result<Self, MalformedRequest> {
        let query = request.uri().query().unwrap_or_default();
        let mut commands = query.split('&').filter_map(|pair| pair.strip_prefix("command="));
        match (commands.next(), commands.next()) {
            _ if request.method() != Method::POST => Err(MalformedRequest::PolicyRequest("not by POST")),
            (Some("allow"), None) => Ok(Self::Allow),
            (Some("report"), None) => Ok(Self::Report),
            _ => Err(MalformedRequest::PolicyRequest("no single `command`")),
        }
    }
}

/// A sign-in, as a question or report describes it.
#[derive(Debug)]
pub(in crate::proxy) struct PolicySignIn<'a> {
    written: WrittenSignIn<'a>,
    /// The address of the client; `None` if Dovecot does not know it.
    pub(in crate::proxy) remote: Option<IpAddr>,
}

/// Members that are not named here are ignored: `auth_policy_request_attributes` may add any.
#[derive(Debug, Deserialize)]
struct WrittenSignIn<'a> {
    #[serde(borrow)]
    login: Cow<'a, str>,
    #[serde(borrow)]
    remote: Cow<'a, str>,
    #[serde(borrow, default)]
    protocol: Cow<'a, str>,
    #[serde(borrow, default)]
    session_id: Cow<'a, str>,
    /// The name that the client sent: a passdb may change `login` between question and report.
    #[serde(borrow, default)]
    asked: Cow<'a, str>,
    success: Option<bool>,
    #[serde(default)]
    policy_reject: bool,
}

impl<'a> PolicySignIn<'a> {
    /// Reads the body of a question or report.
    ///
    /// # Errors
    /// [`MalformedRequest::PolicyRequest`].
    pub(in crate::proxy) fn read(body: &'a [u8]) -> Result<Self, Error> {
        let written: WrittenSignIn<'a> = serde_json::from_slice(body)
            .map_err(|_| MalformedRequest::PolicyRequest("no JSON object with `login` and `remote`"))?;
        let remote = match &*written.remote {
            "" => None,
            address => {
                let address = address.parse();
                Some(address.map_err(|_| MalformedRequest::PolicyRequest("`remote` is not an address"))?)
            }
        };
        Ok(Self { written, remote })
    }

    /// The account.
    pub(in crate::proxy) fn login(&self) -> &str {
        &self.written.login
    }

    /// `imap`, `pop3`, `smtp`, ...
    pub(in crate::proxy) fn protocol(&self) -> &str {
        &self.written.protocol
    }

    /// What came of it; `None` if it was refused by a policy, so that no password was checked.
    ///
    /// # Errors
    /// [`MalformedRequest::PolicyRequest`] if it does not say so.
    pub(in crate::proxy) fn is_success(&self) -> Result<Option<bool>, Error> {
        let success =
            self.written.success.ok_or(MalformedRequest::PolicyRequest("no `success` in a report"))?;
        Ok((!self.written.policy_reject).then_some(success))
    }

    /// The receipt of its attempt. Others of the same client at the same account have it as well if Dovecot knows no session, as
    /// where Postfix asks it.
    pub(in crate::proxy) fn receipt(&self, engine: &Engine) -> AttemptReceipt {
        let WrittenSignIn { login, remote, protocol, session_id, asked, .. } = &self.written;
        let name = if asked.is_empty() { login } else { asked };
        let texts: [&str; 4] = [name, remote, protocol, session_id];
        AttemptReceipt::of_texts(engine, texts)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Dovecot 2.3.19 sends it.
    const SENT: &str = r#"{"device_id":"","login":"anna@example.org","protocol":"imap","pwhash":"09a4","remote":"192.0.2.1","session_id":"x1/AAB","success":false,"policy_reject":false,"tls":false}"#;

    fn is_read(body: &str) -> bool {
        PolicySignIn::read(body.as_bytes()).is_ok()
    }

    #[test]
    fn a_report_of_dovecots_is_read() {
        let read = PolicySignIn::read(SENT.as_bytes()).unwrap();
        assert_eq!((read.login(), read.protocol()), ("anna@example.org", "imap"));
        assert_eq!((read.remote, read.is_success().unwrap()), (Some([192, 0, 2, 1].into()), Some(false)));
        let rejected = SENT.replace("reject\":false", "reject\":true");
        assert_eq!(PolicySignIn::read(rejected.as_bytes()).unwrap().is_success().unwrap(), None);
        let local = r#"{"login":"\u0000\"\\","remote":"","attrs":{"a":[1,{"b":null}]}}"#;
        let local = PolicySignIn::read(local.as_bytes()).unwrap();
        assert_eq!((local.login(), local.remote), ("\0\"\\", None));
        assert!(local.is_success().is_err());
    }

    #[test]
    fn what_dovecot_does_not_send_is_refused() {
        for (sent, other) in [
            (SENT, ""),
            (SENT, "[]"),
            (SENT, "{}"),
            ("}", ""),
            ("{", "{\"login\":\"anna\","),
            ("{", "{\"success\":true,"),
            ("\"login\"", "\"Login\""),
            ("\"anna@example.org\"", "1"),
            ("\"anna@example.org\"", "null"),
            ("\"192.0.2.1\"", "\"192.0.2.300\""),
            ("\"192.0.2.1\"", "[\"192.0.2.1\"]"),
            ("\"imap\"", "true"),
            ("\"success\":false", "\"success\":\"false\""),
            ("\"policy_reject\":false", "\"policy_reject\":null"),
            ("}", "}{}"),
        ] {
            let body = SENT.replacen(sent, other, 1);
            assert!(!is_read(&body), "{body}");
        }
        assert!(PolicySignIn::read(b"{\"login\":\"\xff\",\"remote\":\"\"}").is_err());
    }

    #[test]
    fn a_command_is_named_once() {
        let command = |method: &str, target: &str| {
            PolicyCommand::of(&Request::builder().method(method).uri(target).body(()).unwrap()).ok()
        };
        assert_eq!(command("POST", "/?command=allow"), Some(PolicyCommand::Allow));
        assert_eq!(command("POST", "/x?key=1&command=report"), Some(PolicyCommand::Report));
        for target in
            ["/", "/?command=", "/?command=ping", "/?command=allow&command=report", "/?Command=allow"]
        {
            assert_eq!(command("POST", target), None, "{target}");
        }
        assert_eq!(command("GET", "/?command=allow"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_sign_in_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            drop(PolicySignIn::read(&bytes));
        }
    }
}
