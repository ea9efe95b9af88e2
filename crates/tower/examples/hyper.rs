//! The same form with hyper alone: the program says by an extension who sends a request.
//!
//! `cargo run --example hyper`, then `curl -i -d 'user=anna&password=wrong' http://127.0.0.1:8080/login`

use std::convert::Infallible;

use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tollgate_tower::{Sender, ServedBody, TollgateLayer};
use tower::{ServiceBuilder, service_fn};

const POLICY: &str = r#"
[route.login]
match   = "POST /login"
success = { status = 204 }

[limit.address]
rate  = "3 per 5m"
count = "failures"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tollgate = TollgateLayer::from_text("policy.toml", POLICY)?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    loop {
        let (stream, address) = listener.accept().await?;
        let app = ServiceBuilder::new()
            .map_request(move |mut request: Request<Incoming>| {
                request.extensions_mut().insert(Sender::tcp(address));
                request
            })
            .layer(tollgate.clone())
            .service(service_fn(sign_in));
        tokio::spawn(async move {
            // A client that hangs up is no fault of the program.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), TowerToHyperService::new(app))
                .await;
        });
    }
}

async fn sign_in(request: Request<ServedBody<Incoming>>) -> Result<Response<Empty<Bytes>>, Infallible> {
    let form = request.into_body().collect().await.map(|form| form.to_bytes()).unwrap_or_default();
    let is_right = form.ends_with(b"password=right");
    let mut response = Response::new(Empty::new());
    *response.status_mut() = if is_right { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED };
    Ok(response)
}
