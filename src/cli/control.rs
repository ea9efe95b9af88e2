//! `tollgate status`, `tollgate reload` and `tollgate drain`: commands to a running gate, over its admin socket.
//!
//! The gate does the work. `reload` is about the gate's own file: with `--socket` no file here is read, so a bad one
//! does no harm.

use std::fmt::Write;

use clap::Args;
use http::StatusCode;
use tollgate_grammar::diagnostic::DiagnosticRecord;

use super::admin_api::{AdminArgs, ApiRequest, OutputFormat, ReasonArgs, page};
use super::sources::ConfigArgs;
use super::{Exit, mode};
use crate::cli::output::{errln, outln};
use crate::observe::admin::pages::{
    AuditPart, DrainPage, FilePart, PolicyPart, ProblemPage, RefusedPolicy, ReloadPage, StatusPage,
    UpstreamPart,
};

#[derive(Debug, Args)]
pub(super) struct ControlArgs {
    #[command(flatten)]
    at: AdminArgs,
}

/// A command that changes the gate.
#[derive(Debug, Args)]
pub(super) struct CommandArgs {
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    at: AdminArgs,
}

impl CommandArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        self.at.config_mut()
    }
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
pub(super) fn reload(CommandArgs { reason, at }: &CommandArgs) -> anyhow::Result<Exit> {
    let request = ApiRequest { method: "POST", path: "/api/v1/reload".into(), body: None };
    let Some(response) = at.call_because(request, reason)? else { return Ok(Exit::BadConfiguration) };
    if response.status == StatusCode::UNPROCESSABLE_ENTITY {
        match at.format {
            OutputFormat::Json => outln!("{}", serde_json::to_string_pretty(&response.value)?),
            OutputFormat::Text => {
                let problem: ProblemPage = page(&response.value)?;
                problem.diagnostics.iter().flatten().for_each(show);
                errln!("refused, the old one stays: {}", problem.detail);
            }
        }
        return Ok(Exit::BadConfiguration);
    }
    at.print(&response.success()?, |ReloadPage { changes, diagnostics }| {
        diagnostics.iter().for_each(show);
        format!("{changes}\n")
    })
}

pub(super) fn drain(CommandArgs { reason, at }: &CommandArgs) -> anyhow::Result<Exit> {
    let request = ApiRequest { method: "POST", path: "/api/v1/drain".into(), body: None };
    let Some(response) = at.call_because(request, reason)? else { return Ok(Exit::BadConfiguration) };
    let words = "the gate takes no new connections, finishes what is in flight and ends\n";
    at.print(&response.success()?, |_: &DrainPage| words.to_owned())
}

fn show(diagnostic: &DiagnosticRecord) {
    errln!("{}\n", diagnostic.text.as_deref().unwrap_or_default());
}

fn text(status: &StatusPage) -> String {
    let up = |is_up| if is_up { "up" } else { "down" };
    let mut text = String::new();
    let mut line = |name: &str, words: String| {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{name:<12} {words}");
    };
    line("version", status.version.clone());
    line("state", format!("{} since {}, process {}", status.state, status.since, status.pid));
    if status.mode == "observe" {
        line("mode", "observe: no limit refuses anything".to_owned());
    }
    for mode in &status.modes {
        line("mode", mode::words(mode));
    }
    line("listen", status.listen.join(", "));
    line("admin", status.admin.join(", "));
    line("connections", format!("{} in {} workers", status.connections, status.workers));
    line("sandbox", status.sandbox.clone());
    line("store", format!("{}, {}", status.store.url, up(status.store.up)));
    for UpstreamPart { upstream, up: is_up, requests, check_failure } in &status.upstreams {
        let check = check_failure.as_ref().map(|why| format!(", health check failed: {why}"));
        let check = check.unwrap_or_default();
        line("upstream", format!("{upstream}, {}, {requests} requests{check}", up(*is_up)));
    }
    status.warnings.iter().for_each(|warning| line("warning", warning.clone()));
    if !status.attacks.is_empty() {
        line("attack mode", status.attacks.join(", "));
    }
    let FilePart { name, hash, read } = &status.config;
    line("config", format!("{name} ({hash}), read {read}"));
    if let Some(AuditPart { file, head, waiting }) = &status.audit {
        let waiting = waiting.map(|lines| format!(", not yet in the store: {lines}")).unwrap_or_default();
        line("audit", format!("{file}, last line {head}{waiting}"));
    }
    if let Some(PolicyPart { version, hash, refused }) = &status.policy {
        line("policy", format!("{version} ({hash}) of the store"));
        if let Some(RefusedPolicy { version, why }) = refused {
            line("refused", format!("policy {version}: {why}"));
        }
    }
    text
}
