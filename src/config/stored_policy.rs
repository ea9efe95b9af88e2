//! `policy = "store"`: the routes, limits and everything else that a gate takes from the store that gates share.
//!
//! The gate's own file takes precedence over the text from the store, key by key. The address and the secret of the
//! store are always those of the gate's own file, so that a policy never leads a gate away from the store that it came
//! from. Reading the store is left to the layers above.

use std::path::PathBuf;
use std::sync::Arc;

use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::{Findings, Located, RawTable as _, SourceKind, SourceText, Spot};

use super::check::files::Files;
use super::check::{policy, store};
use super::include;
use super::raw::{RawFile, RawStore};
use super::secrets::DIALECT;
use super::{Sources, StoreSettings};

/// A policy of the store.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Its version in the history.
    pub version: u64,
    /// Its text.
    pub text: String,
}

impl StoredPolicy {
    /// The content of the file in which a gate keeps it.
    #[must_use]
    pub fn to_copy(&self) -> String {
        format!("{COPY_BEGIN}{}{COPY_END}\n{}", self.version, self.text)
    }

    /// Reads what [`to_copy`](Self::to_copy) wrote; `None` for anything else.
    #[must_use]
    pub fn from_copy(copy: &str) -> Option<Self> {
        let (first, text) = copy.split_once('\n')?;
        let version = first.strip_prefix(COPY_BEGIN)?.strip_suffix(COPY_END)?;
        Some(Self { version: version.parse().ok()?, text: text.to_owned() })
    }
}

/// Where a gate finds its policy.
#[derive(Debug, Clone)]
pub struct PolicySource {
    /// The store that has it.
    pub store: StoreSettings,
    /// The file in which the gate keeps the last one that it took.
    pub copy: PathBuf,
}

/// Where these sources find their policy: `None` if that is the file, or a mistake leaves it open.
#[must_use]
pub fn policy_source(sources: &Sources) -> Option<PolicySource> {
    let own = own_table(sources)?;
    if !names_store(&own) {
        return None;
    }
    let store = checked_store(&own, sources, &mut Findings::default())?;
    let copy = policy::copy_path(&store, &Files::of(sources));
    Some(PolicySource { store, copy })
}

/// The store that these sources name, wherever their policy comes from.
#[must_use]
pub fn store_of(sources: &Sources) -> Option<StoreSettings> {
    let store = checked_store(&own_table(sources)?, sources, &mut Findings::default());
    store.filter(|store| store.address.is_shared())
}

/// The file with its overrides, without the policy of the store. Mistakes are left to [`load`](super::load).
fn own_table(sources: &Sources) -> Option<TomlTable> {
    let mut findings = Findings::default();
    let mut own = TomlTable::parse(&sources.as_text(), &mut findings)?;
    sources.set_keys(&mut own, &mut findings);
    Some(own)
}

fn checked_store(own: &TomlTable, sources: &Sources, f: &mut Findings) -> Option<StoreSettings> {
    let raw = match own.get("store").map(|entry| &entry.node.value) {
        Some(TomlValue::Table(table)) => RawStore::read(table, f),
        _ => RawFile::read(&TomlTable::default(), f).store,
    };
    let settings = store::check(&raw, &mut Files::of(sources), f);
    (!f.has_errors()).then_some(settings)
}

fn names_store(own: &TomlTable) -> bool {
    let value = own.get("policy").map(|entry| &entry.node.value);
    matches!(value, Some(TomlValue::String(word)) if word == policy::FROM_STORE)
}

/// The tree of all sources but the overrides, and the text that stands for all of it in diagnostics. `None` after a
/// mistake that leaves its meaning open.
pub(super) fn merged(sources: &Sources, f: &mut Findings) -> Option<(TomlTable, Arc<SourceText>)> {
    let file = sources.as_text();
    let mut root = TomlTable::parse(&file, f)?;
    include::merge(&mut root, sources, f);
    let Some(stored) = sources.policy.clone().or_else(|| stand_in(sources, f)) else {
        return Some((root, file));
    };
    let text = policy_text(&stored);
    let mut policy = TomlTable::parse(&text, f)?;
    leave_out_store(&mut policy);
    include::refuse_in_policy(&mut policy, f);
    lay_over(&mut policy, root);
    // A gate without a file has nothing but the policy.
    Some((policy, if sources.path.is_some() { file } else { text }))
}

/// A policy in place of one that is not known. Only that mistake is reported, and not each key that is missing with it.
fn stand_in(sources: &Sources, f: &mut Findings) -> Option<StoredPolicy> {
    let own = own_table(sources).filter(names_store).filter(|_| !sources.is_sealed)?;
    let store = checked_store(&own, sources, &mut Findings::default());
    if store.is_some_and(|store| store.address.is_shared()) {
        let file = sources.as_text();
        let spot = own.get("policy").map_or_else(|| Spot::whole(&file), |key| key.node.spot.clone());
        f.error(
            &spot,
            "the policy of the store is missing",
            "`tollgate policy push FILE` puts one into the store",
        );
    }
    Some(StoredPolicy { version: 0, text: STAND_IN.to_owned() })
}

fn policy_text(StoredPolicy { version, text }: &StoredPolicy) -> Arc<SourceText> {
    let name = match version {
        0 => "policy".to_owned(),
        version => format!("policy {version}"),
    };
    Arc::new(SourceText { kind: SourceKind::File, name, text: text.clone(), dialect: &DIALECT })
}

/// Where the store is, is the gate's own: so it is not in the policy, nor is the name of the policy's origin.
fn leave_out_store(policy: &mut TomlTable) {
    policy.0.retain(|entry| entry.key.value != "policy");
    if let Some(TomlEntry { node: Located { value: TomlValue::Table(store), .. }, .. }) =
        policy.get_mut("store")
    {
        store.0.retain(|entry| !["url", "prefix", "secret"].contains(&&entry.key.value[..]));
    }
}

/// What `above` says wins. Tables are joined; new entries come last.
fn lay_over(below: &mut TomlTable, above: TomlTable) {
    for TomlEntry { key, node } in above.0 {
        match (below.get_mut(&key.value), node.value) {
            (
                Some(TomlEntry { node: Located { value: TomlValue::Table(below), .. }, .. }),
                TomlValue::Table(above),
            ) => {
                lay_over(below, above);
            }
            (Some(entry), value) => *entry = TomlEntry { key, node: Located { value, spot: node.spot } },
            (None, value) => below.0.push(TomlEntry { key, node: Located { value, spot: node.spot } }),
        }
    }
}

const STAND_IN: &str = "listen = \"http://[::]:8080\"\nupstream = \"http://127.0.0.1:8081\"\n\
    [route.policy]\nmatch = \"POST /policy\"\n[limit.policy]\nrate = \"1/s\"\n";
const COPY_BEGIN: &str = "# policy ";
const COPY_END: &str = " of the store; written by tollgate, which reads it when the store is away";

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    const POLICY: &str = "listen = \"http://127.0.0.1:8080\"\nupstream = \"http://127.0.0.1:8081\"\n\
                          [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10/min\"\n\
                          [store]\nurl = \"redis://elsewhere\"\nprefix = \"elsewhere\"\ntimeout = \"70ms\"\n";

    fn sources(own: &str, policy: &str) -> Sources {
        let own = format!("policy = \"store\"\n{own}\n[store]\nurl = \"redis://127.0.0.1:1\"\n");
        let policy = StoredPolicy { version: 7, text: policy.to_owned() };
        Sources { policy: Some(policy), ..Sources::from_text("gate.toml", &own) }
    }

    #[test]
    fn the_gates_own_file_wins_key_by_key_and_the_store_stays_its_own() {
        let config = load(&sources("listen = \"http://127.0.0.1:9090\"\n[limit.address]\ndebt = 3", POLICY));
        assert!(config.diagnostics.is_empty(), "{:?}", config.diagnostics);
        let config = config.config.unwrap();
        assert_eq!(config.front.listen[0].to_string(), "http://127.0.0.1:9090");
        assert_eq!(config.policy.limits.len(), 1);
        assert_eq!(config.policy.limits[0].spec.burst(), 10);
        assert_eq!(config.store.names.as_str(), "tollgate");
        assert_eq!(config.store.address, "redis://127.0.0.1:1".parse().unwrap());
        assert_eq!(config.store.options.timeout, crate::time::Span::from_millis(70));
        assert_eq!(config.process.policy_copy.unwrap().to_str(), Some("tollgate.policy.toml"));
    }

    #[test]
    fn a_mistake_in_the_policy_is_shown_there() {
        let broken = POLICY.replace("10/min", "10 a minute");
        let found = load(&sources("", &broken)).diagnostics;
        let text: String = found.iter().map(|found| found.render(false)).collect();
        assert!(text.contains("--> policy 7:6:"), "{text}");
    }

    #[test]
    fn a_policy_that_names_the_store_itself_leads_nowhere() {
        let config = load(&sources("", &format!("policy = \"store\"\n{POLICY}"))).config;
        assert!(config.is_some());
        let file = Sources::from_text("gate.toml", POLICY);
        assert!(policy_source(&file).is_none());
        assert!(store_of(&file).is_some());
    }

    #[test]
    fn a_policy_includes_no_files_and_the_gates_own_file_does() {
        let own = "include = \"sites/shop.toml\"";
        let of = |policy: &str| {
            let policy = format!("{policy}[tls]\ncertificates = []\n");
            load(&Sources { base: "tests/config".into(), ..sources(own, &policy) })
        };
        let loaded = of(POLICY);
        let names = loaded.config.iter().flat_map(|config| &config.policy.routes).map(|route| &*route.name);
        assert_eq!(names.collect::<Vec<_>>(), ["login", "shop"], "{:?}", loaded.diagnostics);
        let loaded = of(&format!("include = \"sites/*.toml\"\n{POLICY}"));
        let refused = loaded.diagnostics.iter().find(|found| found.is_error()).unwrap().render(false);
        assert!(
            refused.starts_with("error: a policy of the store includes no files\n --> policy 7:1:1\n"),
            "{refused}"
        );
    }

    #[test]
    fn a_kept_policy_is_read_as_it_was_written() {
        for text in ["", POLICY, "a = 1"] {
            let policy = StoredPolicy { version: 7, text: text.to_owned() };
            assert_eq!(StoredPolicy::from_copy(&policy.to_copy()), Some(policy));
        }
        assert_eq!(StoredPolicy::from_copy(POLICY), None);
    }

    #[test]
    fn the_hash_is_another_one_with_another_policy() {
        let [one, other] = [POLICY, ""].map(|policy| sources("", policy).hash());
        assert_ne!(one, other);
    }
}
