//! Certificates that are ordered when a client first asks for their name.
//!
//! A handshake asks here and waits for a bounded time; the background orders, and puts the result here. Only names of
//! the operator's list are asked for, and no more than that of them are kept, whatever their state.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::Certificate;
use crate::time::{Span, Time};

/// `tls.acme.on_demand` of the file, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnDemandSettings {
    /// The names that clients may cause an order for.
    pub allow: Arc<AllowedNames>,
    /// Names that are kept.
    pub max: usize,
    /// New names: so many in so much time, and so many at once.
    pub rate: (u32, Span, u32),
    /// For which a handshake waits.
    pub wait: Span,
    /// The certificates that files of earlier orders held when the configuration was read.
    pub kept: Vec<(String, Certificate)>,
}

/// Names of hosts, and names that hosts are directly below.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedNames {
    exact: HashSet<String>,
    parents: HashSet<String>,
}

impl AllowedNames {
    /// Adds a name in lower case; `*.` stands for one label.
    pub fn insert(&mut self, name: &str) {
        match name.strip_prefix("*.") {
            Some(parent) => self.parents.insert(parent.to_owned()),
            None => self.exact.insert(name.to_owned()),
        };
    }

    /// Whether it lists this name in lower case.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        let is_below = |(label, parent)| is_label(label) && self.parents.contains(parent);
        self.exact.contains(name) || name.len() <= MAX_NAME && name.split_once('.').is_some_and(is_below)
    }
}

/// RFC 1123, section 2.1. A file is named after it.
fn is_label(label: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&label.len())
        && label.bytes().all(is_letter)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

/// What is known of names that clients asked for. One for the life of a gate.
#[derive(Default)]
pub struct OnDemand {
    demand: Mutex<Demand>,
    /// Changes whenever a name is settled.
    settled: watch::Sender<()>,
    asked: Notify,
}

#[derive(Default)]
struct Demand {
    /// `None`: nothing is ordered on demand.
    settings: Option<OnDemandSettings>,
    names: HashMap<String, DemandedName>,
}

enum DemandedName {
    /// A client waits, or has waited, for it.
    Wanted,
    /// The last order failed. There is no other one before this time.
    Failed(Time),
    /// Its certificate, and whether a client was shown it since it was issued.
    Ready(Certificate, bool),
}

impl OnDemand {
    /// Takes over the settings of a configuration; `None` for one without.
    pub fn set(&self, settings: Option<&OnDemandSettings>) {
        let mut demand = self.demand();
        demand.settings = settings.map(|settings| OnDemandSettings { kept: Vec::new(), ..settings.clone() });
        demand.names.retain(|name, _| settings.is_some_and(|settings| settings.allow.has(name)));
        for (name, certificate) in settings.iter().flat_map(|settings| &settings.kept) {
            let is_newer = |known: &DemandedName| match known {
                DemandedName::Ready(known, _) => known.expires() < certificate.expires(),
                DemandedName::Wanted | DemandedName::Failed(_) => true,
            };
            if demand.names.get(name).is_none_or(is_newer) {
                demand.names.insert(name.clone(), DemandedName::Ready(certificate.clone(), false));
            }
        }
        drop(demand);
        self.settled.send_replace(());
    }

    /// What this makes of the certificate of a name in lower case, which a client is about to be shown.
    pub fn show<T>(&self, name: &str, make: impl FnOnce(&Certificate) -> T) -> Option<T> {
        match self.demand().names.get_mut(name)? {
            DemandedName::Ready(certificate, is_used) => {
                *is_used = true;
                Some(make(certificate))
            }
            DemandedName::Wanted | DemandedName::Failed(_) => None,
        }
    }

    /// Asks for a certificate for this name in lower case if the list has it, and waits for the result or the time-out.
    pub async fn wait_for(&self, name: &str) {
        let mut settled = self.settled.subscribe();
        let Some(wait) = self.ask(name) else { return };
        let ended = async { while self.is_wanted(name) && settled.changed().await.is_ok() {} };
        // The client is told that there is no certificate.
        let _ = timeout(wait.to_std(), ended).await;
    }

    /// For how long to wait; `None` if that is of no use.
    fn ask(&self, name: &str) -> Option<Span> {
        let mut demand = self.demand();
        let settings = demand.settings.as_ref()?;
        let (wait, max) = (settings.wait, settings.max);
        match demand.names.get(name) {
            Some(DemandedName::Wanted) => return Some(wait),
            Some(_) => return None,
            None if !settings.allow.has(name) || demand.names.len() >= max => return None,
            None => {}
        }
        demand.names.insert(name.to_owned(), DemandedName::Wanted);
        self.asked.notify_one();
        Some(wait)
    }

    fn is_wanted(&self, name: &str) -> bool {
        matches!(self.demand().names.get(name), Some(DemandedName::Wanted))
    }

    /// Waits until a client asks for a further name.
    pub async fn until_asked(&self) {
        self.asked.notified().await;
    }

    /// The names to order certificates for.
    #[must_use]
    pub fn wanted(&self) -> Vec<String> {
        let demand = self.demand();
        let wanted = demand.names.iter().filter(|(_, known)| matches!(known, DemandedName::Wanted));
        wanted.map(|(name, _)| name.clone()).collect()
    }

    /// The certificates that clients were shown, which are to be renewed in time.
    #[must_use]
    pub fn used(&self) -> Vec<(String, Certificate)> {
        let demand = self.demand();
        let used = demand.names.iter().filter_map(|(name, known)| match known {
            DemandedName::Ready(certificate, true) => Some((name.clone(), certificate.clone())),
            _ => None,
        });
        used.collect()
    }

    /// An order gave a certificate.
    pub fn issued(&self, name: &str, certificate: Certificate) {
        self.settle(name, Some(DemandedName::Ready(certificate, false)));
    }

    /// An order failed. A present certificate stays.
    pub fn failed(&self, name: &str, until: Time) {
        if self.is_wanted(name) {
            self.settle(name, Some(DemandedName::Failed(until)));
        }
    }

    /// There is no order for now. The next client may cause one.
    pub fn declined(&self, name: &str) {
        self.settle(name, None);
    }

    fn settle(&self, name: &str, result: Option<DemandedName>) {
        let mut demand = self.demand();
        // A reload may have forgotten it meanwhile.
        if demand.names.remove(name).is_some()
            && let Some(result) = result
        {
            demand.names.insert(name.to_owned(), result);
        }
        drop(demand);
        self.settled.send_replace(());
    }

    /// Forgets failures that have lasted long enough, and certificates that have ended. Returns the names of these.
    pub fn expire(&self, now: Time) -> Vec<String> {
        let mut ended = Vec::new();
        self.demand().names.retain(|name, known| match known {
            DemandedName::Wanted => true,
            DemandedName::Failed(until) => *until > now,
            DemandedName::Ready(certificate, _) => {
                let is_good = certificate.expires() > now;
                if !is_good {
                    ended.push(name.clone());
                }
                is_good
            }
        });
        ended
    }

    fn demand(&self) -> MutexGuard<'_, Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for OnDemand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnDemand(hidden)")
    }
}

/// RFC 1035, section 3.1, as text.
const MAX_NAME: usize = 253;

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(names: &[&str]) -> AllowedNames {
        let mut allowed = AllowedNames::default();
        names.iter().for_each(|name| allowed.insert(name));
        allowed
    }

    fn on_demand(max: usize) -> OnDemand {
        let on_demand = OnDemand::default();
        let (allow, wait) = (Arc::new(allowed(&["*.app.test"])), Span::from_secs(3));
        let rate = (1, Span::from_secs(1), 1);
        on_demand.set(Some(&OnDemandSettings { allow, max, rate, wait, kept: Vec::new() }));
        on_demand
    }

    #[test]
    fn a_list_allows_its_names_and_one_label_below_a_wildcard() {
        let allowed = allowed(&["app.test", "*.shop.test"]);
        for (name, is_allowed) in [
            ("app.test", true),
            ("a.shop.test", true),
            ("xn--a-1.shop.test", true),
            ("shop.test", false),
            ("a.app.test", false),
            ("a.b.shop.test", false),
            (".shop.test", false),
            ("*.shop.test", false),
            ("-a.shop.test", false),
            ("a_b.shop.test", false),
            ("..", false),
            ("../a.shop.test", false),
            ("", false),
        ] {
            assert_eq!(allowed.has(name), is_allowed, "{name}");
        }
        assert!(!allowed.has(&format!("{}.shop.test", "a".repeat(64))));
    }

    #[test]
    fn no_more_names_are_kept_than_allowed_until_some_are_forgotten() {
        let on_demand = on_demand(2);
        assert!(on_demand.ask("a.app.test").is_some() && on_demand.ask("b.app.test").is_some());
        assert!(on_demand.ask("c.app.test").is_none() && on_demand.ask("a.app.test").is_some());
        assert_eq!(on_demand.wanted().len(), 2);
        on_demand.failed("a.app.test", Time::from_nanos(7));
        on_demand.declined("b.app.test");
        assert!(on_demand.ask("a.app.test").is_none(), "it has just failed");
        assert!(on_demand.expire(Time::from_nanos(6)).is_empty() && on_demand.ask("a.app.test").is_none());
        assert!(on_demand.expire(Time::from_nanos(7)).is_empty() && on_demand.ask("a.app.test").is_some());
        on_demand.set(None);
        assert!(on_demand.wanted().is_empty() && on_demand.ask("a.app.test").is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_waits_for_the_outcome_and_no_longer_than_the_time_out() {
        let on_demand = Arc::new(on_demand(2));
        let begin = tokio::time::Instant::now();
        on_demand.wait_for("a.app.test").await;
        assert_eq!(begin.elapsed().as_secs(), 3, "nobody orders it");
        let waits = {
            let on_demand = Arc::clone(&on_demand);
            tokio::spawn(async move { on_demand.wait_for("a.app.test").await })
        };
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        on_demand.declined("a.app.test");
        waits.await.unwrap();
        on_demand.wait_for("a.other.test").await;
        assert_eq!(begin.elapsed().as_secs(), 4);
    }
}
