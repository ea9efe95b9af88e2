//! The entries of a `trust`: prefixes, names of `[networks]`, and `@NAME` for a proxy whose networks are published.

use std::iter;

use ipnet::IpNet;
use jiff::civil::Date;
use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Located, Spot, StringList};

use super::super::proxies::{NetworkList, ProxyService, Publication};
use super::super::raw::RawFile;
use super::super::values::Prefix;
use super::files::Files;
use super::networks::Networks;
use crate::policy::network::NetworkSet;

/// The proxies that any `trust` names by `@NAME`, with their networks.
pub(super) struct TrustedServices(Vec<(&'static ProxyService, NetworkList)>);

impl TrustedServices {
    /// Reads the list of each once, and reports names that are unknown and lists that are too old.
    pub(super) fn check(raw: &RawFile, today: Option<Date>, files: &mut Files<'_>, f: &mut Findings) -> Self {
        let of_endpoints = raw.endpoints.iter().map(|endpoint| &endpoint.value.trust);
        let lists = iter::once(&raw.client.trust).chain(of_endpoints).flatten();
        let mut found: Vec<(&'static ProxyService, NetworkList)> = Vec::new();
        for entry in lists.flat_map(|list| &list.value) {
            let Some(name) = entry.value.strip_prefix('@') else { continue };
            let Some(service) = ProxyService::named(name) else {
                report_unknown(name, entry, f);
                continue;
            };
            if !found.iter().any(|(known, _)| *known == service) {
                found.push((service, read(service, &entry.spot, today, files, f)));
            }
        }
        Self(found)
    }

    /// All of them.
    pub(super) fn services(&self) -> Vec<&'static ProxyService> {
        self.0.iter().map(|(service, _)| *service).collect()
    }

    /// The networks behind an entry, none for an unknown one; `None` if the entry is not `@NAME`.
    fn networks(&self, entry: &str) -> Option<Vec<IpNet>> {
        let name = entry.strip_prefix('@')?;
        let list = self.0.iter().find(|(service, _)| service.name == name);
        Some(list.map(|(_, list)| list.networks.iter().copied().collect()).unwrap_or_default())
    }
}

/// The networks of a `trust`, without [`UNIX`].
pub(super) fn trusted(
    list: Option<&StringList>,
    key: &str,
    networks: &Networks<'_>,
    services: &TrustedServices,
    f: &mut Findings,
) -> NetworkSet {
    let mut trust = NetworkSet::default();
    for entry in distinct(list, f).into_iter().filter(|entry| entry.value != UNIX) {
        let of_service = services.networks(&entry.value);
        for net in of_service.unwrap_or_else(|| networks.resolve_for(entry, "trusted", f)) {
            if (Prefix { net, host_bits: false }).is_everybody() {
                let hint = "any peer can then pose as any client: name only the proxies in front of this one";
                f.warning(&entry.spot, format!("`{key}` holds {net}"), hint);
            }
            trust.insert(net, ());
        }
    }
    trust
}

fn report_unknown(name: &str, entry: &Located<String>, f: &mut Findings) {
    let known: Vec<String> = ProxyService::ALL.iter().map(|service| format!("@{}", service.name)).collect();
    let hint = match name.contains(['.', '/']) {
        true => "[networks] gives a file of networks its name: write the name here".to_owned(),
        false => suggest(&entry.value, known.iter().map(String::as_str)),
    };
    f.error(&entry.spot, format!("unknown proxy `@{name}`"), hint);
}

fn read(
    service: &'static ProxyService,
    spot: &Spot,
    today: Option<Date>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> NetworkList {
    let (name, path) = (service.name, files.resolve_state(&service.file()));
    let updated = files.if_there(path.clone());
    let (list, fault) = service.list(updated.as_deref());
    if let Some(fault) = fault {
        let message = format!("{} is not used: {fault}", path.display());
        f.warning(spot, message, format!("`tollgate trust update {name}` writes it again"));
    }
    if let Some(days) = today.and_then(|today| service.too_old(&list, today)) {
        let message = format!("the networks of `@{name}` are {days} days old, of {}", list.date);
        let hint = match service.publication {
            Publication::Page(page) => {
                format!("compare them with {page}, and write `tollgate trust update {name} --from FILE`")
            }
            _ => format!("`tollgate trust update {name}` fetches them"),
        };
        f.warning(spot, message, hint);
    }
    list
}

/// Stands for every peer on a Unix socket.
pub(super) const UNIX: &str = "unix:";

#[cfg(test)]
mod tests {
    use crate::config::{Sources, load};
    use crate::time::{Clock, Span, Time};

    fn warnings(trust: &str, clock: Option<Clock>) -> Vec<String> {
        let text = format!(
            "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\nclient.trust = {trust}\n\
             [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1/s\"\n\
             [endpoint.ask]\nkind = \"forward-auth\"\nlisten = \"http://[::]:82\"\ntrust = {trust}\n"
        );
        let loaded = load(&Sources { clock, ..Sources::from_text("gate.toml", &text) });
        let config = loaded.config.unwrap();
        assert_eq!(config.client.trust.is_empty(), trust == "[]");
        loaded.diagnostics.iter().map(|found| found.message.clone()).collect()
    }

    #[test]
    fn an_old_list_is_warned_of_once() {
        let start = Time::from_nanos(1_791_331_200_000_000_000);
        let later = |days: u64| Some(Clock::manual(start.after(Span::from_secs(days * 86_400))));
        assert_eq!(warnings("[]", later(900)), [""; 0]);
        assert_eq!(warnings("[\"@cloudflare\"]", later(90)), [""; 0]);
        assert_eq!(
            warnings("[\"@cloudflare\"]", later(91)),
            ["the networks of `@cloudflare` are 91 days old, of 2026-10-07"]
        );
        assert_eq!(warnings("[\"@cloudflare\", \"@bunny\"]", later(40)).len(), 1);
        assert_eq!(warnings("[\"@cloudflare\"]", None), [""; 0], "without a clock");
    }
}
