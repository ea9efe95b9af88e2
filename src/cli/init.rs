//! `tollgate init`: writes a first file, with comments and a ladder of limits.
//!
//! What it writes passes the same check as every file. [`existing_file`] decides whether it may replace a file. The sets
//! of limits are TOML files, `presets/limits/*.toml`, and so are the tables for proxies in front, `presets/behind/*.toml`. A preset knows
//! more than addresses: `presets/accounts/*.toml` are the limits for that.

mod cases;
mod detect;
mod existing_file;
mod key_file;
mod questions;

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap::builder::PossibleValuesParser;

use self::detect::RouteProposal;
use super::Exit;
use super::sources::report;
use super::toml_value::{quoted, toml_of};
use crate::cli::output::{self, out, outln};
use crate::config::preset::{Preset, named};
use crate::config::values::{ListenUrl, UpstreamUrl};
use crate::config::{Config, Sources, combined, load, worst_cases};
use crate::defences::{OWNER_KEYS, OWNER_OPTION, OWNERS};
use crate::policy::matcher::Pattern;

#[derive(Debug, Clone, Args)]
pub(super) struct InitArgs {
    /// The file to write; - is standard output
    #[arg(default_value = "config.toml")]
    file: PathBuf,
    /// Where clients connect; may be repeated
    #[arg(long, value_name = "URL", default_value = LISTEN, value_parser = listen)]
    listen: Vec<String>,
    /// The application; may be repeated [default: http://127.0.0.1:8081, or the server of --detect]
    #[arg(long, value_name = "URL", value_parser = upstream)]
    upstream: Vec<String>,
    /// What is protected, as in 'POST /login'; may be repeated
    #[arg(long = "match", value_name = "PATTERN", default_value = PATTERN, value_parser = pattern)]
    patterns: Vec<String>,
    /// The application, if there is a preset for it, instead of --match: `tollgate presets` lists them
    #[arg(long, value_name = "NAME", conflicts_with = "patterns", value_parser = preset)]
    preset: Option<String>,
    /// Ask the running application, try one wrong password, and choose its preset, or propose a route from its form
    #[arg(long, value_name = "URL", conflicts_with_all = ["patterns", "preset"], value_parser = detect::address)]
    detect: Option<String>,
    /// With --detect: try this account's password too, from the terminal or standard input
    #[arg(long, value_name = "NAME", requires = "detect")]
    user: Option<String>,
    /// With --detect: try no sign-in
    #[arg(long, requires = "detect", conflicts_with = "user")]
    only_look: bool,
    /// With --detect https://...: certificates to check the application's by, in PEM
    #[arg(long, value_name = "FILE", requires = "detect")]
    upstream_ca: Option<PathBuf>,
    #[arg(skip)]
    proposal: Option<RouteProposal>,
    /// The set of limits
    #[arg(
        long,
        value_name = "SET",
        default_value = SETS[0].name,
        value_parser = PossibleValuesParser::new(SETS.map(|set| set.name))
    )]
    limits: String,
    /// Let every limit observe at first: decide, count and log, and refuse nothing
    #[arg(long)]
    observe: bool,
    #[arg(long = OWNERS.key, help = OWNER_OPTION)]
    knows_owners: bool,
    /// Let operators ask the gate, also by the dashboard on port 9180, and make the file with the token, admin.token
    #[arg(long)]
    admin: bool,
    /// The proxy in front of this gate, which is trusted to name the client
    #[arg(long, value_name = "PROXY", value_parser = PossibleValuesParser::new(BEHIND.map(|(name, _)| name)))]
    behind: Option<String>,
    /// Replace a file that is there; the package's is replaced without it as long as nobody has edited it
    #[arg(long)]
    force: bool,
    /// Ask nothing, also on a terminal
    #[arg(long, short)]
    yes: bool,
    /// Show the sets of limits and what they let through at worst
    #[arg(long, exclusive = true)]
    list: bool,
}

pub(super) fn init(arguments: &InitArgs) -> anyhow::Result<Exit> {
    if arguments.list {
        return list(arguments);
    }
    let is_replaced = existing_file::is_replaced(arguments)?;
    let arguments = &match &arguments.detect {
        Some(url) => detect::detected(arguments.clone(), url)?,
        None => questions::ask(arguments.clone())?,
    };
    let text = arguments.text(&arguments.limits);
    if load_text(&arguments.file.display().to_string(), &text).is_none() {
        return Ok(Exit::BadConfiguration);
    }
    if arguments.file == Path::new("-") {
        out!("{text}");
        return Ok(Exit::Ok);
    }
    match is_replaced {
        true => existing_file::replace(&arguments.file, &text)?,
        false => write_new(&arguments.file, &text)?,
    }
    if arguments.has_owners() {
        key_file::make(&arguments.file.with_file_name(OWNER_KEYS))?;
    }
    if arguments.admin {
        key_file::make(&arguments.file.with_file_name(ADMIN_TOKEN))?;
    }
    let has_cases = cases::make(arguments)?;
    output::tell(format_args!("{}", arguments.next_commands(has_cases)));
    Ok(Exit::Ok)
}

/// A ready set of limits.
struct StarterSet {
    name: &'static str,
    text: &'static str,
}

impl StarterSet {
    /// The purpose of the set, which is its first line, and the limits below it.
    fn parts(&self) -> (&'static str, &'static str) {
        let (about, limits) = self.text.split_once("\n\n").unwrap_or_default();
        (about.trim_start_matches("# "), limits)
    }
}

impl InitArgs {
    fn has_no_options(&self) -> bool {
        let chosen =
            self.preset.is_some() || self.behind.is_some() || self.observe || self.knows_owners || self.admin;
        !chosen
            && self.limits == SETS[0].name
            && (&self.listen[..], &self.patterns[..]) == (&[LISTEN.to_owned()], &[PATTERN.to_owned()])
            && (self.upstream.is_empty() || self.upstream == [UPSTREAM])
    }

    fn protected(&self) -> String {
        match &self.preset {
            Some(preset) => {
                let repeats = if self.application().is_some_and(Preset::knows_owners) { REPEATS } else { "" };
                format!("preset = {}{repeats}", quoted(preset))
            }
            None => {
                let rest = self.proposal.as_ref().map(|proposal| format!("\n{}", proposal.lines()));
                format!("match = {}{}", toml_of(&self.patterns), rest.unwrap_or_default())
            }
        }
    }

    fn upstream(&self) -> String {
        let upstreams =
            if self.upstream.is_empty() { vec![UPSTREAM.to_owned()] } else { self.upstream.clone() };
        let is_secure = upstreams.iter().any(|url| url.starts_with("https:"));
        let roots = self.upstream_ca.as_ref().filter(|_| is_secure);
        let absolute = roots.map(|file| std::path::absolute(file).unwrap_or_else(|_| file.clone()));
        let roots = absolute.map(|file| format!("{ROOTS}{}", quoted(&file.display().to_string())));
        format!("{}{}", toml_of(&upstreams), roots.unwrap_or_default())
    }

    /// The configuration that it would write, without a word about it.
    fn config(&self) -> Option<Config> {
        load(&sources("config.toml", &self.text(&self.limits))).config
    }

    /// The same, with limits that refuse.
    fn enforcing(&self) -> Option<Config> {
        let sources = sources("config.toml", &self.text(&self.limits));
        load(&sources.with_set([("mode".to_owned(), "enforce".to_owned())])).config
    }

    fn mode(&self) -> String {
        if self.observe { "mode = \"observe\"" } else { "#mode = \"observe\"" }.to_owned()
    }

    fn client(&self) -> String {
        let known = |proxy: &String| BEHIND.iter().find(|(name, _)| name == proxy);
        self.behind.as_ref().and_then(known).map_or(NO_PROXY, |(_, table)| table.trim_end()).to_owned()
    }

    fn application(&self) -> Option<&'static Preset> {
        self.preset.as_deref().and_then(|name| named(name).ok())
    }

    /// Whether known owners are asked for, and the application is not known to prove nothing.
    fn has_owners(&self) -> bool {
        self.knows_owners && self.application().is_none_or(Preset::knows_owners)
    }

    fn owners(&self) -> String {
        let (table, secret) = (format!("[{}]", OWNERS.key), format!("secret = \"${{file:{OWNER_KEYS}}}\""));
        let mut lines = vec![&*table, &secret];
        if self.application().is_some_and(Preset::knows_owners) {
            lines.extend(ADDRESSES);
        }
        let comment = if self.has_owners() { "" } else { "#" };
        lines.iter().map(|line| format!("{comment}{line}")).collect::<Vec<_>>().join("\n")
    }

    /// The package's unit makes a directory for the socket. For any other file the socket is next to it.
    fn admin(&self) -> String {
        let beside = std::path::absolute(self.file.with_file_name("admin.sock"));
        let socket = match beside {
            Ok(beside) if self.admin && !self.is_packaged() && self.file != Path::new("-") => beside,
            _ => PathBuf::from(ADMIN_SOCKET),
        };
        let listen = [format!("unix:{}", socket.display()), DASHBOARD.to_owned()];
        let listen = format!("listen = {}", toml_of(&listen));
        let token = format!("token  = \"${{file:{ADMIN_TOKEN}}}\"");
        let comment = if self.admin { "" } else { "#" };
        ["[admin]", &listen, &token].map(|line| format!("{comment}{line}")).join("\n")
    }

    /// The package's unit makes a directory for it.
    fn store(&self) -> String {
        let comment = if self.is_packaged() { "" } else { "#" };
        ["[store]", "snapshot = \"buckets\""].map(|line| format!("{comment}{line}")).join("\n")
    }

    /// Whether the package's unit runs this file.
    fn is_packaged(&self) -> bool {
        self.file == Path::new(PACKAGED)
    }

    /// The limits of a set, and those that the application's preset has the fields for.
    fn limits(&self, set: &str) -> String {
        let clients = SETS.iter().find(|known| known.name == set).map_or("", |set| set.parts().1);
        let application = self.application();
        let known = match (application, &self.proposal) {
            (Some(preset), _) => {
                Some((preset.names_accounts(), preset.tells_successes(), preset.names_passwords()))
            }
            (None, Some(route)) => Some((route.names_accounts, route.tells_successes, true)),
            (None, None) => None,
        };
        let Some((names_accounts, tells_successes, names_passwords)) = known else {
            return clients.replace("{count}\n", "");
        };
        let mut limits = vec![clients.replace("{count}", "count = \"failures\"")];
        if names_accounts {
            match tells_successes {
                true if self.knows_owners => limits.push(ACCOUNT.to_owned()),
                true => {}
                false => limits.push(UNPROVEN.to_owned()),
            }
            if names_passwords {
                limits.push(SPRAY.to_owned());
            }
        }
        if application.is_some_and(Preset::sends_messages) {
            limits.push(RECIPIENT.to_owned());
        }
        limits.join("\n")
    }

    /// The options of `tollgate test` for this file: where limits observe, it tests what they would do.
    fn test_options(&self, option: &str) -> String {
        format!("{option}{}", if self.observe { " --set mode=enforce" } else { "" })
    }

    /// The name of the file of cases.
    fn cases(&self) -> PathBuf {
        let is_file = self.file != Path::new("-");
        cases::file_of(if is_file { &self.file } else { Path::new("config.toml") })
    }

    /// What to do with the file now.
    fn next_commands(&self, has_cases: bool) -> String {
        let file = self.file.display().to_string();
        let is_default = file == "config.toml";
        let option = if is_default { String::new() } else { format!(" -c {file}") };
        let word = if is_default { String::new() } else { format!(" {file}") };
        let start = match self.is_packaged() {
            true => "systemctl enable --now tollgate".to_owned(),
            false => format!("tollgate run{option}"),
        };
        let test = format!("tollgate test{} {}", self.test_options(&option), self.cases().display());
        let mut commands = vec![
            (format!("tollgate check{word}"), "what its limits let through at worst"),
            (format!("tollgate explain{option} {}", self.example_path()), "what would happen to an attempt"),
            (start, "start the gate"),
        ];
        if has_cases {
            commands.insert(2, (test, "whether it decides as the cases in that file say"));
        }
        let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or_default();
        let lines = commands.iter().map(|(command, what)| format!("  {command:<width$}   {what}\n"));
        format!("{file} is written. Next:\n\n{}", lines.collect::<String>())
    }

    /// A path that is protected.
    fn example_path(&self) -> String {
        let pattern = match self.application() {
            Some(preset) => preset.text().split('"').find(|word| word.starts_with("POST /")),
            None => self.patterns.first().map(String::as_str),
        };
        let path = pattern.and_then(|pattern| pattern.split_whitespace().nth(1)).unwrap_or("/");
        let path = path.replace("/**", "").replace('*', "x");
        if path.is_empty() { "/".to_owned() } else { path }
    }

    /// The file with one of the sets.
    fn text(&self, set: &str) -> String {
        let values = [
            (
                "{cases}",
                self.cases().file_name().map(|name| name.to_string_lossy().into()).unwrap_or_default(),
            ),
            ("{listen}", toml_of(&self.listen)),
            ("{upstream}", self.upstream()),
            ("{mode}", self.mode()),
            ("{client}", self.client()),
            ("{owners}", self.owners()),
            ("{protected}", self.protected()),
            ("{set}", set.to_owned()),
            ("{limits}", self.limits(set)),
            ("{store}", self.store()),
            ("{admin}", self.admin()),
        ];
        let mut text = String::new();
        for line in STARTER.split_inclusive('\n') {
            // One placeholder a line; an inserted value is not searched again.
            match values.iter().find(|(placeholder, _)| line.contains(placeholder)) {
                Some((placeholder, value)) => text.push_str(&line.replacen(placeholder, value, 1)),
                None => text.push_str(line),
            }
        }
        text
    }
}

fn list(arguments: &InitArgs) -> anyhow::Result<Exit> {
    for set in &SETS {
        let Some(config) = load_text(set.name, &arguments.text(set.name)) else { return Ok(Exit::Failed) };
        let mut lines = vec![format!("{:<9}{}", set.name, set.parts().0)];
        lines.extend(worst_cases(&config.policy).iter().map(|(_, words)| format!("  {words}")));
        lines.extend(combined(&config.policy).iter().map(|route| format!("  {route}")));
        outln!("{}\n", lines.join("\n"));
    }
    Ok(Exit::Ok)
}

/// The configuration of a text; prints its mistakes and warnings.
fn load_text(name: &str, text: &str) -> Option<Config> {
    let loaded = load(&sources(name, text));
    loaded.diagnostics.iter().for_each(report);
    loaded.config
}

/// A text whose keys are not there yet.
fn sources(name: &str, text: &str) -> Sources {
    let mut sources = Sources::from_text(name, text);
    // The files of the keys are made later, and their place says nothing about the text.
    sources.environment.push(("KEY".to_owned(), "0".repeat(32)));
    for (table, key) in [(OWNERS.key, "secret"), ("admin", "token")] {
        if text.contains(&format!("\n[{table}]\n")) {
            sources = sources.with_set([(format!("{table}.{key}"), "${KEY}".to_owned())]);
        }
    }
    sources
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let opened = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = opened.with_context(|| format!("cannot write {}", path.display()))?;
    let written = file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()));
    if written.is_err() {
        // A partial file would block the next attempt. If removing fails, that attempt reports the file.
        let _ = fs::remove_file(path);
    }
    written
}

fn listen(text: &str) -> anyhow::Result<String> {
    text.parse::<ListenUrl>()?;
    Ok(text.to_owned())
}

fn upstream(text: &str) -> anyhow::Result<String> {
    text.parse::<UpstreamUrl>()?;
    Ok(text.to_owned())
}

fn pattern(text: &str) -> anyhow::Result<String> {
    text.parse::<Pattern>()?;
    Ok(text.to_owned())
}

fn preset(text: &str) -> anyhow::Result<String> {
    Ok(named(text)?.name.to_owned())
}

const LISTEN: &str = "http://[::]:8080";
const UPSTREAM: &str = "http://127.0.0.1:8081";
const PATTERN: &str = "POST /login";
const ROOTS: &str = "\n\n# Its certificate is checked by these alone.\ntls.upstream_ca = ";
/// The file of the package's unit.
const PACKAGED: &str = "/etc/tollgate/config.toml";
/// The file with the token of operators, next to the configuration.
const ADMIN_TOKEN: &str = "admin.token";
/// In the directory that the unit makes.
const ADMIN_SOCKET: &str = "/run/tollgate/admin.sock";
const DASHBOARD: &str = "http://127.0.0.1:9180";
const NO_PROXY: &str = "\
# If another proxy is in front of this gate, name its address here. Otherwise all its visitors are one client.
#[client]
#trust = \"192.0.2.10\"";
/// Tables for proxies in front of the gate.
const BEHIND: [(&str, &str); 4] = [
    ("nginx", include_str!("../../presets/behind/nginx.toml")),
    ("caddy", include_str!("../../presets/behind/caddy.toml")),
    ("traefik", include_str!("../../presets/behind/traefik.toml")),
    ("cloudflare", include_str!("../../presets/behind/cloudflare.toml")),
];
/// For applications whose failures are known.
const REPEATS: &str = "\n# A request that failed and comes again as it was, as from a phone with an old password, costs nothing more.\n\
                       repeats = \"free\"";
/// Limits that need the account of a sign-in, and its outcome.
const ACCOUNT: &str = include_str!("../../presets/accounts/account.toml");
/// Providers give their customers other addresses of such prefixes.
const ADDRESSES: [&str; 3] = ["addresses = true", "address_ipv4 = 24", "address_ipv6 = 56"];
const UNPROVEN: &str = include_str!("../../presets/accounts/unproven.toml");
const SPRAY: &str = include_str!("../../presets/accounts/spray.toml");
const RECIPIENT: &str = include_str!("../../presets/accounts/recipient.toml");
const STARTER: &str = include_str!("../../presets/starter.toml");
/// The first set is the default.
const SETS: [StarterSet; 3] = [
    StarterSet { name: "usual", text: include_str!("../../presets/limits/usual.toml") },
    StarterSet { name: "strict", text: include_str!("../../presets/limits/strict.toml") },
    StarterSet { name: "crowd", text: include_str!("../../presets/limits/crowd.toml") },
];
