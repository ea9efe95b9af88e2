//! Says when the gate seems to be wired wrongly: proxies that are not trusted, forms that no route covers, loops.
//!
//! Requests leave signs; each thread counts them in its own copy, of fixed size, and once a second all copies are
//! summed up. What counts as wrong is defined here, what is counted in `signs`. A warning stays until ten minutes
//! after its last sign, or until the rules are replaced.

mod signs;

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use self::signs::{SampledSigns, SignsSum};
use super::client_format::ClientFormatter;
use super::readiness::ReadinessWarning;
use super::shards::Shards;
use super::traces::Traces;
use crate::event::{Event, EventListener};
use crate::policy::attempt::Client;
use crate::time::{Clock, Span, Time};

/// Watches for signs of wrong wiring.
#[derive(Debug)]
pub struct Wiring {
    clock: Clock,
    clients: ClientFormatter,
    signs: Shards<SampledSigns>,
    found: Mutex<Found>,
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    /// When the present counts began.
    since: Time,
    warnings: Vec<FoundWarning>,
    /// When each kind was last said, by [`ReadinessWarning::summary`]; one entry for each kind.
    said: Vec<(&'static str, Time)>,
}

#[derive(Debug)]
struct FoundWarning {
    warning: ReadinessWarning,
    last_sign: Time,
}

impl Wiring {
    /// Without signs. `clients` writes addresses as the access log does.
    #[must_use]
    pub fn new(clients: ClientFormatter, clock: Clock) -> Self {
        let found = Found { since: clock.now(), ..Found::default() };
        Self { clock, clients, signs: Shards::default(), found: Mutex::new(found) }
    }

    /// Sums up the signs. Returns the present warnings, and calls `say` for those that have not been said for an hour.
    pub fn check(&self, mut say: impl FnMut(&str)) -> Vec<ReadinessWarning> {
        let now = self.clock.now();
        let mut sum = SignsSum::default();
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = now.since(found.since) >= WINDOW;
        for signs in self.signs.iter() {
            signs.sum_up(&mut sum);
            if is_over {
                signs.clear();
            }
        }
        if is_over {
            found.since = now;
        }
        found.warnings.retain(|known| now.since(known.last_sign) < WINDOW);
        for warning in self.warnings(&sum) {
            found.add(warning, now, &mut say);
        }
        found.warnings.iter().map(|known| known.warning.clone()).collect()
    }

    /// Removes the warnings that name an address, and all signs; a dry run only counts these warnings.
    pub fn forget(&self, traces: &Traces, is_dry_run: bool) -> u64 {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let names_them = |known: &FoundWarning| traces.cleaned(known.warning.text.as_bytes()).is_some();
        let count = found.warnings.iter().filter(|known| names_them(known)).count();
        if !is_dry_run && (count > 0 || !traces.is_of_accounts_only()) {
            found.warnings.retain(|known| !names_them(known));
            self.signs.iter().for_each(SampledSigns::clear);
        }
        count as u64
    }

    /// What these signs amount to.
    fn warnings(&self, sum: &SignsSum) -> Vec<ReadinessWarning> {
        let shown = |ip: IpAddr| self.clients.show(Client::from_ip(ip));
        let mut warnings = Vec::new();
        let mut warn = |summary, text| warnings.push(ReadinessWarning { summary, text });
        if let Some(client) = sum.dominant_client() {
            let who = self.clients.show(client);
            let text = match client {
                Client::BehindProxy(_) => format!(
                    "nearly all attempts come from the trusted proxy {who}, which does not say for whom: check \
                     client.header and what the proxy sends"
                ),
                Client::Ip(_) | Client::UnixSocket => format!(
                    "nearly all attempts come from {who}, a private address, and share its buckets: if it is a \
                     proxy, name it in client.trust"
                ),
            };
            warn(ONE_CLIENT, text);
        }
        for peer in sum.forwarding_peers() {
            let text = format!(
                "{} says for whom it asks (X-Forwarded-For or Forwarded) and is not believed: if it is a proxy of \
                 yours, name it in client.trust",
                shown(peer)
            );
            warn(UNTRUSTED_PROXY, text);
        }
        for proxy in sum.schemeless_proxies() {
            let text = format!(
                "the trusted proxy {} sends no X-Forwarded-Proto: the application is told that its clients speak \
                 http; in nginx: proxy_set_header X-Forwarded-Proto $scheme;",
                shown(proxy)
            );
            warn(NO_SCHEME, text);
        }
        for path in sum.uncovered_forms() {
            warn(
                UNCOVERED_FORM,
                format!(
                    "passwords are posted to {path}, which no route covers: add it to the match of a route"
                ),
            );
        }
        if sum.has_loop() {
            let text =
                "requests come back to this gate with the ids that it gave them: an upstream leads back here";
            warn(LOOP, text.to_owned());
        }
        for (client, agents) in sum.shared_clients() {
            let text = format!(
                "{} is refused with {agents} or more different User-Agents: many people share its bucket, or an \
                 attacker has many names; a wider limit, or one by account, would tell them apart",
                shown(client)
            );
            warn(SHARED_CLIENT, text);
        }
        warnings
    }
}

impl Found {
    fn add(&mut self, warning: ReadinessWarning, now: Time, say: &mut impl FnMut(&str)) {
        let kind = warning.summary;
        match self.said.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, at)) if now.since(*at) < REMINDER => {}
            Some((_, at)) => {
                *at = now;
                say(&warning.text);
            }
            None => {
                self.said.push((kind, now));
                say(&warning.text);
            }
        }
        match self.warnings.iter_mut().find(|known| known.warning.summary == kind) {
            Some(known) => *known = FoundWarning { warning, last_sign: now },
            None => self.warnings.push(FoundWarning { warning, last_sign: now }),
        }
    }
}

impl EventListener for Wiring {
    fn on_event(&self, event: &Event<'_>) {
        match event {
            Event::RequestCompleted(entry) => self.signs.current().add(entry),
            // Perhaps what was wrong is right now.
            Event::Rules { .. } => {
                self.signs.iter().for_each(SampledSigns::clear);
                let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
                *found = Found { since: self.clock.now(), ..Found::default() };
            }
            _ => {}
        }
    }
}

const WINDOW: Span = Span::from_secs(600);
const REMINDER: Span = Span::from_secs(3600);
const ONE_CLIENT: &str = "nearly all attempts come from one private address";
const UNTRUSTED_PROXY: &str = "a peer that is not trusted names clients";
const UNCOVERED_FORM: &str = "passwords are posted where no route covers them";
const NO_SCHEME: &str = "a trusted proxy sends no X-Forwarded-Proto";
const LOOP: &str = "requests of this gate come back to it";
const SHARED_CLIENT: &str = "one address is refused with many User-Agents";

#[cfg(test)]
mod tests;
