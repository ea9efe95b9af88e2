//! What applications answered, held against the presets: the right endpoint, the right account, the right outcome.
//!
//! The answers are in `tests/recorded/APPLICATION/`, written by `tests/apps/recorded.py` from running applications. The
//! first lines of a file say what has to come of it: `# expect: success|failure|neutral|none` (`none` is no attempt),
//! `# door:` (one, or several), `# user:`, and `# spelling of:` where the application takes the name for that account.
//! Those in `tests/described/` are written by the application's source, where none can be run.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use std::fs;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tollgate::config::preset::presets;
use tollgate::config::{Sources, load};
use tollgate::policy::Policy;
use tollgate::policy::account::Account;
use tollgate::policy::attempt::{Attempt, AttemptBody, Client};
use tollgate::policy::field::{Half, values};
use tollgate::policy::outcome::Outcome;
use tollgate::policy::response::{BodyPrefix, ResponseView};

/// One file: a request, its answer, and what has to come of it.
struct Recorded {
    application: String,
    name: String,
    told: Vec<(String, String)>,
    method: Method,
    target: String,
    headers: HeaderMap,
    body: String,
    status: StatusCode,
    answer_headers: HeaderMap,
    answer_body: String,
}

impl Recorded {
    fn all() -> Vec<Self> {
        let mut all = Vec::new();
        let folders = ["tests/recorded", "tests/described"].map(|place| fs::read_dir(place).unwrap());
        for folder in folders.into_iter().flatten().map(|folder| folder.unwrap().path()) {
            let application = folder.file_name().unwrap().to_str().unwrap().to_owned();
            for file in fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
                let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
                all.push(Self::parse(&application, name, &fs::read_to_string(&file).unwrap()));
            }
        }
        all.sort_by_key(|one| (one.application.clone(), one.name.clone()));
        all
    }

    fn parse(application: &str, name: String, text: &str) -> Self {
        let told = text.lines().map_while(|line| line.strip_prefix("# "));
        let told = told.map(|note| note.split_once(':').unwrap());
        let told = told.map(|(key, value)| (key.to_owned(), value.trim().to_owned())).collect();
        let rest: Vec<_> = text.lines().skip_while(|line| line.starts_with("# ")).collect();
        let answered = rest.iter().position(|line| line.starts_with("HTTP/1.1 ")).unwrap();
        let (request, answer) = rest.split_at(answered);
        let (start, headers, body) = parts(request);
        let mut words = start.split(' ');
        let method = words.next().unwrap().parse().unwrap();
        let target = words.next().unwrap().to_owned();
        let (status, answer_headers, answer_body) = parts(answer);
        let status = status.split(' ').nth(1).unwrap().parse().unwrap();
        let application = application.to_owned();
        Self { application, name, told, method, target, headers, body, status, answer_headers, answer_body }
    }

    fn told(&self, key: &str) -> Option<&str> {
        self.told.iter().find(|(known, _)| known == key).map(|(_, value)| &**value)
    }

    /// The routes of the file that [`policy`] makes.
    fn endpoints(&self) -> Vec<String> {
        let doors = self.told("door").into_iter().flat_map(|doors| doors.split(' '));
        let endings = doors.map(|door| door.strip_prefix(&*self.application).unwrap());
        endings.map(|ending| format!("site{}", ending.replacen('-', ".", 1))).collect()
    }

    fn expected(&self) -> Option<Outcome> {
        match self.told("expect").unwrap() {
            "success" => Some(Outcome::Success),
            "failure" => Some(Outcome::Failure),
            "neutral" => Some(Outcome::Neutral),
            none => {
                assert_eq!(none, "none", "{}/{}", self.application, self.name);
                None
            }
        }
    }

    fn attempt(&self) -> Attempt<'_> {
        let (path, query) =
            self.target.split_once('?').map_or((&*self.target, None), |(path, query)| (path, Some(query)));
        Attempt {
            method: &self.method,
            path,
            query,
            host: "app.example",
            client: Client::Ip(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            headers: &self.headers,
            body: AttemptBody::Whole(self.body.as_bytes()),
            descriptor: None,
            tls: None,
        }
    }

    fn outcome(&self, policy: &Policy, route: usize) -> Outcome {
        let answer =
            ResponseView { method: &self.method, status: self.status, headers: &self.answer_headers };
        let seen = BodyPrefix { bytes: self.answer_body.as_bytes(), complete: true };
        let rules = &policy.routes[route].rules;
        rules.by_head(&answer).unwrap_or_else(|| rules.by_body(&answer, seen)).outcome
    }
}

/// The first line, the headers and the body of a message.
fn parts(lines: &[&str]) -> (String, HeaderMap, String) {
    let end = lines.iter().position(|line| line.is_empty()).unwrap_or(lines.len());
    let mut headers = HeaderMap::new();
    for line in &lines[1..end] {
        let (name, value) = line.split_once(':').unwrap();
        headers.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value.trim()).unwrap(),
        );
    }
    let body = lines.get(end + 1..).unwrap_or_default().join("\n");
    (lines[0].to_owned(), headers, body.trim_end_matches('\n').to_owned())
}

/// A file with nothing but this preset, as the route `site`.
fn policy(preset: &str) -> Policy {
    let text = format!(
        "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
         [route.site]\npreset = \"{preset}\"\n[limit.address]\nrate = \"10 per 5m\"\n"
    );
    let loaded = load(&Sources::from_text(preset, &text));
    let said: Vec<_> = loaded.diagnostics.iter().map(|found| found.render(false)).collect();
    assert!(said.is_empty(), "{preset}:\n{}", said.join("\n"));
    loaded.config.unwrap().policy
}

/// What is wrong with the recordings, one line each.
fn demand_none(wrong: impl Fn(&Recorded, &Policy) -> Option<String>) {
    let mut found = Vec::new();
    let recorded = Recorded::all();
    for one in &recorded {
        let wrong = wrong(one, &policy(&one.application));
        found.extend(wrong.map(|wrong| format!("{}/{}: {wrong}", one.application, one.name)));
    }
    assert!(recorded.len() >= 100, "only {}", recorded.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_preset_is_a_good_file_without_warnings() {
    for preset in presets() {
        let policy = policy(preset.name);
        assert!(policy.routes.iter().all(|route| &*route.application == "site"), "{}", preset.name);
        assert!(policy.routes.iter().any(|route| &*route.name == "site"), "{}", preset.name);
    }
}

/// D18: every sign-in endpoint of an application is known, at every address that the application takes for it.
#[test]
fn an_attempt_is_counted_at_its_endpoint_and_nothing_else_is() {
    demand_none(|one, policy| {
        let routes = policy.routes_of(&one.attempt());
        let names: Vec<&str> = routes.iter().map(|&route| &*policy.routes[route].name).collect();
        let expected = one.endpoints();
        (names != expected).then(|| format!("counted at {names:?}, not at {expected:?}"))
    });
}

/// D23: a wrong password that is answered 200, and a right one that is answered like a wrong one.
#[test]
fn an_answer_means_what_came_of_the_attempt() {
    demand_none(|one, policy| {
        let route = *policy.routes_of(&one.attempt()).first()?;
        let (outcome, expected) = (one.outcome(policy, route), one.expected()?);
        (outcome != expected).then(|| format!("{outcome:?}, not {expected:?}"))
    });
}

#[test]
fn the_account_is_found() {
    demand_none(|one, policy| {
        let attempt = one.attempt();
        let route = *policy.routes_of(&attempt).first()?;
        let found = values(&policy.routes[route].reading.user, Half::User, &attempt).unwrap();
        let found: Vec<_> =
            found.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect();
        let expected: Vec<_> = one.told("user").into_iter().map(str::to_owned).collect();
        // A form at an application that takes none names an account all the same: other applications take both.
        (found != expected && !expected.is_empty()).then(|| format!("about {found:?}, not {expected:?}"))
    });
}

/// F3: an application that takes many names for one account must not open a bucket for each. All names with markup
/// in them may share one.
#[test]
fn a_name_that_an_application_takes_for_another_is_the_same_account() {
    let odd = Account::fold(b"<b>somebody else");
    let mut wrong = Vec::new();
    for one in Recorded::all() {
        let (Some(name), Some(account)) = (one.told("user"), one.told("spelling of")) else { continue };
        let found = Account::fold(name.as_bytes());
        if found != Account::fold(account.as_bytes()) && found != odd {
            wrong.push(format!("{}: `{name}` has a bucket of its own beside `{account}`", one.application));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_preset_is_verified_only_if_answers_of_it_were_recorded() {
    let recorded = |name: &str| fs::exists(format!("tests/recorded/{name}")).unwrap();
    for preset in presets() {
        // What Tomcat answers to Basic is what `basic` is about.
        let verified = preset.origin().starts_with("verified: ");
        assert_eq!(verified, recorded(preset.name) || preset.name == "basic", "{}", preset.name);
    }
}
