//! A visitor of one site: like a browser that runs no scripts, with cookies, within bounds of time, size and number.
//!
//! It asks nobody but the server that it was sent to: a redirection to another one is an answer and no way.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, COOKIE, LOCATION, ORIGIN, REFERER, SET_COOKIE,
    USER_AGENT,
};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::Full;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use tokio::time::timeout;
use tollgate_base::http_client::{HttpClientError, exchange};
use tollgate_base::tls::Trust;

use super::html::HtmlPage;
use crate::policy::response::Glob;

/// Asks one site.
pub(super) struct SiteVisitor {
    trust: Option<Trust>,
    cookies: BTreeMap<String, String>,
    /// Requests that are left.
    left: usize,
}

/// An answer.
pub(super) struct FetchedPage {
    /// Where it came from, after redirections.
    pub(super) address: Uri,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// The body as text, if it is a page and no error.
    pub(super) text: String,
    pub(super) html: HtmlPage,
}

/// A request of a sign-in.
pub(super) struct SignInRequest {
    pub(super) method: Method,
    pub(super) address: Uri,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl SiteVisitor {
    /// A visitor without cookies, who may ask this often.
    pub(super) fn new(trust: Option<Trust>) -> Self {
        Self { trust, cookies: BTreeMap::new(), left: MAX_REQUESTS }
    }

    /// How many requests are left.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    /// Forgets the cookies, as another browser has none.
    pub(super) fn forget(&mut self) {
        self.cookies.clear();
    }

    /// The value of a cookie.
    pub(super) fn cookie(&self, name: &Glob) -> Option<&str> {
        let mut cookies = self.cookies.iter().filter(|(known, _)| name.matches(known.as_bytes()));
        cookies.next().map(|(_, value)| &**value)
    }

    /// The page at an address, after redirections at the same site.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn get(&mut self, address: &Uri) -> anyhow::Result<FetchedPage> {
        let mut address = address.clone();
        for _ in 0..=MAX_REDIRECTS {
            let request = SignInRequest {
                method: Method::GET,
                address: address.clone(),
                headers: HeaderMap::new(),
                body: Bytes::new(),
            };
            let page = self.send(request).await?;
            let Some(location) = page.location().filter(|_| page.status.is_redirection()) else {
                return Ok(page);
            };
            let Some(to) = resolved(&address, &location) else {
                bail!(
                    "{} is redirected to {}: name that address",
                    shown(&address.to_string()),
                    shown(&location)
                );
            };
            address = to;
        }
        bail!("{} is redirected more than {MAX_REDIRECTS} times", shown(&address.to_string()))
    }

    /// Sends a request with the cookies so far, and keeps those of the answer.
    pub(super) async fn send(&mut self, request: SignInRequest) -> anyhow::Result<FetchedPage> {
        ensure!(self.left > 0, "it takes more than {MAX_REQUESTS} requests");
        self.left -= 1;
        let SignInRequest { method, address, headers, body } = request;
        let mut request = Request::builder().method(method).uri(&address);
        if let Some(sent) = request.headers_mut() {
            sent.extend(common_headers());
            sent.extend(headers);
            if let Some(cookies) = self.cookie_header() {
                sent.insert(COOKIE, cookies);
            }
        }
        let request = request.body(Full::new(body))?;
        let answer = match timeout(PATIENCE, exchange(request, self.trust.as_ref(), MAX_PAGE)).await {
            Ok(Err(HttpClientError::TooLong)) => bail!("its answer is longer than {} MiB", MAX_PAGE >> 20),
            Ok(Err(HttpClientError::Broken(_))) => {
                bail!("the connection ended without an answer: is it a web server?")
            }
            // A certificate may have any names.
            Ok(answer) => answer.map_err(|error| anyhow!(shown(&error.to_string())))?,
            Err(_) => bail!("no answer within {} s", PATIENCE.as_secs()),
        };
        let (head, body) = answer.into_parts();
        self.keep_cookies(&head.headers);
        Ok(FetchedPage::of(address, head.status, head.headers, body))
    }

    fn cookie_header(&self) -> Option<HeaderValue> {
        let pairs: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        HeaderValue::from_str(&pairs.join("; ")).ok().filter(|_| !pairs.is_empty())
    }

    fn keep_cookies(&mut self, headers: &HeaderMap) {
        for line in headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok()) {
            let pair = line.split(';').next().and_then(|pair| pair.split_once('='));
            let Some((name, value)) = pair.map(|(name, value)| (name.trim(), value.trim())) else { continue };
            if value.is_empty() || value == "deleted" {
                self.cookies.remove(name);
            } else if !name.is_empty() && line.len() <= MAX_COOKIE && self.cookies.len() < MAX_COOKIES {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
    }
}

impl FetchedPage {
    fn of(address: Uri, status: StatusCode, headers: HeaderMap, body: Bytes) -> Self {
        // Error pages are often the server's and not the application's; a sign-in may be answered 401 or 403.
        let is_page = !status.is_server_error() && !matches!(status.as_u16(), 400 | 404 | 405 | 410);
        let text = if is_page { String::from_utf8_lossy(&body).into_owned() } else { String::new() };
        let html = HtmlPage::parse(&text);
        Self { address, status, headers, body, text, html }
    }

    pub(super) fn location(&self) -> Option<String> {
        self.headers.get(LOCATION).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
    }

    /// Whether nobody looked at a password before this answer.
    pub(super) fn tells_nothing(&self) -> bool {
        self.status.is_server_error() || matches!(self.status.as_u16(), 404 | 405 | 429)
    }

    /// Names of cookies that it sets.
    pub(super) fn cookies(&self) -> impl Iterator<Item = &str> {
        let lines = self.headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok());
        lines.filter_map(|line| line.split_once('=').map(|(name, _)| name.trim()))
    }
}

impl SignInRequest {
    /// A POST of this body, as from a page of the site.
    pub(super) fn post(address: Uri, page: &Uri, content_type: &'static str, body: String) -> Self {
        let mut headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(content_type))]);
        headers.extend(HeaderValue::from_str(&origin(page)).ok().map(|origin| (ORIGIN, origin)));
        headers.extend(HeaderValue::from_str(&page.to_string()).ok().map(|page| (REFERER, page)));
        Self { method: Method::POST, address, headers, body: body.into() }
    }
}

fn common_headers() -> HeaderMap {
    let agent = concat!("Mozilla/5.0 (compatible; tollgate/", env!("CARGO_PKG_VERSION"), ")");
    let headers = [
        (USER_AGENT, agent),
        (ACCEPT, "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8"),
        (ACCEPT_LANGUAGE, "en"),
        // Bodies are searched as they come.
        (ACCEPT_ENCODING, "identity"),
    ];
    headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
}

/// An address from the command line.
pub(in crate::cli::init) fn address(text: &str) -> anyhow::Result<String> {
    let address: Uri = text.parse().context("write http://HOST/ or https://HOST/")?;
    let is_web = matches!(address.scheme_str(), Some("http" | "https"));
    ensure!(
        is_web && address.host().is_some_and(|host| !host.is_empty()),
        "write http://HOST/ or https://HOST/"
    );
    let is_plain = address.authority().is_some_and(|authority| !authority.as_str().contains('@'));
    ensure!(is_plain, "an address holds no name and no password: --user names an account");
    Ok(address.to_string())
}

/// `http://HOST:PORT`.
pub(super) fn origin(address: &Uri) -> String {
    let authority = address.authority().map_or("", |authority| authority.as_str());
    format!("{}://{authority}", address.scheme_str().unwrap_or("http"))
}

/// The address that a page at `from` means; `None` if it is not at the same site.
pub(super) fn resolved(from: &Uri, reference: &str) -> Option<Uri> {
    let reference = reference.trim().split('#').next().unwrap_or_default();
    let reference = utf8_percent_encode(reference, IN_ADDRESSES).to_string();
    let path = match absolute(from, &reference)? {
        Some(uri) => {
            let same = (uri.scheme(), uri.host(), port(&uri)) == (from.scheme(), from.host(), port(from));
            if !same || uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
                return None;
            }
            uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
        }
        None if reference.is_empty() => {
            from.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
        }
        None if reference.starts_with('/') => reference,
        None if reference.starts_with('?') => format!("{}{reference}", from.path()),
        None => format!("{}{reference}", directory(from)),
    };
    let (path, query) = path.split_once('?').map_or((&*path, None), |(path, query)| (path, Some(query)));
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    let text = format!("{}{}{query}", origin(from), without_dots(path));
    (text.len() <= MAX_ADDRESS).then(|| text.parse().ok()).flatten()
}

/// The address of a reference with a host; `Some(None)` for one without.
fn absolute(from: &Uri, reference: &str) -> Option<Option<Uri>> {
    if reference.starts_with("//") {
        return format!("{}:{reference}", from.scheme_str()?).parse().ok().map(Some);
    }
    let scheme = reference.split(['/', '?']).next().unwrap_or_default();
    if scheme.contains(':') {
        return reference.parse().ok().filter(|uri: &Uri| uri.host().is_some()).map(Some);
    }
    Some(None)
}

fn port(uri: &Uri) -> u16 {
    uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 })
}

/// The path of an address up to its last slash.
pub(super) fn directory(address: &Uri) -> &str {
    let path = address.path();
    path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or("/")
}

/// A path without `.` and `..` (RFC 3986, section 5.2.4).
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    for (at, segment) in segments.iter().enumerate() {
        let is_last = at + 1 == segments.len();
        match *segment {
            "." | ".." => {
                if *segment == ".." {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
            segment => kept.push(segment),
        }
    }
    format!("/{}", kept.join("/"))
}

/// Words of a server, for a terminal: short, and without signs that could act on it.
pub(super) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for letter in text.chars().take(MAX_SHOWN) {
        match letter {
            ' '..='~' => shown.push(letter),
            _ => shown.extend(letter.escape_unicode()),
        }
    }
    shown
}

/// The first request and all others.
pub(super) const MAX_REQUESTS: usize = 15;
const MAX_REDIRECTS: usize = 4;
/// For each request, its connection included.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes.
const MAX_PAGE: usize = 2 << 20;
const MAX_ADDRESS: usize = 2000;
const MAX_COOKIES: usize = 40;
/// Bytes of a line.
const MAX_COOKIE: usize = 4096;
/// Letters.
const MAX_SHOWN: usize = 240;
/// What browsers encode in addresses.
const IN_ADDRESSES: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'`')
    .add(b'{')
    .add(b'}')
    .add(b'|')
    .add(b'\\')
    .add(b'^');

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_leads_to_the_same_site_or_nowhere() {
        let from = "http://app.test/blog/login.php?x=1".parse().unwrap();
        for (reference, to) in [
            ("", Some("/blog/login.php?x=1")),
            ("#top", Some("/blog/login.php?x=1")),
            ("?a=b", Some("/blog/login.php?a=b")),
            ("in", Some("/blog/in")),
            ("./in/", Some("/blog/in/")),
            ("../in", Some("/in")),
            ("../../../in", Some("/in")),
            ("/a b", Some("/a%20b")),
            ("//app.test/x", Some("/x")),
            ("http://app.test:80/x", Some("/x")),
            ("http://app.test", Some("/")),
            ("https://app.test/x", None),
            ("http://app.test:81/x", None),
            ("http://app.test@evil.test/", None),
            ("http://evil.test@app.test/", None),
            ("//evil.test/x", None),
            ("\\\\evil.test/x", Some("/blog/%5C%5Cevil.test/x")),
            ("javascript:alert(1)", None),
            ("mailto:a@b", None),
        ] {
            let found = resolved(&from, reference);
            let expected = to.map(|path| format!("http://app.test{path}"));
            assert_eq!(found.map(|uri| uri.to_string()), expected, "{reference}");
        }
    }

    #[test]
    fn words_of_a_server_cannot_act_on_a_terminal() {
        assert_eq!(shown("a\u{1b}[2Jb\r\n\u{202e}c"), "a\\u{1b}[2Jb\\u{d}\\u{a}\\u{202e}c");
        assert!(shown(&"x".repeat(10_000)).len() <= MAX_SHOWN);
    }
}
