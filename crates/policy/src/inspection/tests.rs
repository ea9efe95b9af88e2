use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use proptest::prelude::*;

use super::super::Policy;
use super::super::attempt::Client;
use super::super::field::Field;
use super::super::urlencoded::decode;
use super::*;
use crate::{RouteMatch, RouteReading};

fn policy(pattern: &str) -> Policy {
    let form = |name: &str| Field::form(name).unwrap();
    let route = Route {
        reading: RouteReading {
            user: vec![form("login"), Field::json("/user/email").unwrap(), Field::Basic],
            password: vec![form("geheim")],
            ..RouteReading::default()
        },
        ..Route::new("form", vec![pattern.parse().unwrap()])
    };
    Policy::new(vec![route], Vec::new())
}

/// Whether a request to `/login` is an attempt.
fn counts(
    policy: &Policy,
    method: &str,
    query: Option<&str>,
    lines: &[(&str, &str)],
    body: AttemptBody<'_>,
) -> bool {
    let method = method.parse().unwrap();
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    let attempt = Attempt {
        method: &method,
        path: "/login",
        query,
        host: "",
        client: Client::UnixSocket,
        headers: &headers,
        body,
        descriptor: None,
        tls: None,
    };
    !policy.routes_of(&attempt).is_empty()
}

const NONE: AttemptBody<'_> = AttemptBody::Whole(&[]);

#[test]
fn a_body_of_any_kind_makes_an_attempt_of_a_get() {
    let policy = policy("POST /login");
    for (body, expected) in [
        (NONE, false),
        (AttemptBody::Whole(b"x"), true),
        (AttemptBody::Unread, true),
        (AttemptBody::TooLong, true),
    ] {
        assert_eq!(counts(&policy, "GET", None, &[], body), expected, "{body:?}");
    }
}

#[test]
fn a_body_of_which_nobody_tells_makes_an_attempt_of_a_get_where_a_route_reads_it() {
    let reads_nothing =
        Policy::new(vec![Route::new("form", vec!["POST /login".parse().unwrap()])], Vec::new());
    for method in ["GET", "HEAD"] {
        assert!(counts(&policy("POST /login"), method, None, &[], AttemptBody::Unsaid), "{method}");
        assert!(!counts(&reads_nothing, method, None, &[], AttemptBody::Unsaid), "{method}");
        assert!(counts(&reads_nothing, method, None, &[], AttemptBody::TooLong), "{method}");
    }
}

#[test]
fn members_of_a_document_count_in_the_query_as_well() {
    let policy = policy("POST /login");
    for query in ["user[email]=a", "user.email=a", "USER%5Bemail%5D=a", "x&login", "a=1;login=b", "login[]=b"]
    {
        assert!(counts(&policy, "GET", Some(query), &[], NONE), "{query}");
    }
    for query in ["user=a", "email=a", "logins=a", "x=login", ""] {
        assert!(!counts(&policy, "GET", Some(query), &[], NONE), "{query}");
    }
}

#[test]
fn an_override_counts_in_every_spelling_that_is_read_as_one() {
    let policy = policy("PUT /login");
    for name in ["X-HTTP-Method-Override", "x_http_method_override", "X-HTTP-Method", "x.method.override"] {
        assert!(counts(&policy, "POST", None, &[(name, "PUT")], NONE), "{name}");
    }
    for query in [
        "_method=PUT",
        "_METHOD=put",
        "%5fmethod=PUT",
        "%u005fmethod=PUT",
        ".method=PUT",
        "_method[]=PUT",
        "$httpMethod=PUT",
    ] {
        assert!(counts(&policy, "POST", Some(query), &[], NONE), "{query}");
    }
    assert!(!counts(&policy, "POST", Some("method=PUT"), &[("x-method", "PUT")], NONE));
}

/// Similar to L4: old ASP decodes more than percent signs.
#[test]
fn a_password_in_letters_of_old_asp_is_an_attempt() {
    let policy = policy("POST /login");
    for name in ["%u0070assword", "p%u0061ss", "x_%U0070wd"] {
        assert!(counts(&policy, "GET", Some(&format!("{name}=x")), &[], NONE), "{name}");
    }
    assert!(counts(&policy, "GET", None, &[("cookie", "%u0070assword=x")], NONE));
    assert!(!counts(&policy, "GET", Some("%u006cang=x"), &[("cookie", "%u006cang=x")], NONE));
}

#[test]
fn a_post_that_says_it_is_a_get_is_held_against_pages() {
    let pages = policy("GET /login");
    assert!(counts(&pages, "POST", None, &[("x-http-method-override", "GET")], NONE));
    assert!(!counts(&pages, "POST", None, &[], NONE));
    assert!(counts(&pages, "GET", None, &[], NONE) && counts(&pages, "HEAD", None, &[], NONE));
}

#[test]
fn a_route_for_pages_hides_no_form_behind_it() {
    let mut routes = policy("GET /**").routes;
    routes[0].reading.user.clear();
    routes.extend(policy("POST /login").routes);
    let policy = Policy::new(routes, Vec::new());
    let headers = HeaderMap::new();
    let (method, query) = (Method::GET, Some("login=a&x=b"));
    let attempt = Attempt {
        method: &method,
        path: "/login",
        query,
        host: "",
        client: Client::UnixSocket,
        headers: &headers,
        body: NONE,
        descriptor: None,
        tls: None,
    };
    assert_eq!(policy.routes_of(&attempt)[..], [0, 1]);
}

#[test]
fn more_names_than_are_looked_at_are_an_attempt() {
    let policy = policy("POST /login");
    for (count, expected) in [(query::MAX_READ_PARAMETERS, false), (query::MAX_READ_PARAMETERS + 1, true)] {
        let (query, jar) = ("a=b&".repeat(count), "a=b; ".repeat(count));
        assert_eq!(counts(&policy, "GET", Some(&query), &[], NONE), expected, "{count} parameters");
        assert_eq!(counts(&policy, "GET", None, &[("cookie", &jar)], NONE), expected, "{count} cookies");
    }
}

/// The name of a parameter or cookie as PHP reads it.
fn plainly(name: &str) -> String {
    let decoded = String::from_utf8_lossy(&decode(name.as_bytes(), false)).to_lowercase();
    decoded.split('[').next().unwrap().to_owned()
}

proptest! {
    /// L1, L2: a request counts if and only if an application could find an attempt in it.
    #[test]
    fn what_an_application_could_take_for_an_attempt_is_one(
        method in prop::sample::select(vec!["GET", "HEAD", "OPTIONS"]),
        parameters in prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..3),
        cookies in prop::collection::vec(prop::sample::select(NAMES.to_vec()), 0..3),
        (has_body, is_basic, overrides, is_preflight) in any::<(bool, bool, bool, bool)>(),
    ) {
        let pairs = |names: &[&str], between: &str| {
            names.iter().map(|name| format!("{name}=x")).collect::<Vec<_>>().join(between)
        };
        let (query, jar) = (pairs(&parameters, "&"), pairs(&cookies, "; "));
        let mut lines: Vec<(&str, &str)> = vec![(COOKIE.as_str(), &jar)];
        let more: [(bool, &[(&str, &str)]); 3] = [
            (is_basic, &[("authorization", "Basic YTpi")]),
            (overrides, &[("x-method-override", "post")]),
            (is_preflight, &[("origin", "https://a.test"), ("access-control-request-method", "POST")]),
        ];
        more.iter().filter(|(is_there, _)| *is_there).for_each(|(_, more)| lines.extend(*more));
        let holds = |names: &[&str], wanted: &[&str]| names.iter().any(|name| wanted.contains(&&*plainly(name)));
        let carries = has_body || is_basic || overrides || holds(&parameters, &["login", "geheim", "pwd"])
            || holds(&cookies, &["geheim", "pwd"]);
        let is_free = is_preflight && !holds(&cookies, &["login"]);
        let wanted = carries || (method == "OPTIONS" && !is_free);
        let body = if has_body { AttemptBody::Whole(b"x") } else { NONE };
        for pattern in ["POST /login", "PUT /login"] {
            let wanted = wanted && (carries || pattern.starts_with("POST"));
            prop_assert_eq!(counts(&policy(pattern), method, Some(&query), &lines, body), wanted, "{}", pattern);
        }
    }
}

const NAMES: [&str; 9] =
    ["geheim", "GEHEIM[]", "%67eheim", "login", "Login[0]", "pwd", "lang", "compass", "session.id"];

/// Routes chosen by everything that a request can carry.
fn chosen_by(fields: &[&str]) -> Policy {
    let field = |name: &&str| match *name {
        "json" => Field::json("/log").unwrap(),
        "query" => Field::query("log").unwrap(),
        "header" => Field::Header(HeaderName::from_static("x-log")),
        "basic" => Field::Basic,
        _ => Field::form("log").unwrap(),
    };
    let matching = RouteMatch {
        patterns: vec!["POST /login".parse().unwrap()],
        when: fields.iter().map(field).collect(),
        ..RouteMatch::default()
    };
    let when = Route {
        matching,
        reading: RouteReading {
            user: vec![Field::form("log").unwrap()],
            password: vec![Field::form("pwd").unwrap()],
            ..RouteReading::default()
        },
        ..Route::new("when", Vec::new())
    };
    let behind = Route::new("behind", vec!["ANY /**".parse().unwrap()]);
    Policy::new(vec![when, behind], Vec::new())
}

proptest! {
    /// A body that is read later must not make other routes of those that were found before.
    #[test]
    fn the_routes_before_and_after_the_body_are_those_of_the_whole_request(
        fields in prop::sample::subsequence(vec!["form", "json", "query", "header", "basic"], 0..=5),
        method in prop::sample::select(vec!["GET", "POST", "PUT", "OPTIONS", "HEAD"]),
        query in prop::sample::select(vec![None, Some("log=a"), Some("x=1"), Some("pwd=b"), Some("_method=GET")]),
        lines in prop::sample::subsequence(
            vec![
                ("cookie", "log=a"),
                ("cookie", "pwd=b; x=1"),
                ("x-log", "a"),
                ("authorization", "Basic YTpi"),
                ("content-type", "application/json"),
                ("x-http-method-override", "POST"),
            ],
            0..=6,
        ),
        body in prop::sample::select(vec!["", "log=a", "pwd=b", "log=a&pwd=b", "x=1", "{\"log\":\"a\"}", "{"]),
    ) {
        let policy = chosen_by(&fields);
        let method = method.parse().unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static(value));
        }
        let attempt = |body| Attempt {
            method: &method,
            path: "/login",
            query,
            host: "",
            client: Client::UnixSocket,
            headers: &headers,
            body,
            descriptor: None,
            tls: None,
        };
        for body in [AttemptBody::Whole(body.as_bytes()), AttemptBody::TooLong] {
            let before = policy.routes_of(&attempt(AttemptBody::Unread));
            let after = policy.routes_with_body(before, &attempt(body));
            prop_assert_eq!(after, policy.routes_of(&attempt(body)));
        }
    }
}
