//! What people see of `check`, `explain` and `init`, through the built program: words, files and exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests may fail like tests")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::{binary, new_directory};

/// What a run of the program said, and how it ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A directory that is gone at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(new_directory())
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Said {
        self.run_in(arguments, &[], "")
    }

    /// The same with these variables and this standard input.
    pub(crate) fn run_in(&self, arguments: &[&str], environment: &[(&str, &str)], input: &str) -> Said {
        let mut command = Command::new(binary());
        command.current_dir(&self.0).args(arguments).env_remove("TOLLGATE_CONFIG");
        command.envs(environment.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        // A command that does not read its input may have ended.
        let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
        let output = process.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    /// A file with these limits, and what `explain` says about an attempt on its form.
    fn explain(&self, limits: &str, options: &[&str]) -> String {
        let route = "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
                     [route.login]\nmatch = \"POST /login\"\n";
        fs::write(self.0.join("config.toml"), format!("{route}{limits}")).unwrap();
        let said = self.run(&[&["explain"], options, &["POST", "/login"]].concat());
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        said.out
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn sets() -> Vec<String> {
    let names = fs::read_dir("presets/limits").unwrap().map(|entry| entry.unwrap().path());
    names.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn init_writes_a_file_that_check_has_nothing_to_say_against() {
    for set in sets() {
        let folder = Folder::new();
        let said = folder.run(&["init", "--limits", &set]);
        assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
        assert!(said.err.contains("config.toml is written"), "{}", said.err);
        let said = folder.run(&["check"]);
        assert_eq!((said.code, &*said.err), (Some(0), ""), "{set}");
        for limit in ["address: ", "address.24: ", "address.16: ", "login: one address: at most "] {
            assert!(said.out.lines().any(|line| line.starts_with(limit)), "{set}: {}", said.out);
        }
        assert!(said.out.ends_with("config.toml: valid, no warnings\n"), "{set}: {}", said.out);
    }
}

#[test]
fn init_takes_a_preset_in_place_of_patterns() {
    let folder = Folder::new();
    let said = folder.run(&["init", "--preset", "wordpress"]);
    assert_eq!((said.code, &*said.out), (Some(0), ""), "{}", said.err);
    assert_eq!(folder.run(&["check"]).code, Some(0));
    let said = folder.run(&["explain", "POST", "http://localhost/blog/wp-login.php"]);
    assert!(said.out.contains("wordpress") || said.out.contains("login"), "{}", said.out);
    let said = folder.run(&["init", "--preset", "wordpres", "-"]);
    assert!(said.code == Some(2) && said.err.contains("did you mean `wordpress`"), "{}", said.err);
}

#[test]
fn every_set_on_disk_can_be_chosen_and_is_listed_with_its_worst_cases() {
    let folder = Folder::new();
    let said = folder.run(&["init", "--list"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(sets().len() >= 3);
    for set in sets() {
        assert!(said.out.lines().any(|line| line.starts_with(&format!("{set} "))), "{}", said.out);
    }
    assert_eq!(said.out.matches("\n  address: at most ").count(), sets().len(), "{}", said.out);
    assert_eq!(said.out.matches("\n  login: one address: at most ").count(), sets().len());
    assert!(!folder.0.join("config.toml").exists(), "listing writes nothing");
}

#[test]
fn init_never_overwrites_a_file() {
    let folder = Folder::new();
    for name in ["config.toml", "other.toml"] {
        fs::write(folder.0.join(name), "mine").unwrap();
        let said = folder.run(&["init", name]);
        assert_eq!((said.code, &*said.out), (Some(1), ""));
        assert!(said.err.contains(&format!("{name} exists already")), "{}", said.err);
        assert_eq!(folder.read(name), "mine");
    }
}

#[test]
fn init_does_not_write_through_a_link_that_leads_nowhere() {
    let folder = Folder::new();
    std::os::unix::fs::symlink(folder.0.join("target.toml"), folder.0.join("config.toml")).unwrap();
    assert_eq!(folder.run(&["init"]).code, Some(1));
    assert!(!folder.0.join("target.toml").exists());
}

#[test]
fn init_says_why_it_cannot_write() {
    let folder = Folder::new();
    let said = folder.run(&["init", "missing/config.toml"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot write missing/config.toml"), "{}", said.err);
}

#[test]
fn init_takes_over_what_it_is_told_and_prints_it_to_a_dash() {
    let folder = Folder::new();
    let options = ["--listen", "http://127.0.0.1:9090", "--upstream", "unix:/run/php.sock"];
    let patterns = ["--match", "POST /wp-login.php", "--match", "POST /a\u{e4}/\"{limits}\"/**"];
    let said = folder.run(&[&["init", "-", "--limits", "strict"], &options[..], &patterns].concat());
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    assert!(!folder.0.join("config.toml").exists());
    for line in [
        "listen = \"http://127.0.0.1:9090\"",
        "upstream = \"unix:/run/php.sock\"",
        "match = [\"POST /wp-login.php\", \"POST /a\u{e4}/\\\"{limits}\\\"/**\"]",
        "[limit.address-day]",
    ] {
        assert!(said.out.lines().any(|written| written == line), "{line} is not in\n{}", said.out);
    }
    fs::write(folder.0.join("config.toml"), said.out).unwrap();
    assert_eq!(folder.run(&["check"]).code, Some(0));
}

#[test]
fn init_refuses_what_a_file_could_not_say() {
    for wrong in
        [["--listen", "localhost:80"], ["--upstream", "http://"], ["--match", "/login"], ["--limits", "none"]]
    {
        let folder = Folder::new();
        let said = folder.run(&["init", wrong[0], wrong[1]]);
        assert_eq!((said.code, &*said.out), (Some(2), ""), "{wrong:?}: {}", said.err);
        assert!(!folder.0.join("config.toml").exists());
    }
    let folder = Folder::new();
    let said = folder.run(&["init", "--match", "POST /login", "--match", "POST /login"]);
    assert_eq!(said.code, Some(78), "each value is good, both together are not");
    assert!(said.err.contains("`POST /login` is listed twice"), "{}", said.err);
    assert!(!folder.0.join("config.toml").exists());
}

#[test]
fn completions_know_init() {
    let said = Folder::new().run(&["completions", "bash"]);
    assert!(said.out.contains("tollgate__init") || said.out.contains("tollgate__subcmd__init"));
}

#[test]
fn check_says_what_all_limits_of_a_route_let_through_together() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["init"]).code, Some(0));
    let said = folder.run(&["check", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(json["limits"][0]["limit"], "address");
    let login = &json["routes"][0];
    assert_eq!((&login["route"], &login["bounded"]), (&"login".into(), &false.into()));
    let bounds: Vec<_> = login["bounds"].as_array().unwrap().iter().map(|bound| &bound["at_once"]).collect();
    assert_eq!(bounds, [10, 40, 120]);
    assert_eq!(login["bounds"][1]["who"], "one /24 network (IPv6: /56)");
    assert_eq!(login["bounds"][1]["in_a_day"], 11_560);
    let ends = "nothing bounds an attacker with addresses in many /16 networks (IPv6: /48)";
    assert!(login["worst_case"].as_str().unwrap().ends_with(ends));
    assert!(folder.run(&["check"]).out.contains(ends));
}

#[test]
fn explain_says_what_a_steady_bucket_has_left_and_when_the_next_token_comes() {
    let said = Folder::new().explain("[limit.address]\nrate = \"10 per 5m\"\n", &[]);
    let expected = "limit     address: takes 1 token of 10 in a bucket of 10 that is new\n          \
                    one more every 30s; 9 left, the next in 30s\nanswer    forwarded to http://127.0.0.1:81\n";
    assert!(said.ends_with(expected), "{said}");
}

#[test]
fn explain_says_for_how_long_an_attempt_is_held() {
    let limit = "[limit.address]\nrate = \"4 per 6s\"\nwait = \"5s\"\ninitial = 0\n";
    let said = Folder::new().explain(limit, &[]);
    assert!(said.contains("takes 1 token of 0 in a bucket of 4 that is new, due in 1.5s\n"), "{said}");
    assert!(
        said.contains("one more every 1s500ms, attempts are held up to 5s; 0 left, the next in 3s\n"),
        "{said}"
    );
    assert!(said.ends_with("answer    held for 1.5s, then forwarded to http://127.0.0.1:81\n"), "{said}");
}

#[test]
fn explain_says_when_a_refused_attempt_may_come_again() {
    let said = Folder::new().explain("[limit.address]\nrate = \"10 per 5m\"\ninitial = 0\n", &[]);
    assert!(said.contains("refuses 1 token of 0 in a bucket of 10 that is new for 30s\n"), "{said}");
    assert!(said.ends_with("answer    429 Too Many Requests: try again in 30s\n"), "{said}");
}

#[test]
fn explain_says_whom_a_client_counts_as() {
    let tables =
        "[limit.address]\nrate = \"10 per 5m\"\nexempt = \"10.0.0.0/8\"\n[client]\ntrust = \"10.0.0.0/8\"\n";
    let said = |options: &[&str]| Folder::new().explain(tables, options);
    let unknown = said(&["--peer", "10.0.0.1"]);
    assert!(
        unknown.starts_with("client    10.0.0.1, a proxy that does not say who its client is"),
        "{unknown}"
    );
    assert!(unknown.contains("limit     address: takes 1 token"), "{unknown}");
    let office = said(&["--peer", "10.0.0.1", "-H", "X-Forwarded-For: 10.1.2.3"]);
    assert!(office.contains("limit     address: does not see this client"), "{office}");
    let translated = said(&["--from", "64:ff9b::203.0.113.7"]);
    assert!(translated.contains("\n  as      203.0.113.7, which it carries inside\n"), "{translated}");
    let chain = format!("X-Forwarded-For: 10.0.0.2{}", ", 10.0.0.1".repeat(40));
    let malformed = said(&["--peer", "10.0.0.1", "-H", &chain]);
    assert_eq!(malformed, "answer    400, because too many proxies have passed the request on\n");
}

#[test]
fn explain_knows_the_other_shapes() {
    let limits = "[limit.i]\nrate = \"10 per 5m\"\nrefill = \"interval\"\n\
                  [limit.r]\nrolling = \"10000 per 24h\"\nrate = \"1000 per 1h\"\n\
                  [limit.f]\nrate = \"100 per 100s\"\nfloor = \"10/s\"\n";
    let said = Folder::new().explain(limits, &[]);
    for line in [
        "full again every 5m, from the first attempt on; 9 left; the period ends in 5m",
        "at most 10000 in 24 periods of 1h, 1000 in one, from the first attempt on; 999 left, the next in 1h",
        "10 guaranteed, one more every 100ms; a pool of 100, one more every 1s; 109 left, the next in 0.1s",
    ] {
        assert!(said.contains(&format!("          {line}\n")), "{line} is not in\n{said}");
    }
}

#[test]
fn explain_says_when_a_period_of_the_clock_ends() {
    let limit = "[limit.day]\nrate = \"100 per day\"\nrefill = \"interval\"\nanchor = \"clock\"\n";
    let said = Folder::new().explain(limit, &[]);
    assert!(
        said.contains("full again every 24h, by the clock (UTC); 99 left; the period ends in "),
        "{said}"
    );
    assert!(!said.contains("ends in 1d\n"), "that would be a period that begins now: {said}");
}

#[test]
fn explain_takes_a_body() {
    let limit = "[limit.address]\nrate = \"10 per 5m\"\n";
    let said = Folder::new().explain(limit, &["--data", "user=alice&password=guess"]);
    assert!(said.ends_with("answer    forwarded to http://127.0.0.1:81\n"), "{said}");
}

#[test]
fn explain_says_which_bucket_is_too_small_for_the_attempt() {
    let folder = Folder::new();
    assert_eq!(folder.run(&["init"]).code, Some(0));
    let said = folder.run(&["explain", "--set", "route.login.cost=11", "POST", "/login"]);
    assert!(
        said.out.contains("address: refuses 11 tokens in a bucket of 10 that is new, for ever\n"),
        "{}",
        said.out
    );
    assert!(said.out.contains("address.24: takes 11 tokens of 40"), "{}", said.out);
    assert!(said.out.ends_with("refused: the attempt costs more than a bucket holds\n"), "{}", said.out);
}

#[test]
fn the_sets_are_files_that_say_first_what_they_are_for() {
    for set in sets() {
        let text = fs::read_to_string(Path::new("presets/limits").join(format!("{set}.toml"))).unwrap();
        let (about, limits) = text.split_once("\n\n").unwrap();
        assert!(about.starts_with("# ") && !about.contains('\n'), "{set}: {about}");
        assert!(limits.starts_with("# ") && limits.ends_with('\n'), "{set}");
    }
}

#[test]
fn presets_are_listed_with_where_they_come_from() {
    let said = Folder::new().run(&["presets"]);
    assert_eq!((said.code, &*said.err), (Some(0), ""));
    let lines: Vec<&str> = said.out.lines().collect();
    let names: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() >= 18 && names.is_sorted(), "{}", said.out);
    let of = |name: &str| *lines.iter().find(|line| line.split_whitespace().next() == Some(name)).unwrap();
    assert!(of("wordpress").contains(" verified on WordPress 6.1 (Debian 12)  "), "{}", of("wordpress"));
    assert!(of("wordpress").ends_with("application passwords"), "{}", of("wordpress"));
    assert!(of("owa").contains(" from documentation "), "{}", of("owa"));
    let column =
        |line: &&str| line.find("  verified on").or_else(|| line.find("  from documentation")).unwrap();
    assert!(
        lines.iter().all(|line| column(line) < 16),
        "names and origins stand below each other:\n{}",
        said.out
    );
}

#[test]
fn a_preset_is_printed_as_it_is() {
    let folder = Folder::new();
    for name in ["wordpress", "django-admin", "basic"] {
        let said = folder.run(&["presets", name]);
        assert_eq!((said.code, &*said.err), (Some(0), ""));
        assert_eq!(said.out, fs::read_to_string(Path::new("presets").join(format!("{name}.toml"))).unwrap());
    }
}

#[test]
fn a_preset_that_is_not_there_is_an_error_with_a_suggestion() {
    let folder = Folder::new();
    for (name, hint) in [("wordpres", "did you mean `wordpress`?"), ("horde", "known: `basic`, ")] {
        let said = folder.run(&["presets", name]);
        assert_eq!((said.code, &*said.out), (Some(1), ""));
        assert!(
            said.err.contains(&format!("unknown preset `{name}`")) && said.err.contains(hint),
            "{}",
            said.err
        );
    }
    assert_eq!(folder.run(&["presets", "a", "b"]).code, Some(2));
}
