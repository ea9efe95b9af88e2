//! Answers Envoy's external authorization, version 3: `envoy.service.auth.v3.Authorization/Check`.
//!
//! A refusal is an answer, with the gate's own status, headers and page. Only what no client can cause is an error of the call,
//! which Envoy refuses as well, unless it is told otherwise. `request::authorization` reads questions, `respond` writes answers.

use std::rc::Rc;

use http::{Request, Response};

use super::calls::{AskedAnswer, UnreadCall};
use super::server::Server;
use crate::proxy::body::{ClientBody, ResponseBody, UnreadGuard};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::grpc;
use crate::proxy::grpc::stream::MAX_MESSAGE;
use crate::proxy::request::authorization::CheckRequest;
use crate::proxy::respond::CheckResponse;

impl Server {
    /// Only a call without an answer is recorded: otherwise the request is that it is about.
    pub(super) async fn authorize(
        self: Rc<Self>,
        connection: Rc<DownstreamConnection>,
        request: Request<ClientBody>,
    ) -> Response<ResponseBody> {
        let (head, incoming) = request.into_parts();
        let context = || self.context_of_asker(&connection, &Request::from_parts(head, ()));
        let guard = UnreadGuard::begins(&self.unread_bodies);
        let asked = match self.read_call(incoming, MAX_MESSAGE, CheckRequest::read).await {
            Ok(asked) => asked.into_request(self.config.current().shared.shows_bodies(&connection)),
            Err(UnreadCall::TooLong) => {
                let Ok(refused) = context().finish_with_error(&Error::BodyTooLong, &connection).await;
                return grpc::response(&response_to(AskedAnswer::of(refused).await, None));
            }
            Err(UnreadCall::Broken(error)) => {
                let Ok(response) = context().finish_with_error(&error, &connection).await;
                return response;
            }
            Err(UnreadCall::Malformed(error)) => return context().record.finish(error.response()),
        };
        let headers = asked.as_ref().ok().map(|asked| asked.request.headers());
        let cookies = headers.and_then(|headers| self.passed_cookies(headers));
        drop(guard);
        let Ok(response) = self.decide_asked(&connection, asked).await;
        grpc::response(&response_to(AskedAnswer::of(response).await, cookies))
    }
}

fn response_to(answer: AskedAnswer, cookies: Option<Vec<http::HeaderValue>>) -> CheckResponse {
    if answer.admits() {
        return CheckResponse::ok(&answer.headers, cookies);
    }
    CheckResponse::denied(answer.status, answer.headers, &answer.body)
}
