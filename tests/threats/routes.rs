//! Which request is an attempt: every spelling that some server takes for the form is charged, and what is
//! forwarded is what was sent.
//!
//! Each list of spellings goes twice through a running gate: once with a drained bucket, where all must be refused,
//! and once with a large one, where the upstream must find the original bytes in its request line.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use std::time::{Duration, Instant};

use support::{Gate, Upstream, get_with, post, post_with};

fn file(upstream: &Upstream, pattern: &str, rate: &str) -> String {
    upstream.file(&format!("[route.form]\nmatch = '{pattern}'\n[limit.address]\nrate = \"{rate}\"\n"))
}

/// All of these are attempts at what `pattern` protects, and reach the upstream as they are.
fn are_attempts(pattern: &str, plain: &str, spellings: &[&str]) {
    let upstream = Upstream::start();
    let drained = Gate::start(&file(&upstream, pattern, "1 per 1h"));
    drained.drain(plain, "");
    let full = Gate::start(&file(&upstream, pattern, "1 per 1h burst 100000"));
    for spelling in spellings {
        assert_eq!(drained.ask(post_with(spelling, "")).status, 429, "{spelling} is an attempt at {pattern}");
        upstream.forget();
        assert_eq!(full.ask(post_with(spelling, "")).status, 200, "{spelling} is forwarded");
        assert_eq!(&upstream.last().target, spelling, "the original bytes are forwarded");
    }
    let elsewhere = drained.ask(post_with("/elsewhere", ""));
    assert_eq!(elsewhere.status, 200, "another path is not an attempt");
}

/// None of these gets past the gate: each is refused as malformed, or as an attempt.
fn never_pass(pattern: &str, plain: &str, targets: &[&[u8]]) {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, pattern, "1 per 1h"));
    gate.drain(plain, "");
    upstream.forget();
    for target in targets {
        let request =
            [b"POST ", *target, b" HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n"].concat();
        let shown = String::from_utf8_lossy(target);
        let answer = gate.try_ask(request);
        assert!(
            answer.as_ref().is_none_or(|answer| matches!(answer.status, 400 | 414 | 429)),
            "{shown:?}: {answer:?}"
        );
        assert_eq!(upstream.bytes(), b"", "{shown:?} reached the upstream");
    }
}

/// D1: doubled slashes.
#[test]
fn doubled_slashes_do_not_hide_a_form() {
    are_attempts("POST /login.php", "/login.php", &["//login.php", "///login.php", "////////login.php"]);
    are_attempts("POST /a/login", "/a/login", &["/a//login", "//a///login//"]);
}

/// D2: dot segments.
#[test]
fn dot_segments_do_not_hide_a_form() {
    let spellings = [
        "/./login.php",
        "/././login.php",
        "/x/../login.php",
        "/x/y/../../login.php",
        "/%2e/login.php",
        "/x/%2e%2e/login.php",
        "/x/%2E./login.php",
        "/x/.%2e/login.php",
        "/a//../login.php",
        "/x/.//../login.php",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
}

/// D3: percent-encoded letters.
#[test]
fn encoded_letters_do_not_hide_a_form() {
    let spellings = [
        "/%6cogin.php",
        "/%6Cogin.php",
        "/%6c%6f%67%69%6e%2e%70%68%70",
        "/login%2ephp",
        "/login%2Ephp",
        "/l%6Fgin.php",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
}

/// D4: an encoded slash.
#[test]
fn an_encoded_slash_does_not_hide_a_form() {
    let spellings =
        ["/%2flogin.php", "/%2Flogin.php", "/x%2f..%2flogin.php", "/x/..%2flogin.php", "/x%2fy/../login.php"];
    are_attempts("POST /login.php", "/login.php", &spellings);
    are_attempts("POST /a/login", "/a/login", &["/a%2flogin", "/a%2Flogin"]);
}

/// D5: what follows a script's name.
#[test]
fn path_info_behind_a_script_does_not_hide_it() {
    let spellings = [
        "/login.php/",
        "/login.php/anything",
        "/login.php/a/b.css",
        "/login.php//x",
        "/login.php/%2e%2e/login.php/x",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
    are_attempts("POST /login", "/login", &["/login/", "/login//"]);
}

/// D6: a script's name without its extension.
#[test]
fn a_script_without_its_extension_is_the_same_form() {
    are_attempts("POST /login.php", "/login.php", &["/login", "/login/x"]);
    are_attempts("POST /login", "/login", &["/login.php", "/login.html"]);
}

/// D7: parameters in segments.
#[test]
fn segment_parameters_do_not_hide_a_form() {
    let spellings = [
        "/login.php;jsessionid=1",
        "/login.php;",
        "/;/login.php",
        "/;a=b/login.php",
        "/x;/../login.php",
        "/x/..;/login.php",
        "/x;y=1/..;z/login.php",
        "/login.php%3bx",
        "/.;/login.php",
        "/login.php;a/b",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
}

/// D8: Tomcat takes any prefix before its own form target.
#[test]
fn any_prefix_before_j_security_check_is_the_form() {
    let spellings = [
        "/j_security_check",
        "/app/j_security_check",
        "/a/b/c/j_security_check",
        "/app/j_security_check;jsessionid=1A",
        "/app/..;/j_security_check",
        "/app;x/%6a_security_check",
    ];
    are_attempts("POST /**/j_security_check", "/app/j_security_check", &spellings);
}

/// D9: letter case.
#[test]
fn letter_case_does_not_hide_a_form_unless_the_file_says_so() {
    are_attempts("POST /login.php", "/login.php", &["/LOGIN.PHP", "/Login.Php", "/%4cOGIN.php"]);
    let upstream = Upstream::start();
    let sensitive =
        "[route.form]\nmatch = \"POST /login\"\ncase = \"sensitive\"\n[limit.address]\nrate = \"1 per 1h\"\n";
    let gate = Gate::start(&upstream.file(sensitive));
    gate.drain("/login", "");
    assert_eq!(gate.ask(post_with("/LOGIN", "")).status, 200);
}

/// D10: what Windows overlooks in a name.
#[test]
fn what_windows_overlooks_does_not_hide_a_form() {
    let spellings = [
        "/login-form.asp.",
        "/login-form.asp...",
        "/login-form.asp%20",
        "/login-form.asp%20.",
        "/login-form.asp::$DATA",
        "/LOGIN-~1.ASP",
        "/(S(lit3py55t21z5v55vlm25s55))/login-form.asp",
        "/\\login-form.asp",
        "/x\\..\\login-form.asp",
        "/x%5c..%5clogin-form.asp",
        "/%5clogin-form.asp",
    ];
    are_attempts("POST /login-form.asp", "/login-form.asp", &spellings);
    never_pass("POST /login.asp", "/login.asp", &[b"/%u006cogin.asp", b"/login.asp%u0000"]);
}

/// D11: encodings of encodings, and letters that only look like the form's.
#[test]
fn double_encoding_and_foreign_letters_do_not_hide_a_form() {
    let spellings = [
        "/%256cogin.php",
        "/%25%36%63ogin.php",
        "/%252e%252e/login.php",
        "/x%252f..%252flogin.php",
        "/%C0%AFlogin.php",
        "/%c1%acogin.php",
        "/%E0%80%AFlogin.php",
        "/%EF%BD%8Cogin.php",
        "/%EF%BC%8Flogin.php",
        "/x/%C0%AE%C0%AE/login.php",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
}

/// D12: control bytes, raw and encoded.
#[test]
fn control_bytes_in_a_target_are_refused() {
    let targets: [&[u8]; 14] = [
        b"/login.php%00",
        b"/login.php%00.png",
        b"/login.php%0a",
        b"/login.php%0D%0Ax",
        b"/%09login.php",
        b"/login.php%7f",
        b"/login.php\0",
        b"/login.php\x01",
        b"/login.php\x7f",
        b"/login.php\x1b",
        b"/login.php\t",
        b"/login.php\x0b",
        b"/login.php%",
        b"/login.php%4",
    ];
    never_pass("POST /login.php", "/login.php", &targets);
}

/// D13: above the root.
#[test]
fn climbing_above_the_root_does_not_hide_a_form() {
    let spellings = [
        "/../login.php",
        "/../../login.php",
        "/x/../../login.php",
        "/%2e%2e/%2e%2e/login.php",
        "/..%2f..%2flogin.php",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
}

/// D14: the absolute form of a target, and forms that are no path.
#[test]
fn an_absolute_target_is_matched_by_its_path() {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "POST /login.php", "1 per 1h"));
    gate.drain("/login.php", "");
    upstream.forget();
    let targets = [
        "http://app.test/login.php",
        "HTTP://app.test/login.php",
        "http://app.test//x/../%6cogin.php",
        "http://app.test:80/login.php?x",
        "https://app.test/login.php",
        "http://other.test/login.php",
        "http://user@app.test/login.php",
        "ftp://app.test/login.php",
        "http:///login.php",
        "login.php",
        "app.test:80",
    ];
    for target in targets {
        let answer = gate.try_ask(post_with(target, ""));
        assert!(
            answer.as_ref().is_none_or(|answer| matches!(answer.status, 400 | 429)),
            "{target}: {answer:?}"
        );
    }
    assert_eq!(upstream.bytes(), b"");
    assert_eq!(gate.ask(get_with("http://app.test/page?x=1", "")).status, 200);
    // What remains of it is a path: the strict parser accepts nothing else.
    assert_eq!((upstream.last().target.as_str(), upstream.last().only("host")), ("/page?x=1", "app.test"));
}

/// D15: queries and fragments.
#[test]
fn a_query_does_not_hide_a_form() {
    let spellings = [
        "/login.php?x",
        "/login.php?",
        "/login.php?x=/../y",
        "/login.php?a=b&c=%00%zz",
        "/login.php%3fx=1",
        "/login.php%23x",
    ];
    are_attempts("POST /login.php", "/login.php", &spellings);
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "POST /login.php", "1 per 1h"));
    gate.drain("/login.php", "");
    upstream.forget();
    for target in ["/login.php#x", "/login.php?a#b", "/#/../login.php"] {
        assert!(matches!(gate.ask(post_with(target, "")).status, 200 | 400 | 429));
        assert!(!upstream.saw("login.php"), "{target} reached the upstream");
        assert!(!upstream.saw("#"), "a fragment is never sent on");
    }
}

/// D16: one script for everything.
#[test]
fn a_front_controllers_form_is_found_in_the_query() {
    let spellings = [
        "/index.php?page=login",
        "/?page=login",
        "/?a=b&page=login",
        "/?p%61ge=login",
        "/?page=l%6fgin",
        "/?page[]=login",
        "/?page=x&page=login",
        "/?PAGE=LOGIN",
        "/?a;page=login",
        "/index.php/x?page=login",
        "//?page=login",
        "/?+page=login",
        "/?page%00x=login",
        "/?page%5b%5d=login",
        "/?page=%6c%6f%67%69%6e",
    ];
    let upstream = Upstream::start();
    let tables = "[route.form]\nmatch = [\"POST /?page=login\", \"POST /index.php?page=login\"]\n\
                  [limit.address]\nrate = \"1 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    gate.drain("/?page=login", "");
    let missed: Vec<_> =
        spellings.into_iter().filter(|spelling| gate.ask(post_with(spelling, "")).status != 429).collect();
    assert!(missed.is_empty(), "{missed:?}");
    for other in ["/?page=news", "/", "/?q=page%3Dlogin"] {
        assert_eq!(gate.ask(post_with(other, "")).status, 200, "{other} is another page");
    }
    are_attempts(
        "POST /index.php/login",
        "/index.php/login",
        &["/index.php//login", "/index.php/%6cogin", "/INDEX.php/login/"],
    );
}

/// D16: PHP makes underscores of dots, blanks and a lone bracket in a name.
#[test]
fn a_parameters_name_is_read_as_php_reads_it() {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "POST /?do_login=1", "1 per 1h"));
    gate.drain("/?do_login=1", "");
    let queries = [
        "do.login=1",
        "do+login=1",
        "do%20login=1",
        "do%2elogin=1",
        "do[login=1",
        "do%5blogin=1",
        "do_login[x]=1",
        "Do_Login=1",
    ];
    let missed: Vec<_> = queries
        .into_iter()
        .filter(|query| gate.ask(post_with(&format!("/?{query}"), "")).status != 429)
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
}

/// D19: every method that can carry a form.
#[test]
fn every_method_that_can_carry_a_form_is_an_attempt() {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "POST /login.php", "1 per 1h"));
    gate.drain("/login.php", "");
    let with = |method: &str, target: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n")
    };
    for method in
        ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "Post", "INVENTED", "QUERY", "PROPFIND"]
    {
        assert_eq!(gate.ask(with(method, "/login.php")).status, 429, "{method}");
    }
    let queries = [
        "?user=a&password=b",
        "?pwd=x",
        "?USER_PASS=x",
        "?pass%77ord=x",
        "?user[password]=x",
        "?user%5Bpassword%5D=x",
        "?password[]=x",
    ];
    let missed: Vec<_> = queries
        .into_iter()
        .filter(|query| gate.ask(get_with(&format!("/login.php{query}"), "")).status != 429)
        .collect();
    assert!(missed.is_empty(), "{missed:?}");
    assert_eq!(gate.ask(get_with("/login.php", "")).status, 200, "the form itself can still be seen");
    let mut client = gate.connect();
    client.send("HEAD /login.php HTTP/1.1\r\nHost: app.test\r\n\r\n");
    assert_eq!(client.answer_to_head().status, 200);
}

/// D20: a GET that says it is a POST.
#[test]
fn a_method_override_makes_an_attempt_of_a_get() {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "POST /login.php", "1 per 1h"));
    gate.drain("/login.php", "");
    let headers = [
        "X-HTTP-Method-Override",
        "X-Method-Override",
        "X-HTTP-Method",
        "x-http-method-override",
        "X_HTTP_METHOD_OVERRIDE",
    ];
    for header in headers {
        let answer = gate.ask(get_with("/login.php", &format!("{header}: POST\r\n")));
        let harmless = answer.status == 200 && upstream.last().all(header).is_empty();
        assert!(answer.status == 429 || harmless, "{header}: {}", answer.status);
    }
    for query in ["?_method=POST", "?a&_method=put", "?%5fmethod=POST"] {
        assert_eq!(gate.ask(get_with(&format!("/login.php{query}"), "")).status, 429, "{query}");
    }
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, "PUT /session", "1 per 1h"));
    let put = "PUT /session HTTP/1.1\r\nHost: app.test\r\nContent-Length: 0\r\n\r\n";
    assert_eq!([gate.ask(put).status, gate.ask(put).status], [200, 429]);
    let overridden = post_with("/session", "X-HTTP-Method-Override: PUT\r\n");
    assert_eq!(gate.ask(overridden).status, 429, "a POST that says it is a PUT");
}

/// D24: overlapping routes: the first in the file counts, every time and after every start.
#[test]
fn the_first_route_that_matches_counts() {
    let upstream = Upstream::start();
    let tables = "[route.narrow]\nmatch = \"POST /a/login\"\nlimits = \"few\"\n\
                  [route.wide]\nmatch = \"POST /a/**\"\nlimits = \"many\"\n\
                  [limit.few]\nrate = \"1 per 1h\"\n[limit.many]\nrate = \"3 per 1h\"\n";
    for _ in 0..2 {
        let gate = Gate::start(&upstream.file(tables));
        let statuses = |target: &str| [0; 4].map(|_| gate.ask(post(target, "")).status);
        assert_eq!(statuses("/a/login"), [200, 429, 429, 429]);
        assert_eq!(statuses("/a/other"), [200, 200, 200, 429]);
    }
}

/// D24: a cheap route must not hide an expensive one behind a second reading.
#[test]
fn a_path_with_two_readings_pays_for_both_routes() {
    let upstream = Upstream::start();
    let tables = "[route.cheap]\nmatch = \"POST /open/**\"\nlimits = \"many\"\n\
                  [route.form]\nmatch = \"POST /login\"\nlimits = \"few\"\n\
                  [limit.few]\nrate = \"1 per 1h\"\n[limit.many]\nrate = \"1000 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    gate.drain("/login", "");
    for target in ["/open/..%2flogin", "/open/..;/login", "/open/%2e%2e%5clogin", "/open/%252e%252e/login"] {
        assert_eq!(gate.ask(post_with(target, "")).status, 429, "{target}");
    }
}

/// D24: no path takes long to match.
#[test]
fn matching_a_hostile_path_takes_no_time() {
    let upstream = Upstream::start();
    let tables = "[route.form]\nmatch = [\"POST /**/a/**/a/**/a/**/b\", \"POST /**/*/**/*/c\"]\n\
                  [limit.address]\nrate = \"1 per 1h\"\n";
    let gate = Gate::start(&upstream.file(tables));
    let hostile =
        ["/a".repeat(4000), "/a%2f\\;x".repeat(1000), "/%252e%255c..;".repeat(560), "/..".repeat(2700)];
    let time_of = |target: &str| {
        let started = Instant::now();
        let answer = gate.ask(post_with(target, ""));
        assert!(matches!(answer.status, 200 | 400 | 414 | 429 | 431), "{}", answer.status);
        started.elapsed()
    };
    for target in hostile {
        // What else the machine does is no fault of the path.
        let fastest = (0..3).map(|_| time_of(&target)).min().unwrap();
        assert!(fastest < Duration::from_millis(500), "{fastest:?} for {target:.20}");
    }
}

/// D24: anybody can add what the `when` of one route waits for, so it hides none of the routes behind it.
#[test]
fn what_a_route_waits_for_hides_no_other_route() {
    let baits = [
        ("basic", "/login", "Authorization: Basic eDp5\r\n", ""),
        ("form:pma_username", "/login", "", "&pma_username=x"),
        ("query:token", "/login?token=x", "", ""),
        ("header:X-Api-Key", "/login", "X-Api-Key: x\r\n", ""),
    ];
    for (when, target, header, field) in baits {
        let upstream = Upstream::start();
        let tables = format!(
            "[route.other]\nmatch = \"ANY /**\"\nwhen = \"{when}\"\nsuccess = {{ status = 200 }}\n\
             [route.form]\nmatch = \"POST /login\"\nuser = \"form:login\"\n\
             [limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\ncount = \"failures\"\n"
        );
        let gate = Gate::start(&upstream.file(&tables));
        let body = format!("login=margaret&pw=guess{field}");
        let request = format!(
            "POST {target} HTTP/1.1\r\nHost: app.test\r\n{header}Content-Type: application/x-www-form-urlencoded\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let passed = (0..10).filter(|_| gate.ask(request.as_bytes()).status == 200).count();
        assert_eq!(passed, 3, "{when}");
    }
}
