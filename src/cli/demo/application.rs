//! A sign-in application in the style of 2005: it checks the password and does nothing else.
//!
//! A wrong password gets a 200 with "Login failed", as in WordPress. The application counts the attempts that arrive,
//! and shows the number on every page. It holds no secret, so it may run anywhere, but it is meant for 127.0.0.1.

use std::convert::Infallible;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use tokio::net::{TcpListener, TcpStream};

/// The application: one user, one password, one session.
#[derive(Debug)]
pub struct Application {
    attempts: AtomicU64,
    session: String,
}

impl Default for Application {
    fn default() -> Self {
        let random = RandomState::new().hash_one(0_u8);
        Self { attempts: AtomicU64::new(0), session: format!("LGSESSID={random:016x}") }
    }
}

/// Serves the application until the future is dropped.
pub async fn serve_application(listener: TcpListener, application: Arc<Application>) -> Infallible {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve_connection(stream, Arc::clone(&application)));
            }
            // Most likely out of descriptors; they come back when connections end.
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve_connection(stream: TcpStream, application: Arc<Application>) {
    let service = service_fn(|request| async { Ok::<_, Infallible>(application.answer(request).await) });
    // A client that hangs up is not an error.
    let _ = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(90))
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

impl Application {
    /// Attempts that have arrived so far.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.attempts.load(Ordering::Relaxed)
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        let reading = matches!(*request.method(), Method::GET | Method::HEAD);
        match request.uri().path() {
            "/" | "/login" if reading => self.form(""),
            "/login" if request.method() == Method::POST => self.attempt(request).await,
            "/home" if reading && self.knows(request.headers()) => self.page(StatusCode::OK, HOME),
            "/home" if reading => redirect("/login", None),
            "/logout" if reading => redirect("/login", HeaderValue::from_str("LGSESSID=; Max-Age=0").ok()),
            _ => self.page(StatusCode::NOT_FOUND, "<h1>Not found</h1>"),
        }
    }

    async fn attempt(&self, request: Request<Incoming>) -> Response<Full<Bytes>> {
        self.attempts.fetch_add(1, Ordering::Relaxed);
        let Ok(body) = Limited::new(request.into_body(), MAX_FORM).collect().await else {
            return self.page(StatusCode::BAD_REQUEST, "<h1>Bad request</h1>");
        };
        let body = body.to_bytes();
        if field(&body, "username") == USER && field(&body, "password") == PASSWORD {
            let cookie = format!("{}; Path=/; HttpOnly; SameSite=Lax", self.session);
            return redirect("/home", HeaderValue::from_str(&cookie).ok());
        }
        self.form("<div id=\"error\">Login failed</div>\n")
    }

    fn form(&self, error: &str) -> Response<Full<Bytes>> {
        self.page(StatusCode::OK, &FORM.replace("{{error}}", error))
    }

    fn page(&self, status: StatusCode, content: &str) -> Response<Full<Bytes>> {
        let count = self.attempts().to_string();
        let page = PAGE.replace("{{content}}", content.trim_end()).replace("{{count}}", &count);
        let mut response = Response::new(Full::from(page));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn knows(&self, headers: &HeaderMap) -> bool {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        lines.flat_map(|line| line.split(';')).any(|cookie| cookie.trim() == self.session)
    }
}

fn redirect(to: &'static str, cookie: Option<HeaderValue>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::FOUND;
    response.headers_mut().insert(LOCATION, HeaderValue::from_static(to));
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    response
}

/// The first field of this name in a form, decoded; empty if there is none.
fn field(form: &[u8], name: &str) -> String {
    let form = String::from_utf8_lossy(form);
    let mut fields = form.split('&').filter_map(|field| field.split_once('='));
    let Some((_, value)) = fields.find(|(known, _)| *known == name) else { return String::new() };
    percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned()
}

const USER: &str = "alice";
const PASSWORD: &str = "wonderland";
const MAX_FORM: usize = 64 * 1024;
const PAGE: &str = include_str!("../../../assets/demo/page.html");
const FORM: &str = include_str!("../../../assets/demo/form.html");
const HOME: &str = include_str!("../../../assets/demo/home.html");

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use hyper::client::conn;

    use super::*;

    async fn start() -> (SocketAddr, Arc<Application>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, application) = (listener.local_addr().unwrap(), Arc::new(Application::default()));
        tokio::spawn(serve_application(listener, Arc::clone(&application)));
        (address, application)
    }

    async fn request(
        to: SocketAddr,
        method: &str,
        path: &str,
        cookie: &str,
        form: &'static str,
    ) -> Response<String> {
        let stream = TcpStream::connect(to).await.unwrap();
        let (mut sender, connection) = conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let request =
            Request::builder().method(method).uri(path).header("host", "demo").header("cookie", cookie);
        let response = sender.send_request(request.body(Full::<Bytes>::from(form)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Response::from_parts(parts, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn the_form_stands_at_the_root_and_at_login() {
        let (address, _) = start().await;
        for path in ["/", "/login", "/login?from=mail"] {
            let page = request(address, "GET", path, "", "").await;
            assert_eq!(page.status(), 200);
            assert!(page.body().contains("<form action=\"/login\" method=\"post\">"), "{}", page.body());
            assert!(!page.body().contains("Login failed") && !page.body().contains("{{"));
        }
        assert_eq!(request(address, "GET", "/elsewhere", "", "").await.status(), 404);
        assert_eq!(request(address, "DELETE", "/login", "", "").await.status(), 404);
        assert!(request(address, "HEAD", "/", "", "").await.body().is_empty());
    }

    #[tokio::test]
    async fn a_wrong_password_is_answered_as_if_nothing_had_happened_and_counted() {
        let (address, application) = start().await;
        let wrong = [
            "username=alice&password=Wonderland",
            "username=bob&password=wonderland",
            "",
            "password=%FF&&=&x",
        ];
        for (index, form) in wrong.into_iter().enumerate() {
            let page = request(address, "POST", "/login", "", form).await;
            assert_eq!(page.status(), 200);
            assert!(page.body().contains("Login failed"));
            assert!(page.body().contains(&format!("<b id=\"count\">{}</b>", index + 1)));
        }
        assert_eq!(application.attempts(), 4);
    }

    #[tokio::test]
    async fn the_right_password_opens_a_session_until_sign_out() {
        let (address, application) = start().await;
        let response = request(address, "POST", "/login", "", "username=alice&password=w%6Fnderland").await;
        assert_eq!(
            (response.status(), &response.headers()["location"]),
            (StatusCode::FOUND, &HeaderValue::from_static("/home"))
        );
        let cookie = response.headers()["set-cookie"].to_str().unwrap().split(';').next().unwrap();
        assert!(
            request(address, "GET", "/home", &format!("a=b; {cookie}"), "").await.body().contains("Welcome")
        );
        for stranger in ["", "LGSESSID=", "LGSESSID=0", "a=b"] {
            let response = request(address, "GET", "/home", stranger, "").await;
            assert_eq!(response.headers()["location"], "/login");
        }
        let response = request(address, "GET", "/logout", cookie, "").await;
        assert!(response.headers()["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        assert_eq!(application.attempts(), 1);
    }
}
