//! `tollgate status`, `tollgate reload` and `tollgate drain`: commands to a running gate, over its admin socket.
//!
//! The gate does the work. `reload` is about the gate's own file: with `--socket` no file here is read, so a bad one
//! does no harm.

use std::fmt::Write;

use clap::Args;
use http::StatusCode;
use serde_json::Value;

use super::Exit;
use super::admin_api::{AdminArgs, ApiRequest, OutputFormat, lines, plain};
use super::sources::ConfigArgs;

#[derive(Debug, Args)]
pub(super) struct ControlArgs {
    #[command(flatten)]
    at: AdminArgs,
}

impl ControlArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        self.at.config_mut()
    }
}

pub(super) fn status(ControlArgs { at }: &ControlArgs) -> anyhow::Result<Exit> {
    let request = ApiRequest { method: "GET", path: "/api/v1/status".into(), body: None };
    let Some(response) = at.call(request)? else { return Ok(Exit::BadConfiguration) };
    at.print(&response.success()?, text)
}

/// Exits with 78 if the gate refuses its file, and shows why.
pub(super) fn reload(ControlArgs { at }: &ControlArgs) -> anyhow::Result<Exit> {
    let request = ApiRequest { method: "POST", path: "/api/v1/reload".into(), body: None };
    let Some(response) = at.call(request)? else { return Ok(Exit::BadConfiguration) };
    if at.format == OutputFormat::Text {
        let diagnostics = response.value["diagnostics"].as_array();
        diagnostics.into_iter().flatten().for_each(|found| eprintln!("{}\n", lines(&found["text"])));
    }
    if response.status == StatusCode::UNPROCESSABLE_ENTITY {
        match at.format {
            OutputFormat::Json => println!("{}", serde_json::to_string_pretty(&response.value)?),
            OutputFormat::Text => {
                eprintln!("refused, the old one stays: {}", plain(&response.value["detail"]))
            }
        }
        return Ok(Exit::BadConfiguration);
    }
    at.print(&response.success()?, |value| format!("{}\n", plain(&value["changes"])))
}

pub(super) fn drain(ControlArgs { at }: &ControlArgs) -> anyhow::Result<Exit> {
    let request = ApiRequest { method: "POST", path: "/api/v1/drain".into(), body: None };
    let Some(response) = at.call(request)? else { return Ok(Exit::BadConfiguration) };
    let words = "the gate takes no new connections, finishes what is in flight and ends\n";
    at.print(&response.success()?, |_| words.to_owned())
}

fn text(status: &Value) -> String {
    let list =
        |name: &str| status[name].as_array().into_iter().flatten().map(plain).collect::<Vec<_>>().join(", ");
    let up = |value: &Value| if value["up"] == true { "up" } else { "down" };
    let (store, config) = (&status["store"], &status["config"]);
    let mut text = String::new();
    let mut line = |name: &str, words: String| {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{name:<12} {words}");
    };
    line("version", plain(&status["version"]));
    line(
        "state",
        format!("{} since {}, process {}", plain(&status["state"]), plain(&status["since"]), status["pid"]),
    );
    line("listen", list("listen"));
    line("admin", list("admin"));
    line("connections", format!("{} in {} workers", status["connections"], status["workers"]));
    line("sandbox", plain(&status["sandbox"]));
    line("store", format!("{}, {}", plain(&store["url"]), up(store)));
    for upstream in status["upstreams"].as_array().into_iter().flatten() {
        let words =
            format!("{}, {}, {} requests", plain(&upstream["upstream"]), up(upstream), upstream["requests"]);
        line("upstream", words);
    }
    for warning in status["warnings"].as_array().into_iter().flatten() {
        line("warning", plain(warning));
    }
    if status["attacks"].as_array().is_some_and(|routes| !routes.is_empty()) {
        line("attack mode", list("attacks"));
    }
    line(
        "config",
        format!("{} ({}), read {}", plain(&config["name"]), plain(&config["hash"]), plain(&config["read"])),
    );
    let policy = &status["policy"];
    if policy.is_object() {
        line("policy", format!("{} ({}) of the store", policy["version"], plain(&policy["hash"])));
    }
    if let Some(refused) = policy["refused"].as_object() {
        line("refused", format!("policy {}: {}", refused["version"], plain(&refused["why"])));
    }
    text
}
