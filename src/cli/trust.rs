//! `tollgate trust update`: fetches the networks of the proxies that `trust` names by `@NAME`.
//!
//! An answer that is not such a list, or less than half of the list before, changes nothing. A running gate watches the
//! files and takes a new one by itself.

mod answer;
mod fetch;

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand};
use http::Uri;
use ipnet::IpNet;
use jiff::civil::Date;
use tollgate_base::download::MAX_DOWNLOAD;
use tollgate_grammar::diagnostic::suggest;

use super::Exit;
use super::service_unit::ServiceUnit;
use super::sources::{ConfigArgs, counted, report_all};
use crate::cli::output::{errln, outln};
use crate::config::proxies::{NetworkList, ProxyService, Publication};
use crate::config::{Config, Sources, load};

#[derive(Debug, Args)]
pub(super) struct TrustArgs {
    #[command(subcommand)]
    action: TrustCommand,
}

#[derive(Debug, Subcommand)]
enum TrustCommand {
    /// Fetch the networks of proxies that `trust` names, as @cloudflare; exits with 1 if one is left as it was
    Update(UpdateArgs),
}

#[derive(Debug, Args)]
struct UpdateArgs {
    /// cloudflare, fastly, google, azure-front-door or bunny [default: those of the configuration]
    #[arg(value_name = "NAME", value_parser = service)]
    names: Vec<&'static ProxyService>,
    /// Read the list of the one that is named from a file instead, as it was fetched or with one network a line
    #[arg(long, value_name = "FILE", requires = "names", conflicts_with = "urls")]
    from: Option<PathBuf>,
    /// Fetch the list of the one that is named from here instead; if its parts are in several places, repeat it
    #[arg(long = "url", value_name = "URL", requires = "names", value_parser = fetch::address)]
    urls: Vec<Uri>,
    /// Take a list that has less than half of the networks before
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    config: ConfigArgs,
}

/// Networks, and where they are from.
struct FoundNetworks {
    networks: BTreeSet<IpNet>,
    /// The day on which they were current, if it is not today.
    date: Option<Date>,
    origin: String,
}

impl TrustArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        let TrustCommand::Update(update) = &mut self.action;
        &mut update.config
    }
}

pub(super) fn trust(TrustArgs { action }: &TrustArgs) -> anyhow::Result<Exit> {
    let TrustCommand::Update(arguments) = action;
    let is_of_one = arguments.from.is_some() || !arguments.urls.is_empty();
    ensure!(!is_of_one || arguments.names.len() == 1, "--from and --url are for one name at a time");
    let sources = arguments.config.sources()?;
    let sources = ServiceUnit::of(&sources).map_or(sources.clone(), |unit| unit.apply_to(sources));
    let loaded = load(&sources);
    let Some(config) = &loaded.config else {
        report_all(&loaded, &sources.name);
        return Ok(Exit::BadConfiguration);
    };
    let services = arguments.services(config);
    if services.is_empty() {
        errln!("tollgate: no `trust` names a proxy by @NAME: there is nothing to fetch");
    }
    let mut exit = Exit::Ok;
    for service in services {
        if let Err(error) = arguments.update(service, &sources) {
            errln!("tollgate: @{} is left as it was: {error:#}", service.name);
            exit = Exit::Failed;
        }
    }
    Ok(exit)
}

impl UpdateArgs {
    fn services(&self, config: &Config) -> Vec<&'static ProxyService> {
        match self.names.is_empty() {
            true => config.process.trusted_services.clone(),
            false => self.names.clone(),
        }
    }

    fn update(&self, service: &ProxyService, sources: &Sources) -> anyhow::Result<()> {
        let path = sources.path_of_list(service);
        let (old, _) = service.list(fs::read(&path).ok().as_deref());
        let Some(found) = self.find(service)? else {
            return Ok(());
        };
        let date = found.date.or(sources.today()).unwrap_or(old.date);
        ensure!(date >= old.date, "the list is of {date}, and the one in use of {}", old.date);
        let new = NetworkList { date, networks: found.networks };
        if !self.force {
            refuse_shrunk(&old, &new)?;
        }
        let about =
            format!("The networks of @{}, by `tollgate trust update` from {}", service.name, found.origin);
        write(&path, &new.text(&about)).with_context(|| format!("cannot write {}", path.display()))?;
        tell_changes(service, &old, &new, &path);
        Ok(())
    }

    /// The networks that the arguments name or the service publishes; `None` if no program can read them there.
    fn find(&self, service: &ProxyService) -> anyhow::Result<Option<FoundNetworks>> {
        let publication = &service.publication;
        if let Some(path) = &self.from {
            let text = text_of(path).with_context(|| format!("cannot read {}", path.display()))?;
            let networks =
                answer::networks(publication, &text).with_context(|| path.display().to_string())?;
            let origin = path.display().to_string();
            return Ok(Some(FoundNetworks { networks, date: NetworkList::date_of(&text), origin }));
        }
        if let (Publication::Page(page), true) = (publication, self.urls.is_empty()) {
            outln!("{}: there is only a page for people, {page}: nothing is changed", service.name);
            return Ok(None);
        }
        let mut networks = BTreeSet::new();
        let answers = fetch::answers(publication, &self.urls)?;
        for (url, text) in &answers {
            networks.extend(answer::networks(publication, text).with_context(|| url.to_string())?);
        }
        let urls: Vec<String> = answers.iter().map(|(url, _)| url.to_string()).collect();
        Ok(Some(FoundNetworks { networks, date: None, origin: urls.join(" and ") }))
    }
}

/// A proxy by its name, with the `@` or without.
fn service(name: &str) -> anyhow::Result<&'static ProxyService> {
    let name = name.strip_prefix('@').unwrap_or(name);
    match ProxyService::named(name) {
        Some(service) => Ok(service),
        None => bail!("{}", suggest(name, ProxyService::ALL.iter().map(|service| service.name))),
    }
}

/// Each family by itself: an answer without IPv6 would cut off its clients.
fn refuse_shrunk(old: &NetworkList, new: &NetworkList) -> anyhow::Result<()> {
    for (family, is_v4) in [("IPv4", true), ("IPv6", false)] {
        let count =
            |list: &NetworkList| list.networks.iter().filter(|net| net.addr().is_ipv4() == is_v4).count();
        let (before, after) = (count(old), count(new));
        ensure!(
            after * 2 >= before,
            "it has {after} networks of {family}, less than half of {before}: if that is right, --force takes it"
        );
    }
    Ok(())
}

fn tell_changes(service: &ProxyService, old: &NetworkList, new: &NetworkList, path: &Path) {
    let added: Vec<&IpNet> = new.networks.difference(&old.networks).collect();
    let removed: Vec<&IpNet> = old.networks.difference(&new.networks).collect();
    outln!(
        "{}: {}, {} added, {} removed, in {}",
        service.name,
        counted(new.networks.len(), "network"),
        added.len(),
        removed.len(),
        path.display()
    );
    added.iter().for_each(|net| outln!("+ {net}"));
    removed.iter().for_each(|net| outln!("- {net}"));
}

fn text_of(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(MAX_DOWNLOAD as u64 + 1).read_to_string(&mut text)?;
    ensure!(text.len() <= MAX_DOWNLOAD, "it is larger than 16 MiB");
    Ok(text)
}

/// Puts a file in place as a whole. The gate's user has to read what root writes.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let directory = path.parent().context("it is not in a directory")?;
    if !directory.exists() {
        fs::create_dir_all(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    }
    let unfinished = path.with_extension("new");
    // Whoever owns the directory may have put a link there.
    let _ = fs::remove_file(&unfinished);
    let mut file = File::create_new(&unfinished)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| {
        file.set_permissions(Permissions::from_mode(0o644))?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    });
    if written.is_err() {
        // The error to tell is the first one.
        drop(fs::remove_file(&unfinished));
    }
    Ok(written?)
}
