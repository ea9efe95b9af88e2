//! Asks the gate in a separate thread, so that keys work while a gate is slow to answer.
//!
//! One question is open at a time. The thread ends when the poller is dropped.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::super::admin_api::{AdminGate, ApiRequest};
use super::overview::{Overview, OverviewQuery, PlainError, fetch};
use super::state::OperatorAction;
use crate::observe::admin::pages::PrefixRequest;

/// A question to the gate.
pub(super) enum PollRequest {
    Overview(OverviewQuery),
    Act(OperatorAction),
}

/// What the gate said, or why it did not.
pub(super) enum PollReply {
    Overview(Result<Box<Overview>, PlainError>),
    /// The action, and what is wrong with it.
    Acted(OperatorAction, Result<(), PlainError>),
}

pub(super) struct Poller {
    requests: SyncSender<PollRequest>,
    replies: Receiver<PollReply>,
}

impl Poller {
    /// # Errors
    /// If no thread can be started.
    pub(super) fn start(gate: &AdminGate) -> io::Result<Self> {
        let (requests, incoming) = sync_channel::<PollRequest>(1);
        let (outgoing, replies) = sync_channel(1);
        let gate = gate.clone();
        thread::Builder::new().name("poller".into()).spawn(move || {
            for request in incoming {
                if outgoing.send(reply(&gate, request)).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self { requests, replies })
    }

    /// Sends a question; does nothing if one is open.
    pub(super) fn ask(&self, request: PollRequest) {
        let _ = self.requests.try_send(request);
    }

    /// A reply if there is one.
    ///
    /// # Errors
    /// If the thread is gone.
    pub(super) fn reply(&self) -> anyhow::Result<Option<PollReply>> {
        match self.replies.try_recv() {
            Ok(reply) => Ok(Some(reply)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => anyhow::bail!("the thread that asks the gate has ended"),
        }
    }
}

fn reply(gate: &AdminGate, request: PollRequest) -> PollReply {
    match request {
        PollRequest::Overview(query) => {
            let overview = fetch(gate, &query).and_then(|pages| Overview::parse(&pages));
            PollReply::Overview(overview.map(Box::new).map_err(PlainError::from))
        }
        PollRequest::Act(action) => {
            let done = api_request(&action).call(gate).and_then(|response| response.success());
            PollReply::Acted(action, done.map(|_| ()).map_err(PlainError::from))
        }
    }
}

fn api_request(action: &OperatorAction) -> ApiRequest {
    let escaped = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    match action {
        OperatorAction::Reset { client, limit } => {
            let key = format!("ip:{}", client.split('/').next().unwrap_or_default());
            let path = format!("/api/v1/buckets/{}?limit={}", escaped(&key), escaped(limit));
            ApiRequest { method: "DELETE", path, body: None }
        }
        OperatorAction::Exempt { client } => {
            let path = format!("/api/v1/exemptions/{}", escaped(client));
            let (lasts, why) = ("1h".to_owned(), Some("top".to_owned()).into());
            let body = serde_json::to_value(PrefixRequest { lasts, why }).ok();
            ApiRequest { method: "PUT", path, body }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_reset_by_its_address_and_exempted_as_a_whole() {
        let client = "2001:db8::/64".to_owned();
        let reset = api_request(&OperatorAction::Reset { client: client.clone(), limit: "a b".into() });
        assert_eq!(
            (reset.method, &*reset.path),
            ("DELETE", "/api/v1/buckets/ip%3A2001%3Adb8%3A%3A?limit=a%20b")
        );
        let exempt = api_request(&OperatorAction::Exempt { client });
        assert_eq!((exempt.method, &*exempt.path), ("PUT", "/api/v1/exemptions/2001%3Adb8%3A%3A%2F64"));
        assert_eq!(exempt.body, Some(serde_json::json!({"for": "1h", "why": "top"})));
    }
}
