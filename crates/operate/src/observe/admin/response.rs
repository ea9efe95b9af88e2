//! Responses of the admin API: text, and problems by RFC 9457.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::header::{self, HeaderValue};
use http::{Response, StatusCode};
use http_body_util::{Either, Full};
use hyper::body::{Body, Bytes, Frame};
use serde::Serialize;
use tokio::sync::mpsc;
use tollgate_grammar::diagnostic::DiagnosticRecord;
use tollgate_grammar::record::Optional;

use super::pages::ProblemPage;

/// The messages for one viewer, as they come.
#[derive(Debug)]
pub(super) struct EventBody(pub(super) mpsc::Receiver<Bytes>);

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.get_mut().0.poll_recv(cx).map(|message| message.map(|message| Ok(Frame::data(message))))
    }
}

/// Whole, or the messages of a viewer.
pub(super) type AdminResponse = Response<Either<Full<Bytes>, EventBody>>;

/// A page. Its types are made of what JSON can say.
pub(super) fn json_response(status: StatusCode, page: &impl Serialize) -> AdminResponse {
    respond(status, "application/json", serde_json::to_vec(page).unwrap_or_default())
}

pub(super) fn text(status: StatusCode, text: impl Into<Bytes>) -> AdminResponse {
    respond(status, "text/plain; charset=utf-8", text)
}

pub(super) fn not_allowed(allowed: &'static str) -> AdminResponse {
    let mut response = problem(StatusCode::METHOD_NOT_ALLOWED, &format!("this page allows {allowed} only"));
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

pub(super) fn problem(status: StatusCode, detail: &str) -> AdminResponse {
    problem_with(status, detail, None)
}

/// A problem with mistakes of a file (RFC 9457, 3.2).
pub(super) fn problem_with(
    status: StatusCode,
    detail: &str,
    diagnostics: Option<Vec<DiagnosticRecord>>,
) -> AdminResponse {
    let page = ProblemPage {
        kind: "about:blank".to_owned(),
        title: status.canonical_reason().unwrap_or_default().to_owned(),
        status: status.as_u16(),
        detail: detail.to_owned(),
        diagnostics: Optional(diagnostics),
    };
    respond(status, "application/problem+json", serde_json::to_vec(&page).unwrap_or_default())
}

pub(super) fn respond(
    status: StatusCode,
    content_type: &'static str,
    body: impl Into<Bytes>,
) -> AdminResponse {
    let mut response = Response::new(Either::Left(Full::new(body.into())));
    *response.status_mut() = status;
    for (name, value) in [
        (header::CONTENT_TYPE, content_type),
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}
