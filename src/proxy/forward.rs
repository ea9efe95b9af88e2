//! An admitted request on its way to the upstream and back.
//!
//! What leaves has the original bytes of path and query and the headers of [`headers`]; what comes back streams
//! through. The surprising thing: the token is settled when the head of the answer is here, or will never be.

use std::rc::Rc;
use std::sync::Arc;

use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;

use super::body::{Arrival, Progress, ReplyBody, RequestBody, Sent};
use super::connection::Connection;
use super::error::Error;
use super::exchange::Exchange;
use super::headers::{self, Identity};
use super::service::{Asker, Gate};
use super::site::{Local, Site};
use super::tunnel;
use super::upstream::Unsent;
use crate::engine::{Engine, Reservation};
use crate::event::Outcome;

/// A request that is ready to leave.
pub(super) struct Departure {
    request: Unsent,
    progress: Rc<Progress>,
    /// By what it was decided on.
    local: Rc<Local>,
    /// The number of its upstreams.
    group: usize,
    /// The client's side of the upgrade that it asked for.
    upgrade: Option<OnUpgrade>,
}

impl Departure {
    /// Turns a request into what the upstream is to see.
    pub(super) fn prepare(
        mut request: Request<Arrival>,
        connection: &Connection,
        local: &Rc<Local>,
        group: usize,
        asker: &Asker,
    ) -> Self {
        let Site { rules, client, settings, .. } = &*local.site;
        let protocol = headers::wanted_upgrade(request.headers());
        let upgrade = protocol.is_some().then(|| hyper::upgrade::on(&mut request));
        let identity = Identity {
            peer: connection.peer_value.as_ref(),
            trusted: client.trusts(connection.peer),
            kept: client.header.name(),
            request_id: asker.id_is_ours.then_some(&asker.request_id),
            devices: rules.policy.devices.as_deref(),
        };
        headers::towards_upstream(request.headers_mut(), &identity, protocol);
        if request.uri().authority().is_some() {
            *request.uri_mut() = origin_form(request.uri());
        }
        *request.version_mut() = Version::HTTP_11;
        let (parts, body) = request.into_parts();
        let (body, progress) = RequestBody::new(body, settings.body_timeout.to_std());
        let request = Some(Request::from_parts(parts, body));
        Self { request, progress, local: Rc::clone(local), group, upgrade }
    }

    /// Sends it and waits for the head of the answer.
    pub(super) async fn go(
        &mut self,
        gate: &Gate,
        connection: &Arc<Connection>,
        reservation: Option<Reservation>,
        exchange: &mut Exchange,
    ) -> Result<Response<ReplyBody>, Error> {
        let Self { request, progress, local, group, upgrade } = self;
        exchange.leaves(gate.engine.clock().now());
        let forwarded = local.group(*group).forward(request, progress).await;
        exchange.returns(gate.engine.clock().now());
        settle(&gate.engine, reservation, &forwarded);
        let (response, lease) = forwarded?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            return tunnel::open(response, lease, upgrade.take(), connection, exchange.hand_over());
        }
        let timeout = local.site.settings.reply_timeout.to_std();
        let mut response = response.map(|body| ReplyBody::upstreams(body, timeout, lease));
        headers::towards_client(response.headers_mut(), false);
        if upgrade.is_some() || progress.sent() != Sent::Wholly {
            // Whatever the client sent in the hope of another protocol, or still sends, is not a request.
            connection.phases.linger();
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

fn settle<T>(
    engine: &Engine,
    reservation: Option<Reservation>,
    forwarded: &Result<(Response<Incoming>, T), Error>,
) {
    let Some(reservation) = reservation else { return };
    let outcome = match forwarded {
        Ok((response, _)) if !response.status().is_server_error() => Outcome::Neutral,
        _ => Outcome::Error,
    };
    reservation.settle(engine, outcome);
}

/// Path and query as sent, without the authority of an absolute target.
fn origin_form(uri: &Uri) -> Uri {
    match uri.path_and_query() {
        Some(target) => Uri::from(target.clone()),
        None => Uri::from_static("/"),
    }
}
