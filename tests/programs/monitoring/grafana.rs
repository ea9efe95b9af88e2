//! The dashboard: Grafana's own classes read it, and Prometheus answers each of its queries.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::monitoring::monitored::{make_history, monitored};
use crate::monitoring::prometheus::{Prometheus, contrib};
use crate::monitoring::python;
use support::eventually;

fn dashboard() -> Value {
    serde_json::from_str(&fs::read_to_string(contrib("grafana/tollgate.json")).unwrap()).unwrap()
}

/// Each query with the title of its panel, with the values of variables as Grafana would set them.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| {
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        targets.iter().map(|target| (panel["title"].as_str().unwrap(), target["expr"].as_str().unwrap()))
    });
    let filled = |text: &str| {
        let text = text.replace("$__rate_interval", "1m").replace("$job", ".*").replace("$instance", ".*");
        // An anchor of a regular expression is the last sign of a string; other dollars are groups.
        assert!(!text.contains("${"), "an unknown variable in {text}");
        text
    };
    targets.map(|(title, expression)| (title.to_owned(), filled(expression))).collect()
}

#[test]
fn grafanas_own_classes_read_the_dashboard_and_lose_nothing() {
    let mut command = python::script("dashboard.py");
    let output = command.arg(contrib("grafana/tollgate.json")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let kinds: BTreeSet<&str> = said.lines().collect();
    let prometheus = "grafana_foundation_sdk.models.prometheus";
    let expected = [format!("stat {prometheus}"), format!("timeseries {prometheus}"), "row".to_owned()];
    assert_eq!(kinds, expected.iter().map(String::as_str).collect());
}

#[test]
fn no_panel_lies_over_another_and_each_says_what_it_shows() {
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = &panel["title"];
        assert!(!title.as_str().unwrap().is_empty());
        let place = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        let (left, top) = (place("x"), place("y"));
        assert!(left + place("w") <= 24, "{title} is wider than the page");
        for cell in (left..left + place("w")).flat_map(|x| (top..top + place("h")).map(move |y| (x, y))) {
            assert!(taken.insert(cell), "{title} lies over another panel");
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
            assert!(panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title} has no unit");
        }
    }
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels share an id");
}

#[test]
fn every_query_is_answered_with_data_of_a_gate() {
    let monitored = monitored();
    let prometheus = Prometheus::scraping(monitored.gate.admin);
    // A rate needs two scrapes with another one's counts between them.
    assert!(eventually(Duration::from_secs(60), || !prometheus.query("tollgate_build_info").is_empty()));
    make_history(&monitored.gate);
    let queries = queries(&dashboard());
    assert!(queries.len() > 30, "{queries:?}");
    let empty = || -> Vec<_> {
        let answered = |(_, expression): &&(String, String)| prometheus.query(expression).is_empty();
        queries.iter().filter(answered).map(|(title, _)| title.as_str()).collect()
    };
    let mut left = Vec::new();
    let is_answered = || {
        left = empty();
        left.is_empty()
    };
    assert!(eventually(Duration::from_secs(60), is_answered), "no data in {left:?}");
}
