//! `tollgate mode`: limits of a running gate observe or enforce for a while, over its admin socket.

use clap::{Args, ValueEnum};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Exit;
use super::admin_api::{AdminArgs, ApiRequest, ReasonArgs};
use super::buckets::time;
use super::sources::ConfigArgs;
use crate::observe::admin::pages::{ModePage, ModeRequest};

#[derive(Debug, Args)]
pub(super) struct ModeArgs {
    /// What the limits do with their decisions
    mode: ModeWord,
    /// This limit only [default: all that are not off]
    #[arg(long, value_name = "NAME")]
    limit: Option<String>,
    /// For how long: 1h, 1d [default: until the gate reads its configuration again]
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    lasts: Option<String>,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    admin: AdminArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ModeWord {
    Observe,
    Enforce,
}

impl ModeArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        self.admin.config_mut()
    }
}

pub(super) fn mode(ModeArgs { mode, limit, lasts, reason, admin }: &ModeArgs) -> anyhow::Result<Exit> {
    let word = match mode {
        ModeWord::Observe => "observe",
        ModeWord::Enforce => "enforce",
    };
    let body = ModeRequest { mode: word.to_owned(), lasts: lasts.clone().into() };
    let path = match limit {
        Some(limit) => format!("/api/v1/limits/{}/mode", utf8_percent_encode(limit, NON_ALPHANUMERIC)),
        None => "/api/v1/mode".to_owned(),
    };
    let request = ApiRequest { method: "PUT", path, body: Some(serde_json::to_value(body)?) };
    let Some(response) = admin.call_because(request, reason)? else { return Ok(Exit::BadConfiguration) };
    admin.print(&response.success()?, text)
}

fn text(page: &ModePage) -> String {
    format!("{}\n", words(page))
}

/// As in "limit `address`: observe until 2026-11-28T10:00:00Z".
pub(super) fn words(ModePage { limit, mode, until }: &ModePage) -> String {
    let limits = limit.as_ref().map_or_else(|| "all limits".to_owned(), |name| format!("limit `{name}`"));
    format!("{limits}: {mode} until {}", until.as_deref().unwrap_or("the next reload"))
}
