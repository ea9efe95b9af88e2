//! What services of tower may have and sockets of HTTP/1 do not show: trailers, pieces of any length.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body::{Body, Frame};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use support::application::{FIVE, ROUTE, form};
use tollgate_tower::{Sender, ServedBody, TollgateLayer};
use tower::{ServiceExt, service_fn};
use tower_layer::Layer;

use crate::ACCOUNT;
use crate::outcomes::BY_BODY;

/// A body of any kind.
type Sent = BoxBody<Bytes, Infallible>;

/// This text, and `x-sum: 1` behind it.
fn with_trailers(text: &str) -> Sent {
    let trailers = HeaderMap::from_iter([(SUM, HeaderValue::from_static("1"))]);
    Full::from(text.to_owned()).with_trailers(async { Some(Ok(trailers)) }).boxed()
}

fn attempt(target: &str, body: Sent) -> Request<Sent> {
    let mut request = Request::post(target).body(body).unwrap();
    let form = HeaderValue::from_static("application/x-www-form-urlencoded");
    request.headers_mut().insert("content-type", form);
    request.extensions_mut().insert(Sender::tcp("192.0.2.1:1234".parse().unwrap()));
    request
}

/// An attempt that names its host in a header.
fn sign_in(password: &str) -> Request<Sent> {
    let mut request = attempt("/login", with_trailers(&form("alice", password)));
    request.headers_mut().insert("host", HeaderValue::from_static("app.test"));
    request
}

/// Shows the body of the request in the answer, trailers too.
async fn echo(request: Request<ServedBody<Sent>>) -> Result<Response<Sent>, Infallible> {
    let body = request.into_body().collect().await?;
    let trailers = body.trailers().cloned();
    let text = Full::from(body.to_bytes());
    Ok(Response::new(text.with_trailers(async { trailers.map(Ok) }).boxed()))
}

#[tokio::test]
async fn trailers_follow_the_bodies_that_decisions_and_rules_have_read() {
    let layer = TollgateLayer::from_text("policy.toml", &format!("{BY_BODY}{ACCOUNT}")).unwrap();
    for number in 0..10 {
        let answer = layer.layer(service_fn(echo)).oneshot(sign_in("x")).await.unwrap();
        assert_eq!(answer.status(), 200, "attempt {number} is a success");
        let body = answer.into_body().collect().await.unwrap();
        assert_eq!(body.trailers().unwrap()[SUM], "1");
        assert_eq!(body.to_bytes(), "log=alice&pwd=x");
    }
    for expected in [200, 200, 200, 200, 200, 429] {
        let answer = layer.layer(service_fn(echo)).oneshot(sign_in("Login failed")).await.unwrap();
        assert_eq!(answer.status(), expected);
        answer.into_body().collect().await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_is_a_failure() {
    let layer = TollgateLayer::from_text("policy.toml", &format!("{BY_BODY}{FIVE}")).unwrap();
    for expected in [200, 200, 200, 200, 200, 429] {
        let answer = layer.layer(service_fn(echo)).oneshot(sign_in("x")).await.unwrap();
        assert_eq!(answer.status(), expected);
    }
}

/// A client chooses how long its pieces are.
#[tokio::test]
async fn a_body_of_many_pieces_that_a_decision_reads_is_one_for_the_application() {
    let layer = TollgateLayer::from_text("policy.toml", &format!("{ROUTE}{ACCOUNT}")).unwrap();
    let text = format!("{}&rest={}", form("alice", "x"), "y".repeat(2_000));
    let bytes = text.clone().into_bytes().into_iter().map(|byte| Ok(Frame::data(Bytes::from(vec![byte]))));
    let mut request = sign_in("x");
    *request.body_mut() = BoxBody::new(Pieces(bytes.collect()));
    let count = async |request: Request<ServedBody<Sent>>| {
        let (mut body, mut pieces) = (request.into_body(), Vec::new());
        while let Some(piece) = body.frame().await {
            pieces.extend(piece?.into_data());
        }
        assert!(pieces.len() <= 2, "{}", pieces.len());
        Ok::<_, Infallible>(Response::new(Full::from(pieces.concat()).boxed()))
    };
    let answer = layer.layer(service_fn(count)).oneshot(request).await.unwrap();
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), text);
}

/// These frames.
struct Pieces(VecDeque<Result<Frame<Bytes>, Infallible>>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front())
    }
}

const SUM: http::HeaderName = http::HeaderName::from_static("x-sum");
