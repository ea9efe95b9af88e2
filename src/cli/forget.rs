//! `tollgate forget`: takes a person out of a running gate, its store and its files.
//!
//! The gate does the work; this command asks how far it is until it is done. Gates that share a store have memories and logs of
//! their own, so each is asked.

use std::fmt::Write;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use clap::error::ErrorKind;

use super::admin_api::{AdminArgs, ApiRequest, ReasonArgs, page};
use super::buckets::aligned;
use super::sources::ConfigArgs;
use super::{Exit, usage_error};
use crate::observe::admin::pages::{ForgetPage, ForgetPlace, ForgetRequest};
use crate::policy::Policy;

#[derive(Debug, Args)]
pub(super) struct ForgetArgs {
    /// The person's accounts and addresses, user:NAME and ip:ADDRESS; buckets for both together are found if both are named
    #[arg(required = true, value_name = "WHO")]
    who: Vec<String>,
    /// Count where the person is named, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// End bans, exemptions and rates that operators gave the person, too
    #[arg(long)]
    bans: bool,
    #[command(flatten)]
    reason: ReasonArgs,
    #[command(flatten)]
    at: AdminArgs,
}

impl ForgetArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        self.at.config_mut()
    }
}

/// Exits with 1 if a place was not reached.
pub(super) fn forget(ForgetArgs { who, dry_run, bans, reason, at }: &ForgetArgs) -> anyhow::Result<Exit> {
    if let Err(error) = Policy::new(Vec::new(), Vec::new()).person(who.iter().map(String::as_str)) {
        usage_error(ErrorKind::ValueValidation, error);
    }
    let asked = ForgetRequest { who: who.clone(), dry_run: Some(*dry_run).into(), bans: Some(*bans).into() };
    let body = Some(serde_json::to_value(&asked)?);
    let request = ApiRequest { method: "POST", path: PATH.into(), body };
    let Some(response) = at.call_because(request, reason)? else { return Ok(Exit::BadConfiguration) };
    let mut value = response.success()?;
    let done = loop {
        let state: ForgetPage = page(&value)?;
        if state.done {
            break state;
        }
        std::thread::sleep(POLL);
        let request = ApiRequest { method: "GET", path: PATH.into(), body: None };
        value = at.call(request)?.context("the configuration has changed")?.success()?;
    };
    at.print(&value, text)?;
    let is_missed = done.places.is_empty() || done.places.iter().any(|place| place.failed.is_some());
    Ok(if is_missed { Exit::Failed } else { Exit::Ok })
}

fn text(ForgetPage { dry_run, places, .. }: &ForgetPage) -> String {
    let removed = if *dry_run { "FOUND" } else { "REMOVED" };
    let mut rows = vec![["PLACE", removed, ""].map(str::to_owned)];
    rows.extend(places.iter().map(row));
    let mut text = aligned(&rows);
    if *dry_run {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "nothing was changed");
    }
    text
}

fn row(ForgetPlace { place, what, removed, note, failed }: &ForgetPlace) -> [String; 3] {
    let note = match (&failed.0, &note.0) {
        (Some(why), _) => format!("NOT REACHED: {why}"),
        (None, Some(note)) => note.clone(),
        (None, None) => String::new(),
    };
    let what = if *removed == 1 { singular(what) } else { what };
    [place.clone(), format!("{removed} {what}"), note]
}

/// The word for one of what a gate counts.
fn singular(plural: &str) -> &str {
    match plural {
        "addresses" => "address",
        _ => plural.strip_suffix('s').unwrap_or(plural),
    }
}

const PATH: &str = "/api/v1/forget";
const POLL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_is_named_by_its_own_word() {
        let named = |what: &str| row(&ForgetPlace::of("memory", what, 1))[1].clone();
        let words = ["addresses", "buckets", "cookies", "lines"].map(named);
        assert_eq!(words, ["1 address", "1 bucket", "1 cookie", "1 line"]);
        assert_eq!(row(&ForgetPlace::of("memory", "addresses", 2))[1], "2 addresses");
    }
}
