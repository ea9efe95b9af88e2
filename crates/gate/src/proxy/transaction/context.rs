//! The context of one request: its summary, and its access record.
//!
//! The context stays when the head of the request is forwarded. `respond` renders the responses.

use http::header::CONNECTION;
use http::{HeaderMap, HeaderValue, Response};

use super::access_record::AccessRecord;
use super::request_summary::RequestSummary;
use super::response_future::ResponseFuture;
use crate::policy::Policy;
use crate::proxy::body::ResponseBody;
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::headers::recorded::ForwardingHeaders;
use crate::proxy::respond;

/// The summary of a request, and its access record.
pub(super) struct RequestContext {
    pub(super) summary: RequestSummary,
    pub(super) record: AccessRecord,
    /// What the request has for those who forward it.
    pub(super) forwarding: ForwardingHeaders,
}

impl RequestContext {
    /// Notes which page may read what the gate answers on this route.
    pub(super) fn permit_origin(&mut self, policy: &Policy, route: Option<&usize>, headers: &HeaderMap) {
        self.summary.permit_origin(policy, route, headers);
    }

    pub(super) fn finish_with_error(
        self,
        error: &Error,
        connection: &DownstreamConnection,
    ) -> ResponseFuture {
        ResponseFuture::ready(self.record.finish(error_response(connection, error, &self.summary)))
    }

    pub(super) fn finish_with(
        self,
        response: Response<ResponseBody>,
        connection: &DownstreamConnection,
    ) -> ResponseFuture {
        connection.state.linger();
        ResponseFuture::ready(self.record.finish(response))
    }
}

pub(super) fn error_response(
    connection: &DownstreamConnection,
    error: &Error,
    summary: &RequestSummary,
) -> Response<ResponseBody> {
    let mut response = respond::problem(error.problem(), &summary.negotiation()).map(ResponseBody::generated);
    summary.allow_origin(&mut response);
    // A connection is not used again after an error.
    connection.state.linger();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}
