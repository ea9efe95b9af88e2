//! Who asks, and how the gate's own answers look to it.
//!
//! What is remembered of a request while its head is gone.

use http::header::{ACCEPT, CONNECTION};
use http::{HeaderValue, Method, Request, Response};

use super::answering::Answering;
use super::body::ReplyBody;
use super::connection::Connection;
use super::error::Error;
use super::exchange::Exchange;
use super::headers;
use super::ids::RequestIds;
use super::respond::{self, Asked};

/// A request as far as the gate's own answers to it go.
pub(super) struct Asker {
    accept: Option<HeaderValue>,
    head: bool,
    pub(super) request_id: HeaderValue,
    pub(super) id_is_ours: bool,
}

/// Who asks, and the record of it.
pub(super) struct Visit {
    pub(super) asker: Asker,
    pub(super) exchange: Exchange,
}

impl Asker {
    pub(super) fn of<B>(request: &Request<B>, ids: &RequestIds) -> Self {
        let own = headers::usable_request_id(request.headers());
        Self {
            accept: request.headers().get(ACCEPT).cloned(),
            head: request.method() == Method::HEAD,
            request_id: own.cloned().unwrap_or_else(|| ids.next()),
            id_is_ours: own.is_none(),
        }
    }

    pub(super) fn asked(&self) -> Asked<'_> {
        Asked { accept: self.accept.as_ref(), head: self.head, request_id: &self.request_id }
    }
}

impl Visit {
    pub(super) fn ends_in(self, error: &Error, connection: &Connection) -> Answering {
        Answering::now(self.exchange.end_with(apologise(connection, error, &self.asker)))
    }

    pub(super) fn ends_with(self, response: Response<ReplyBody>, connection: &Connection) -> Answering {
        connection.phases.linger();
        Answering::now(self.exchange.end_with(response))
    }
}

pub(super) fn apologise(connection: &Connection, error: &Error, asker: &Asker) -> Response<ReplyBody> {
    let mut response = respond::problem(error.problem(), &asker.asked()).map(ReplyBody::ours);
    // A connection on which anything unusual happened is not used again.
    connection.phases.linger();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
