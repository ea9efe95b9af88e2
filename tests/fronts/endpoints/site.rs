//! An application that speaks HTTP/1.1, and HTTP/2 to those who begin with it. It reads each body to its end, lets a client send one
//! that waits for leave, and keeps what came.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, Version};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;

/// A listening application; its thread ends with the test's process.
pub(super) struct Site {
    pub(super) address: SocketAddr,
    visits: Visits,
}

/// A request that reached it.
#[derive(Debug, Clone)]
pub(super) struct Visit {
    pub(super) version: Version,
    pub(super) target: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

type Visits = Arc<Mutex<Vec<Visit>>>;

impl Site {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let visits = Visits::default();
        let seen = Arc::clone(&visits);
        std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    tokio::spawn(serve(stream, Arc::clone(&seen)));
                }
            });
        });
        Self { address, visits }
    }

    /// The requests for this target so far.
    pub(super) fn visits(&self, target: &str) -> Vec<Visit> {
        let all = self.visits.lock().unwrap();
        all.iter().filter(|visit| visit.target == target).cloned().collect()
    }
}

async fn serve(stream: TcpStream, visits: Visits) {
    let mut start = [0; 4];
    let length = stream.peek(&mut start).await.unwrap_or(0);
    let service = service_fn(move |request| answer(request, Arc::clone(&visits)));
    // How a connection ends is the proxy's affair.
    if start[..length] == *b"PRI " {
        let http2 = http2::Builder::new(TokioExecutor::new());
        let _ = http2.serve_connection(TokioIo::new(stream), service).await;
    } else {
        let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
    }
}

/// 302 and a session for what has `right` in its target, 200 for all else.
async fn answer(request: Request<Incoming>, visits: Visits) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let target = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let is_right = target.contains("right");
    visits.lock().unwrap().push(Visit { version: head.version, target, headers: head.headers, body });
    let response = Response::builder();
    let (response, text) = if is_right {
        (response.status(302).header("location", "/home").header("set-cookie", "session=1; Path=/"), "")
    } else {
        (response, "ok")
    };
    Ok(response.body(Full::new(Bytes::from_static(text.as_bytes()))).unwrap())
}
