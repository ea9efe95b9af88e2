//! Reads jails of fail2ban: `maxretry` within `findtime`, then `bantime`.
//!
//! A jail follows a log, the gate sees the attempts themselves. So a jail becomes limits of the application that its filter
//! is about: a preset where there is one. Jails of other protocols are losses.

mod jails;

use self::jails::{Jail, JailFile, JailSetting};
use super::imported::{Imported, ImportedLimit, ImportedRoute, SourceNote, UniqueNames, prefix};
use super::rates::{OldRule, WrittenRate, WrittenShape};
use super::times::seconds;
use crate::config::preset::presets;

/// What a file of jails says.
pub(super) fn read(text: &str) -> Imported {
    let file = JailFile::parse(text);
    let (mut out, mut names) = (Imported::default(), UniqueNames::default());
    for jail in &file.jails {
        read_jail(&file, jail, &mut names, &mut out);
    }
    for (section, settings) in file.sections() {
        for setting in settings.iter().filter(|setting| !KNOWN.contains(&&*setting.key)) {
            let reason =
                REASONS.iter().find(|(keys, _)| keys.split(' ').any(|key| setting.key.starts_with(key)));
            let what = format!("{} in [{section}]", setting.key);
            out.lose(setting.line, what, reason.map_or(UNKNOWN, |(_, reason)| reason));
        }
    }
    out
}

fn read_jail(file: &JailFile, jail: &Jail, names: &mut UniqueNames, out: &mut Imported) {
    let what = format!("[{}]", jail.name);
    if file.value(jail, "enabled").is_some_and(|word| matches!(word, "false" | "no" | "0" | "off")) {
        return out.lose(jail.line, what, "the jail is not enabled");
    }
    let filter = file.value(jail, "filter").unwrap_or(&jail.name);
    let filter = filter.split('[').next().unwrap_or(filter).replace("%(__name__)s", &jail.name);
    let Some(preset) = preset_of(&filter) else {
        let why = match OTHER_PROTOCOLS.iter().any(|protocol| filter.contains(protocol)) {
            true => "tollgate speaks HTTP only: keep this jail",
            false => "no preset for this filter: write a route with match, user and failure",
        };
        return out.lose(jail.line, what, why);
    };
    let number = |key: &str, otherwise: u64| file.value(jail, key).map_or(Some(otherwise), seconds);
    let (Some(count), Some(within)) = (number("maxretry", 5), number("findtime", 600)) else {
        return out.lose(jail.line, what, "maxretry or findtime cannot be read as a number");
    };
    let count = u32::try_from(count).ok().filter(|count| (1..=MOST_STRIKES).contains(count));
    let (Some(count), true) = (count, (1..=LONGEST).contains(&within)) else {
        return out.lose(jail.line, what, "maxretry is 1 to 1,000, and findtime at most a year");
    };
    let name = names.take(&jail.name, "jail");
    let (length, shape) = ban(file, jail, count, out);
    let rate = WrittenRate { count, period: within, burst: count, shape };
    let exempt = exempt(file, jail, out);
    let old = OldRule::Ban { count: count.into(), within, length };
    out.limits.push(ImportedLimit {
        exempt,
        counts_failures: true,
        notes: notes(file, jail),
        ..ImportedLimit::new(name.clone(), rate, old)
    });
    match out.routes.iter_mut().find(|route| route.preset == Some(preset)) {
        Some(route) => route.limits.push(name),
        None => {
            let limits = vec![name];
            let notes = vec![SourceNote::new(jail.line, format!("filter {filter}"))];
            let name = preset.replace('.', "-");
            out.routes.push(ImportedRoute {
                name,
                preset: Some(preset),
                limits,
                notes,
                ..Default::default()
            });
        }
    }
}

/// How long a ban is, and what is written for it.
fn ban(file: &JailFile, jail: &Jail, after: u32, out: &mut Imported) -> (u64, WrittenShape) {
    let given = file.value(jail, "bantime").unwrap_or("10m");
    let wait = match seconds(given) {
        Some(0) | None => {
            out.lose(
                jail.line,
                format!("bantime = {given}"),
                "nobody is shut out for good: a year is written",
            );
            LONGEST
        }
        Some(wait) => wait.min(LONGEST),
    };
    let grows =
        file.value(jail, "bantime.increment").is_some_and(|word| matches!(word, "true" | "yes" | "1" | "on"));
    let max = file.value(jail, "bantime.maxtime").and_then(seconds).unwrap_or(WEEK).clamp(wait, LONGEST);
    match grows {
        true => (wait, WrittenShape::Ban { after, wait, factor: 2, max }),
        false => (wait, WrittenShape::Ban { after, wait, factor: 1, max: wait }),
    }
}

fn exempt(file: &JailFile, jail: &Jail, out: &mut Imported) -> Vec<String> {
    let mut exempt = Vec::new();
    let Some(setting) = file.setting(jail, "ignoreip") else { return exempt };
    for word in setting.value.split([' ', ',', '\t']).filter(|word| !word.is_empty()) {
        match prefix(word) {
            Some(prefix) if !exempt.contains(&prefix) => exempt.push(prefix),
            Some(_) => {}
            None => out.lose(setting.line, format!("ignoreip {word}"), "not an address: add it to `exempt`"),
        }
    }
    exempt
}

/// The lines that made a limit.
fn notes(file: &JailFile, jail: &Jail) -> Vec<SourceNote> {
    let used = ["maxretry", "findtime", "bantime", "bantime.increment"];
    let used = used.iter().filter_map(|key| file.setting(jail, key));
    let head = SourceNote::new(jail.line, format!("[{}]", jail.name));
    let lines =
        used.map(|JailSetting { line, key, value }| SourceNote::new(*line, format!("{key} = {value}")));
    std::iter::once(head).chain(lines).collect()
}

/// The preset of an application that a filter is named after.
fn preset_of(filter: &str) -> Option<&'static str> {
    let other = ALIASES.iter().find(|(alias, _)| filter.contains(alias)).map(|(_, preset)| *preset);
    let named = presets().iter().map(|preset| preset.name);
    named.filter(|name| filter.contains(name)).max_by_key(|name| name.len()).or(other)
}

/// Filters that are called otherwise than the preset.
const ALIASES: [(&str, &str); 7] = [
    ("wp-", "wordpress"),
    ("wplogin", "wordpress"),
    ("django", "django-admin"),
    ("http-auth", "basic"),
    ("apache-auth", "basic"),
    ("traefik-auth", "basic"),
    ("lighttpd-auth", "basic"),
];
const OTHER_PROTOCOLS: [&str; 14] = [
    "ssh", "dropbear", "ftp", "postfix", "dovecot", "exim", "sendmail", "courier", "cyrus", "sieve", "named",
    "asterisk", "mysqld", "recidive",
];
const KNOWN: [&str; 8] = [
    "enabled",
    "filter",
    "maxretry",
    "findtime",
    "bantime",
    "bantime.increment",
    "bantime.maxtime",
    "ignoreip",
];
const REASONS: [(&str, &str); 3] = [
    (
        "port protocol chain logpath backend journalmatch logencoding usedns maxlines datepattern mode",
        "the gate sees attempts, not logs or ports",
    ),
    (
        "action banaction dest sender mta",
        "contrib/fail2ban reads the gate's log, for those who want bans in the firewall as well",
    ),
    ("bantime.", "waits grow by `factor`, up to `max`"),
];
const UNKNOWN: &str = "has no counterpart here, or is not understood";
/// Failures before a wait.
const MOST_STRIKES: u32 = 1000;
/// Seconds of a year.
const LONGEST: u64 = 365 * 86_400;
const WEEK: u64 = 7 * 86_400;
