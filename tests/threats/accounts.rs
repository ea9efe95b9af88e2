//! Whatever an application could read as the account is charged, however it was sent, and each guess that a request carries
//! is paid for.
//!
//! Each guess comes from an address of its own, as from an attacker who has many: only the account's bucket can hold it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::unreachable,
    reason = "these are tests"
)]

use std::io::Write as _;
use std::net::Ipv4Addr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};

use support::{Gate, Upstream};

/// Guesses of each kind, before a bucket of five.
const GUESSES: u8 = 60;
const ROUTES: &str = "[route.form]\nmatch = \"POST /login\"\nuser = \"form:login\"\npassword = \"form:pw\"\n\
                      [route.api]\nmatch = \"POST /api\"\nuser = \"json:/user/login\"\npassword = \"json:/user/pw\"\n\
                      [limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\n";
const FORM: &str = "application/x-www-form-urlencoded";
const NAME: &str = "NAME";

struct Kind {
    name: &'static str,
    target: &'static str,
    lines: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Kind {
    fn of(name: &'static str, target: &'static str, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        Self { name, target, lines: vec![("Content-Type", kind.into())], body: body.into() }
    }

    fn with(mut self, header: &'static str, value: &str) -> Self {
        self.lines.push((header, value.into()));
        self
    }

    /// One guess at an account of its own, as `written` for this kind.
    fn request(&self, account: &str) -> Vec<u8> {
        let mut head = format!("POST {} HTTP/1.1\r\nHost: app.test\r\n", self.target);
        for (name, value) in &self.lines {
            head += &format!("{name}: {value}\r\n");
        }
        let body = replaced(&self.body, account);
        head += &format!("Content-Length: {}\r\n\r\n", body.len());
        [replaced(head.as_bytes(), account), body].concat()
    }
}

/// The name of the account in place of what stands for it, in whatever letters that is written.
fn replaced(text: &[u8], account: &str) -> Vec<u8> {
    assert_eq!(account.len(), NAME.len());
    let encodings: [fn(&str) -> Vec<u8>; 6] = [
        |name| name.as_bytes().to_vec(),
        utf16,
        utf32,
        ebcdic,
        |name| percent(&utf16(name)),
        |name| percent(&ebcdic(name)),
    ];
    let mut text = text.to_vec();
    for encode in encodings {
        let (from, to) = (encode(NAME), encode(account));
        while let Some(at) = text.windows(from.len()).position(|part| part == from) {
            text.splice(at..at + from.len(), to.iter().copied());
        }
    }
    text
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

fn utf32(text: &str) -> Vec<u8> {
    text.chars().flat_map(|letter| u32::from(letter).to_be_bytes()).collect()
}

/// As in all code pages of EBCDIC, for what is written here.
fn ebcdic(text: &str) -> Vec<u8> {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'i' => byte - b'a' + 0x81,
            b'j'..=b'r' => byte - b'j' + 0x91,
            b's'..=b'z' => byte - b's' + 0xa2,
            b'A'..=b'I' => byte - b'A' + 0xc1,
            b'J'..=b'R' => byte - b'J' + 0xd1,
            b'S'..=b'Z' => byte - b'S' + 0xe2,
            b'0'..=b'9' => byte - b'0' + 0xf0,
            b'=' => 0x7e,
            b'&' => 0x50,
            other => unreachable!("{other}"),
        })
        .collect()
}

fn percent(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| format!("%{byte:02x}").into_bytes()).collect()
}

fn plain() -> &'static str {
    "login=NAME&pw=guess"
}

fn document() -> &'static str {
    r#"{"user":{"login":"NAME","pw":"guess"}}"#
}

/// A form in parts, with something in the head of the name's part.
fn parts(disposition: &str) -> String {
    format!(
        "--x\r\n{disposition}\r\n\r\nNAME\r\n--x\r\nContent-Disposition: form-data; name=\"pw\"\r\n\r\nguess\r\n--x--\r\n"
    )
}

fn in_parts() -> String {
    parts("Content-Disposition: form-data; name=\"login\"")
}

/// The kinds of guesses of which another number than the bucket holds got past the limit of the account.
fn past_the_account(kinds: &[Kind]) -> Vec<(&'static str, usize)> {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ROUTES));
    let mut wrong = Vec::new();
    for (number, kind) in (1..).zip(kinds) {
        // Read as letters of two bytes, names with digits would be alike: U+3031 and U+3032 differ by a mark.
        let account = format!("n{}xy", char::from(b'a' + number));
        let passed = (1..=GUESSES).filter(|address| {
            let mut client = gate.connect_from(Ipv4Addr::new(127, 0, number, *address));
            client.send(kind.request(&account));
            client.answer().status == 200
        });
        wrong.push((kind.name, passed.count()));
    }
    wrong.retain(|(_, passed)| *passed != 5);
    wrong
}

/// D17, D21: most applications read a body as what it is, whatever its encoding is said to be.
#[test]
fn a_wrong_word_about_a_body_hides_no_account() {
    let of =
        |charset: &'static str| Kind::of(charset, "/login", &format!("{FORM}; charset={charset}"), plain());
    let mut kinds: Vec<Kind> =
        ["iso-8859-2", "koi8-r", "utf-7", "windows-1251", "utf-16"].into_iter().map(of).collect();
    kinds.extend([
        Kind::of("two types, the first", "/login", FORM, plain()).with("Content-Type", "text/plain"),
        Kind::of("two types, the last", "/login", "text/plain", in_parts())
            .with("Content-Type", "multipart/form-data; boundary=x"),
        Kind::of("a form that is said to be in parts", "/login", "multipart/form-data; boundary=x", plain()),
        Kind::of("two boundaries", "/login", "multipart/form-data; boundary=y; boundary=x", in_parts()),
    ]);
    assert_eq!(past_the_account(&kinds), []);
}

/// M1: collations ignore some signs and equate digits of all scripts (`tests/stores/account_names.rs` asks a database for all).
#[test]
fn an_account_that_is_respelled_as_its_database_reads_it_is_one() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ROUTES));
    let ignored = ["\u{901}", "\u{e47}", "\u{600}", "\u{200b}", "\u{fc5e}", "\u{1d165}"];
    let ones = ["1", "\u{661}", "\u{967}", "\u{b9}", "\u{ff11}", "\u{1d7cf}"];
    let spellings = (1..=5).flat_map(|at| {
        ignored.iter().zip(ones).flat_map(move |(sign, one)| {
            [
                format!("{}{sign}{}{one}", &"admin"[..at], &"admin"[at..]),
                format!("admin{one}{}", sign.repeat(at)),
            ]
        })
    });
    let mut passed = 0;
    for (address, name) in (1..).zip(spellings) {
        let body = format!("login={}&pw=guess", String::from_utf8(percent(name.as_bytes())).unwrap());
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 1, address));
        client.send(asked("/login", &format!("Content-Type: {FORM}\r\n"), &body));
        passed += usize::from(client.answer().status == 200);
    }
    assert_eq!(passed, 5);
}

/// M1: an application may cut names.
#[test]
fn names_that_the_application_cuts_are_one_account() {
    let upstream = Upstream::start();
    let gate =
        Gate::start(&upstream.file(&ROUTES.replace("\"form:login\"", "\"form:login\"\nuser_length = 10")));
    let passed = (1..=60).filter(|address| {
        let mut client = gate.connect_from(Ipv4Addr::new(127, 0, 1, *address));
        client.send(asked(
            "/login",
            &format!("Content-Type: {FORM}\r\n"),
            &format!("login=abcdefghij{address}&pw=x"),
        ));
        client.answer().status == 200
    });
    assert_eq!(passed.count(), 5);
}

/// M3: Exchange takes guesses by NTLM and Negotiate wherever it takes Basic.
#[test]
fn guesses_by_ntlm_are_charged_to_their_account_and_others_to_their_client() {
    let upstream = Upstream::answering(|_, _| {
        support::Reply::text("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
    });
    let owa = "[route.owa]\npreset = \"owa\"\n[limit.account]\nkey = \"user\"\nrate = \"5 per 1h\"\ncount = \"failures\"\n";
    let gate = Gate::start(&upstream.file(owa));
    let from = |address: Ipv4Addr, credentials: &str| {
        let mut client = gate.connect_from(address);
        client.send(asked("/ews/exchange.asmx", &format!("Authorization: {credentials}\r\n"), ""));
        client.answer().status == 401
    };
    let domains = ["CORP", "corp.example", "", "OTHER"];
    let guesses = (1..=100).zip(domains.iter().cycle()).filter(|(address, domain)| {
        let message = STANDARD.encode(ntlm(3, domain, "anna"));
        let scheme = ["NTLM", "Negotiate"][usize::from(*address) % 2];
        from(Ipv4Addr::new(127, 0, 1, *address), &format!("{scheme} {message}"))
    });
    assert_eq!(guesses.count(), 5, "whatever domain is named");
    let basic = STANDARD.encode("CORP\\anna:guess");
    assert!(!from(Ipv4Addr::new(127, 0, 1, 200), &format!("Basic {basic}")), "it is one account");
    let one = Ipv4Addr::new(127, 0, 2, 1);
    let opening = format!("NTLM {}", STANDARD.encode(ntlm(1, "", "")));
    assert_eq!((0..20).filter(|_| from(one, &opening)).count(), 20, "asking for a challenge is no guess");
    assert_eq!((0..20).filter(|_| from(one, "Negotiate YIIB")).count(), 5, "a ticket");
    assert_eq!((0..20).filter(|_| from(Ipv4Addr::new(127, 0, 2, 2), "Digest username=\"a\"")).count(), 5);
    assert_eq!((0..20).filter(|_| from(Ipv4Addr::new(127, 0, 2, 3), "Bearer eyJ")).count(), 20, "a token");
}

/// A message of NTLM ([MS-NLMP], 2.2.1) with the texts that a client sends.
fn ntlm(kind: u32, domain: &str, user: &str) -> Vec<u8> {
    let text = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
    let (domain, user) = (text(domain), text(user));
    let field = |bytes: &[u8], offset: usize| {
        let length = u16::try_from(bytes.len()).unwrap().to_le_bytes();
        [&length[..], &length, &u32::try_from(offset).unwrap().to_le_bytes()].concat()
    };
    let (of_domain, of_user) = (field(&domain, 64), field(&user, 64 + domain.len()));
    let head = [b"NTLMSSP\0", &kind.to_le_bytes()[..], &[0; 16]].concat();
    [&head[..], &of_domain, &of_user, &[0; 16], &1_u32.to_le_bytes(), &domain, &user].concat()
}

/// M2: Express reads a hundred charsets, of which the gate knows few.
#[test]
fn a_charset_that_is_not_known_reaches_nothing_where_an_account_is_needed() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ROUTES));
    for charset in ["utf-7-imap", "shift_jis", "gbk", "hz-gb-2312", "cesu-8", "nonsense", ""] {
        let kind = Kind::of("unknown", "/login", &format!("{FORM}; charset={charset}"), plain());
        assert_eq!(gate.ask(kind.request("none")).status, 415, "{charset}");
    }
    assert!(upstream.bytes().is_empty());
}

/// D17: aiohttp and Express decode what is said to be compressed.
#[test]
fn a_compressed_guess_is_charged_as_a_plain_one_and_what_cannot_be_decoded_reaches_nothing() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(ROUTES));
    let send = |coding: &str, body: Vec<u8>| {
        let kind = Kind::of("coded", "/login", FORM, body).with("Content-Encoding", coding);
        gate.ask(kind.request("none")).status
    };
    let form = |number: usize| format!("login=alice&pw={number}").into_bytes();
    let gzip = |bytes: &[u8]| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zlib = |bytes: &[u8]| {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    for coding in ["br", "zstd", "gzip, gzip", "nonsense", "gzip", "deflate"] {
        assert_eq!(send(coding, form(0)), 415, "{coding}");
    }
    assert_eq!(send("gzip", [gzip(b"login=bob"), gzip(b"&login=alice")].concat()), 415, "two streams");
    assert_eq!(send("gzip", gzip(&vec![b'a'; 1_000_000])), 413, "much in little");
    assert!(upstream.bytes().is_empty());
    let statuses: Vec<u16> = (0..GUESSES.into())
        .map(|number| match number % 3 {
            0 => send("gzip", gzip(&form(number))),
            1 => send("deflate", zlib(&form(number))),
            _ => send("identity", form(number)),
        })
        .collect();
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    assert_eq!(upstream.requests()[0].body, gzip(&form(0)), "byte for byte");
}

/// D17: a name in the query or in a cookie counts, whatever stands in the body.
#[test]
fn a_body_that_cannot_be_read_hides_no_account_beside_it() {
    let broken = "multipart/form-data; boundary=other; boundary=part-of-a-form";
    let kinds = [
        Kind::of("query", "/login?login=NAME&pw=guess", broken, "pw=guess"),
        Kind::of("query, coded", "/login?login=NAME", FORM, b"\x1f\x8b\x08junk".to_vec()),
        Kind::of("cookie", "/login", broken, "pw=guess").with("Cookie", "login=NAME; pw=guess"),
        Kind::of("query of a document", "/api?user[login]=NAME", "application/json", "{\"user\": broken"),
    ];
    assert_eq!(past_the_account(&kinds), []);
}

/// D17: frameworks hand out forms and documents as one, so a name for the one is looked for in the other.
#[test]
fn a_name_of_a_document_is_found_in_a_form_and_the_other_way_round() {
    let nested = "--x\r\nContent-Disposition: form-data; name=\"user[login]\"\r\n\r\nNAME\r\n--x--\r\n";
    let kinds = [
        Kind::of("a form", "/api", FORM, "user[login]=NAME&user[pw]=guess"),
        Kind::of("dots", "/api", FORM, "user.login=NAME&user.pw=guess"),
        Kind::of("parts", "/api", "multipart/form-data; boundary=x", nested),
        Kind::of("a document", "/login", "application/json", r#"{"login":"NAME","pw":"guess"}"#),
        Kind::of("a document as text", "/login", "text/plain", r#"{"login":"NAME","pw":"guess"}"#),
        Kind::of("a document without a word", "/login", FORM, r#"{"login":"NAME","pw":"guess"}"#),
    ];
    assert_eq!(past_the_account(&kinds), []);
}

/// D17: what strict readers refuse, lenient ones read.
#[test]
fn what_is_almost_a_form_or_a_document_hides_no_account() {
    let multipart = "multipart/form-data; boundary=x";
    let of = |name, head: &str| Kind::of(name, "/login", multipart, parts(head));
    let json = |name, body: &str| Kind::of(name, "/api", "application/json", body);
    let kinds = [
        Kind::of("a type, as Zope reads it", "/login", FORM, "login:utf8:string=NAME&pw=guess"),
        Kind::of("a member, as Rocket ignores it", "/login", FORM, "login.x=NAME&pw=guess"),
        of("a part of a type", "Content-Disposition: form-data; name=\"login:string\""),
        of("a parameter more", "Content-Disposition: form-data; name=\"login\"; x=y"),
        of("a parameter before", "Content-Disposition: form-data; x=y; name=login"),
        of("another word", "Content-Disposition: attachment; name='login'"),
        of("a header more", "X-Other: y\r\nContent-Disposition: form-data; name=\"login\""),
        of("a folded line", "Content-Disposition: form-data;\r\n name=\"login\""),
        Kind::of("a preamble", "/login", multipart, format!("before\r\n{}", in_parts())),
        Kind::of("no end", "/login", multipart, in_parts().replace("--x--\r\n", "")),
        Kind::of("line feeds", "/login", multipart, in_parts().replace("\r\n", "\n")),
        json("a comma", r#"{"user":{"login":"NAME","pw":"guess",}}"#),
        json("a comment", r#"{/* */"user":{"login" : /* */ "NAME","pw":"guess"}}"#),
        json("no quotes", "{user:{login:'NAME',pw:'guess'}}"),
        json("something behind", r#"{"user":{"login":"NAME","pw":"guess"}} x"#),
        json("an array of arrays", r#"{"user":{"login":[["NAME"]],"pw":"guess"}}"#),
        json(
            "a letter that is none",
            "{\"user\":{\"login\":\"NAME\",\"pw\":\"\\ud800\\u12\"},\"\\ud800\":1}",
        ),
    ];
    assert_eq!(past_the_account(&kinds), []);
}

/// D17: Java, Python and JSON know letters of two and four bytes, and those of mainframes.
#[test]
fn letters_that_are_something_else_hide_no_account() {
    let form = |charset| format!("{FORM}; charset={charset}");
    let pairs = |encode: fn(&str) -> Vec<u8>| {
        let percent = |text| percent(&encode(text));
        [percent("login"), b"=".to_vec(), percent("NAME"), b"&".to_vec(), percent("pw"), b"=x".to_vec()]
            .concat()
    };
    let mark = |text: Vec<u8>| [b"\xfe\xff".to_vec(), text].concat();
    let mut kinds = vec![
        Kind::of("utf-16", "/login", &form("utf-16be"), utf16(plain())),
        Kind::of("utf-16 with a mark", "/login", &form("utf-16"), mark(utf16(plain()))),
        Kind::of("utf-32", "/login", &form("utf-32"), utf32(plain())),
        Kind::of("utf-16, encoded", "/login", &form("utf-16"), pairs(utf16)),
        Kind::of("utf-32, encoded", "/login", &form("utf-32be"), pairs(utf32)),
        Kind::of("ebcdic", "/login", &form("cp037"), ebcdic(plain())),
        Kind::of("ebcdic, encoded", "/login", &form("cp500"), pairs(ebcdic)),
        Kind::of("a wide document", "/api", "application/json", utf16(document())),
        Kind::of("a wider document", "/api", "application/json", utf32(document())),
    ];
    kinds.push(Kind::of("utf-7", "/login", &form("utf-7"), utf7("login=NAME&pw=guess")));
    assert_eq!(past_the_account(&kinds), []);
}

/// Only what is not the name is in the letters of UTF-7, and a piece of the field's name.
fn utf7(text: &str) -> String {
    let coded = STANDARD.encode(utf16("log"));
    text.replacen("log", &format!("+{}-", coded.trim_end_matches('=')), 1)
}

/// How many of a client's guesses pass an address's bucket of ten.
fn passed(routes: &str, request: &[u8]) -> usize {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(&format!("{routes}[limit.address]\nrate = \"10 per 1h\"\n")));
    (0..GUESSES).filter(|_| gate.ask(request).status == 200).count()
}

fn asked(target: &str, lines: &str, body: &str) -> Vec<u8> {
    format!("POST {target} HTTP/1.1\r\nHost: app.test\r\n{lines}Content-Length: {}\r\n\r\n{body}", body.len())
        .into_bytes()
}

const BASIC: &str = "Authorization: Basic YTpi\r\n";

/// D24: what Basic carries is one guess, and what stands elsewhere is another.
#[test]
fn each_guess_of_a_request_is_paid_for() {
    let call = "<methodCall><methodName>wp.getUsersBlogs</methodName></methodCall>";
    let wordpress = "[route.app]\npreset = \"wordpress\"\n";
    assert_eq!(
        passed(wordpress, &asked("/xmlrpc.php", &format!("{BASIC}Content-Type: text/xml\r\n"), call)),
        5
    );
    assert_eq!(passed(wordpress, &asked("/xmlrpc.php", "Content-Type: text/xml\r\n", call)), 10);
    let one = "[route.form]\nmatch = \"POST /login\"\nuser = [\"form:login\", \"basic\"]\npassword = [\"form:pw\", \"basic\"]\n";
    let form = format!("Content-Type: {FORM}\r\n");
    let both = format!("{BASIC}{form}");
    assert_eq!(passed(one, &asked("/login", &both, "login=a&pw=b")), 5);
    assert_eq!(passed(one, &asked("/login?login=a&pw=b", BASIC, "")), 5);
    assert_eq!(passed(one, &asked("/login", &format!("{BASIC}Cookie: login=a; pw=b\r\n"), "")), 5);
    for (lines, body) in [(BASIC, ""), (&form, "login=a&pw=b"), ("", "")] {
        assert_eq!(passed(one, &asked("/login", lines, body)), 10, "{lines} {body}");
    }
    let remembered = format!("{BASIC}Cookie: login=a; lang=de\r\n");
    assert_eq!(passed(one, &asked("/login", &remembered, "")), 10, "a name that is remembered is no guess");
    let same = "[route.wide]\nmatch = \"POST /**\"\nwhen = \"form:pw\"\n[route.form]\nmatch = \"POST /login\"\nuser = \"form:login\"\n";
    assert_eq!(passed(same, &asked("/login", &form, "login=a&pw=b")), 10, "one guess that two routes read");
}

/// D24: a client that repeats what Basic carries pays for each password beside it.
#[test]
fn a_password_that_was_seen_hides_none_beside_it() {
    let routes = "[route.basic]\nmatch = \"ANY /**\"\nwhen = \"basic\"\nuser = \"basic\"\npassword = \"basic\"\n\
                  [route.form]\nmatch = \"POST /login\"\nuser = \"form:login\"\npassword = \"form:pw\"\n\
                  [limit.address]\nrate = \"10 per 1h\"\nunit = \"passwords\"\n";
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(routes));
    let lines = format!("{BASIC}Content-Type: {FORM}\r\n");
    let guess = |number: &u8| asked("/login", &lines, &format!("login=a&pw=guess{number}"));
    let passed = (0..GUESSES).filter(|number| gate.ask(guess(number)).status == 200).count();
    assert_eq!(passed, 5);
}

/// D24: anybody can add the parameters that a pattern names, so it hides none of the routes behind it.
#[test]
fn a_pattern_with_parameters_hides_no_other_route() {
    for pattern in ["POST /login?title=Special:UserLogin", "POST /**?debug", "ANY /login?a=*"] {
        let upstream = Upstream::start();
        let routes = format!(
            "[route.other]\nmatch = \"{pattern}\"\nsuccess = {{ status = 200 }}\n\
             [route.form]\nmatch = \"POST /login\"\nuser = \"form:login\"\n\
             [limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\ncount = \"failures\"\n"
        );
        let gate = Gate::start(&upstream.file(&routes));
        let target = "/login?title=Special:UserLogin&debug&a=b";
        let guess = asked(target, &format!("Content-Type: {FORM}\r\n"), "login=margaret&pw=guess");
        let passed = (0..10).filter(|_| gate.ask(&guess).status == 200).count();
        assert_eq!(passed, 3, "{pattern}");
    }
}
