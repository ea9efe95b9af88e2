//! A sign-in form with axum: after three wrong passwords from one address the next is refused, right ones cost nothing.
//!
//! `cargo run --example axum`, then `curl -i -d 'user=anna&password=wrong' http://127.0.0.1:8080/login`

use std::net::SocketAddr;

use axum::Router;
use axum::body::Bytes;
use axum::extract::ConnectInfo;
use axum::http::StatusCode;
use axum::routing::post;
use tollgate_tower::TollgateLayer;

const POLICY: &str = r#"
[route.login]
match   = "POST /login"
success = { status = 204 }

[limit.address]
rate  = "3 per 5m"
count = "failures"

# With the feature `redis`, layers and gates that name the same store share their buckets:
# [store]
# url = "redis://127.0.0.1:6379"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tollgate = TollgateLayer::from_text("policy.toml", POLICY)?
        .sender_from(|extensions| extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.into()));
    let app = Router::new().route("/login", post(sign_in)).layer(tollgate);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}

async fn sign_in(form: Bytes) -> StatusCode {
    if form.ends_with(b"password=right") { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}
