//! Every reader of what a client sends, each as a function of bytes: for the bench, the fuzz target and the test that
//! bound what a byte may cost.
//!
//! It holds nothing against anything. A reader is called as the gate calls it, with a file that loads every preset.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "helpers of tests may fail like tests"
)]

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, LazyLock};

use bytes::BytesMut;
use http::header::{
    ACCEPT, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_TYPE, COOKIE, FORWARDED, HOST,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use rustix::time::{ClockId, clock_gettime};
use tollgate::config::preset::presets;
use tollgate::config::{Sources, load};
use tollgate::net::stream::PeerAddr;
use tollgate::policy::account::Account;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::canonical;
use tollgate::policy::count::Count;
use tollgate::policy::field::{Field, Half, values};
use tollgate::policy::key::KeyHasher;
use tollgate::policy::query;
use tollgate::policy::{OwnerCookie, Policy};
use tollgate::proxy::headers::filter::HeaderFilter;
use tollgate::proxy::headers::passed::PassedHeaders;
use tollgate::proxy::headers::received_head::ReceivedHead;
use tollgate::proxy::headers::recorded::RecordedHeaders;
use tollgate::proxy::headers::{ForwardedInfo, prepare_request, requested_upgrade};
use tollgate::proxy::request::client_addr::{ClientSettings, IdentityHeader};
use tollgate::proxy::request::decoder::{BodyPart, RequestDecoder};
use tollgate::proxy::request::target;
use tollgate::proxy::respond::{Negotiation, PageLanguage, ProblemKind, RefusalPages, language_of, problem};
use tollgate::time::Time;

/// A reader of something that a client sends.
pub struct Parser {
    /// What it reads.
    pub name: &'static str,
    /// What it is given: as long as this, and longer is refused before it is read.
    pub longest: usize,
    /// Pieces of which inputs are made that cost much.
    pub pieces: &'static [&'static [u8]],
    /// Stands before and behind the pieces.
    pub around: (&'static [u8], &'static [u8]),
    /// Reads it.
    pub read: fn(&[u8]),
}

impl Parser {
    /// Whether it reads bodies, which may be longer.
    pub fn is_of_bodies(&self) -> bool {
        ["form", "JSON", "multipart", "items of", "calls of"].iter().any(|kind| self.name.starts_with(kind))
    }

    /// As many of these pieces, one after the other, as make so many bytes.
    pub fn input(&self, pieces: &[&[u8]], length: usize) -> Vec<u8> {
        let (before, behind) = self.around;
        let mut input = before.to_vec();
        let longest = if self.is_of_bodies() { length } else { self.longest };
        let room = length.min(longest).saturating_sub(behind.len());
        for piece in pieces.iter().cycle().take(length) {
            if input.len() + piece.len() > room {
                break;
            }
            input.extend_from_slice(piece);
        }
        input.extend_from_slice(behind);
        input
    }

    /// Inputs of one piece, and of each two.
    pub fn inputs(&self, length: usize) -> impl Iterator<Item = Vec<u8>> {
        self.pairs().map(move |pair| self.input(&pair, length))
    }

    /// Each two pieces.
    pub fn pairs(&self) -> impl Iterator<Item = [&'static [u8]; 2]> {
        // The other way round is the same, but for where it begins.
        let pieces = self.pieces.iter().enumerate();
        pieces.flat_map(|(at, one)| self.pieces[at..].iter().map(move |other| [*one, *other]))
    }
}

/// Processor time that this thread takes for something, in nanoseconds.
pub fn thread_time(run: impl FnOnce()) -> u64 {
    let before = clock_gettime(ClockId::ThreadCPUTime);
    run();
    let after = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = (after.tv_sec - before.tv_sec) * 1_000_000_000 + after.tv_nsec - before.tv_nsec;
    u64::try_from(nanos).unwrap_or(0)
}

const WHOLE: usize = 64 * 1024;
const TARGET: usize = 8 * 1024;

/// The readers of a target: path and query together.
pub const TARGETS: &[Parser] = &[
    Parser {
        name: "target: path",
        longest: TARGET,
        pieces: &[
            b"a",
            b"/",
            b"/a",
            b"/.",
            b"/..",
            b"/a;b",
            b"%2f",
            b"%5c",
            b"\\",
            b";",
            b"%252f",
            b"%C0%AF",
            b"%EF%B7%BA",
            b"%EF%BC%8F",
            b"%3f",
            b"/login.aaa",
            b"/l",
            b"/x%2f..%5c;a",
            b"/login~1",
            b"%253f%C0%AF\\..%2f;",
            b"%20",
            b"/(S(a))",
            b"%CC%81",
            b"/index.php",
            b"::",
        ],
        around: (b"/", b""),
        read: read_target,
    },
    Parser {
        name: "target: path to a script",
        longest: TARGET,
        pieces: &[b"/a", b"%2f..%5c;a", b"\\..%2f;%253f%C0%AF", b"/login.aaa", b"%EF%B7%BA", b"/"],
        around: (b"/%2f..;/x/%253f//wp-login.php", b""),
        read: read_target,
    },
    Parser {
        name: "target: path of scripts",
        longest: TARGET,
        pieces: &[
            b"/index.php",
            b"/a.php",
            b"/index",
            b"/x",
            b"/..;",
            b";",
            b"/b.php/x",
            b"%2f",
            b"/default.aspx",
            b"\\index.php",
            b"/.",
            b"a.php",
            b"/login",
        ],
        around: (b"/index.php", b"/index"),
        read: read_target,
    },
    Parser {
        name: "target: query",
        longest: TARGET,
        pieces: QUERIES,
        around: (b"/?", b""),
        read: read_target,
    },
    Parser {
        name: "target: query of a page",
        longest: TARGET,
        pieces: QUERIES,
        around: (b"/index.php?", b""),
        read: read_target_of_a_page,
    },
    Parser {
        name: "target: query of a form",
        longest: TARGET,
        pieces: QUERIES,
        around: (b"/index.php/login?", b""),
        read: read_target,
    },
    Parser {
        name: "target: both",
        longest: TARGET,
        pieces: QUERIES,
        around: (b"/%2f..;/x/%253f//index.php/component/users/?", b""),
        read: read_target,
    },
];

/// Pieces of queries.
const QUERIES: &[&[u8]] = &[
    b"a",
    b"&",
    b"&a",
    b";a",
    b"&a=b",
    b"%41",
    b"+",
    b"&%70=%41",
    b"&log",
    b"&log=a",
    b"&pass",
    b"&[a]",
    b"&a[",
    b"&%u0061=%u0061",
    b"&page=%6cogin",
    b"%EF%B7%BA",
    b"&pma_username=a;",
    b"&_task=login",
    b"&_user=%41&user=b;wpPassword=1",
    b"&uSer_nAme[",
    b".",
    b"aA",
    b"%2epw",
    b"&pas=password",
    b"%C3%84",
    b"&next=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"&uSer_nAme[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa]=%41%u0061aaaaaaaaaaaaaaa",
    b"&x_p%61ss.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA.aA=",
];

/// All others.
pub const PARSERS: &[Parser] = &[
    Parser {
        name: "form",
        longest: WHOLE,
        pieces: &[
            b"a", b"&", b"&a", b";a", b"&log", b"&log=", b"&log=a", b"%", b"%u0061", b"%41", b"+", b"&%u006cog=a", b"&user[",
            b"]", b"\xef\xb7\xba", b"\xff", b"&l", b";log=b",
        ],
        around: (b"log=", b""),
        read: |body| read_body("application/x-www-form-urlencoded", body),
    },
    Parser {
        name: "form, for every preset",
        longest: WHOLE,
        pieces: &[b"&", b"&a", b"&log", b"&task=", b"%41", b"&%u006cog=a", b"&user[", b";name=b", b"&p%61ss=a"],
        around: (b"log=a", b""),
        read: |body| decide("application/x-www-form-urlencoded", body),
    },
    Parser {
        name: "JSON, for every preset",
        longest: WHOLE,
        pieces: &[b",\"a\":1", b",\"\":[]", b",\"\\u0061\":1"],
        around: (b"{\"log\":1", b"}"),
        read: |body| decide("application/json", body),
    },
    Parser {
        name: "multipart",
        longest: WHOLE,
        pieces: &[
            b"-", b"\r", b"\n", b"\r\n-", b"\r\n-----", b"\r\n------x\r\nContent-Disposition: form-data; name=log\r\n\r\n",
            b"\r\n------x\r\nContent-Disposition: form-data; name=\"%6c%6fg\"\r\n\r\na", b"a", b"\r\n----------------x",
        ],
        around: (b"------x\r\nContent-Disposition: form-data; name=log\r\n\r\na", b"\r\n------x--\r\n"),
        read: |body| read_body("multipart/form-data; boundary=----x", body),
    },
    Parser {
        name: "multipart, broken",
        longest: WHOLE,
        pieces: &[
            b"n", b"name=", b"name=log", b"\n", b"\n--", b"\r\n\r\n", b"name=log\n\na", b"&log=a", b"\0", b"base64", b"name*=''%6cog;",
            b"&", b"+", b"\0l\0o\0g",
        ],
        around: (b"--x\r\nname=log\r\n\r\na", b""),
        read: |body| read_body("multipart/form-data; boundary=x; charset=utf-7", body),
    },
    Parser {
        name: "JSON, broken",
        longest: WHOLE,
        pieces: &[b"[", b"\"", b"'", b"\\", b"/*", b"/", b",", b":", b"log:", b"log:[", b",log:1", b"a", b"\\u0061", b"{", b"}"],
        around: (b"{\"log\":1,", b""),
        read: |body| read_body("application/json; charset=cp037", body),
    },
    Parser {
        name: "JSON",
        longest: WHOLE,
        pieces: &[
            b"[", b"]", b"{\"a\":", b"{\"user\":", b"\"", b"\\u0061", b",\"log\":1", b",\"log\":1e308", b",\"l_o-g\":\"a\"",
            b",1e308", b",1", b",\"\xef\xb7\xba\":1", b",\"a\":[1]",
        ],
        around: (b"{\"log\":1", b"}"),
        read: |body| read_body("application/json", body),
    },
    Parser {
        name: "JSON: values",
        longest: WHOLE,
        pieces: &[b",1e308", b",1", b",-0.0", b",\"a\"", b",\"\\u0061\"", b",null", b",1234567890.12345e-300"],
        around: (b"{\"log\":[1", b"]}"),
        read: |body| read_body("application/json", body),
    },
    Parser {
        name: "JSON: one name",
        longest: WHOLE,
        pieces: &[b"a", b"_", b"\\u0130", b"\xc4\xb0", b"\xef\xac\x80"],
        around: (b"{\"", b"\":1}"),
        read: |body| read_body("application/json", body),
    },
    Parser {
        name: "JSON by its looks",
        longest: WHOLE,
        pieces: &[b"{\"a\":", b"[", b"p:", b",a:", b"\"\\a\",", b"log:x,", b"\xc4\xb0:", b"\""],
        around: (b"{\"log\":1,", b""),
        read: |body| read_body("application/x-www-form-urlencoded", body),
    },
    Parser {
        name: "form in UTF-16",
        longest: WHOLE,
        pieces: &[
            b"&", b"a", b"&a", b"&p", b"&\0p\0", b"\0&\0p", b"&\0l\0o\0g\0=\0a\0", b"&\0\0\0l\0\0\0", b"&%70", b"%u0070", b"&log=%00a",
            b"\0\x01\x01\0", b"&\xef\xb7\xba", b";\0",
        ],
        around: (b"a", b""),
        read: |body| read_body("application/x-www-form-urlencoded; charset=utf-16", body),
    },
    Parser {
        name: "form in UTF-7",
        longest: WHOLE,
        pieces: &[b"&", b"&a", b"&l", b"+", b"+-", b"+AGw-", b"&+AGw", b"&%2b", b"&log=+AG", b"\0"],
        around: (b"a", b""),
        read: |body| read_body("application/x-www-form-urlencoded; charset=utf-7", body),
    },
    Parser {
        name: "form in EBCDIC",
        longest: WHOLE,
        pieces: &[b"&", b"&a", b"&l", b"\x50", b"\x50\x93", b"\x50\x93\x96\x87\x7e", b"&%93", b"%93%96%87=a&", b"\xc0\x7f\x93\x7a", b"\0"],
        around: (b"a", b""),
        read: |body| read_body("application/x-www-form-urlencoded; charset=cp037", body),
    },
    Parser {
        name: "JSON in UTF-16",
        longest: WHOLE,
        pieces: &[b"{\0\"\0a\0\"\0:\0", b"l\0:\0", b"\xc4\0\xb0\0:\0", b"\"\0\\\0a\0\"\0,\0", b"[\0", b"a", b"\0{\0\"\0a"],
        around: (b"{\0\"\0", b""),
        read: |body| read_body("application/json; charset=utf-16", body),
    },
    Parser {
        name: "multipart, broken in UTF-16",
        longest: WHOLE,
        pieces: &[b"n\0", b"name=", b"name*=\n", b"n\0a\0m\0e\0=\0l\0", b"name\n*='%", b"name    ", b"\n\0-\0-\0", b"base64"],
        around: (b"--x\r\nname=log\r\n\r\na", b""),
        read: |body| read_body("multipart/form-data; boundary=x; charset=utf-16", body),
    },
    Parser {
        name: "items of a batch",
        longest: WHOLE,
        pieces: &[b",1", b",[", b",{}", b",\"a\"", b",1e308", b",[[]]"],
        around: (b"[1", b"]"),
        read: |body| {
            black_box(Count::Items.of(body).is_ok());
        },
    },
    Parser {
        name: "calls of XML-RPC",
        longest: WHOLE,
        pieces: &[
            b"<a>", b"<a/>", b"<a></a>", b"<a b=\"c\"/>", b" b=\"c\"", b"a", b"&#97;", b"&amp;", b"<?a?>", b"<!---->", b"<![CDATA[]]>",
            b"<name>methodName</name>", b"<methodName/>", b"<struct>", b"</struct>", b"<?xm", b"\n", b"\xff",
        ],
        around: (b"<?xml version=\"1.0\"?><a>", b"</a>"),
        read: |body| {
            black_box(Count::Element("methodName".to_owned()).of(body).is_ok());
        },
    },
    Parser {
        name: "account's name",
        longest: WHOLE,
        pieces: &[
            b"a", b"_", b" ", b"\xef\xb7\xba", b"\xcc\x81", b"\xcc\x95\xcc\x80", b"\xff", b"\xc4\xb0", b"\xe1\x84\x80", b"&", b"%4",
            b"\xef\xbc\x9c", b"\xf0\x9d\x85\xa0", b"s",
        ],
        around: (b"a", b""),
        read: |name| drop(black_box(Account::fold(name))),
    },
    Parser {
        name: "account's names in a form",
        longest: WHOLE,
        pieces: &[b"%EF%B7%BA", b"\xef\xb7\xba", b"&log=\xef\xb7\xba", b"&log=%CC%81", b"\xcc\x95\xcc\x80", b"a"],
        around: (b"log=", b""),
        read: |body| read_body("application/x-www-form-urlencoded", body),
    },
    Parser {
        name: "Cookie",
        longest: WHOLE,
        pieces: &[
            b";", b"; a=b", b"; dev=", b"dev=a.", b"; dev=AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
            b".AQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", b"=", b" ", b"; $Path=a",
        ],
        around: (b"dev=a", b""),
        read: read_cookie,
    },
    Parser {
        name: "Cookie, for every preset",
        longest: WHOLE,
        pieces: &[
            b";", b"; a=b", b";a", b";log=b", b";%6cog=+", b";pass", b";pwd=%41", b";user[", b"; _user=%u0061", b"%41", b"aA", b".pw", b"%C3%84",
            b"; pma_username=1", b"=", b" ",
        ],
        around: (b"a=b", b""),
        read: decide_by_cookies,
    },
    Parser {
        name: "Authorization: Basic",
        longest: WHOLE,
        pieces: &[b"A", b"-", b"_", b"!", b"=", b"OjpB", b"77-6"],
        around: (b"Basic YTpi", b""),
        read: |line| with(&AUTHORIZATION, line, |headers| read_values(&[Field::Basic], headers, b"")),
    },
    Parser {
        name: "X-Forwarded-For",
        longest: WHOLE,
        pieces: &[b",", b" ", b",10.0.0.1", b", 1.2.3.4", b",a", b"\"", b",[::1]:80", b"0"],
        around: (b"192.0.2.1", b", 10.0.0.1"),
        read: |line| read_client(IdentityHeader::XForwardedFor, "x-forwarded-for", line),
    },
    Parser {
        name: "Forwarded",
        longest: WHOLE,
        pieces: &[b",", b";", b"\"", b"\\", b",for=10.0.0.1", b";for=1.2.3.4", b";a=\"\\\"\"", b" ", b"="],
        around: (b"for=192.0.2.1", b", for=10.0.0.1"),
        read: |line| read_client(IdentityHeader::Forwarded, FORWARDED.as_str(), line),
    },
    Parser {
        name: "Accept",
        longest: WHOLE,
        pieces: &[b",", b";", b"a/json", b",text/html;q=0.5", b" ", b";q=0.001", b"a/b+json;a=b,"],
        around: (b"a/b;q=1", b""),
        read: read_accept,
    },
    Parser {
        name: "Accept-Language",
        longest: WHOLE,
        pieces: &[b",", b";", b"-", b",de", b",zh-Hant;q=0.5", b" ", b";q=0.001", b",*", b";a"],
        around: (b"en;q=0.1", b""),
        read: read_language,
    },
    Parser {
        name: "Connection",
        longest: WHOLE,
        pieces: &[b",", b",a", b", close", b",upgrade", b" ", b"x-a", b",cookie"],
        around: (b"close", b""),
        read: |line| with(&CONNECTION, line, read_headers),
    },
    Parser {
        name: "Host",
        longest: WHOLE,
        pieces: &[b"a", b".", b":", b"1", b"[", b"]", b"a."],
        around: (b"a", b""),
        read: |line| with(&HOST, line, read_host),
    },
    Parser {
        name: "X-Request-Id",
        longest: WHOLE,
        pieces: &[b"a", b"-"],
        around: (b"", b""),
        read: |line| {
            with(&HeaderName::from_static("x-request-id"), line, |headers| {
                black_box(RecordedHeaders::of(headers).usable_request_id().is_some());
            });
        },
    },
    Parser {
        name: "bytes of HTTP/1",
        longest: WHOLE,
        pieces: &[
            b"\r\n", b"\n", b"a", b"a: b\r\n", b":", b"Content-Length: 1\r\n", b"1\r\na\r\n", b"GET / HTTP/1.1\r\n\r\n", b"c", b"\r",
            b"Transfer-Encoding: chunked\r\n\r\n", b"1;a\r\n",
        ],
        around: (b"POST / HTTP/1.1\r\nHost: a\r\n", b"\r\n"),
        read: read_stream,
    },
];

/// What a gate makes of its file with these lines below its addresses.
fn policy(lines: &str) -> Policy {
    let text = format!("listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n{lines}");
    let loaded = load(&Sources::from_text("policy", &text));
    let said: Vec<_> = loaded.diagnostics.iter().map(|found| found.render(false)).collect();
    loaded.config.unwrap_or_else(|| panic!("{}", said.join("\n"))).policy
}

fn presets_and_own() -> Policy {
    let mut lines = String::new();
    for preset in presets() {
        lines += &format!("[route.{0}]\npreset = \"{0}\"\n", preset.name);
    }
    lines += "[route.own]\nmatch = [\"POST /own\", \"POST /index.php?page=login\", \"POST /?q=user/login\"]\nupstream = \"http://127.0.0.1:82\"\nuser = \"form:user\"\n\
             [limit.address]\nrate = \"10 per 5m\"\n[limit.account]\nkey = \"user\"\nrate = \"10 per 5m\"\n";
    policy(&lines)
}

fn known_devices() -> Arc<dyn OwnerCookie> {
    let known = policy(
        "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 5m\"\n[device]\ncookie = \"dev\"\n\
         secret = \"newest-newest-newest-newest-newest\\noldest-oldest-oldest-oldest-oldest\"\n",
    );
    known.owner_cookie.unwrap()
}

static POLICY: LazyLock<Policy> = LazyLock::new(presets_and_own);
static FIELDS: LazyLock<Vec<Field>> = LazyLock::new(|| {
    vec![Field::form("log").unwrap(), Field::form("user[name]").unwrap(), Field::json("/user/email").unwrap()]
});
static DEVICES: LazyLock<Arc<dyn OwnerCookie>> = LazyLock::new(known_devices);
static FILTER: LazyLock<HeaderFilter> = LazyLock::new(HeaderFilter::default);
static HASHER: LazyLock<KeyHasher> = LazyLock::new(|| KeyHasher::seeded(1));

/// Everything that is done with a target before a request is forwarded and written down.
fn read_target(target: &[u8]) {
    let Ok(uri) = Uri::try_from(target) else { return };
    if uri.query().is_some_and(query::is_too_long) || canonical::check(uri.path()).is_err() {
        return;
    }
    let headers = HeaderMap::new();
    decide_on(&Method::POST, uri.path(), uri.query(), &headers, b"");
    veil(uri.query().unwrap_or_default());
}

/// The same for a client that looks at a page: all that it carries decides whether that is an attempt.
fn read_target_of_a_page(target: &[u8]) {
    let Ok(uri) = Uri::try_from(target) else { return };
    if uri.query().is_some_and(query::is_too_long) || canonical::check(uri.path()).is_err() {
        return;
    }
    decide_on(&Method::GET, uri.path(), uri.query(), &HeaderMap::new(), b"");
    veil(uri.query().unwrap_or_default());
}

/// What of a query is private is not written down.
fn veil(query: &str) {
    let private = POLICY.private_names();
    if query::is_beyond_read(query) {
        return;
    }
    for part in query.split('&') {
        let is_private = |part: &str| private.contain(part.split_once('=').map_or(part, |(name, _)| name));
        if !black_box(is_private(part)) && part.contains(';') {
            for piece in part.split(';') {
                black_box(is_private(piece));
            }
        }
    }
}

fn decide_on(method: &Method, path: &str, query: Option<&str>, headers: &HeaderMap, body: &[u8]) {
    let client = Client::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST));
    let attempt = Attempt {
        method,
        path,
        query,
        host: "app.example",
        client,
        headers,
        body: AttemptBody::Whole(body),
        descriptor: None,
        tls: None,
    };
    black_box(POLICY.charges(&attempt, &HASHER, NOW).is_ok());
    black_box(POLICY.upstream_of(&attempt));
}

/// Everything that is done with a body before a request is forwarded.
fn decide(kind: &'static str, body: &[u8]) {
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(kind))]);
    decide_on(&Method::POST, "/index.php", None, &headers, body);
}

/// Everything that is done with cookies before a request is forwarded, if a client looks at a form and if it sends one.
fn decide_by_cookies(line: &[u8]) {
    with(&COOKIE, line, |headers| {
        for (method, path) in
            [(Method::GET, "/index.php"), (Method::POST, "/index.php"), (Method::OPTIONS, "/user")]
        {
            decide_on(&method, path, None, headers, b"");
        }
    });
}

fn read_body(kind: &'static str, body: &[u8]) {
    with(&CONTENT_TYPE, kind.as_bytes(), |headers| read_values(&FIELDS, headers, body));
}

fn read_values(fields: &[Field], headers: &HeaderMap, body: &[u8]) {
    let attempt = Attempt {
        method: &Method::POST,
        path: "/",
        query: None,
        host: "",
        client: Client::UnixSocket,
        headers,
        body: AttemptBody::Whole(body),
        descriptor: None,
        tls: None,
    };
    if let Ok(found) = values(fields, Half::User, &attempt) {
        for value in found.iter() {
            black_box(Account::fold(value));
        }
    }
}

fn read_cookie(line: &[u8]) {
    with(&COOKIE, line, |headers| {
        DEVICES.read(headers, NOW);
        black_box(DEVICES.others(headers));
    });
}

fn read_client(header: IdentityHeader, name: &'static str, line: &[u8]) {
    let trust = ["10.0.0.0/8".parse().unwrap()].into_iter().collect();
    let settings = ClientSettings { trust, header, ..Default::default() };
    let peer = PeerAddr::Ip((Ipv4Addr::new(10, 0, 0, 1), 1).into());
    with(&HeaderName::from_static(name), line, |headers| {
        black_box(settings.client_of(peer, headers).is_ok());
    });
}

fn read_accept(line: &[u8]) {
    with(&ACCEPT, line, |headers| {
        let request_id = HeaderValue::from_static("a");
        let asked = Negotiation {
            accept: headers.get(ACCEPT),
            head: true,
            request_id: &request_id,
            language: PageLanguage::default(),
            offer: None,
        };
        black_box(problem(ProblemKind::TargetTooLong, &asked));
    });
}

fn read_language(line: &[u8]) {
    with(&ACCEPT_LANGUAGE, line, |headers| {
        let html = HeaderValue::from_static("text/html");
        black_box(language_of(&RefusalPages::default(), Some(&html), headers));
    });
}

fn read_headers(headers: &HeaderMap) {
    black_box(requested_upgrade(headers));
    let identity = ForwardedInfo {
        peer: None,
        trusted: false,
        secure: false,
        client_header: None,
        filter: &FILTER,
        request_id: None,
        owner_cookie: Some(&**DEVICES),
    };
    prepare_request(&mut PassedHeaders::new(headers.clone(), ReceivedHead::default()), &identity, None);
}

fn read_host(headers: &HeaderMap) {
    let mut request = Request::new(());
    headers.clone_into(request.headers_mut());
    black_box(target::check(&request).is_ok());
}

fn read_stream(bytes: &[u8]) {
    let (mut decoder, mut buffer, mut is_open) = (RequestDecoder::default(), BytesMut::new(), false);
    for piece in bytes.chunks(1460) {
        buffer.extend_from_slice(piece);
        loop {
            if !is_open {
                match decoder.read_head(&mut buffer) {
                    Ok(Some(head)) if head.fault.is_none() => is_open = true,
                    Ok(None) => break,
                    Ok(Some(_)) | Err(_) => return,
                }
            }
            match decoder.read_body(&mut buffer) {
                Ok(BodyPart::Piece(piece)) => drop(black_box(piece)),
                Ok(BodyPart::NeedsMore) => break,
                Ok(BodyPart::End) => is_open = false,
                Err(_) => return,
            }
        }
    }
}

fn with(name: &HeaderName, line: &[u8], read: impl FnOnce(&HeaderMap)) {
    let Ok(line) = HeaderValue::from_bytes(line) else { return };
    read(&HeaderMap::from_iter([(name.clone(), line)]));
}

const NOW: Time = Time::from_nanos(1_763_700_000 * 1_000_000_000);
