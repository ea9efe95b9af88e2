//! Routes an operator's request to its page: a function without sockets.
//!
//! Every error is problem+json (RFC 9457). What callers over TCP may ask is left to [`access`](super::access).

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{Method, Request, StatusCode};
use http_body_util::Full;
use hyper::body::Body;

use super::Admin;
use super::access::TcpCaller;
use super::asker::Asker;
use super::audit_trail::PageContext;
use super::dashboard::DashboardPath;
use super::openapi;
use super::page_path::AdminPage;
use super::request::{MAX_BODY_LEN, body_of};
use super::response::{AdminResponse, not_allowed, problem, respond, text};
use crate::event::Operator;
use crate::observe::metrics::{CONTENT_TYPE, OPEN_CONTENT_TYPE, accepts_open_metrics};

/// How a request came in.
#[derive(Debug, Clone, Copy)]
pub(super) enum Caller {
    /// Over TCP.
    Tcp(TcpCaller),
    /// Over a Unix socket, which no browser can reach.
    Unix(Operator),
}

impl Caller {
    /// The caller; `None` for pages that are open to all. Callers without the right get the answer.
    fn asker<B>(
        self,
        admin: &Admin,
        page: &AdminPage,
        request: &Request<B>,
    ) -> Result<Option<Asker>, Box<AdminResponse>> {
        let for_operators = !matches!(page, AdminPage::Open);
        let (method, headers) = (request.method(), request.headers());
        let asker = match self {
            Self::Unix(by) => Some(Asker::local(by)),
            Self::Tcp(caller) => {
                let by = Operator { address: Some(caller.peer), ..Operator::default() };
                let token = admin.access.admit(caller, method, headers, for_operators)?;
                token.map(|token| Asker::with_token(by, token))
            }
        };
        let Some(asker) = asker.filter(|_| for_operators) else { return Ok(None) };
        let may = asker.may_have(page.needs(method)).and_then(|()| asker.because_of(method, headers));
        may.map(Some).map_err(|problem| Box::new(problem.into()))
    }
}

/// Answers a request. One that may change something outlives its connection: a change that the audit announces is also
/// made, and its outcome recorded, if the caller leaves in between. Its body is read before, while there is a caller.
pub(super) async fn handle<B>(admin: &Arc<Admin>, caller: Caller, request: Request<B>) -> AdminResponse
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let page = AdminPage::of(request.uri());
    let asker = match caller.asker(admin, &page, &request) {
        Ok(asker) => asker,
        Err(refusal) => return *refusal,
    };
    let Some(asker) = asker else { return handle_page(admin, &request) };
    if !page.is_change(request.method()) {
        return answer(Arc::clone(admin), caller, asker, page, request).await;
    }
    let (head, body) = request.into_parts();
    let body = match body_of(body, MAX_BODY_LEN).await {
        Ok(body) => body,
        Err(refusal) => return refusal.into(),
    };
    let request = Request::from_parts(head, Full::new(body));
    let answered = tokio::spawn(answer(Arc::clone(admin), caller, asker, page, request));
    answered.await.unwrap_or_else(|_| {
        problem(StatusCode::INTERNAL_SERVER_ERROR, "the gate failed: a change may have been made, or not")
    })
}

/// Answers a caller who may have the page.
async fn answer<B>(
    admin: Arc<Admin>,
    caller: Caller,
    asker: Asker,
    page: AdminPage,
    request: Request<B>,
) -> AdminResponse
where
    B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
{
    let Some(api) = &admin.operator_api else { return handle_page(&admin, &request) };
    let seen = asker.sees(&api.overrides.engine.rules().policy);
    let cx = PageContext { asker: &asker, seen: &seen, audit: &api.audit };
    match page {
        AdminPage::Bucket(path) => api.buckets.handle(&cx, path, request).await,
        AdminPage::Clients(page) => api.clients.handle(&seen, page, &request).await,
        AdminPage::Control(page) => api.control.handle(&cx, page, &request).await,
        AdminPage::Overrides(page) => api.overrides.handle(&cx, page, request).await,
        AdminPage::DryRun(page) => api.dry_run.handle(page, request).await,
        AdminPage::Dashboard(page) => {
            if let (Caller::Tcp(caller), DashboardPath::Page) = (caller, page)
                && admin.access.exempts_operators()
            {
                api.overrides.welcome(&cx, caller.peer).await;
            }
            api.dashboard.handle(page, request.method(), &seen)
        }
        AdminPage::Events => {
            let token = asker.token().map(|token| admin.access.lasting(token));
            api.events.handle(request.method(), token)
        }
        AdminPage::Forget => api.forget.handle(&cx, request).await,
        AdminPage::OpenApi => openapi::handle(request.method()),
        AdminPage::Open => handle_page(&admin, &request),
    }
}

fn handle_page<B>(admin: &Admin, request: &Request<B>) -> AdminResponse {
    let page: fn(&Admin) -> AdminResponse = match request.uri().path() {
        "/livez" => |_| text(StatusCode::OK, "ok\n"),
        "/readyz" => ready,
        "/metrics" if accepts_open_metrics(request.headers()) => open_metrics,
        "/metrics" => metrics,
        _ => return problem(StatusCode::NOT_FOUND, "there is no such page"),
    };
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        page(admin)
    } else {
        not_allowed("GET, HEAD")
    }
}

fn ready(admin: &Admin) -> AdminResponse {
    if admin.draining.load(Ordering::Relaxed) {
        return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
    }
    if let Some(reasons) = admin.readiness.reasons() {
        return text(StatusCode::SERVICE_UNAVAILABLE, format!("{reasons}\n"));
    }
    // Without the store the gate still serves, as `store.on_error` says. A load balancer that left it would leave all
    // gates at once.
    let mut body = match admin.operator_api.as_ref().is_some_and(|api| api.buckets.is_store_down()) {
        true => "degraded: the store does not answer\n".to_owned(),
        false => "ok\n".to_owned(),
    };
    for warning in admin.readiness.warnings() {
        body.push_str(&format!("warning: {}\n", warning.summary));
    }
    text(StatusCode::OK, body)
}

fn metrics(admin: &Admin) -> AdminResponse {
    respond(StatusCode::OK, CONTENT_TYPE, admin.metrics.render())
}

fn open_metrics(admin: &Admin) -> AdminResponse {
    respond(StatusCode::OK, OPEN_CONTENT_TYPE, admin.metrics.render_open())
}
