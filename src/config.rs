//! The checked configuration: everything that a gate needs to run, in the types of the layers that use it.
//!
//! [`load`] turns text, environment and command line into a [`Config`], or reports every mistake at once. With a
//! mistake there is no configuration at all, never half of one. `load` reads no environment and no arguments itself; of
//! the file system it reads the files that the text names, and the system's roots if an upstream speaks TLS.

mod alike;
mod candidate;
pub mod cases;
mod check;
mod derived_limits;
mod environment;
pub mod features;
mod include;
mod ladder;
mod layer;
pub mod lists;
pub mod names;
pub mod preset;
pub mod proxies;
mod raw;
mod report;
mod restart_only;
mod rules;
mod schema;
mod secrets;
mod stored_policy;
mod template;
pub mod values;
mod words;
mod worst_case;
mod written_route;

pub use alike::{ALIKE, further_places, grouped_alike, shortened};
pub use check::store::{StoreSecrets, StoreSettings};
pub use include::{Included, OwnFiles};
pub use restart_only::RestartOnly;
pub use schema::schema;
pub use stored_policy::{PolicySource, StoredPolicy, policy_source, store_of};
pub use tollgate_grammar::diagnostic::grouped;
pub use tollgate_grammar::{Diagnostic, Severity};
pub use worst_case::{CombinedBound, CombinedLimits, combined, upper_bound, worst_case, worst_cases};
pub use written_route::WrittenRoute;

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::civil::Date;
use sha2::{Digest, Sha256};
use tollgate_grammar::{Findings, RawTable as _, SourceKind, SourceText, Spot};

use crate::net::listener::{Callers, ListenAddress};
use crate::net::tls;
use crate::observe::admin::AdminTokens;
use crate::observe::settings::{LogSettings, OtelSettings};
use crate::observe::timestamp::rfc3339;
use crate::policy::Policy;
use crate::proxy::endpoint::Endpoint;
use crate::proxy::request::client_addr::ClientSettings;
use crate::proxy::request::redirect::Redirect;
use crate::proxy::respond::RefuseSettings;
use crate::proxy::settings::ProxySettings;
use crate::proxy::upstream::{HealthProbe, UpstreamTarget};
use crate::time::Clock;
use lists::FetchedList;
use names::{DnsNames, NamedAddresses};
use proxies::ProxyService;
use secrets::DIALECT;

/// A checked configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where clients connect.
    pub front: FrontSettings,
    /// Groups of upstreams: the first is the default; a route's [`upstream`](crate::policy::Route::upstream) is an
    /// index into this list. No group is empty, but the default without [`listen`](FrontSettings::listen).
    pub upstreams: Vec<Vec<UpstreamTarget>>,
    /// The health checks of those that have one.
    pub probes: HashMap<UpstreamTarget, HealthProbe>,
    /// The process as a whole.
    pub process: ProcessSettings,
    /// `[client]`.
    pub client: ClientSettings,
    /// `[route]`, `[limit]` and `[networks]`.
    pub policy: Policy,
    /// `[store]`.
    pub store: StoreSettings,
    /// `[refuse]`.
    pub refuse: RefuseSettings,
    /// `[endpoint]`, by name.
    pub endpoints: Vec<Endpoint>,
    /// `[proxy]`, and the roots that certificates of upstreams are checked against.
    pub proxy: ProxySettings,
    /// `[log]`.
    pub log: LogSettings,
    /// `[otel]`; `None` exports nothing.
    pub otel: Option<OtelSettings>,
    /// Where operators ask, and who they are.
    pub operators: OperatorSettings,
}

impl Config {
    /// Where clients connect and proxies ask.
    pub fn listens(&self) -> impl Iterator<Item = (Callers, &ListenAddress)> {
        let clients = self.front.listen.iter().map(|address| (Callers::Clients, address));
        let asked = self.endpoints.iter().enumerate();
        clients.chain(asked.flat_map(|(number, endpoint)| {
            endpoint.listen.iter().map(move |address| (Callers::Askers(number), address))
        }))
    }
}

/// Where clients connect.
#[derive(Debug, Clone)]
pub struct FrontSettings {
    /// Addresses where clients connect; at least one, unless there are [`endpoints`](Config::endpoints).
    pub listen: Vec<ListenAddress>,
    /// `tls.redirect`.
    pub redirect: Option<Redirect>,
    /// `[tls]`, the part about clients.
    pub tls: tls::TlsSettings,
}

/// The process as a whole.
#[derive(Debug, Clone)]
pub struct ProcessSettings {
    /// Whether the process gives up rights that it does not need once its sockets are bound.
    pub sandbox: bool,
    /// Whether every limit only observes: `mode = "observe"`. The limits of `policy` are so already.
    pub observes: bool,
    /// Files that the configuration names (`@path` in `[networks]`, pages of `[refuse]`, keys of `[device]`,
    /// certificates of `[tls]`): a change of one causes a reload.
    pub files: Vec<PathBuf>,
    /// The proxies that any `trust` names by `@NAME`.
    pub trusted_services: Vec<&'static ProxyService>,
    /// The names of DNS in `[networks]`.
    pub dns: DnsNames,
    /// The lists of `[lists]` that the gate fetches.
    pub lists: Vec<FetchedList>,
    /// Whether a change of the configuration's own files causes a reload: `reload = "watch"`.
    pub is_watched: bool,
    /// The table in which the kernel drops clients for the gate; `None` if it does not: `kernel.nftables`.
    pub nftables: Option<String>,
    /// Where the gate keeps the policy of the store; `None` if it has its policy from its file.
    pub policy_copy: Option<PathBuf>,
}

/// Where operators ask, and who they are.
#[derive(Debug, Clone)]
pub struct OperatorSettings {
    /// `admin.listen`.
    pub admin: Vec<ListenAddress>,
    /// `admin.token` and `admin.tokens`, hashed; without any, callers over TCP have health and metrics.
    pub tokens: AdminTokens,
    /// `admin.audit`.
    pub audit: Option<PathBuf>,
    /// `admin.exempt`.
    pub exempts_operators: bool,
}

/// A file that the gate finds under another name (`LoadCredential=NAME:PATH`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PassedFile {
    /// Its name in the configuration.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
}

/// The sources of settings; a later one wins: policy of the store, file, environment, command line.
#[derive(Clone, Default)]
pub struct Sources {
    /// The name of the file in diagnostics.
    pub name: String,
    /// The file's text.
    pub text: String,
    /// The path of the file; `None` for a text without one.
    pub path: Option<PathBuf>,
    /// The directory that relative paths start from.
    pub base: PathBuf,
    /// Variables. Those named `TOLLGATE_...` are settings; any may hold a secret: `"${NAME}"`.
    pub environment: Vec<(String, String)>,
    /// Files that systemd will pass to the gate, when another process checks the text for it.
    pub passed: Vec<PassedFile>,
    /// `--set KEY=VALUE`, split at the first `=`.
    pub set: Vec<(String, String)>,
    /// The files that `include` names, as [last read](Self::with_included); `None` reads them with each check.
    pub included: Option<Included>,
    /// The policy of the store, which lies below the file, for a file with `policy = "store"`.
    pub policy: Option<StoredPolicy>,
    /// The addresses of names in `[networks]`, as they were last found.
    pub addresses: NamedAddresses,
    /// The clock by which the age of lists is judged; `None` judges none.
    pub clock: Option<Clock>,
    /// Whether only the text is read: files and variables that it names are not, and each gets a warning instead. For
    /// texts of callers who may not read what the gate may.
    pub is_sealed: bool,
    /// Whether they are the policy of a program that decides on its own requests in its own process.
    pub is_within_a_program: bool,
}

impl Sources {
    /// A text without a file, an environment or a command line.
    #[must_use]
    pub fn from_text(name: &str, text: &str) -> Self {
        Self { name: name.to_owned(), text: text.to_owned(), ..Self::default() }
    }

    /// A file; relative paths in it start from its directory.
    ///
    /// # Errors
    /// When the file cannot be read or is not UTF-8.
    pub fn from_file(path: &Path) -> io::Result<Self> {
        let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let sources = Self::from_text(&path.display().to_string(), &text_of(path)?);
        Ok(Self { base, path: Some(path.to_path_buf()), ..sources })
    }

    /// What a stream holds, such as standard input; relative paths in it start from the working directory.
    ///
    /// # Errors
    /// When it cannot be read, is not UTF-8 or larger than a file may be.
    pub fn from_reader(name: &str, reader: impl Read) -> io::Result<Self> {
        Ok(Self::from_text(name, &bounded_text(reader)?))
    }

    fn as_text(&self) -> Arc<SourceText> {
        Arc::new(SourceText {
            kind: SourceKind::File,
            name: self.name.clone(),
            text: self.text.clone(),
            dialect: &DIALECT,
        })
    }

    /// The directory that systemd makes for the unit and names in this variable; of several the first.
    pub(super) fn unit_directory(&self, variable: &str) -> Option<&Path> {
        let (_, paths) = self.environment.iter().find(|(name, _)| name == variable)?;
        paths.split(':').next().map(Path::new).filter(|path| path.is_absolute())
    }

    /// The day in UTC, by the [clock](Self::clock).
    #[must_use]
    pub fn today(&self) -> Option<Date> {
        rfc3339(self.clock.as_ref()?.now()).get(..10)?.parse().ok()
    }

    /// Where `tollgate trust update` puts a list: in the unit's state directory, or next to the configuration.
    #[must_use]
    pub fn path_of_list(&self, service: &ProxyService) -> PathBuf {
        check::files::Files::of(self).resolve_state(&service.file())
    }

    /// The same text alone: nothing that it names is read.
    #[must_use]
    pub fn sealed(self) -> Self {
        Self { is_sealed: true, ..self }
    }

    /// The same as the policy of a program that decides on its own requests in its own process: what only a gate can do is a
    /// mistake.
    #[must_use]
    pub fn within_a_program(self) -> Self {
        Self { is_within_a_program: true, ..self }
    }

    /// The same sources with the present texts of the file and those that it includes; a text without a file stays as it
    /// is.
    ///
    /// # Errors
    /// When the file cannot be read, is not UTF-8, or cannot be read twice, such as a pipe.
    pub fn read_again(&self) -> io::Result<Self> {
        let again = Self { included: None, ..self.clone() };
        let Some(path) = &self.path else { return Ok(again) };
        if !std::fs::metadata(path)?.is_file() {
            return Err(io::Error::other("not a regular file, so it cannot be read again"));
        }
        Ok(Self { text: text_of(path)?, ..again })
    }

    /// The same sources with the files that they include as they are now, unless they were read before.
    #[must_use]
    pub fn with_included(mut self) -> Self {
        if self.included.is_none() {
            self.included = Some(include::read(&self));
        }
        self
    }

    /// The same text as it would be in the store: there it cannot include files.
    #[must_use]
    pub fn as_policy(self) -> Self {
        Self { included: Some(Included::none_in_policy(&self)), ..self }
    }

    /// The files that hold the configuration itself, as they were last read.
    #[must_use]
    pub fn own_files(&self) -> OwnFiles {
        OwnFiles::new(self.path.clone(), &self.included.clone().unwrap_or_default())
    }

    /// A hash of the text, the included ones and the overrides: 16 hex digits.
    #[must_use]
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        let mut part = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text);
        };
        part(&self.text);
        self.included.iter().flat_map(Included::texts).for_each(&mut part);
        self.policy.iter().for_each(|policy| part(&policy.text));
        let mut settings: Vec<_> =
            self.environment.iter().filter(|(name, _)| name.starts_with("TOLLGATE_")).collect();
        settings.sort_unstable();
        settings.into_iter().chain(&self.set).for_each(|(name, value)| {
            part(name);
            part(value);
        });
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Adds these variables (`std::env::vars_os()`). All are kept, because a reloaded text may name another one for a
    /// secret.
    #[must_use]
    pub fn with_environment(mut self, variables: impl Iterator<Item = (OsString, OsString)>) -> Self {
        let text = |raw: OsString| raw.to_string_lossy().into_owned();
        self.environment.extend(variables.map(|(name, value)| (text(name), text(value))));
        self
    }

    /// Judges the age of lists by this clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Adds these `--set KEY=VALUE` pairs.
    #[must_use]
    pub fn with_set(mut self, pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        self.set.extend(pairs);
        self
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sources({}, values hidden)", self.name)
    }
}

/// Reads a file once, as it may be a pipe. A file larger than [`MAX_FILE`] is an error.
fn text_of(path: &Path) -> io::Result<String> {
    bounded_text(File::open(path)?)
}

fn bounded_text(reader: impl Read) -> io::Result<String> {
    let mut text = String::new();
    reader.take(MAX_FILE + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_FILE {
        true => Err(io::Error::other("it is larger than 64 MiB")),
        false => Ok(text),
    }
}

/// The result of a check.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The configuration, unless there is a mistake.
    pub config: Option<Config>,
    /// Mistakes and warnings, by source and line.
    pub diagnostics: Vec<Diagnostic>,
}

/// Checks all sources together.
#[must_use]
pub fn load(sources: &Sources) -> Loaded {
    load_with(sources, None)
}

/// Checks the sources for a running gate: a change that needs a restart is a mistake as well.
#[must_use]
pub fn load_again(sources: &Sources, running: &RestartOnly) -> Loaded {
    load_with(sources, Some(running))
}

/// The text of `admin.token`, for commands that ask a gate over TCP; a gate keeps only its hash.
#[must_use]
pub fn admin_token(sources: &Sources) -> Option<String> {
    let mut findings = Findings::default();
    let (mut root, _) = stored_policy::merged(sources, &mut findings)?;
    sources.set_keys(&mut root, &mut findings);
    let raw = raw::RawFile::read(&root, &mut findings);
    check::admin::token_text(&raw.admin, &mut check::files::Files::of(sources), &mut findings)
}

/// Bytes of a configuration; lists of networks have their own files.
const MAX_FILE: u64 = 64 << 20;

fn load_with(sources: &Sources, running: Option<&RestartOnly>) -> Loaded {
    let mut findings = Findings::default();
    let config = stored_policy::merged(sources, &mut findings).map(|(mut root, file)| {
        sources.set_keys(&mut root, &mut findings);
        template::expand(&mut root, &mut findings);
        let applications = preset::expand(&mut root, &raw::RawRoute::keys(), &mut findings);
        candidate::expand(&mut root, &mut findings);
        if sources.is_within_a_program {
            // Behind what puts keys elsewhere.
            layer::refuse_keys_of_gates(&root, &mut findings);
        }
        ladder::expand(&mut root, &mut findings);
        derived_limits::name_all(&mut root);
        let raw = raw::RawFile::read(&root, &mut findings);
        let mut config = check::check(&raw, &applications, sources, &file, &mut findings);
        if sources.is_within_a_program {
            config = layer::within_a_program(config, &Spot::whole(&file), &mut findings);
        }
        if let Some(running) = running {
            running.report_changes(&RestartOnly::of(&config), &root, &file, &mut findings);
        }
        config
    });
    Loaded { config: config.filter(|_| !findings.has_errors()), diagnostics: findings.sorted() }
}
