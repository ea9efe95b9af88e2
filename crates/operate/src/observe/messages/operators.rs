//! Messages about operators: a line for each command and change.
//!
//! None is ever left out. An account is written as a keyed hash whose key changes with each start: a log shows which
//! lines are about the same account, but not about which account.

use std::fmt::Write;

use tracing::info;

use super::super::client_format::ClientFormatter;
use crate::event::{BucketsChanged, Change, Operator, OperatorCommand};
use crate::observe::timestamp::rfc3339;
use crate::policy::attempt::Client;

/// Writes a change of buckets, and the operator who made it.
pub(super) fn write(done: &BucketsChanged<'_>, clients: &ClientFormatter) {
    let Operator { uid, pid, .. } = done.by;
    let from = address(done.by, clients);
    let (bucket, name) = (clients.owner(done.owner), name(done.by));
    let mut limits = String::new();
    for (at, limit) in done.limits.iter().enumerate() {
        // Writing to memory cannot fail.
        let _ = write!(limits, "{}{limit}", if at > 0 { ", " } else { "" });
    }
    match done.change {
        Change::Credited(tokens) => {
            info!(uid, pid, name, from, bucket, limits, tokens, "an operator gave tokens")
        }
        Change::Reset => info!(uid, pid, name, from, bucket, limits, "an operator reset buckets"),
        Change::RateGiven { rate, until } => {
            let (burst, per_token, until) = (rate.burst(), rate.per_token(), rfc3339(until));
            info!(
                uid,
                pid,
                name,
                from,
                bucket,
                limits,
                burst,
                ?per_token,
                until,
                "an operator gave a temporary rate"
            );
        }
        Change::Banned { until } => {
            let until = rfc3339(until);
            info!(uid, pid, name, from, bucket, limits, until, "an operator banned the owner of buckets");
        }
        Change::BanEnded => info!(uid, pid, name, from, bucket, limits, "an operator ended a ban"),
        Change::AddressesForgotten => {
            info!(uid, pid, name, from, bucket, "an operator removed the known addresses of an account");
        }
        Change::RateEnded => {
            info!(uid, pid, name, from, bucket, limits, "an operator ended a temporary rate")
        }
    }
}

/// Writes a command, and the operator who gave it; separate lines tell the outcome of a reload or a drain.
pub(super) fn command(command: OperatorCommand<'_>, by: Operator, clients: &ClientFormatter) {
    let (Operator { uid, pid, .. }, name, from) = (by, name(by), address(by, clients));
    match command {
        OperatorCommand::Reload => info!(uid, pid, name, from, "an operator started a reload"),
        OperatorCommand::Drain => info!(uid, pid, name, from, "an operator started a drain"),
        OperatorCommand::Exempt { prefix, is_of_address_limits: false, until, why } => {
            let until = rfc3339(until);
            info!(uid, pid, name, from, %prefix, until, why, "an operator exempted clients from all limits");
        }
        OperatorCommand::Exempt { prefix, is_of_address_limits: true, until, .. } => {
            let until = rfc3339(until);
            info!(uid, pid, name, from, %prefix, until, "an operator opened the dashboard, and is exempt from limits by address");
        }
        OperatorCommand::EndExemption { prefix } => {
            info!(uid, pid, name, from, %prefix, "an operator ended an exemption");
        }
        OperatorCommand::Ban { prefix, until, why } => {
            let until = rfc3339(until);
            info!(uid, pid, name, from, %prefix, until, why, "an operator banned a prefix");
        }
        OperatorCommand::EndBan { prefix } => {
            info!(uid, pid, name, from, %prefix, "an operator ended the ban of a prefix");
        }
        OperatorCommand::Forget { who } => {
            info!(uid, pid, name, from, who, "an operator had a person forgotten");
        }
        OperatorCommand::SetMode { limit, mode, until } => {
            let (mode, until) = (mode.name(), until.map(rfc3339));
            info!(uid, pid, name, from, limit, mode, until, "an operator changed the mode of limits");
        }
    }
}

/// The name of the caller's token.
fn name(by: Operator) -> Option<String> {
    by.name.map(|name| name.to_string())
}

/// The address of a caller over TCP, as `log.clients` says.
fn address(by: Operator, clients: &ClientFormatter) -> Option<String> {
    by.address.map(|ip| clients.show(Client::from_ip(ip)))
}
