//! The address of the person at the command line: whether the running gate refuses it now.
//!
//! It is the address of their SSH connection. `sudo` clears the variable that has it, so the processes above are looked
//! at, too.

use std::fs;
use std::net::IpAddr;

use ipnet::IpNet;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::Symptom;
use crate::cli::admin_api::{AdminGate, ApiRequest, page};
use crate::config::Config;
use crate::observe::admin::BucketsPage;
use crate::observe::admin::pages::{BansPage, PrefixPart};
use crate::policy::Mode;

/// Nothing without an SSH connection, or without a gate that answers: `listeners` says whether one runs.
pub(super) fn look(config: &Config) -> Vec<Symptom> {
    let symptom = || {
        let address = ssh_client()?;
        let gate = AdminGate::on_socket(config)?;
        let place = format!("your address {address}");
        let mend = |command: &str| format!("tollgate buckets {command}");
        if let Some(ban) = ban_of(&gate, address) {
            return Some(Symptom::bad(
                place,
                format!("{} is banned until {}", ban.prefix, ban.until),
                mend(&format!("ban {} --end", ban.prefix)),
            ));
        }
        let refusing = refusing_limit(&gate, address)?;
        Some(match refusing {
            Some(limit) => {
                let words = format!("limit `{limit}` refuses it now");
                Symptom::doubtful(place, words, mend(&format!("exempt {address} --for 1h")))
            }
            None => Symptom::good(place, "no limit refuses it now"),
        })
    };
    symptom().into_iter().collect()
}

/// The ban that the address falls under.
fn ban_of(gate: &AdminGate, address: IpAddr) -> Option<PrefixPart> {
    let bans: BansPage = ask(gate, "/api/v1/bans".to_owned())?;
    bans.bans.into_iter().find(|ban| ban.prefix.parse().is_ok_and(|net: IpNet| net.contains(&address)))
}

/// The limit that has no token for the address; `None` outside if the gate does not say.
fn refusing_limit(gate: &AdminGate, address: IpAddr) -> Option<Option<String>> {
    let key = format!("ip:{address}");
    let path = format!("/api/v1/buckets/{}", utf8_percent_encode(&key, NON_ALPHANUMERIC));
    let shown: BucketsPage = ask(gate, path)?;
    let refuses = |mode: &str, tokens| mode == Mode::Enforce.name() && tokens == 0;
    Some(shown.buckets.into_iter().find(|of| refuses(&of.mode, of.tokens)).map(|of| of.limit))
}

fn ask<P: serde::de::DeserializeOwned>(gate: &AdminGate, path: String) -> Option<P> {
    let request = ApiRequest { method: "GET", path, body: None };
    page(&request.call(gate).ok()?.success().ok()?).ok()
}

/// The client of the SSH connection that this process, or one above it, was started in.
fn ssh_client() -> Option<IpAddr> {
    let mut process = std::process::id();
    for _ in 0..MOST_PARENTS {
        let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        if let Some(address) = environment.split(|byte| *byte == 0).find_map(client_of) {
            return Some(address.to_canonical());
        }
        process = parent_of(process)?;
    }
    None
}

/// The first word of sshd's `SSH_CONNECTION`.
fn client_of(variable: &[u8]) -> Option<IpAddr> {
    let value = std::str::from_utf8(variable.strip_prefix(b"SSH_CONNECTION=")?).ok()?;
    value.split(' ').next()?.parse().ok()
}

fn parent_of(process: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    parent.trim().parse().ok().filter(|parent| *parent > 1)
}

/// A shell, `sudo` and what they start are fewer.
const MOST_PARENTS: usize = 16;
