//! `init --detect` at servers that answer as applications do, and at hostile ones.
//!
//! `tests/commands/detect/PRESET.http` has the beginning of each application's page with the sign-in, from running ones or
//! by their sources; what a wrong password gets is in `tests/recorded`.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;

use support::authority::Authority;
use support::{Folder, Reply, Request, Said, Upstream, binary, free_port};

/// A file with an answer, as it is sent.
fn sent(text: &str) -> Reply {
    let (head, body) = text.split_once("\n\n").unwrap_or((text.trim_end(), ""));
    let lines: Vec<&str> = head.lines().collect();
    Reply::text(&format!("{}\r\nContent-Length: {}\r\n\r\n{body}", lines.join("\r\n"), body.len()))
}

fn page(preset: &str) -> String {
    fs::read_to_string(format!("tests/commands/detect/{preset}.http")).unwrap()
}

/// What the application answers to a wrong password.
fn refusal(preset: &str) -> String {
    let recorded = fs::read_to_string(format!("tests/recorded/{preset}/wrong-password.http"));
    let answer = recorded.ok().map(|text| text[text.find("\nHTTP/1.1 ").unwrap() + 1..].to_owned());
    answer.unwrap_or_else(|| "HTTP/1.1 401 Unauthorized\nContent-Type: text/html\n\nWrong.".to_owned())
}

/// An application with its page everywhere, which takes one password.
fn application(page: String, wrong: String, right: &'static str) -> Upstream {
    Upstream::answering(move |request, _| {
        let text = String::from_utf8_lossy(request);
        match text.starts_with("GET ") && !text.contains("\r\nauthorization: ") {
            true => sent(&page),
            false if text.contains("open-sesame") => sent(right),
            false => sent(&wrong),
        }
    })
}

fn detect(folder: &Folder, upstream: &Upstream, options: &[&str]) -> Said {
    detect_with(folder, upstream, options, "")
}

fn detect_with(folder: &Folder, upstream: &Upstream, options: &[&str], input: &str) -> Said {
    let url = format!("http://{}/", upstream.address);
    let said = folder.run_in(&[&["init", "--detect", &url], options].concat(), &[], input);
    assert!(!said.err.contains(|c: char| c.is_control() && c != '\n'), "{:?}", said.err);
    said
}

fn posts(upstream: &Upstream) -> Vec<Request> {
    upstream.requests().into_iter().filter(|request| request.method == "POST").collect()
}

fn body(request: &Request) -> String {
    String::from_utf8(request.body.clone()).unwrap()
}

fn presets() -> Vec<String> {
    let files = fs::read_dir("tests/commands/detect").unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<_> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert!(names.len() >= 30);
    names
}

#[test]
fn every_application_is_recognised_and_no_other_presets_markers_are_on_its_page() {
    let mut wrong = Vec::new();
    for preset in presets() {
        let upstream = application(page(&preset), refusal(&preset), "HTTP/1.1 204 No Content");
        let folder = Folder::new();
        let said = detect(&folder, &upstream, &["-"]);
        let is_right = said.code == Some(0)
            && said.err.contains(&format!("/: the preset `{preset}`, by "))
            && !said.err.contains("weaker signs")
            && said.out.contains(&format!("\npreset = \"{preset}\""))
            && !said.out.contains("detect]");
        let is_proved =
            said.err.contains(", a failure, as it should be") || said.err.contains("not tried: any sign-in");
        let attempts = posts(&upstream).len();
        if !is_right || !is_proved || attempts > 1 || said.err.contains("warning") {
            wrong.push(format!("{preset}: {:?}, {attempts} attempts\n{}", said.code, said.err));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_written_is_what_a_preset_by_hand_gives() {
    let upstream = application(page("wordpress"), refusal("wordpress"), "HTTP/1.1 204 No Content");
    let (folder, by_hand) = (Folder::new(), Folder::new());
    let said = detect(&folder, &upstream, &["--device"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    let url = format!("http://{}", upstream.address);
    by_hand.run(&["init", "--preset", "wordpress", "--upstream", &url, "--device"]);
    assert_eq!(folder.read("config.toml"), by_hand.read("config.toml"));
    let check = folder.run(&["check"]);
    assert_eq!((check.code, &*check.err), (Some(0), ""));
}

#[test]
fn a_wrong_sign_in_is_sent_once_as_a_browser_would_with_an_account_of_nobody() {
    let upstream = application(page("allauth"), refusal("allauth"), "HTTP/1.1 204 No Content");
    let said = detect(&Folder::new(), &upstream, &[]);
    assert!(
        said.err.contains("a wrong password by POST /accounts/login/: answered 200, a failure"),
        "{}",
        said.err
    );
    assert!(said.err.contains("not tried: a right password; --user NAME tries one"), "{}", said.err);
    let [attempt] = &posts(&upstream)[..] else { panic!("one attempt") };
    let body = body(attempt);
    assert!(body.contains("csrfmiddlewaretoken=MMphcmYhBJbAlS9hWyTfpxDFxUB103r4"), "{body}");
    assert!(body.contains("&login=nobody-") && body.contains("&password=wrong-"), "{body}");
    assert!(!body.contains("remember"), "a box that nobody checked is not sent: {body}");
    assert_eq!(attempt.only("cookie"), "csrftoken=TBaYv2SqGrSq");
    let origin = format!("http://{}", upstream.address);
    assert_eq!(attempt.only("origin"), origin);
    assert!(attempt.only("referer").starts_with(&origin));
}

#[test]
fn a_list_and_the_button_of_a_form_are_sent_as_they_are() {
    for (preset, pairs) in [
        ("adminer", "auth%5Bdriver%5D=server"),
        ("zabbix", "autologin=1&enter=Sign%20in"),
        ("wordpress", "wp-submit=Log%20In&redirect_to=%2Fwp-admin%2F&testcookie=1"),
    ] {
        let upstream = application(page(preset), refusal(preset), "HTTP/1.1 204 No Content");
        detect(&Folder::new(), &upstream, &["-"]);
        let body = body(&posts(&upstream)[0]);
        assert!(body.contains(pairs), "{preset}: {body}");
    }
}

#[test]
fn a_form_that_a_script_sends_goes_where_the_preset_says() {
    let upstream = application(page("qbittorrent"), refusal("qbittorrent"), "HTTP/1.1 204 No Content");
    let said = detect(&Folder::new(), &upstream, &["-"]);
    assert!(said.err.contains(", a failure, as it should be"), "{}", said.err);
    let [attempt] = &posts(&upstream)[..] else { panic!("one attempt") };
    assert_eq!(attempt.target, "/api/v2/auth/login");
    assert!(body(attempt).starts_with("username=nobody-"), "{}", body(attempt));
}

#[test]
fn only_look_sends_no_sign_in() {
    let upstream = application(page("gitea"), refusal("gitea"), "HTTP/1.1 204 No Content");
    let said = detect(&Folder::new(), &upstream, &["--only-look"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("not tried: any sign-in (--only-look)"), "{}", said.err);
    assert_eq!((upstream.requests().len(), posts(&upstream).len()), (1, 0));
}

#[test]
fn the_right_password_comes_from_standard_input_and_its_answer_is_judged() {
    let right = "HTTP/1.1 302 Found\nLocation: /wp-admin/\nSet-Cookie: wordpress_logged_in_12=anna; path=/";
    for (input, words) in [
        ("open-sesame\n", "the password of anna: answered 302, a success"),
        ("mistyped\n", "warning: the password of anna: answered 200, which counts as a failure"),
    ] {
        let (folder, upstream) = (Folder::new(), application(page("wordpress"), refusal("wordpress"), right));
        let said = detect_with(&folder, &upstream, &["--user", "anna"], input);
        assert_eq!(said.code, Some(0), "{}", said.err);
        assert!(said.err.contains(words) && !said.err.contains(input.trim()), "{}", said.err);
        assert!(!folder.read("config.toml").contains(input.trim()));
        let attempts: Vec<_> = posts(&upstream).iter().map(body).collect();
        assert!(attempts.len() == 2 && attempts[1].starts_with("log=anna&"), "{attempts:?}");
    }
    let upstream = application(page("wordpress"), refusal("wordpress"), right);
    let said = detect(&Folder::new(), &upstream, &["--user", "anna"]);
    assert!(said.code == Some(1) && said.err.contains("no password came on standard input"), "{}", said.err);
}

#[test]
fn a_terminal_does_not_show_the_password() {
    let right = "HTTP/1.1 302 Found\nLocation: /wp-admin/\nSet-Cookie: wordpress_logged_in_12=anna; path=/";
    let (folder, upstream) = (Folder::new(), application(page("wordpress"), refusal("wordpress"), right));
    let url = format!("http://{}/", upstream.address);
    let (mut pty, pts) = pty_process::blocking::open().unwrap();
    let command = pty_process::blocking::Command::new(binary()).current_dir(&folder.0);
    let mut process = command.args(["init", "--detect", &url, "--user", "anna"]).spawn(pts).unwrap();
    let (mut seen, mut piece) = (String::new(), [0; 1024]);
    while let Ok(length @ 1..) = pty.read(&mut piece) {
        seen.push_str(&String::from_utf8_lossy(&piece[..length]));
        if seen.ends_with("Password of anna: ") {
            pty.write_all(b"open-sesame\n").unwrap();
        }
    }
    assert_eq!(process.wait().unwrap().code(), Some(0), "{seen}");
    assert!(seen.contains("the password of anna: answered 302, a success"), "{seen}");
    assert!(!seen.contains("sesame"), "{seen}");
}

#[test]
fn json_and_basic_are_tried_as_well() {
    let token = "HTTP/1.1 200 OK\nContent-Type: application/json\n\n{\"access_token\":\"a\"}";
    let upstream = application(page("synapse"), refusal("synapse"), token);
    let said = detect_with(&Folder::new(), &upstream, &["--user", "anna"], "open-sesame");
    assert!(said.err.contains("the password of anna: answered 200, a success"), "{}", said.err);
    assert!(body(&posts(&upstream)[1]).contains("\"user\":\"anna\""), "{}", body(&posts(&upstream)[1]));
    let refused = "HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Basic realm=\"x\"";
    let upstream = application(page("basic"), refused.to_owned(), "HTTP/1.1 200 OK");
    let said = detect(&Folder::new(), &upstream, &[]);
    assert!(said.err.contains("the preset `basic`, by header \"www-authenticate\""), "{}", said.err);
    assert!(said.err.contains("a wrong password by GET /: answered 401, a failure"), "{}", said.err);
    let octoprint = application(page("octoprint"), refusal("octoprint"), token);
    detect(&Folder::new(), &octoprint, &[]);
    assert_eq!(posts(&octoprint)[0].only("x-csrf-token"), "ImFiMWEy.awvakA");
}

#[test]
fn an_application_that_answers_any_password_like_the_right_one_gets_no_file() {
    let always = "HTTP/1.1 302 Found\nLocation: /wp-admin/\nSet-Cookie: wordpress_logged_in_12=x; path=/";
    let (folder, upstream) = (Folder::new(), application(page("wordpress"), always.to_owned(), always));
    let said = detect(&folder, &upstream, &[]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("would count as a success, so nothing is written"), "{}", said.err);
    assert!(!folder.0.join("config.toml").exists());
}

/// A server that refuses or breaks before it looks at the password proves no rule.
#[test]
fn an_answer_that_tells_nothing_about_passwords_is_said() {
    for status in ["404 Not Found", "429 Too Many Requests", "503 Service Unavailable"] {
        let upstream = application(page("wordpress"), format!("HTTP/1.1 {status}"), "HTTP/1.1 200 OK");
        let said = detect(&Folder::new(), &upstream, &["-"]);
        assert!(said.code == Some(0) && said.err.contains("the rules are not proved"), "{}", said.err);
    }
}

#[test]
fn two_presets_that_match_equally_are_both_named_and_none_is_chosen() {
    let both =
        page("grafana").replace("<div id=\"reactRoot\">", "<title>Node-RED</title><title>pgAdmin 4</title>");
    let both = both.replace("grafanaBootData", "other");
    let (folder, upstream) = (Folder::new(), application(both, refusal("grafana"), "HTTP/1.1 200 OK"));
    let said = detect(&folder, &upstream, &[]);
    assert_eq!(said.code, Some(1));
    for name in
        ["`grafana` (by page", "`node-red` (by page", "`pgadmin` (by page", "choose with --preset NAME"]
    {
        assert!(said.err.contains(name), "{name}: {}", said.err);
    }
    assert!(posts(&upstream).is_empty() && !folder.0.join("config.toml").exists());
}

const FORM: &str = "HTTP/1.1 200 OK\nContent-Type: text/html\nSet-Cookie: token=1\n\n<form action=/enter method=post>\
                    <input type=hidden name=csrf value=c1><input name=who type=text><input type=password name=secret>\
                    <button name=go value=1>In</button></form>";

#[test]
fn an_unknown_form_gets_a_route_whose_rules_come_from_both_answers() {
    let wrong = "HTTP/1.1 302 Found\nLocation: /enter?wrong=1";
    let right = "HTTP/1.1 302 Found\nLocation: /home\nSet-Cookie: sid=abc; HttpOnly";
    let (folder, upstream) = (Folder::new(), application(FORM.to_owned(), wrong.to_owned(), right));
    let said = detect_with(&folder, &upstream, &["--user", "anna"], "open-sesame\n");
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("the password of anna: answered 302, a success"), "{}", said.err);
    let file = folder.read("config.toml");
    for line in [
        "match = \"POST /enter\"",
        "user = \"form:who\"",
        "password = \"form:secret\"",
        "failure = [{ location = \"*/enter*\" }, { status = 500 }]",
        "success = { status = 302, set_cookie = \"sid\" }",
        "otherwise = \"failure\"",
        "count = \"failures\"",
    ] {
        assert!(file.lines().any(|written| written == line), "{line} is not in\n{file}");
    }
    let check = folder.run(&["check"]);
    assert_eq!((check.code, &*check.err), (Some(0), ""));
}

/// Else the second wrong answer would become the rule for a success.
#[test]
fn a_mistyped_password_at_an_unknown_form_makes_no_rule() {
    let counted = "HTTP/1.1 200 OK\nSet-Cookie: attempts=2\n\nWrong.";
    for (wrong, second) in [
        ("HTTP/1.1 200 OK\n\nWrong.", counted),
        (
            "HTTP/1.1 302 Found\nLocation: /in?error=1",
            "HTTP/1.1 302 Found\nLocation: /in?error=2\nSet-Cookie: n=2",
        ),
        ("HTTP/1.1 200 OK\n\nWrong.", "HTTP/1.1 429 Too Many Requests"),
        ("HTTP/1.1 403 Forbidden", "HTTP/1.1 503 Service Unavailable\nSet-Cookie: a=b"),
    ] {
        let (folder, upstream) = (Folder::new(), application(FORM.to_owned(), wrong.to_owned(), second));
        let said = detect_with(&folder, &upstream, &["--user", "anna"], "open-sesame");
        assert!(
            said.code == Some(0) && said.err.contains("No answer is taken for a success"),
            "{}",
            said.err
        );
        assert!(!folder.read("config.toml").contains("\nsuccess = "), "{second}");
    }
}

#[test]
fn an_unknown_form_without_a_right_password_takes_no_answer_for_a_success() {
    for options in [&[][..], &["--only-look"]] {
        let refused = "HTTP/1.1 403 Forbidden".to_owned();
        let (folder, upstream) = (Folder::new(), application(FORM.to_owned(), refused, "HTTP/1.1 200 OK"));
        let said = detect(&folder, &upstream, options);
        assert_eq!(said.code, Some(0), "{}", said.err);
        let file = folder.read("config.toml");
        assert!(file.contains("\notherwise = \"failure\"\n") && !file.contains("\nsuccess = "), "{file}");
        assert_eq!(folder.run(&["check"]).code, Some(0));
    }
}

#[test]
fn a_form_behind_a_link_is_found() {
    let upstream =
        Upstream::answering(|request, _| match String::from_utf8_lossy(request).split(' ').nth(1).unwrap() {
            "/" => {
                sent("HTTP/1.1 200 OK\n\n<a href='/help'>Help</a><a href='members/Log-In?x=1'>Sign in</a>")
            }
            "/members/Log-In?x=1" => sent(FORM),
            _ => sent("HTTP/1.1 404 Not Found"),
        });
    let said = detect(&Folder::new(), &upstream, &["-"]);
    assert!(said.code == Some(0) && said.out.contains("match = \"POST /enter\""), "{}", said.err);
}

/// Names and addresses that would mean something in a file or on a terminal.
#[test]
fn a_hostile_page_can_write_nothing_of_its_own() {
    let form = |action: &str, user: &str, password: &str| {
        format!(
            "HTTP/1.1 200 OK\n\n<form method=post action='{action}'><input name='{user}'>\
             <input type=password name='{password}'></form>"
        )
    };
    for (action, user, password) in [
        ("/in", "a", "p&quot;&#10;[admin]&#10;token = &quot;x"),
        ("/in", "a", "${file:/etc/passwd}"),
        ("/in", "a", "p\u{1b}[2J"),
        ("/in", "a", "\u{202e}p"),
        ("/in", "a", &"p".repeat(100_000)),
        ("/**", "a", "p"),
        ("/in&quot;&#10;x", "a", "p"),
        ("/a;b\u{1b}[2J", "a", "p"),
        ("https://evil.test/in", "a", "p"),
        ("//evil.test/in", "a", "p"),
        ("javascript:alert(1)", "a", "p"),
    ] {
        let page = form(action, user, password);
        let (folder, upstream) = (Folder::new(), application(page, FORM.to_owned(), "HTTP/1.1 200 OK"));
        let said = detect(&folder, &upstream, &[]);
        assert_eq!(said.code, Some(1), "{action} {password:.40}: {}", said.err);
        assert!(posts(&upstream).is_empty() && !folder.0.join("config.toml").exists());
        assert!(said.err.len() < 2000, "{}", said.err);
    }
    // A name that cannot be written is left out, the rest stays.
    let upstream = application(form("/in", "a\"b", "p"), FORM.to_owned(), "HTTP/1.1 200 OK");
    let said = detect(&Folder::new(), &upstream, &["-", "--only-look"]);
    assert!(said.code == Some(0) && !said.out.contains("user = \"form:"), "{}\n{}", said.err, said.out);
}

#[test]
fn a_hostile_server_is_left_after_a_few_requests() {
    let links: String = (0..5000).map(|number| format!("<a href='/login{number}'>x</a>")).collect();
    let maze = format!("HTTP/1.1 200 OK\n\n{links}");
    let (folder, upstream) = (Folder::new(), application(maze, FORM.to_owned(), "HTTP/1.1 200 OK"));
    let said = detect(&folder, &upstream, &[]);
    assert!(said.code == Some(1) && said.err.contains("no preset's markers and no form"), "{}", said.err);
    assert!((2..=15).contains(&upstream.requests().len()), "{}", upstream.requests().len());
    for (answer, words) in [
        ("HTTP/1.1 302 Found\nLocation: /", "is redirected more than 4 times"),
        ("HTTP/1.1 302 Found\nLocation: https://evil.test/\u{9b}2J\u{202e}", "name that address"),
        ("HTTP/1.1 302 Found\nLocation: //evil.test/", "is redirected to //evil.test/"),
    ] {
        let upstream = application(answer.to_owned(), FORM.to_owned(), "HTTP/1.1 200 OK");
        let said = detect(&folder, &upstream, &[]);
        assert!(said.code == Some(1) && said.err.contains(words), "{}", said.err);
        assert!(upstream.requests().len() <= 5);
    }
    let huge = format!("HTTP/1.1 200 OK\n\n{}", "x".repeat(3 << 20));
    let upstream = application(huge, FORM.to_owned(), "HTTP/1.1 200 OK");
    let said = detect(&folder, &upstream, &[]);
    assert!(said.code == Some(1) && said.err.contains("its answer is longer than 2 MiB"), "{}", said.err);
}

#[test]
fn a_server_that_cannot_be_asked_is_an_error() {
    let folder = Folder::new();
    let detect = |url: &str| folder.run(&["init", "--detect", url]);
    let nobody = format!("http://127.0.0.1:{}/", free_port());
    let said = detect(&nobody);
    assert!(
        said.code == Some(1) && said.err.contains(&format!("cannot look at {nobody}: cannot connect")),
        "{}",
        said.err
    );
    let smtp = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = smtp.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in smtp.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"220 mail.test ESMTP\r\n");
        }
    });
    let said = detect(&format!("http://{address}/"));
    // The greeting comes before the request or after it.
    let is_said = said.err.contains("it does not speak HTTP") || said.err.contains("is it a web server?");
    assert!(said.code == Some(1) && is_said, "{}", said.err);
    let said = detect(&format!("https://{address}/"));
    assert!(said.code == Some(1) && said.err.contains("cannot connect"), "{}", said.err);
    for wrong in ["app.test", "ftp://app.test/", "http:///x", "http://anna:secret@app.test/"] {
        let said = detect(wrong);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{wrong}: {}", said.err);
    }
    for words in [&["--user", "anna"][..], &["--only-look"], &["--detect", &nobody, "--preset", "wordpress"]]
    {
        assert_eq!(folder.run(&[&["init"], words].concat()).code, Some(2), "{words:?}");
    }
    assert!(!folder.0.join("config.toml").exists());
}

#[test]
fn a_file_that_is_there_stays_and_nobody_is_asked() {
    let folder = Folder::new();
    fs::write(folder.0.join("config.toml"), "mine").unwrap();
    let upstream = application(page("wordpress"), refusal("wordpress"), "HTTP/1.1 200 OK");
    let said = detect(&folder, &upstream, &[]);
    assert!(said.code == Some(1) && said.err.contains("exists already"), "{}", said.err);
    assert_eq!((folder.read("config.toml").as_str(), upstream.requests().len()), ("mine", 0));
}

#[test]
fn an_application_over_tls_is_checked_by_the_file_that_is_named() {
    let upstream = application(page("wordpress"), refusal("wordpress"), "HTTP/1.1 200 OK");
    let authority = Authority::new();
    let gate = authority.gate(&["127.0.0.1"], &upstream.file(support::ONE_AN_HOUR));
    let (folder, url) = (Folder::new(), format!("https://{}/", gate.tls));
    let said = folder.run(&["init", "--detect", &url]);
    assert!(said.code == Some(1) && said.err.contains("certificate"), "{}", said.err);
    fs::write(folder.0.join("internal.pem"), &authority.pem).unwrap();
    let said = folder.run(&["init", "--detect", &url, "--upstream-ca", "internal.pem"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let file = folder.read("config.toml");
    assert!(file.contains(&format!("upstream = \"https://{}\"", gate.tls)), "{file}");
    assert!(file.lines().any(|line| line.starts_with("tls.upstream_ca = \"/")), "{file}");
    let check = folder.run(&["check"]);
    assert_eq!((check.code, &*check.err), (Some(0), ""));
}
