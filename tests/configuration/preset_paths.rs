//! Every address at which an application takes a sign-in is charged by its preset, in all spellings that its router and
//! the servers before it take.
//!
//! `tests/preset_paths/PRESET.txt` has the addresses, and where each is known from. `takes:` names what the application's
//! router allows besides (a sub path, an index, a format behind the path), and all of it is multiplied. `mail:` stands
//! before a request by which the application writes to alice. Files in
//! `taken/` are spellings that a running application was seen to take, or a server without one (`# match:` is then
//! the route), written by `tests/apps/spellings.py`. What comes of an attempt is held in `tests/configuration/presets.rs`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use support::policy;

use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderValue, Method, header};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use tollgate::config::preset::presets;
use tollgate::config::{Sources, load};
use tollgate::policy::Policy;
use tollgate::policy::attempt::{Attempt, AttemptBody};
use tollgate::policy::field::{Half, values};

/// What the file of one preset says.
struct Known {
    preset: &'static str,
    takes: Vec<String>,
    requests: Vec<Request>,
    /// Those of them that make the application send a message.
    mails: Vec<Request>,
}

/// One sign-in: `METHOD TARGET KIND BODY`.
#[derive(Clone)]
struct Request {
    method: Method,
    target: String,
    kind: String,
    body: String,
}

impl Request {
    fn parse(line: &str) -> Self {
        let mut words = line.splitn(4, ' ');
        let method = words.next().unwrap().parse().unwrap();
        let target = words.next().unwrap().to_owned();
        let kind = words.next().unwrap_or("none").to_owned();
        let body = words.next().unwrap_or_default().trim_matches('-').to_owned();
        Self { method, target, kind, body }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let content_type = match &*self.kind {
            "form" => Some("application/x-www-form-urlencoded"),
            "json" => Some("application/json"),
            "xml" => Some("text/xml"),
            _ => None,
        };
        headers.extend(content_type.map(|kind| (header::CONTENT_TYPE, HeaderValue::from_static(kind))));
        if self.kind == "basic" {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic YWxpY2U6d3Jvbmc="));
        }
        headers
    }

    /// What is asked about it.
    fn ask<T>(&self, ask: impl FnOnce(&Attempt<'_>) -> T) -> T {
        let (path, query) =
            self.target.split_once('?').map_or((&*self.target, None), |(path, query)| (path, Some(query)));
        let headers = self.headers();
        ask(&Attempt {
            method: &self.method,
            query,
            body: AttemptBody::Whole(self.body.as_bytes()),
            ..policy::attempt(path, IpAddr::V4(Ipv4Addr::LOCALHOST), &headers)
        })
    }

    /// The routes that charge it.
    fn charged(&self, policy: &Policy) -> Vec<String> {
        let routes = self.ask(|attempt| policy.routes_of(attempt));
        routes.iter().map(|&route| policy.routes[route].name.to_string()).collect()
    }

    /// The recipients that pay for it at the route of messages.
    fn recipients(&self, policy: &Policy) -> Vec<Vec<u8>> {
        let mail = policy.routes.iter().find(|route| &*route.name == "site.mail").unwrap();
        let found = self.ask(|attempt| values(&mail.reading.user, Half::User, attempt).unwrap());
        found.iter().map(<[u8]>::to_vec).collect()
    }
}

impl Known {
    fn of(preset: &'static str) -> Self {
        let file = format!("tests/preset_paths/{preset}.txt");
        assert!(fs::exists(&file).unwrap(), "{file} is missing");
        let text = fs::read_to_string(&file).unwrap();
        let lines = || text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        assert!(lines().any(|line| line.starts_with("from: ")), "{file} says where it is known from");
        let takes = lines().find_map(|line| line.strip_prefix("takes: ")).unwrap();
        let takes = takes.split(',').map(|word| word.trim().to_owned()).collect();
        let requests = lines().filter(|line| !line.starts_with("from: ") && !line.starts_with("takes: "));
        let requests = requests.map(|line| Request::parse(line.trim_start_matches("mail: "))).collect();
        let mails = lines().filter_map(|line| line.strip_prefix("mail: ")).map(Request::parse).collect();
        Self { preset, takes, requests, mails }
    }

    /// The words behind a name in `takes:`; `None` if it is not there.
    fn takes(&self, name: &str) -> Option<Vec<&str>> {
        let found = self.takes.iter().find(|word| word.split(' ').next() == Some(name))?;
        Some(found.split(' ').skip(1).collect())
    }

    /// A request in every spelling.
    fn spellings(&self, request: &Request) -> BTreeSet<String> {
        let (path, query) = request
            .target
            .split_once('?')
            .map_or((&*request.target, String::new()), |(path, query)| (path, format!("?{query}")));
        let mut paths: Vec<String> = self.with_index(path);
        let each = |paths: Vec<String>, spell: &dyn Fn(&str) -> Vec<String>| -> Vec<String> {
            paths.iter().flat_map(|path| spell(path)).collect()
        };
        paths = each(paths, &|path| self.with_ending(path));
        paths = each(paths, &|path| self.with_front(path));
        paths = each(paths, &|path| disguised(path, self.takes("case").is_some()));
        paths.into_iter().map(|path| format!("{path}{query}")).collect()
    }

    /// With and without the index of a directory, which is the front controller as well.
    fn with_index(&self, path: &str) -> Vec<String> {
        let mut all = vec![path.to_owned()];
        for name in self.takes("index").into_iter().flatten() {
            let name = format!("/{name}");
            if let Some(directory) = path.strip_suffix(&name) {
                all.extend([format!("{directory}/"), format!("{directory}/index")]);
                all.extend((!directory.is_empty()).then(|| directory.to_owned()));
            } else if let Some((before, after)) = path.split_once(&format!("{name}/")) {
                all.push(format!("{before}/{after}"));
            }
        }
        all
    }

    fn with_ending(&self, path: &str) -> Vec<String> {
        let plain = path.strip_suffix('/').filter(|plain| !plain.is_empty());
        let path = plain.unwrap_or(path);
        let mut all = vec![path.to_owned()];
        if path == "/" {
            return all;
        }
        let formats =
            self.takes("suffix").map(|named| if named.is_empty() { FORMATS.to_vec() } else { named });
        all.extend(formats.into_iter().flatten().map(|format| format!("{path}.{format}")));
        let is_script =
            path.contains(".php") || path.contains(".owa") || path.contains(".dll") || path.contains(".asmx");
        let endings = [
            ("slash", &["/", "//"][..]),
            ("path-info", if is_script { &["/", "/x", "/x/y.css", "/x.php"] } else { &[] }),
            ("servlet", &[";jsessionid=1A", ";", "/"]),
            ("windows", &[".", "%20", "::$DATA", "/"]),
        ];
        for (name, endings) in endings {
            let endings = endings.iter().filter(|_| self.takes(name).is_some());
            all.extend(endings.map(|ending| format!("{path}{ending}")));
        }
        all
    }

    fn with_front(&self, path: &str) -> Vec<String> {
        let mut all = vec![path.to_owned()];
        for script in self.takes("script").into_iter().flatten() {
            all.extend([format!("/{script}{path}"), format!("/index{path}")]);
        }
        let before = |all: &[String], fronts: &[&str]| -> Vec<String> {
            fronts.iter().flat_map(|front| all.iter().map(move |path| format!("{front}{path}"))).collect()
        };
        if self.takes("locale").is_some() {
            all = before(&all, &["", "/de", "/en-us"]);
        }
        if self.takes("prefix").is_some() {
            all = before(&all, &["", "/app", "/a/b.c"]);
        }
        all
    }
}

/// A path as every server takes it.
fn disguised(path: &str, knows_no_case: bool) -> Vec<String> {
    let mut all = vec![path.to_owned(), format!("/{path}"), format!("/.{path}"), format!("/x/..{path}")];
    if let Some(at) = path
        .rfind('/')
        .map(|at| at + 1)
        .filter(|&at| path[at..].starts_with(|c: char| c.is_ascii_lowercase()))
    {
        all.push(format!("{}%{:02x}{}", &path[..at], path.as_bytes()[at], &path[at + 1..]));
    }
    if knows_no_case {
        all.push(path.to_uppercase());
    }
    all
}

const FORMATS: [&str; 5] = ["json", "xml", "html", "php", "anything"];

fn policy_of(preset: &str) -> Policy {
    policy_with(&format!("preset = \"{preset}\""))
}

/// A file with one route.
fn policy_with(route: &str) -> Policy {
    let text = format!(
        "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
         [route.site]\n{route}\n[limit.address]\nrate = \"10 per 5m\"\n"
    );
    load(&Sources::from_text(route, &text)).config.unwrap().policy
}

/// L4: index files, formats, front controllers, what follows a script, sub paths: of every preset, by its own router.
#[test]
fn every_spelling_that_an_application_routes_to_its_form_is_charged() {
    let (mut missed, mut table) = (Vec::new(), Vec::new());
    for preset in presets() {
        let (known, policy) = (Known::of(preset.name), policy_of(preset.name));
        let (mut all, mut lost) = (0, 0);
        for request in &known.requests {
            for target in known.spellings(request) {
                let request = Request { target, ..request.clone() };
                all += 1;
                if request.charged(&policy).is_empty() {
                    lost += 1;
                    missed.push(format!("{}: {} {}", known.preset, request.method, request.target));
                }
            }
        }
        table.push(format!("{:<14}{lost:>5} of {all:>5} missed", known.preset));
    }
    println!("{}", table.join("\n"));
    let shown: Vec<_> = missed.iter().step_by(1 + missed.len() / 60).cloned().collect();
    assert!(missed.is_empty(), "{}\n{}", table.join("\n"), shown.join("\n"));
}

/// Each form that sends a message, in every spelling, and whose budget it costs.
#[test]
fn a_form_that_sends_a_message_pays_for_its_recipient() {
    let (mut wrong, mut all) = (Vec::new(), 0);
    for preset in presets() {
        let (known, policy) = (Known::of(preset.name), policy_of(preset.name));
        assert_eq!(known.mails.is_empty(), !preset.sends_messages(), "{}", preset.name);
        for mail in &known.mails {
            for target in known.spellings(mail) {
                let request = Request { target, ..mail.clone() };
                let (routes, recipients) = (request.charged(&policy), request.recipients(&policy));
                let is_alice = |name: &[u8]| matches!(name, b"alice" | b"alice@example.org" | b"07700900001");
                all += 1;
                if !routes.contains(&"site.mail".to_owned()) || !recipients.iter().any(|name| is_alice(name))
                {
                    wrong.push(format!("{}: {} by {routes:?}", known.preset, request.target));
                }
            }
        }
    }
    assert!(all >= 1000, "only {all}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A lost password follows no sign-in, and a step that follows none pays from a bucket of the whole site.
#[test]
fn no_form_that_sends_a_message_to_a_named_recipient_is_a_second_step() {
    for preset in presets().iter().filter(|preset| preset.sends_messages()) {
        let policy = policy_of(preset.name);
        let mail = policy.routes.iter().find(|route| &*route.name == "site.mail").unwrap();
        assert!(mail.step.is_none(), "{}", preset.name);
    }
}

/// L4: a running application took these for its form.
#[test]
fn every_spelling_that_an_application_was_seen_to_take_is_charged() {
    let mut missed = Vec::new();
    let mut all = 0;
    for file in fs::read_dir("tests/preset_paths/taken").unwrap().map(|file| file.unwrap().path()) {
        let text = fs::read_to_string(&file).unwrap();
        let pattern = text.lines().find_map(|line| line.strip_prefix("# match: "));
        let preset = || policy_of(file.file_stem().unwrap().to_str().unwrap());
        let policy = pattern.map_or_else(preset, |pattern| policy_with(&format!("match = \"{pattern}\"")));
        for request in text.lines().filter(|line| !line.starts_with('#')).map(Request::parse) {
            all += 1;
            if request.charged(&policy).is_empty() {
                missed.push(format!("{}: {} {}", file.display(), request.method, request.target));
            }
        }
    }
    assert!(all >= 100, "only {all}");
    assert!(missed.is_empty(), "{} of {all} missed:\n{}", missed.len(), missed.join("\n"));
}

/// Looking at a form is free, in every spelling.
#[test]
fn a_form_that_is_only_looked_at_is_not_charged() {
    let mut charged = Vec::new();
    for preset in presets() {
        let (known, policy) = (Known::of(preset.name), policy_of(preset.name));
        let forms =
            known.requests.iter().filter(|request| request.method == Method::POST && request.kind != "basic");
        // What names the password in its query, and routes for programs that have no form, are attempts by GET as well.
        let forms = forms.filter(|form| {
            !form.target.contains("assword=") && !ANY.iter().any(|any| form.target.contains(any))
        });
        for form in forms {
            for target in known.spellings(form) {
                for method in [Method::GET, Method::HEAD] {
                    let look =
                        Request { method, target: target.clone(), kind: "none".into(), body: String::new() };
                    let routes = look.charged(&policy);
                    if !routes.is_empty() {
                        charged.push(format!("{}: {} {target} by {routes:?}", known.preset, look.method));
                    }
                }
            }
        }
    }
    assert!(charged.is_empty(), "{}", charged.join("\n"));
}

/// Routes that count GET as well.
const ANY: [&str; 3] = ["/login/token.php", "/simpleserver.php", "device?"];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// L4: any pattern, spelled by what servers and routers are known to do, one before the path, one at its end.
    #[test]
    fn no_spelling_by_these_rules_hides_a_form(
        directories in vec("[a-z]{1,5}", 0..3),
        name in "[a-z]{1,6}",
        kind in select(vec!["", ".php", ".json", "/index.php", "/default.aspx"]),
        front in select(vec!["", "/index.php", "/x.php", "/index", "/y/..", "/.", "/"]),
        at in 0..9_usize,
    ) {
        let plain: String = directories.iter().chain([&name]).map(|name| format!("/{name}")).collect();
        let form = format!("{plain}{kind}");
        let ends: &[&str] = match kind {
            "" => &["", ".json", ".x", "/index.php", "/index", "/Default.aspx", "/index.php/x", "/", ".php"],
            ".php" => &[".php", "", ".php/", ".php/x", ".PHP", ".php.", ".php;a", ".php%20", "%2ephp"],
            ".json" => &[".json", "", ".xml", "/", ".json/", ".x", ".JSON", ".%6ason", ".json;a"],
            _ => &["/", "", "//", "/.", "/;a", "%2f", "/x/..", "/%2e", "/./"],
        };
        let target = format!("{front}{plain}{}", ends[at]);
        let request = Request::parse(&format!("POST {target} none"));
        prop_assert!(!request.charged(&policy_with(&format!("match = \"POST {form}\""))).is_empty(), "{form} as {target}");
    }
}

/// What a client that sends Basic with every request is charged: once by the preset, whatever the method.
#[test]
fn a_client_with_basic_is_charged_once_by_any_method_and_without_it_never() {
    let basic = [
        "airflow",
        "basic",
        "cacti",
        "calibre-web",
        "dokuwiki",
        "drupal",
        "flask-security",
        "gitea",
        "gitlab",
        "grafana",
        "icingaweb2",
        "jenkins",
        "joomla",
        "kanboard",
        "nextcloud",
        "node-red",
        "octoprint",
        "owa",
        "phpldapadmin",
        "qbittorrent",
        "redmine",
        "roundup",
        "simplesamlphp",
        "tomcat",
        "webmin",
        "wordpress",
    ];
    let requests = [
        "GET /alice/repo.git/info/refs?service=git-upload-pack",
        "POST /alice/repo.git/git-receive-pack",
        "GET /remote.php/dav/files/alice/a.txt",
        "PROPFIND /remote.php/dav/files/alice",
        "OPTIONS /remote.php/dav/files/alice",
        "PUT /remote.php/dav/files/alice/a.txt",
        "OPTIONS /Microsoft-Server-ActiveSync",
        "POST /Microsoft-Server-ActiveSync?Cmd=FolderSync&User=alice",
    ];
    let mut wrong = Vec::new();
    for preset in basic {
        let policy = policy_of(preset);
        for line in requests {
            let with = Request::parse(&format!("{line} basic")).charged(&policy);
            let without = Request::parse(line).charged(&policy);
            println!("{preset:<11} {line:<62} {with:?} {without:?}");
            if with.len() != 1 || !without.is_empty() {
                wrong.push(format!("{preset}: {line}: {with:?}, without Basic {without:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
