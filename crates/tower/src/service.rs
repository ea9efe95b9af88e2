//! The service: asks about a request, and then refuses it or lets the application serve it, and judges its answer.

use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body::Body;
use tollgate::app::InProcessGate;
use tollgate::proxy::body::pulled;
use tollgate::proxy::transaction::in_process::{InProcessVerdict, JudgedHead, PassedRequest, RequestSender};
use tower_service::Service;

use crate::answer_body::AnswerBody;
use crate::request_body::ServedBody;
use crate::sender::SenderOf;

/// An application behind a [`TollgateLayer`](crate::TollgateLayer).
#[derive(Clone)]
pub struct TollgateService<S> {
    inner: S,
    gate: Arc<InProcessGate>,
    sender: Arc<SenderOf>,
}

/// The answer to one request.
type AnswerFuture<R, E> = Pin<Box<dyn Future<Output = Result<Response<AnswerBody<R>>, E>> + Send>>;

impl<S> TollgateService<S> {
    pub(crate) fn new(inner: S, gate: Arc<InProcessGate>, sender: Arc<SenderOf>) -> Self {
        Self { inner, gate, sender }
    }
}

impl<S, B, R> Service<Request<B>> for TollgateService<S>
where
    S: Service<Request<ServedBody<B>>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Send,
    R: Body<Data = Bytes> + Send + 'static,
    R::Error: Send,
{
    type Response = Response<AnswerBody<R>>;
    type Error = S::Error;
    type Future = AnswerFuture<R, S::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        // The application has to be ready only for what passes: others must not hold its place.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let inner = self.inner.clone();
        let sender = (self.sender)(request.extensions());
        let gate = Arc::clone(&self.gate);
        Box::pin(async move {
            // Without it the request would count for another client, or for none.
            let Some(sender) = sender else {
                return Ok(own_answer(StatusCode::INTERNAL_SERVER_ERROR, NO_SENDER));
            };
            serve(inner, &gate, sender.as_request_sender(), request).await
        })
    }
}

impl<S> fmt::Debug for TollgateService<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TollgateService").finish_non_exhaustive()
    }
}

async fn serve<S, B, R>(
    mut inner: S,
    gate: &InProcessGate,
    sender: RequestSender,
    request: Request<B>,
) -> Result<Response<AnswerBody<R>>, S::Error>
where
    S: Service<Request<ServedBody<B>>, Response = Response<R>>,
    B: Body<Data = Bytes>,
    R: Body<Data = Bytes>,
{
    let (mut head, body) = request.into_parts();
    let (asked, feed) = if body.is_end_stream() {
        (None, None)
    } else {
        let (asked, feed) = pulled(body.size_hint());
        (Some(asked), Some(feed))
    };
    let mut body = ServedBody::new(body);
    let mut question = Request::new(asked);
    question.method_mut().clone_from(&head.method);
    question.uri_mut().clone_from(&head.uri);
    question.headers_mut().clone_from(&head.headers);
    *question.version_mut() = head.version;
    let give_body = async {
        if let Some(feed) = feed {
            body.feed(feed).await;
        }
    };
    let mut passed = match gate.asker().ask(question, sender, give_body).await {
        Some(InProcessVerdict::Passed(passed)) => passed,
        Some(InProcessVerdict::Answered(answer)) => return Ok(answer.map(AnswerBody::own)),
        None => return Ok(own_answer(StatusCode::SERVICE_UNAVAILABLE, "")),
    };
    passed.prepare_request(&mut head.headers);
    let method = head.method.clone();
    poll_fn(|cx| inner.poll_ready(cx)).await?;
    passed.begin();
    let answer = inner.call(Request::from_parts(head, body)).await?;
    Ok(judge(*passed, &method, answer).await)
}

/// Settles the attempt by the answer, or lets its body do that.
async fn judge<R: Body<Data = Bytes>>(
    passed: PassedRequest,
    method: &Method,
    answer: Response<R>,
) -> Response<AnswerBody<R>> {
    let (mut head, body) = answer.into_parts();
    let has_none = matches!(head.status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED)
        || head.status.is_informational()
        || *method == Method::HEAD;
    // As the application says it, before a header is changed. A server that knows it may read no further.
    let length = length_in(&head.headers).or_else(|| body.size_hint().exact());
    let is_over = has_none || length == Some(0) || body.is_end_stream();
    let body = match passed.judge_head(method, head.status, &mut head.headers, is_over) {
        JudgedHead::Settled => AnswerBody::passed(body),
        JudgedHead::Streaming(inspector) => AnswerBody::judged(body, inspector, length),
        JudgedHead::BeforeHead(inspector) => {
            AnswerBody::judged_before_head(body, inspector, &mut head.headers).await
        }
    };
    Response::from_parts(head, body)
}

fn length_in(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn own_answer<R: Body<Data = Bytes>>(status: StatusCode, text: &'static str) -> Response<AnswerBody<R>> {
    let mut answer = Response::new(AnswerBody::own(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    answer
}

/// For the author of the program; no client can cause it.
const NO_SENDER: &str = "the program does not say who sent this request: see TollgateLayer::sender_from\n";
