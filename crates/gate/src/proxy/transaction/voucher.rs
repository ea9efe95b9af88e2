//! Redeems vouchers of refused clients.
//!
//! The page sends the voucher to the path that was refused, in a request that the gate never forwards. `engine` decides whether it gives
//! an attempt. The browser is then redirected to the form, where a person can try again.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONNECTION, LOCATION};
use http::{HeaderValue, Request, Response, StatusCode};

use super::context::RequestContext;
use super::head_check::RoutedDecision;
use super::server::Server;
use super::service::attempt;
use super::{context, discard_body};
use crate::engine::{Decision, Refusal};
use crate::policy::attempt::{AttemptBody, Client};
use crate::proxy::body::{ClientBody, IncomingBody, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::{Error, MalformedRequest};
use crate::proxy::request::{target, voucher};
use crate::proxy::runtime_config::WorkerConfig;

impl Server {
    /// Answers a request with a voucher: by the way back to the form, or by the refusal that the attempt gets without it.
    pub(super) async fn redeem(
        self: Rc<Self>,
        connection: Rc<DownstreamConnection>,
        config: Rc<WorkerConfig>,
        client: Client,
        request: Request<ClientBody>,
        context: RequestContext,
    ) -> Response<ResponseBody> {
        let answered = self.try_redeem(&connection, &config, client, &request).await;
        let request = request.map(IncomingBody::Streaming);
        match answered {
            Ok(Ok(location)) => {
                let may_be_kept = discard_body::may_be_kept(request, &connection);
                context.record.finish(see_other(location, may_be_kept))
            }
            Ok(Err(refusal)) => {
                let decision = Decision::Refused(refusal);
                let routed = RoutedDecision { config, decision, group: 0 };
                let Ok(response) = self.respond(&connection, routed, request, context).await;
                response
            }
            Err(error) => {
                context.record.finish(context::error_response(&connection, &error, &context.summary))
            }
        }
    }

    /// The way back, or the refusal.
    async fn try_redeem(
        &self,
        connection: &DownstreamConnection,
        config: &WorkerConfig,
        client: Client,
        request: &Request<ClientBody>,
    ) -> Result<Result<HeaderValue, Box<Refusal>>, Error> {
        let host = target::validate_again(connection, request)?;
        let (shared, rules) = (&config.shared, &config.shared.rules);
        let location = voucher::way_back(request.uri()).ok_or(MalformedRequest::BadTarget)?;
        let shown = shared.shown_by(connection, request, self.engine.clock().now(), || true)?;
        let attempt = attempt(request, &host, client, shown.client(), AttemptBody::Unread);
        let voucher = voucher::in_query(request.uri().query()).unwrap_or_default();
        let prefix = shared.client.prefix_of(client);
        if let Some(prefix) = prefix
            && self.engine.redeem(rules, &attempt, prefix, voucher).await.is_ok()
        {
            return Ok(Ok(location));
        }
        let now = self.engine.clock().now();
        let refusal = self.engine.refuse(rules, &attempt, rules.policy.routes_of(&attempt), now)?;
        // Where nothing refuses any more, there is no wait to name.
        Ok(refusal.map_or(Ok(location), Err))
    }
}

fn see_other(location: HeaderValue, may_be_kept: bool) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::generated(Bytes::new()));
    *response.status_mut() = StatusCode::SEE_OTHER;
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if !may_be_kept {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
