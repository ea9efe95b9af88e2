//! fail2ban, CrowdSec and logrotate with the files of `contrib/`, on the log of a running gate.
//!
//! CrowdSec comes by `scripts/fetch-crowdsec`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::decisions::{FILE, attempt, objects};
use support::{Gate, Upstream, free_port, installed, new_directory, root};

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// Every `log.schema`, and what a client sends as the id of its request to put another into such a log.
const SCHEMAS: [(&str, &str); 3] = [
    (
        "tollgate",
        "a\",\"route\":\"login\",\"limit\":\"address\",\"verdict\":\"refuse\",\"client\":\"203.0.113.66\",\"",
    ),
    (
        "ocsf",
        "a\"},\"disposition_id\":2,\"policy\":{\"name\":\"a\"},\"src_endpoint\":{\"ip\":\"203.0.113.66\"},\"",
    ),
    (
        "ecs",
        "a\"}},\"event\":{\"action\":\"refuse\",},\"rule\":{\"name\":\"a\"},\"source\":{\"ip\":\"203.0.113.66\"},\"",
    ),
];

/// The log of a gate at which one client is refused `refused` times, after a client that tries to put others into it.
fn log(refused: usize, (schema, forged): (&str, &str)) -> (Gate, PathBuf) {
    let application = Upstream::start();
    let log = format!("[log]\ndecisions = \"{{dir}}/decisions.log\"\nschema = \"{schema}\"\n");
    let gate = Gate::start(&format!("{}{log}", application.file(FILE)));
    let mut client = gate.connect();
    let mut send = |request: &str| {
        client.send(request);
        client.answer();
    };
    for number in 0..7 {
        send(
            &attempt("2001:db8::7", number, "bob", "wrong")
                .replace(&format!("a{number}\r"), &format!("{forged}\r")),
        );
    }
    for number in 0..refused + 5 {
        send(&attempt("198.51.100.7", number, &format!("u{number}"), "wrong"));
    }
    send(&attempt("198.51.100.8", 0, "carol", "wrong"));
    let path = gate.directory.join("decisions.log");
    // A client that an address limit refuses is refused before its account is read.
    objects(&path, (2 * 5 + 2) + (2 * 5 + refused) + 2);
    (gate, path)
}

/// The same in every schema, one after the other, with 198.51.100.17, .27 and .37 as the client that is refused.
fn log_of_every_schema(directory: &Path, refused: usize) -> PathBuf {
    let path = directory.join("decisions.log");
    let mut lines = String::new();
    for (number, schema) in (1..).zip(SCHEMAS) {
        let (_gate, path) = log(refused, schema);
        let text = fs::read_to_string(path).unwrap();
        lines += &text.replace("198.51.100.7\"", &format!("198.51.100.{number}7\""));
    }
    fs::write(&path, lines).unwrap();
    path
}

#[test]
fn fail2ban_finds_the_refused_clients_and_no_others() {
    let directory = new_directory();
    let path = log_of_every_schema(&directory, 3);
    let filter = root().join("contrib/fail2ban/filter.d/tollgate.conf");
    // A zone of its own: the times of the log are UTC wherever the program runs.
    let output = installed("fail2ban-regex", "fail2ban")
        .args(["-o", "<ip> <time>"])
        .args([&path, &filter])
        .env("TZ", "Asia/Tokyo")
        .output()
        .unwrap();
    let text = said(&output);
    let found: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let addresses: Vec<&str> = found.iter().map(|words| words[0]).collect();
    let of_schema = |number: usize| {
        let client = format!("198.51.100.{number}7");
        ["2001:db8::7", "2001:db8::7"].map(str::to_owned).into_iter().chain([(); 3].map(|()| client.clone()))
    };
    let expected: Vec<String> = (1..=SCHEMAS.len()).flat_map(of_schema).collect();
    assert_eq!(addresses, expected, "{text}");
    let time: f64 = found[0][1].parse().unwrap();
    let age =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64() - time;
    assert!((-1.0..300.0).contains(&age), "{age} s ago");
    let _ = fs::remove_dir_all(directory);
}

#[test]
fn crowdsec_bans_the_client_that_goes_on() {
    let programs = root().join("target/tools/crowdsec");
    let binary = programs.join("usr/bin/crowdsec");
    let directory = new_directory();
    let path = log_of_every_schema(&directory, 150);
    let config = crowdsec_config(&programs, &directory);
    let credentials = directory.join("credentials.yaml");
    let added = installed(programs.join("usr/bin/cscli").to_str().unwrap(), "scripts/fetch-crowdsec")
        .arg("-c")
        .arg(&config)
        .args(["machines", "add", "test", "--password", "secret", "--force", "-f"])
        .arg(&credentials)
        .output()
        .unwrap();
    assert!(added.status.success(), "{}", said(&added));
    let output = Command::new("timeout")
        .arg("60")
        .arg(&binary)
        .arg("-c")
        .arg(&config)
        .args(["-type", "tollgate-decisions", "-dsn", &format!("file://{}", path.display())])
        .output()
        .unwrap();
    let text = said(&output);
    for number in 1..=SCHEMAS.len() {
        let words = format!("Ip 198.51.100.{number}7 performed 'tollgate/refused'");
        assert!(text.contains(&words), "{words}: {text}");
    }
    assert_eq!(text.matches(" performed '").count(), SCHEMAS.len(), "{text}");
    let _ = fs::remove_dir_all(directory);
}

/// A configuration with our parser and scenario, a server of its own, and none elsewhere.
fn crowdsec_config(programs: &Path, directory: &Path) -> PathBuf {
    let hub = programs.join("usr/share/crowdsec/hub");
    for folder in ["parsers/s00-raw", "parsers/s01-parse", "parsers/s02-enrich", "scenarios", "data"] {
        fs::create_dir_all(directory.join(folder)).unwrap();
    }
    let contrib = root().join("contrib/crowdsec");
    for (from, to) in [
        (contrib.join("parsers/s01-parse/tollgate-decisions.yaml"), "parsers/s01-parse/tollgate.yaml"),
        (contrib.join("scenarios/tollgate-refused.yaml"), "scenarios/tollgate.yaml"),
        (hub.join("parsers/s00-raw/crowdsecurity/syslog-logs.yaml"), "parsers/s00-raw/syslog-logs.yaml"),
        (
            hub.join("parsers/s02-enrich/crowdsecurity/dateparse-enrich.yaml"),
            "parsers/s02-enrich/dateparse.yaml",
        ),
        (programs.join("etc/crowdsec/simulation.yaml"), "simulation.yaml"),
        (programs.join("etc/crowdsec/profiles.yaml"), "profiles.yaml"),
    ] {
        fs::copy(from, directory.join(to)).unwrap();
    }
    std::os::unix::fs::symlink(programs.join("etc/crowdsec/patterns"), directory.join("patterns")).unwrap();
    fs::write(directory.join("acquis.yaml"), "").unwrap();
    let config = directory.join("config.yaml");
    let text = CROWDSEC.replace("{dir}", directory.to_str().unwrap()).replace("{hub}", hub.to_str().unwrap());
    let port = free_port();
    fs::write(&config, text.replace("{port}", &port.to_string())).unwrap();
    let credentials = format!("url: http://127.0.0.1:{port}/\nlogin: test\npassword: secret\n");
    fs::write(directory.join("credentials.yaml"), credentials).unwrap();
    config
}

const CROWDSEC: &str = "common: {daemonize: false, log_media: stdout, log_level: info, working_dir: .}
config_paths:
  config_dir: {dir}
  data_dir: {dir}/data
  simulation_path: {dir}/simulation.yaml
  hub_dir: {hub}
  index_path: {hub}/.index.json
crowdsec_service: {acquisition_path: {dir}/acquis.yaml, parser_routines: 1}
cscli: {output: human}
db_config: {type: sqlite, db_path: {dir}/data/crowdsec.db}
prometheus: {enabled: false}
api:
  client: {credentials_path: {dir}/credentials.yaml}
  server: {listen_uri: 127.0.0.1:{port}, profiles_path: {dir}/profiles.yaml}
";

#[test]
fn logrotate_takes_the_file_and_would_rotate_both_logs() {
    let directory = new_directory();
    let text = fs::read_to_string(root().join("contrib/logrotate/tollgate")).unwrap();
    let config = directory.join("logrotate.conf");
    fs::write(&config, text.replace("/var/log/tollgate", directory.to_str().unwrap())).unwrap();
    for log in ["access.log", "decisions.log"] {
        fs::write(directory.join(log), "a line\n").unwrap();
    }
    // -d changes nothing and says what would be done.
    let output = installed("logrotate", "logrotate")
        .args(["-d", "-f", "-s"])
        .arg(directory.join("status"))
        .arg(&config)
        .output()
        .unwrap();
    let text = said(&output);
    assert!(output.status.success() && !text.contains("error:"), "{text}");
    for log in ["access.log", "decisions.log"] {
        assert!(text.contains(&format!("rotating log {}", directory.join(log).display())), "{text}");
    }
    assert_eq!(text.matches("running postrotate script").count(), 1, "{text}");
    let _ = fs::remove_dir_all(directory);
}
