//! Which path is the form where servers add to it and leave out of it: the index of a directory, scripts, formats.
//!
//! `threats_routes.rs` has the spellings of one path, and that what is forwarded is what was sent.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "these are tests")]

use support::{Gate, Upstream, post, post_with};

fn file(upstream: &Upstream, pattern: &str) -> String {
    upstream.file(&format!("[route.form]\nmatch = '{pattern}'\n[limit.address]\nrate = \"1 per 1h\"\n"))
}

/// All of these are attempts at what `pattern` protects.
fn are_attempts(pattern: &str, plain: &str, spellings: &[&str]) {
    let upstream = Upstream::start();
    let gate = Gate::start(&file(&upstream, pattern));
    gate.drain(plain, "");
    let missed: Vec<_> = spellings.iter().filter(|s| gate.ask(post_with(s, "")).status != 429).collect();
    assert!(
        missed.is_empty(),
        "{} of {} are no attempts at {pattern}: {missed:?}",
        missed.len(),
        spellings.len()
    );
    assert_eq!(gate.ask(post_with("/elsewhere", "")).status, 200, "another path is not an attempt");
}

/// L4: the file that a server takes for a directory, in every spelling of the directory, and the directory in every
/// spelling of its file.
#[test]
fn the_index_of_a_directory_does_not_hide_a_form() {
    let directories = [
        "/admin/",
        "/admin",
        "//admin//",
        "/./admin/.",
        "/x/../admin/",
        "/admin/x/..",
        "/%61dmin/",
        "/admin%2f",
        "/admin/%2e",
        "/%2561dmin/",
        "/admin;a=b/",
        "/admin/;a",
        "/admin/..;/admin/",
        "/ADMIN/",
        "/admin\\",
        "/admin%5c",
        "/admin./",
        "/admin%20/",
        "/%EF%BD%81dmin/",
        "/../admin/",
        "/admin/?x",
        "/admin/%3fx",
    ];
    let scripts =
        ["/admin/index", "/admin/index.php/", "/admin/index.php/x", "/admin/index/x", "/admin/INDEX.PHP"];
    are_attempts("POST /admin/index.php", "/admin/index.php", &[&directories[..], &scripts].concat());
    let indexes = [
        "/admin/index.php",
        "/admin/index.html",
        "/admin/index.jsp",
        "/admin/index.cgi/x",
        "/admin/Default.aspx",
        "/admin/default.asp",
        "/admin/index",
        "/admin/%69ndex.php",
        "/admin/index.php;a",
        "/admin/index.php%20",
    ];
    are_attempts("POST /admin", "/admin", &[&directories[..], &indexes].concat());
    for name in ["index.html", "default.aspx", "Default.asp", "index.jsp", "home.php", "welcome.jsp", "index"]
    {
        are_attempts(&format!("POST /admin/{name}"), &format!("/admin/{name}"), &["/admin/", "/admin"]);
    }
    are_attempts(
        "POST /index.php?page=login",
        "/index.php?page=login",
        &["/?page=login", "/index?page=login"],
    );
    are_attempts("POST /?page=login", "/?page=login", &["/index.php?page=login", "/default.aspx?page=login"]);
    are_attempts("POST /*/index.php", "/a/index.php", &["/a/", "/b/", "/b/.", "/b%2f", "/b/;x"]);
}

/// L4: a format behind the path, as Rails, Grails, Spring, Symfony and Laravel take it.
#[test]
fn a_format_behind_a_path_does_not_hide_a_form() {
    let spellings = [
        "/users/sign_in.json",
        "/users/sign_in.xml",
        "/users/sign_in.anything",
        "/users/sign_in.a.b",
        "/users/sign_in%2ejson",
        "/users/sign_in.json/",
        "/users/sign_in.%6ason",
        "/users/sign_in.json;a",
        "/USERS/SIGN_IN.JSON",
        "/users/sign_in.json?x",
        "/users/sign_in.css",
    ];
    are_attempts("POST /users/sign_in", "/users/sign_in", &spellings);
    are_attempts(
        "POST /users/sign_in.json",
        "/users/sign_in.json",
        &["/users/sign_in", "/users/sign_in.xml"],
    );
    are_attempts("POST /oauth/token/**", "/oauth/token", &["/oauth/token.json", "/oauth/token.json/x"]);
}

/// L4: one script through which all paths go, before the path, and in the query.
#[test]
fn a_front_controller_does_not_hide_a_form() {
    let spellings = [
        "/index.php/login",
        "/index/login",
        "/app_dev.php/login",
        "/public/index.php/login",
        "/index.php//login/",
        "/index.php/%6cogin",
        "/index.php/login.json",
        "/%69ndex.php/login",
        "/x/../index.php/login",
        "/index.php;a/login",
        "/cgi-bin/app.cgi/login",
        "/service.svc/login",
    ];
    are_attempts("POST /login", "/login", &spellings);
    are_attempts("POST /app/login", "/app/login", &["/app/index.php/login", "/app/x.php/login"]);
    are_attempts("POST /index.php/login", "/index.php/login", &["/login", "/app.php/login", "/index/login/"]);
    let queries =
        ["/?q=user/login", "/?q=/user/login/", "/?q=user//login", "/?q=user%2Flogin", "/?Q=User/Login"];
    are_attempts("POST /?q=user/login", "/?q=user/login", &queries);
}

/// L4: what is left out of a pattern or a path must not make a form of everything.
#[test]
fn other_paths_than_the_form_stay_free() {
    let upstream = Upstream::start();
    let others = [
        ("POST /admin/index.php", "/admin/save"),
        ("POST /admin/index.php", "/admin/save.php"),
        ("POST /admin/index.php", "/admin/x/"),
        ("POST /", "/home.php"),
        ("POST /", "/save.php"),
        ("POST /login", "/logins"),
        ("POST /login", "/a/login"),
        ("POST /login", "/login-css"),
        ("POST /login.php", "/login.css"),
        ("POST /login.php", "/a.php"),
        ("POST /*/index.php", "/save"),
        ("POST /**/index.php", "/a/b/save"),
        ("POST /admin.php/**", "/other"),
    ];
    for (pattern, other) in others {
        let gate = Gate::start(&file(&upstream, pattern));
        assert_eq!(
            [gate.ask(post(other, "")).status, gate.ask(post(other, "")).status],
            [200, 200],
            "{pattern} {other}"
        );
    }
}
