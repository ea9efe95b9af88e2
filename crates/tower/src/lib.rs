//! Exact limits for the sign-in forms of a Rust application: the policy of [tollgate](https://docs.rs/tollgate), as a layer of
//! [tower](https://docs.rs/tower).
//!
//! An attempt takes a token from a bucket. If the bucket is empty, the layer answers `429` with the exact `Retry-After`, and the
//! application never sees the attempt. With `count = "failures"` the application's own answer decides whether the token is
//! spent. Layers and gates that name one store share their buckets: the limit holds over all of them. Each kind of store
//! is a feature: `redis`, `memcached`, `postgres`, `mysql`, `dynamodb`; webhooks by `https` need `tls`.
//!
//! ```no_run
//! use std::net::SocketAddr;
//!
//! use axum::Router;
//! use axum::extract::ConnectInfo;
//! use axum::routing::post;
//! use tollgate_tower::TollgateLayer;
//!
//! const POLICY: &str = r#"
//! [route.login]
//! match   = "POST /login"
//! user    = "form:user"
//! success = { status = 303 }
//!
//! [limit.account]
//! key   = "user"
//! rate  = "10 per 5m"
//! count = "failures"
//! "#;
//!
//! # async fn sign_in() -> &'static str { "" }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let tollgate = TollgateLayer::from_text("policy.toml", POLICY)?
//!     .sender_from(|extensions| extensions.get::<ConnectInfo<SocketAddr>>().map(|info| info.0.into()));
//! let app = Router::new().route("/login", post(sign_in)).layer(tollgate);
//! let listener = tokio::net::TcpListener::bind("127.0.0.1:8080").await?;
//! axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who the client is
//!
//! Limits by address need the other end of the connection. The layer looks for a [`Sender`] among the extensions of the request;
//! [`sender_from`](TollgateLayer::sender_from) takes it from those of a framework, as above. A request without one is answered
//! with 500, and never counted for another client. If the program speaks TLS itself, say so with [`over_tls`](Sender::over_tls), or
//! cookies for browsers are not `Secure`. Behind a proxy name it in `client.trust`, as for a gate: a header is believed only
//! if a trusted proxy sends it.
//!
//! # The policy
//!
//! It is the [file of a gate](https://docs.rs/tollgate), in which `include` lets a gate and a layer share a part. Changes of it
//! that operators make at gates of the same store hold here as well. What only a gate can do is a [mistake](LayerError), with its
//! line: to listen, to forward, to write logs, the admin API, the kernel's sets, challenges, bounds on attempts in flight, limits
//! of bytes, and `ja4`. With `reload = "watch"` an edit of the file is taken over. `log.clients` says how the
//! layer's events show addresses.
//!
//! # What the application sees
//!
//! Its requests are unchanged, byte for byte, but for headers: `X-Tollgate-*` come from the layer alone, `X-Request-Id` is set,
//! and the layer's own cookie is left out. If a rule reads the body of answers, `Accept-Encoding` is `identity`, and headers
//! that ask for a part or a condition are left out. Put the layer inside of layers that compress.
//!
//! What two servers could read differently is answered by the layer on all paths, as by a gate: an HTTP/1.1 request without
//! `Host`, also one of a test by `oneshot`; a broken `%` in the path; `CONNECT`, and so WebSockets over HTTP/2.
//!
//! # Which requests it sees
//!
//! A rule counts the path that the layer gets, so put it inside of layers that rewrite paths for a whole router. Outside of them
//! `/v1/login`, which becomes `/login` later, is no attempt at `/login`. A router of axum under `nest("/api", ..)` gets `/login` for
//! `/api/login`: put the layer on the outer one, and call `layer` last. Routes, fallbacks and routers that are added later are
//! not behind it.
//!
//! The layer is always ready: it waits for the application to be ready only with a request that passes.
//!
//! A body is read before the application gets it only if a rule needs it, and at most as far as the route's `body` says.
//! Decisions are made by threads of the layer: requests wait for them as tasks do, and block nothing. If they cannot answer,
//! or `proxy.connections` requests are undecided, or `proxy.client_max` of one client, the layer answers 503.

mod answer_body;
mod layer;
mod request_body;
mod sender;
mod service;

pub use self::answer_body::AnswerBody;
pub use self::layer::{LayerError, TollgateLayer};
pub use self::request_body::ServedBody;
pub use self::sender::Sender;
pub use self::service::TollgateService;
