//! Writes what was imported as a configuration file, with the old lines and what is lost as comments.
//!
//! The file is valid: where the other one has no address to listen at, no upstream or no place, a placeholder stands with a
//! comment.

use super::bound::describe;
use super::imported::{Imported, ImportedLimit, ImportedRoute, SourceNote};
use super::rates::{WrittenRate, WrittenShape};
use crate::cli::toml_value::{list_of, quoted, toml_of};
use crate::config::{Sources, load};

/// The file, and whether it is valid; it is, unless a reader has a fault.
pub(super) fn write(imported: &Imported, program: &str, name: &str) -> (String, bool) {
    let listens = [&imported.listen[..], &[PLACEHOLDERS[0].to_owned()], &[PLACEHOLDERS[1].to_owned()]];
    // An upstream may be at the address of the other program itself, or at a placeholder.
    let texts = listens.into_iter().filter(|listen| !listen.is_empty());
    let texts = texts.map(|listen| text(imported, listen, program, name));
    let mut first = None;
    for text in texts {
        if load(&Sources::from_text(name, &text)).config.is_some() {
            return (text, true);
        }
        first.get_or_insert(text);
    }
    (first.unwrap_or_default(), false)
}

fn text(imported: &Imported, listen: &[String], program: &str, name: &str) -> String {
    let mut lines = Lines::default();
    lines.comment(&format!("Written by `tollgate import {program}` from {name}."));
    lines.comment("Read it, `tollgate check` it, and run it with --observe next to the old limits first.");
    lines.add("");
    if listen != imported.listen {
        lines.comment("A placeholder: the file names no address that can be kept.");
    }
    lines.add(&format!("listen   = {}", toml_of(listen)));
    match imported.upstream.is_empty() {
        true => {
            lines.comment("A placeholder: write the address of the application.");
            lines.add(&format!("upstream = {}", quoted(UPSTREAM)));
        }
        false => lines.add(&format!("upstream = {}", toml_of(&imported.upstream))),
    }
    lines.tables(imported, listen);
    if imported.routes.is_empty() && !imported.limits.is_empty() {
        lines.comment("A placeholder: the file does not say where.");
        lines.add("[route.login]\nmatch = \"POST /login\"\n");
    }
    imported.routes.iter().for_each(|route| lines.route(route));
    imported.limits.iter().for_each(|limit| lines.limit(limit));
    lines.losses(imported);
    lines.0.trim_end().to_owned() + "\n"
}

#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    fn comment(&mut self, text: &str) {
        // A comment ends with its line, and may hold no control characters.
        let letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
        let line: String = letters.collect();
        self.add(format!("# {line}").trim_end());
    }

    fn notes(&mut self, notes: &[SourceNote]) {
        notes.iter().for_each(|note| self.comment(&format!("line {}: {}", note.line, note.text)));
    }

    /// The tables without names.
    fn tables(&mut self, imported: &Imported, listen: &[String]) {
        self.add("");
        if !imported.trust.is_empty() {
            self.add(&format!("[client]\ntrust = {}", list_of(&imported.trust)));
            if let Some(header) = &imported.header {
                self.add(&format!("header = {}", quoted(header)));
            }
            self.add("");
        }
        if imported.has_proxy_protocol {
            // Without a trusted proxy no client could connect.
            let is_trusted = |listen: &String| {
                let is_socket = listen.starts_with("unix:");
                imported.trust.iter().any(|entry| (entry == "unix:") == is_socket)
            };
            match listen.iter().all(is_trusted) {
                true => self.add("[proxy]\nproxy_protocol = \"any\"\n"),
                false => self.comment("The PROXY protocol was on: name the proxies in client.trust, then set proxy.proxy_protocol.\n"),
            }
        }
        if let Some(status) = imported.refused_status {
            self.add(&format!("[refuse]\nstatus = {status}\n"));
        }
        if !imported.networks.is_empty() {
            self.add("[networks]");
            for (name, prefixes) in &imported.networks {
                self.add(&format!("{name} = {}", list_of(prefixes)));
            }
            self.add("");
        }
    }

    fn route(&mut self, route: &ImportedRoute) {
        self.notes(&route.notes);
        self.add(&format!("[route.{}]", route.name));
        match route.preset {
            Some(preset) => self.add(&format!("preset = {}", quoted(preset))),
            None => self.add(&format!("match = {}", toml_of(&route.patterns))),
        }
        if !route.hosts.is_empty() {
            self.add(&format!("host = {}", toml_of(&route.hosts)));
            if route.takes_other_hosts {
                self.add("host_default = true");
            }
        }
        if !route.upstream.is_empty() {
            self.add(&format!("upstream = {}", toml_of(&route.upstream)));
        }
        self.add(&format!("limits = {}", list_of(&route.limits)));
        if let Some(permits) = route.in_flight {
            self.add(&format!("in_flight = {permits}"));
        }
        route.keys.iter().for_each(|line| self.add(line));
        self.add("");
    }

    fn limit(&mut self, limit: &ImportedLimit) {
        self.notes(&limit.notes);
        describe(limit).iter().for_each(|line| self.comment(line));
        self.add(&format!("[limit.{}]", limit.name));
        if limit.key != "ip" {
            self.add(&format!("key = {}", quoted(&limit.key)));
        }
        self.rate(limit.rate);
        if limit.counts_failures {
            self.add("count = \"failures\"");
        }
        if let Some(permits) = limit.in_flight {
            self.add(&format!("in_flight = {permits}"));
        }
        if !limit.exempt.is_empty() {
            self.add(&format!("exempt = {}", list_of(&limit.exempt)));
        }
        if limit.is_observed {
            self.add("mode = \"observe\"");
        }
        let escalate = match limit.rate.shape {
            WrittenShape::Ban { after, wait, factor, max } => Some((after, wait, factor, max)),
            WrittenShape::Block { wait } => Some((1, wait, 1, wait)),
            WrittenShape::Steady { .. } | WrittenShape::Rolling { .. } => None,
        };
        if let Some((after, wait, factor, max)) = escalate {
            self.add(&format!("\n[limit.{}.escalate]\nafter = {after}", limit.name));
            let (wait, max) = (duration(wait), duration(max));
            self.add(&format!("wait = \"{wait}\"\nfactor = {factor}\nmax = \"{max}\""));
        }
        self.add("");
    }

    fn rate(&mut self, rate: WrittenRate) {
        let WrittenRate { count, period, burst, shape } = rate;
        let tokens = match period {
            1 => format!("{count}/s"),
            60 => format!("{count}/min"),
            _ => format!("{count} per {}", duration(period)),
        };
        if let WrittenShape::Rolling { every } = shape {
            self.add(&format!("rolling = \"{count} per {}\"", duration(period)));
            self.add(&format!("every = \"{}\"", duration(every)));
            return;
        }
        match burst == count {
            true => self.add(&format!("rate = \"{tokens}\"")),
            false => self.add(&format!("rate = \"{tokens} burst {burst}\"")),
        }
        match shape {
            WrittenShape::Steady { wait } if wait > 0 && wait.is_multiple_of(1000) => {
                self.add(&format!("wait = \"{}s\"", wait / 1000));
            }
            WrittenShape::Steady { wait } if wait > 0 => self.add(&format!("wait = \"{wait}ms\"")),
            _ => {}
        }
    }

    fn losses(&mut self, imported: &Imported) {
        let losses = imported.losses();
        if losses.is_empty() {
            return;
        }
        self.comment("Not carried over, or not as it was:");
        for loss in losses {
            let shown: Vec<String> = loss.lines.iter().take(SHOWN_LINES).map(ToString::to_string).collect();
            let more = match loss.lines.len().saturating_sub(SHOWN_LINES) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let word = if loss.lines.len() == 1 { "line" } else { "lines" };
            self.comment(&format!("{word} {}{more}: {}: {}", shown.join(", "), loss.what, loss.why));
        }
    }
}

/// A length of time in its largest whole unit.
fn duration(seconds: u64) -> String {
    let units = [(86_400, "d"), (3600, "h"), (60, "m")];
    let whole = units.iter().find(|(unit, _)| seconds >= *unit && seconds.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{seconds}s"), |(unit, name)| format!("{}{name}", seconds / unit))
}

/// Where the written gate listens if the old address cannot be kept; the second is for an application at the first.
const PLACEHOLDERS: [&str; 2] = ["http://[::]:8080", "http://[::]:8880"];
const UPSTREAM: &str = "http://127.0.0.1:8081";
/// Lines that are named of a loss that many lines share.
const SHOWN_LINES: usize = 12;
