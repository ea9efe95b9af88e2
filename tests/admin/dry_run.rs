//! What changes nothing: checks of a text, and explanations by the buckets in use.

use std::fs;

use serde_json::Value;

use crate::caller::{LOGIN, ask, ask_locally, attempts, gate, tollgate};
use support::Upstream;

#[test]
fn a_text_is_checked_and_not_taken() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let (status, good) =
        ask(&gate, "POST", "/api/v1/check", &format!("listen = \"http://[::]:1\"\n{}", upstream.file(LOGIN)));
    assert_eq!((status, &good["ok"]), (200, &Value::Bool(true)), "{good}");
    assert!(good["limits"][0]["worst_case"].as_str().unwrap().starts_with("address: at most 2"), "{good}");
    let (status, bad) = ask(&gate, "POST", "/api/v1/check", "listen = 1\nlisen = 2\n");
    assert_eq!((status, &bad["ok"]), (200, &Value::Bool(false)));
    let found = bad["diagnostics"].as_array().unwrap();
    assert!(
        found.iter().any(|found| found["text"].as_str().unwrap().contains("did you mean `listen`?")),
        "{bad}"
    );
    assert_eq!(ask(&gate, "POST", "/api/v1/check", "\u{0}").1["ok"], false);
    assert_eq!(gate.reloads(), (0, 0));
}

/// J8: a check over the network reads no file and no variable of the gate.
#[test]
fn a_text_cannot_be_used_to_read_files_or_variables() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let secret = gate.directory.join("secret");
    fs::write(&secret, "hunter2hunter2hunter2\n").unwrap();
    let path = secret.display();
    let text = format!(
        "listen = [\"http://[::]:1\", \"https://[::]:2\"]\n{}\n[networks]\na = [\"@{path}\"]\n[refuse]\ntext = \"{path}\"\n\
         [device]\nsecret = \"${{file:{path}}}\"\n[store]\nurl = \"redis://${{TOLLGATE_ADMIN__TOKEN}}@[::1]\"\n\
         secret = \"${{HOME}}\"\n[tls]\ncertificates = [{{ cert = \"{path}\", key = \"{path}\" }}]\n",
        upstream.file(LOGIN)
    );
    let (status, checked) = ask_locally(&gate, "POST", "/api/v1/check", &text);
    assert_eq!(status, 200);
    let said = checked.to_string();
    for private in ["hunter2", "0123456789abcdef", "/root", "no such file", "PEM"] {
        assert!(!said.contains(private), "{private} in {said}");
    }
    assert!(said.matches("was not read: the text is checked alone").count() >= 5, "{said}");
    let missing = ask_locally(&gate, "POST", "/api/v1/check", &text.replace("/secret", "/secreu")).1;
    let same = without_excerpts(&missing).replace("/secreu", "/secret");
    assert_eq!(same, without_excerpts(&checked), "it does not tell which files exist");
}

/// An answer without the excerpts of the text, which are cut to the width of a terminal.
fn without_excerpts(answer: &Value) -> String {
    let mut answer = answer.clone();
    for diagnostic in answer["diagnostics"].as_array_mut().unwrap() {
        diagnostic.as_object_mut().unwrap().remove("text").unwrap();
    }
    answer.to_string()
}

#[test]
fn a_request_is_explained_with_the_buckets_as_they_are() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    let client = [127, 3, 3, 3];
    let says = || {
        let body = r#"{"method":"POST","url":"/login","from":"127.3.3.3","headers":{"Accept":"text/html"}}"#;
        let (status, explained) = ask(&gate, "POST", "/api/v1/explain", body);
        assert_eq!(status, 200, "{explained}");
        let steps = explained["steps"].as_array().unwrap().clone();
        let line =
            |step: &Value| format!("{} {}", step["step"].as_str().unwrap(), step["says"].as_str().unwrap());
        steps.iter().map(line).collect::<Vec<_>>()
    };
    let has = |lines: &[String], words: &str| {
        assert!(lines.iter().any(|line| line.contains(words)), "{words}: {lines:?}")
    };
    for _ in 0..5 {
        has(&says(), "limit address: takes 1 token of 2 in its bucket of 2");
    }
    assert_eq!(attempts(&gate, client, 2), [200, 200], "an explanation takes nothing");
    has(&says(), "limit address: refuses 1 token of 0 in its bucket of 2 for ");
    has(&says(), "answer 429");
    has(&says(), "limit subnet: takes 1 token of 98");
    let (code, out, error) = tollgate(&gate, &["explain", "--live", "--from", "127.3.3.3", "POST", "/login"]);
    assert_eq!(code, Some(0), "{error}");
    assert!(out.contains("client    127.3.3.3, as told\n") && out.contains("refuses 1 token of 0"), "{out}");
    assert!(out.lines().last().unwrap().starts_with("answer    429"), "{out}");
    let (code, out, _) = tollgate(&gate, &["explain", "--live", "GET", "/"]);
    assert!(code == Some(0) && out.contains("route     none: forwarded and never counted"), "{out}");
}

#[test]
fn what_cannot_be_explained_is_refused() {
    let upstream = Upstream::start();
    let gate = gate(&upstream, LOGIN);
    for body in [
        "",
        "{}",
        r#"{"method":"POST"}"#,
        r#"{"method":"P T","url":"/"}"#,
        r#"{"method":"POST","url":"a b"}"#,
        r#"{"method":"POST","url":"/","from":"nowhere"}"#,
        r#"{"method":"POST","url":"/","headers":[]}"#,
        r#"{"method":"POST","url":"/","headers":{"a b":"c"}}"#,
        r#"{"method":"POST","url":"/","headers":{"a":"\n"}}"#,
    ] {
        assert_eq!(ask(&gate, "POST", "/api/v1/explain", body).0, 422, "{body}");
    }
    let answer = ask(&gate, "POST", "/api/v1/explain", r#"{"method":"POST","url":"/%zz"}"#);
    assert_eq!(answer.0, 200);
    assert!(answer.1.to_string().contains("400, because"), "{}", answer.1);
}
