//! `trust update`: lists of proxies' networks from real servers, and what the command makes of broken ones.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::fs;
use std::os::unix::fs::PermissionsExt;

use support::authority::Authority;
use support::{Folder, ONE_AN_HOUR, Reply, Said, Upstream, root};

/// The networks of Fastly that come with the program, IPv4 first.
fn own_list() -> Vec<String> {
    let text = fs::read_to_string(root().join("assets/proxies/fastly.txt")).unwrap();
    text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect()
}

/// The same with a network more and one less.
fn changed_list() -> Vec<String> {
    let mut list = own_list();
    assert_eq!(list[0], "23.235.32.0/20");
    list[0] = ADDED.to_owned();
    list
}

/// As Fastly answers.
fn json(list: &[String]) -> String {
    let of_family =
        |is_v6: bool| -> Vec<&String> { list.iter().filter(|net| net.contains(':') == is_v6).collect() };
    format!("{{\"addresses\":{:?},\"ipv6_addresses\":{:?}}}", of_family(false), of_family(true))
}

fn answer(status: &str, head: &str, body: &str) -> Reply {
    let length = body.len();
    Reply::text_and_close(&format!("HTTP/1.1 {status}\r\n{head}Content-Length: {length}\r\n\r\n{body}"))
}

/// A publisher, good and bad, by path.
fn publisher() -> Upstream {
    Upstream::answering(|request, _| {
        let ok = |body: &str| answer("200 OK", "Content-Type: application/json\r\n", body);
        let moved = |to: &str| answer("301 Moved Permanently", &format!("Location: {to}\r\n"), "");
        let good = json(&changed_list());
        match String::from_utf8_lossy(request).split(' ').nth(1).unwrap() {
            "/good" => ok(&good),
            "/own" => ok(&json(&own_list())),
            "/lines" => ok(&own_list().join("\r\n")),
            "/moved" => moved("/moved/"),
            "/moved/" => moved("/good"),
            "/round" => moved("/round"),
            "/elsewhere" => moved("http://127.0.0.9/good"),
            "/empty" => ok(""),
            "/html" => ok("<!DOCTYPE html>\n<html><body>Just a moment...</body></html>"),
            "/truncated" => ok(&good[..good.len() / 2]),
            "/broken-off" => {
                Reply::text_and_close("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{\"addresses\":[")
            }
            "/large" => ok(&format!("{good}{}", " ".repeat(16 << 20))),
            "/shrunk" => ok(&json(&[&own_list()[..2], &own_list()[own_list().len() - 2..]].concat())),
            "/without-ipv6" => ok(&good.replace("2a04:", "#")),
            "/private" => ok(&good.replace(ADDED, "10.0.0.0/8")),
            "/wide" => ok(&good.replace(ADDED, "8.0.0.0/8")),
            "/error" => answer("503 Service Unavailable", "", &good),
            _ => answer("404 Not Found", "", &good),
        }
    })
}

/// A directory with a configuration that trusts Fastly.
fn site() -> Folder {
    let folder = Folder::new();
    let file = "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:8081\"\n[client]\ntrust = \"@fastly\"\n";
    fs::write(folder.0.join("config.toml"), format!("{file}{ONE_AN_HOUR}")).unwrap();
    folder
}

fn update_from(folder: &Folder, publisher: &Upstream, path: &str, options: &[&str]) -> Said {
    let url = format!("http://{}{path}", publisher.address);
    folder.run(&[&["trust", "update", "fastly", "--url", &url], options].concat())
}

/// Whom the gate takes for the client if this peer names another.
fn client_behind(folder: &Folder, peer: &str) -> String {
    let said = folder.run(&["explain", "--peer", peer, "-H", "X-Forwarded-For: 198.51.100.7", "/login"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.out.lines().next().unwrap().to_owned()
}

#[test]
fn a_good_answer_is_written_and_counts() {
    let (folder, publisher) = (site(), publisher());
    assert!(client_behind(&folder, "23.235.32.1").contains("198.51.100.7"));
    assert!(!client_behind(&folder, "8.8.8.8").contains("198.51.100.7"));
    let said = update_from(&folder, &publisher, "/good", &[]);
    assert_eq!((said.code, &*said.err), (Some(0), ""), "{}", said.out);
    let count = own_list().len();
    assert!(
        said.out.starts_with(&format!("fastly: {count} networks, 1 added, 1 removed, in ")),
        "{}",
        said.out
    );
    assert!(said.out.ends_with(&format!("+ {ADDED}\n- 23.235.32.0/20\n")), "{}", said.out);
    assert!(!client_behind(&folder, "23.235.32.1").contains("198.51.100.7"));
    assert!(client_behind(&folder, "8.8.8.8").contains("198.51.100.7"));
    let file = folder.0.join(FILE);
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o644, "the gate's user reads it");
    assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "nothing is left over");
    for (path, changes) in [("/good", "0 added, 0 removed"), ("/moved", "0 added"), ("/lines", "1 added")] {
        let said = update_from(&folder, &publisher, path, &[]);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{path}");
        assert!(said.out.contains(changes), "{path}: {}", said.out);
    }
}

#[test]
fn a_bad_answer_leaves_the_list_as_it_was() {
    let (folder, publisher) = (site(), publisher());
    assert_eq!(update_from(&folder, &publisher, "/good", &[]).code, Some(0));
    let before = folder.read(FILE);
    for (path, why) in [
        ("/elsewhere", "redirected to another host: http://127.0.0.9/good"),
        ("/round", "redirected more than 3 times"),
        ("/empty", "it has no network"),
        ("/html", "line 1: `<!DOCTYPE html>` is not an address or a prefix"),
        ("/truncated", "it is not JSON"),
        ("/broken-off", "fastly"),
        ("/large", "its answer is too long"),
        ("/shrunk", "it has 2 networks of IPv4, less than half of 19: if that is right, --force takes it"),
        ("/without-ipv6", "is not an address or a prefix"),
        ("/private", "10.0.0.0/8 is not public"),
        ("/wide", "8.0.0.0/8 is too wide"),
        ("/error", "the answer is 503"),
        ("/nothing", "the answer is 404"),
    ] {
        for options in [&[][..], &["--force"]] {
            if path == "/shrunk" && !options.is_empty() {
                continue;
            }
            let said = update_from(&folder, &publisher, path, options);
            assert_eq!((said.code, &*said.out), (Some(1), ""), "{path}");
            assert!(said.err.starts_with("tollgate: @fastly is left as it was: "), "{path}: {}", said.err);
            assert!(said.err.contains(why), "{path}: {}", said.err);
            assert_eq!(folder.read(FILE), before, "{path}");
        }
    }
    let said = update_from(&folder, &publisher, "/shrunk", &["--force"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let fresh = site();
    assert_eq!(update_from(&fresh, &publisher, "/html", &[]).code, Some(1));
    assert!(!fresh.0.join(FILE).exists());
}

#[test]
fn a_server_that_proves_its_name_is_asked_and_no_other() {
    let (authority, publisher) = (Authority::new(), publisher());
    let server = authority.gate(&["localhost"], &publisher.file(ONE_AN_HOUR));
    let folder = site();
    let url = format!("https://localhost:{}/moved", server.tls.port());
    let words = ["trust", "update", "fastly", "--url", &url];
    for (roots, code) in [(Authority::new().pem, 1), (authority.pem, 0)] {
        fs::write(folder.0.join("roots.pem"), roots).unwrap();
        let said = folder.run_in(&words, &[("SSL_CERT_FILE", "roots.pem")], "");
        assert_eq!(said.code, Some(code), "{}", said.err);
        assert_eq!(folder.0.join(FILE).exists(), code == 0);
    }
}

#[test]
fn a_file_is_read_and_keeps_its_date() {
    let folder = site();
    let list = |date: &str| format!("{date}{}\n", changed_list().join("\n"));
    for (name, text) in [
        ("old.txt", list("# current on: 2020-01-31\n")),
        ("copied.txt", list("# current on: 2026-11-01\n")),
        ("fetched.json", json(&own_list())),
    ] {
        fs::write(folder.0.join(name), text).unwrap();
    }
    let update = |file: &str| folder.run(&["trust", "update", "@fastly", "--from", file]);
    let said = update("old.txt");
    assert_eq!((said.code, &*said.out), (Some(1), ""));
    assert!(said.err.contains("the list is of 2020-01-31, and the one in use of "), "{}", said.err);
    assert_eq!(update("missing.txt").code, Some(1));
    let said = update("copied.txt");
    assert_eq!((said.code, &*said.err), (Some(0), ""), "{}", said.out);
    assert!(folder.read(FILE).contains("\n# current on: 2026-11-01\n"));
    assert_eq!(update("fetched.json").code, Some(0), "it is of today");
}

#[test]
fn a_broken_file_is_told_by_check_and_does_not_count() {
    let folder = site();
    fs::create_dir(folder.0.join("proxies")).unwrap();
    fs::write(folder.0.join(FILE), "# current on: 2026-11-01\n8.8.8.0/24\n10.0.0.0/8\n").unwrap();
    let said = folder.run(&["check"]);
    assert_eq!(said.code, Some(0));
    assert!(said.err.contains("is not used: line 3: 10.0.0.0/8 is not public"), "{}", said.err);
    assert!(!client_behind(&folder, "8.8.8.8").contains("198.51.100.7"));
    assert!(client_behind(&folder, "23.235.32.1").contains("198.51.100.7"));
}

#[test]
fn a_list_for_people_only_is_left_alone() {
    let folder = site();
    let said = folder.run(&["trust", "update", "google"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(said.out.starts_with("google: there is only a page for people, https://"), "{}", said.out);
    assert!(!folder.0.join("proxies").exists());
}

#[test]
fn names_and_options_that_do_not_fit_are_usage_errors() {
    let folder = site();
    for (words, code, why) in [
        (&["cloudflair"][..], 2, "did you mean `cloudflare`?"),
        (&["--from", "list.txt"], 2, "NAME"),
        (&["--url", "https://mirror.test/"], 2, "NAME"),
        (&["fastly", "--url", "http://mirror.test/"], 2, "write https://HOST/PATH"),
        (&["fastly", "--url", "https://mirror.test/", "--from", "list.txt"], 2, "cannot be used with"),
        (&["fastly", "bunny", "--from", "list.txt"], 1, "one name at a time"),
    ] {
        let said = folder.run(&[&["trust", "update"], words].concat());
        assert_eq!((said.code, &*said.out), (Some(code), ""), "{words:?}: {}", said.err);
        assert!(said.err.contains(why), "{words:?}: {}", said.err);
    }
    let file = folder.read("config.toml").replace("@fastly", "10.0.0.5");
    fs::write(folder.0.join("config.toml"), file).unwrap();
    let said = folder.run(&["trust", "update"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""));
    assert!(said.err.contains("there is nothing to fetch"), "{}", said.err);
}

/// A network that is not Fastly's.
const ADDED: &str = "8.8.8.0/24";
const FILE: &str = "proxies/fastly.txt";
