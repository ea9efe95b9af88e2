//! The response to a refused attempt, in the form that fits its request, and perhaps with an offer. `respond` renders it.

use http::header::CONNECTION;
use http::{HeaderValue, Method, Request, Response};

use super::context::RequestContext;
use super::discard_body;
use super::request_summary::RequestSummary;
use super::server::Server;
use crate::engine::{Refusal, Rules};
use crate::policy::Offer;
use crate::policy::attempt::Client;
use crate::proxy::body::{IncomingBody, ResponseBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::request::voucher;
use crate::proxy::respond::{Negotiation, RenderedRefusal, ShownOffer, language_of, shows_offer};
use crate::proxy::runtime_config::RuntimeConfig;

impl Server {
    /// The response to a refused attempt. What is left of its body is discarded.
    pub(super) fn refuse(
        &self,
        connection: &DownstreamConnection,
        config: &RuntimeConfig,
        refusal: &Refusal,
        request: Request<IncomingBody>,
        RequestContext { summary, record, .. }: &RequestContext,
    ) -> Response<ResponseBody> {
        let form = config.refuse_on(connection);
        let offered = self.offer(connection, config, refusal, record.client(), &request, summary);
        let pause = offered.as_ref().and_then(|offer| offer.pause.as_ref());
        let action = pause.map(|pause| voucher::query_with(request.uri().query(), &pause.ticket));
        let action = action.as_deref().unwrap_or_default();
        let offer = offered.as_ref().map(|offer| ShownOffer { offer, action });
        let language = language_of(form.pages_of(refusal.route), summary.accept(), request.headers());
        let negotiation = Negotiation { language, offer, ..summary.negotiation() };
        let rendered = self.rendered_refusal(connection, config, refusal, &negotiation);
        let mut response = refusal_response(rendered, summary, &summary.request_id);
        if !discard_body::may_be_kept(request, connection) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// The refusal with what was negotiated. What becomes of the body is left to the caller.
    pub(super) fn rendered_refusal(
        &self,
        connection: &DownstreamConnection,
        config: &RuntimeConfig,
        refusal: &Refusal,
        negotiation: &Negotiation<'_>,
    ) -> RenderedRefusal {
        let (Rules { generation, policy, .. }, form) = (&*config.rules, config.refuse_on(connection));
        self.refusal_cache.refusal(*generation, form, policy, refusal, negotiation)
    }

    /// What the page of a refusal offers; `None` if nothing. A program gets no page, and a proxy that
    /// asks shows it elsewhere.
    fn offer(
        &self,
        connection: &DownstreamConnection,
        config: &RuntimeConfig,
        refusal: &Refusal,
        client: Client,
        request: &Request<IncomingBody>,
        summary: &RequestSummary,
    ) -> Option<Offer> {
        config.rules.policy.pardon.as_ref()?;
        let now = self.engine.clock().now();
        let load = self.refusal_rate.count(now);
        let is_form = *request.method() == Method::POST && connection.callers.are_clients();
        if !is_form || !shows_offer(config.refuse.pages_of(refusal.route), summary.accept()) {
            return None;
        }
        let client = config.client.prefix_of(client)?;
        let presented = voucher::in_query(request.uri().query());
        self.engine.offer(&config.rules, refusal, client, (load, presented), now)
    }
}

/// The response with a refusal that was rendered for the request with this id.
pub(super) fn refusal_response(
    rendered: RenderedRefusal,
    summary: &RequestSummary,
    request_id: &HeaderValue,
) -> Response<ResponseBody> {
    let mut response = match rendered {
        RenderedRefusal::New(response) => response.map(ResponseBody::generated),
        RenderedRefusal::Kept(kept) => {
            let body = ResponseBody::generated(kept.body(request_id)).with_ready(kept.lines(), request_id);
            let mut response = Response::new(body);
            *response.status_mut() = kept.status();
            response
        }
    };
    summary.allow_origin(&mut response);
    response
}
