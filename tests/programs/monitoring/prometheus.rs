//! Prometheus itself reads the metrics of a real gate, and `promtool` the alerts.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::monitoring::monitored::monitored;
use support::servers::{Process, wait_for};
use support::{Answer, Client, eventually, free_port, installed, new_directory};

/// A Prometheus that scrapes one gate; its files are removed with it.
pub(crate) struct Prometheus {
    address: SocketAddr,
    directory: PathBuf,
    _process: Process,
}

impl Prometheus {
    /// Scrapes this address every two seconds, with the alerts of `contrib/`.
    pub(crate) fn scraping(gate: SocketAddr) -> Self {
        let directory = new_directory();
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let file = directory.join("prometheus.yml");
        let alerts = contrib("prometheus/alerts.yml");
        let text = format!(
            "global: {{scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 200ms}}\n\
             rule_files: [{}]\n\
             scrape_configs:\n  - job_name: tollgate\n    static_configs: [{{targets: ['{gate}']}}]\n",
            alerts.display()
        );
        fs::write(&file, text).unwrap();
        let mut command = installed("prometheus", "prometheus");
        command.arg(format!("--config.file={}", file.display()));
        command.arg(format!("--storage.tsdb.path={}", directory.join("data").display()));
        command.arg(format!("--web.listen-address={address}"));
        let process = Process::spawn(&mut command).unwrap();
        let prometheus = Self { address, directory, _process: process };
        wait_for(address);
        let is_ready = || prometheus.get("/-/ready").status == 200;
        assert!(eventually(Duration::from_secs(30), is_ready), "Prometheus does not get ready");
        prometheus
    }

    /// The series that an expression gives now.
    pub(crate) fn query(&self, expression: &str) -> Vec<Value> {
        let data = self.api(&format!("query?query={}", encoded(expression)));
        data["result"].as_array().unwrap_or_else(|| panic!("{expression}: {data}")).clone()
    }

    fn api(&self, target: &str) -> Value {
        let answer: Value = serde_json::from_str(&self.get(&format!("/api/v1/{target}")).text()).unwrap();
        assert_eq!(answer["status"], "success", "{target}: {answer}");
        answer["data"].clone()
    }

    fn get(&self, target: &str) -> Answer {
        let mut client = Client::connect(self.address);
        client.send(format!("GET {target} HTTP/1.1\r\nHost: prometheus\r\nConnection: close\r\n\r\n"));
        client.answer()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Everything but what a query may hold, by its bytes.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

pub(crate) fn contrib(path: &str) -> PathBuf {
    support::root().join("contrib").join(path)
}

/// The names of the program's metrics in a text: words with its prefix.
pub(crate) fn metric_names(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with("tollgate_")).map(str::to_owned).collect()
}

/// Runs promtool with this on its standard input.
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut command = installed("promtool", "prometheus");
    command.args(arguments).current_dir(contrib("prometheus"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let said = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    assert!(output.status.success(), "promtool {arguments:?}:\n{said}");
    said
}

#[test]
fn the_alerts_are_valid_and_fire_where_they_should() {
    promtool(&["check", "rules", "alerts.yml"], "");
    promtool(&["test", "rules", "alerts.test.yml"], "");
}

#[test]
fn promtool_finds_nothing_in_the_metrics_of_a_gate() {
    let monitored = monitored();
    let said = promtool(&["check", "metrics"], &monitored.gate.metrics());
    assert_eq!(said, "");
}

#[test]
fn prometheus_evaluates_every_alert_over_a_gate() {
    let monitored = monitored();
    let prometheus = Prometheus::scraping(monitored.gate.admin);
    let rules = || {
        let groups = prometheus.api("rules")["groups"].clone();
        groups[0]["rules"].as_array().unwrap().clone()
    };
    let are_healthy = || rules().iter().all(|rule| rule["health"] == "ok");
    assert!(eventually(Duration::from_secs(60), are_healthy), "{:?}", rules());
    // One upstream of the gate does not exist: so one alert waits for its minute, which proves that the others could.
    let upstream_waits = || {
        let is_waiting = |rule: &Value| rule["name"] == "TollgateUpstreamDown" && rule["state"] == "pending";
        rules().iter().any(is_waiting)
    };
    assert!(eventually(Duration::from_secs(60), upstream_waits), "{:?}", rules());
}

#[test]
fn every_metric_of_the_alerts_is_one_of_the_gate() {
    let monitored = monitored();
    let page = monitored.gate.metrics();
    let shown = metric_names(&page);
    let alerts = fs::read_to_string(contrib("prometheus/alerts.yml")).unwrap();
    let expected = metric_names(&alerts);
    assert!(expected.len() > 8, "{expected:?}");
    let missing: Vec<_> = expected.difference(&shown).collect();
    assert!(missing.is_empty(), "{missing:?} are not in:\n{page}");
}

#[test]
fn every_alert_has_a_row_in_the_document_and_a_test() {
    let root = support::root();
    let document = fs::read_to_string(root.join("docs/alerts.md")).unwrap();
    let alerts = fs::read_to_string(contrib("prometheus/alerts.yml")).unwrap();
    let tests = fs::read_to_string(contrib("prometheus/alerts.test.yml")).unwrap();
    let names: Vec<&str> = alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 8, "{names:?}");
    for name in &names {
        assert!(document.contains(&format!("| {name} |")), "docs/alerts.md has no row of {name}");
        assert!(tests.contains(&format!("- alertname: {name}\n")), "no test lets {name} fire");
    }
    assert_eq!(alerts.matches("runbook: docs/alerts.md\n").count(), names.len());
    assert!(document.contains("# Alerts\n"), "the runbook leads nowhere");
}
