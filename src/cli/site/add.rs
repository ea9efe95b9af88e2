//! `tollgate site add`: writes a site as a route with a preset and one for its other pages, to a separate file where the
//! configuration includes a directory, and else to the end of the main file.
//!
//! What is there stays byte by byte. The whole configuration is checked with the site before a file changes.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use clap::Args;

use super::sources_of;
use super::unplaced_file::UnplacedFile;
use crate::cli::Exit;
use crate::cli::output::{self, errln, out};
use crate::cli::sources::{ConfigArgs, report_all};
use crate::cli::toml_value::{quoted, toml_of};
use crate::config::preset::named;
use crate::config::values::UpstreamUrl;
use crate::config::{Config, Loaded, Sources, WrittenRoute, load, policy_source};
use crate::policy::matcher::HostPattern;
use crate::policy::{Policy, Route};

#[derive(Debug, Args)]
pub(super) struct SiteAddArgs {
    /// The name of the site, its route and its file
    #[arg(value_parser = name)]
    name: String,
    /// The application: `tollgate presets` lists them
    #[arg(long, value_name = "NAME", value_parser = preset)]
    preset: String,
    /// A host, as shop.example.org or *.shop.example.org; may be repeated
    #[arg(long = "host", value_name = "HOST", required = true, value_parser = host)]
    hosts: Vec<String>,
    /// Where the application listens; may be repeated
    #[arg(long = "upstream", value_name = "URL", required = true, value_parser = upstream)]
    upstreams: Vec<String>,
    /// Print what would be written; change nothing
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    pub(super) config: ConfigArgs,
}

pub(super) fn add(arguments: &SiteAddArgs) -> anyhow::Result<Exit> {
    let sources = sources_of(&arguments.config)?;
    if policy_source(&sources).is_some() {
        bail!(
            "the policy of {} is in the store: add the site to it with `tollgate policy push`",
            sources.name
        );
    }
    let before = load(&sources);
    let Some(config) = &before.config else {
        report_all(&before, &sources.name);
        return Ok(Exit::BadConfiguration);
    };
    let written = WrittenRoute::all(&sources);
    arguments.refuse_known_names(&written)?;
    arguments.refuse_known_hosts(&config.policy, &written)?;
    let addition = SiteAddition::of(arguments, &sources)?;
    let after = with_new_findings(load(&addition.applied(&sources)), &before);
    report_all(&after, &sources.name);
    if after.config.is_none() {
        errln!("tollgate: nothing is changed");
        return Ok(Exit::BadConfiguration);
    }
    if arguments.print {
        out!("{}", addition.tables);
        errln!("tollgate: this would be written to {}", addition.place().display());
        return Ok(Exit::Ok);
    }
    addition.write(&sources)?;
    output::tell(format_args!("{}", addition.next_commands(config)));
    Ok(Exit::Ok)
}

impl SiteAddArgs {
    fn pages(&self) -> String {
        format!("{}{PAGES}", self.name)
    }

    fn refuse_known_names(&self, written: &[WrittenRoute]) -> anyhow::Result<()> {
        let names = [self.name.clone(), self.pages()];
        match written.iter().find(|known| names.contains(&known.name)) {
            Some(known) => bail!("there is a {} already", place_of(known)),
            None => Ok(()),
        }
    }

    /// Refuses a host that a route has. One that a pattern of a route means as well gets a warning.
    fn refuse_known_hosts(&self, policy: &Policy, written: &[WrittenRoute]) -> anyhow::Result<()> {
        let place = |route: &Route| {
            let known = written.iter().find(|written| *written.name == *route.application);
            known.map_or_else(|| format!("route `{}`", route.name), place_of)
        };
        for host in &self.hosts {
            let find = |is: &dyn Fn(&HostPattern) -> bool| {
                policy.routes.iter().find(|route| route.matching.hosts.iter().any(is))
            };
            if let Some(route) = find(&|known| known.to_string() == *host) {
                bail!("{host} is a host of {} already", place(route));
            }
            if let Some(route) = find(&|known| known.matches(host)) {
                errln!(
                    "tollgate: warning: {host} is also below a host of {}, which comes first: where both match, it counts",
                    place(route)
                );
            }
        }
        Ok(())
    }

    fn tables(&self) -> String {
        let [name, pages] = [&self.name, &self.pages()].map(|name| key(name));
        let [host, upstream] = [&self.hosts, &self.upstreams].map(|values| toml_of(values));
        let preset = quoted(&self.preset);
        format!(
            "[route.{name}]\npreset   = {preset}\nhost     = {host}\nupstream = {upstream}\n\n\
             [route.{pages}]  # the rest of the site, without limits\nmatch    = \"ANY /**\"\nhost     = {host}\n\
             upstream = {upstream}\nlimits   = []\n"
        )
    }
}

/// What is written, and where.
struct SiteAddition {
    /// The main file; not a link to it, which would be replaced.
    main: PathBuf,
    /// The file of the site; `None` appends it to the main one.
    own: Option<PathBuf>,
    tables: String,
}

impl SiteAddition {
    fn of(arguments: &SiteAddArgs, sources: &Sources) -> anyhow::Result<Self> {
        let main = sources.path.as_deref().filter(|path| path.is_file());
        let main =
            main.with_context(|| format!("{} is no file that a site can be added to", sources.name))?;
        let main = main.canonicalize().with_context(|| cannot_write(main))?;
        let own = sources.place_of_included(&format!("{}.toml", arguments.name));
        if let Some(own) = own.as_ref().filter(|own| fs::symlink_metadata(own).is_ok()) {
            bail!("{} is there already, and is left as it is: give the site another name", own.display());
        }
        Ok(Self { main, own, tables: arguments.tables() })
    }

    fn place(&self) -> &Path {
        self.own.as_deref().unwrap_or(&self.main)
    }

    /// The sources as they are afterwards.
    fn applied(&self, sources: &Sources) -> Sources {
        match &self.own {
            Some(own) => sources.clone().with_new_file(own, &self.tables),
            None => Sources { text: self.appended_to(&sources.text), ..sources.clone() },
        }
    }

    fn appended_to(&self, text: &str) -> String {
        let gap = if text.is_empty() || text.ends_with('\n') { "\n" } else { "\n\n" };
        let added = format!("{gap}{}", self.tables);
        let added = if text.contains("\r\n") { added.replace('\n', "\r\n") } else { added };
        format!("{text}{added}")
    }

    fn write(&self, sources: &Sources) -> anyhow::Result<()> {
        let written = match &self.own {
            Some(own) => self.write_own(own),
            None => self.append(sources),
        };
        written.with_context(|| cannot_write(self.place()))
    }

    fn write_own(&self, own: &Path) -> io::Result<()> {
        let directory = own.parent().filter(|directory| *directory != Path::new(""));
        if let Some(directory) = directory.filter(|directory| !directory.exists()) {
            fs::create_dir(directory)?;
        }
        // Patterns of `include` skip names that begin with a dot.
        let name = format!(".{}.new", own.file_name().unwrap_or_default().display());
        UnplacedFile::write(own.with_file_name(name), &self.tables, &self.main)?.put(own)
    }

    fn append(&self, sources: &Sources) -> io::Result<()> {
        let mut new = self.main.clone().into_os_string();
        new.push(".new");
        let unplaced = UnplacedFile::write(new.into(), &self.appended_to(&sources.text), &self.main)?;
        // Whoever adds a site at the same time waits for this name, or has changed the file before.
        if fs::read_to_string(&self.main)? != sources.text {
            return Err(io::Error::other("it was changed in the meantime: try again"));
        }
        unplaced.replace(&self.main)
    }

    /// What to do now.
    fn next_commands(&self, config: &Config) -> String {
        let mut text =
            format!("{} is written, and the configuration is valid with it", self.place().display());
        if self.own.is_none() {
            text += "; with `include = [\"sites/*.toml\"]` each site gets a separate file";
        }
        let main = self.main.display();
        let next = match () {
            () if config.process.is_watched => return text + ". The gate reads it by itself.\n",
            () if self.main == Path::new(PACKAGED) => "systemctl reload tollgate".to_owned(),
            () if !config.operators.admin.is_empty() => format!("tollgate reload -c {main}"),
            () => "kill -HUP PID, with the process id of the gate".to_owned(),
        };
        format!("{text}. Next:\n\n  {next}\n")
    }
}

/// Mistakes, and warnings that were not there before: those of other sites are known.
fn with_new_findings(mut after: Loaded, before: &Loaded) -> Loaded {
    let known: HashSet<&str> = before.diagnostics.iter().map(|found| found.message.as_str()).collect();
    after.diagnostics.retain(|found| found.is_error() || !known.contains(&*found.message));
    after
}

/// As in "route `shop` at sites/shop.toml:1:8".
fn place_of(written: &WrittenRoute) -> String {
    let kind = if written.is_template { "template" } else { "route" };
    format!("{kind} `{}` at {}", written.name, written.place)
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}

/// A name as a key of TOML.
fn key(name: &str) -> String {
    if name.contains('.') { quoted(name) } else { name.to_owned() }
}

fn name(text: &str) -> anyhow::Result<String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    ensure!(
        (1..=MAX_NAME).contains(&text.len()) && text.chars().all(is_plain) && !text.starts_with('.'),
        "write 1 to {MAX_NAME} of: letters, digits, `-`, `_`, `.`, with no dot first"
    );
    Ok(text.to_owned())
}

fn preset(text: &str) -> anyhow::Result<String> {
    Ok(named(text)?.name.to_owned())
}

fn host(text: &str) -> anyhow::Result<String> {
    let pattern = HostPattern::new(text).filter(|_| text.starts_with('[') || !text.contains(':'));
    let pattern = pattern.ok_or_else(|| {
        anyhow!(
            "write it without scheme, path and port, and in ASCII, as in shop.example.org or *.example.org"
        )
    })?;
    Ok(pattern.to_string())
}

fn upstream(text: &str) -> anyhow::Result<String> {
    text.parse::<UpstreamUrl>()?;
    Ok(text.to_owned())
}

/// What the name of the route for the other pages ends with.
const PAGES: &str = "-pages";
/// A route has 64 letters at most, and one of them has `-pages` behind the name.
const MAX_NAME: usize = 64 - PAGES.len();
/// The file of the package's unit.
const PACKAGED: &str = "/etc/tollgate/config.toml";
