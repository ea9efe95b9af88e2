//! Decides on the requests of a program that serves them itself, in this process.
//!
//! The program is to the gate what a proxy is at a decision endpoint, and gets the same answers. It shows whole bodies, and
//! whole answers. Decisions are made by separate threads: the threads of the program only wait, as tasks do. What is
//! not answered is not served: a fault here lets nothing pass.

mod answer;

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Version};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

pub use self::answer::{AnswerInspector, JudgedHead, PassedRequest};
use super::calls::AskedAnswer;
use super::server::Server;
use crate::engine::{AttemptReceipt, HeldAttempt};
use crate::net::connection_limit::{AdmitError, ConnectionLimit, Permit};
use crate::net::listener::{Callers, ListenerKind};
use crate::net::stream::PeerAddr;
use crate::policy::attempt::Client;
use crate::proxy::body::{ClientBody, PulledBody};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::event_reason;
use crate::proxy::headers::{FORWARDED_PROTO, RECEIPT};
use crate::proxy::request::described::{AskedRequest, SourceAddr};
use crate::proxy::request::question::VisibleBody;
use crate::proxy::request::translate::to_http1;
use crate::proxy::respond::without_framing;

/// Asks the threads that decide.
#[derive(Debug)]
pub struct InProcessAsker {
    workers: Box<[mpsc::Sender<InProcessQuestion>]>,
    /// The number of questions so far: the threads take turns.
    asked: AtomicUsize,
}

/// The questions of one thread that decides.
#[derive(Debug)]
pub struct InProcessQuestions(mpsc::Receiver<InProcessQuestion>);

/// A request that the program has got.
#[derive(Debug)]
struct InProcessQuestion {
    request: Request<Option<PulledBody>>,
    sender: RequestSender,
    verdict: oneshot::Sender<InProcessVerdict>,
}

/// The other end of the connection over which the program got a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestSender {
    /// Its address.
    pub peer: PeerAddr,
    /// Whether it speaks TLS with the program.
    pub is_secure: bool,
}

/// What becomes of a request.
#[derive(Debug)]
pub enum InProcessVerdict {
    /// The program serves it.
    Passed(Box<PassedRequest>),
    /// This is the answer: a refusal, or an error.
    Answered(Response<Bytes>),
}

impl InProcessAsker {
    /// Asks so many threads, at least one. Each gets the questions at its place.
    #[must_use]
    pub fn new(threads: usize) -> (Self, Vec<InProcessQuestions>) {
        let channels = (0..threads.max(1)).map(|_| mpsc::channel(MAX_WAITING));
        let (workers, questions): (Vec<_>, Vec<_>) =
            channels.map(|(sender, receiver)| (sender, InProcessQuestions(receiver))).unzip();
        (Self { workers: workers.into(), asked: AtomicUsize::new(0) }, questions)
    }

    /// Asks about a request. `give_body` gives its body to the other end of the [`PulledBody`] meanwhile, and then waits for
    /// ever. `None` if nobody decides: then it must not be served.
    pub async fn ask(
        &self,
        request: Request<Option<PulledBody>>,
        sender: RequestSender,
        give_body: impl Future<Output = ()>,
    ) -> Option<InProcessVerdict> {
        let (verdict, answered) = oneshot::channel();
        let turn = self.asked.fetch_add(1, Ordering::Relaxed) % self.workers.len();
        let question = InProcessQuestion { request, sender, verdict };
        self.workers.get(turn)?.send(question).await.ok()?;
        let body_and_more = async {
            give_body.await;
            std::future::pending().await
        };
        tokio::select! {
            biased;
            answered = answered => answered.ok(),
            () = body_and_more => None,
        }
    }
}

/// A thread that decides.
struct InProcessWorker {
    server: Rc<Server>,
    connection_limit: Arc<ConnectionLimit>,
}

/// Decides until nobody can ask any more. Called on its own thread; `began` is told whether that has begun.
pub fn run(
    questions: InProcessQuestions,
    connection_limit: Arc<ConnectionLimit>,
    make_server: impl FnOnce() -> Server,
    began: impl FnOnce(io::Result<()>),
) {
    let runtime = match Builder::new_current_thread().enable_all().build_local(LocalOptions::default()) {
        Ok(runtime) => runtime,
        Err(error) => return began(Err(error)),
    };
    began(Ok(()));
    runtime.block_on(async {
        let mut questions = questions.0;
        let worker = Rc::new(InProcessWorker { server: Rc::new(make_server()), connection_limit });
        while let Some(question) = questions.recv().await {
            tokio::task::spawn_local(Rc::clone(&worker).answer(question));
        }
    });
}

impl InProcessWorker {
    async fn answer(self: Rc<Self>, question: InProcessQuestion) {
        let InProcessQuestion { request, sender, mut verdict } = question;
        let decided = tokio::select! {
            biased;
            decided = self.decide(request, sender) => decided,
            // The client has left. What it took before is charged.
            () = verdict.closed() => return,
        };
        // An attempt that nobody waits for any more is a failure.
        drop(verdict.send(decided));
    }

    /// Each question has its own connection: that of its client, as far as it matters here.
    async fn decide(
        &self,
        request: Request<Option<PulledBody>>,
        RequestSender { peer, is_secure }: RequestSender,
    ) -> InProcessVerdict {
        let server = &self.server;
        let Some(permit) = self.admit(peer, request.headers()).await else {
            return InProcessVerdict::Answered(empty(StatusCode::SERVICE_UNAVAILABLE));
        };
        let kind = if is_secure { ListenerKind::Tls } else { ListenerKind::Plain(0) };
        let clock = server.engine.clock().clone();
        let now = clock.now();
        let connection =
            DownstreamConnection::new(kind, Callers::Askers(IN_PROCESS_ENDPOINT), peer, permit, clock);
        connection.state.request_begins(now);
        let is_trusted = server.config.current().shared.client.trusts(peer);
        let request = described(request, peer, is_trusted, is_secure);
        let cookies = server.passed_cookies(request.headers());
        let asked = AskedRequest { request, body: VisibleBody::Whole };
        let Ok(response) = server.decide_asked(&connection, Ok(asked)).await;
        let answer = AskedAnswer::of(response).await;
        if !answer.admits() {
            return InProcessVerdict::Answered(answered(answer));
        }
        let mut headers = answer.headers;
        let attempt = self.held_attempt(&mut headers, &connection);
        let config = server.config.current();
        let hidden = config.shared.rules.policy.hidden_headers().cloned().collect();
        InProcessVerdict::Passed(Box::new(PassedRequest::new(&headers, cookies, hidden, attempt)))
    }

    /// The place of a question; `None` if too many are undecided. One client alone must not hold all places, also behind a
    /// proxy that names it.
    async fn admit(&self, peer: PeerAddr, headers: &HeaderMap) -> Option<Permit> {
        let config = self.server.config.current();
        let settings = &config.shared.client;
        let client = settings.client_of(peer, headers).ok();
        let prefix = client.and_then(Client::known_ip).map(|ip| settings.prefixes.mask(ip));
        // The program looks after its descriptors: this one is never among the last.
        let stdin = io::stdin();
        // At once or not at all: a question that waits here would hold up those that need nothing.
        let admitted = timeout(Duration::ZERO, self.connection_limit.admit(&stdin, prefix)).await;
        let admitted = admitted.unwrap_or(Err(AdmitError::Connections));
        admitted.map_err(|error| self.server.reject(peer, event_reason(error))).ok()
    }

    /// The attempt that the answer has a receipt for, if it took tokens. Nobody else gets the receipt.
    fn held_attempt(
        &self,
        headers: &mut HeaderMap,
        connection: &DownstreamConnection,
    ) -> Option<HeldAttempt> {
        let receipt: AttemptReceipt = headers.remove(RECEIPT)?.to_str().ok()?.parse().ok()?;
        let attempt = self.server.open_attempts_of(connection)?.take(receipt)?;
        Some(HeldAttempt::new(&self.server.engine, attempt))
    }
}

/// The request as a proxy would describe it that asks about it.
fn described(
    request: Request<Option<PulledBody>>,
    peer: PeerAddr,
    is_trusted: bool,
    is_secure: bool,
) -> Request<ClientBody> {
    let mut request = request.map(|body| match body {
        Some(body) => ClientBody::Http1(Box::new(body)),
        None => ClientBody::Empty,
    });
    if request.version() > Version::HTTP_11 {
        to_http1(&mut request);
    }
    // The scheme of this header counts at an endpoint. An untrusted client could name it here.
    if !is_trusted {
        let scheme = HeaderValue::from_static(if is_secure { "https" } else { "http" });
        let _ = request.headers_mut().try_insert(FORWARDED_PROTO, scheme);
    }
    request.extensions_mut().insert(SourceAddr(peer));
    request
}

/// The answer without what belongs to a connection that is not there.
fn answered(AskedAnswer { status, headers, body }: AskedAnswer) -> Response<Bytes> {
    let mut response = empty(status);
    *response.headers_mut() = without_framing(headers);
    // An answer to HEAD has the length of another body, and servers know that of none.
    if !body.is_empty() {
        response.headers_mut().insert(CONTENT_LENGTH, body.len().into());
    }
    *response.body_mut() = body;
    response
}

fn empty(status: StatusCode) -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = status;
    response
}

/// The number of the endpoint where the program asks: the only one.
const IN_PROCESS_ENDPOINT: usize = 0;
/// Questions that wait for one thread; further ones wait where they are asked.
const MAX_WAITING: usize = 1024;
