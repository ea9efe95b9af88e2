//! The proxies that `trust` knows by name, as `@cloudflare`: where their networks are published, and which count.
//!
//! A list of each comes with the program (`assets/proxies`) and says on which day it was current. One that
//! `tollgate trust update` wrote counts instead, unless it is older. Fetching is left to `cli/trust.rs`, the warnings of
//! a configuration to `config/check/trust.rs`.

mod list;

pub use list::{NetworkFault, NetworkList, NetworkListError, is_public};

use jiff::civil::Date;

/// A proxy that others run, and whose networks are published.
#[derive(Debug, PartialEq, Eq)]
pub struct ProxyService {
    /// Its name behind the `@`.
    pub name: &'static str,
    /// Where its networks are.
    pub publication: Publication,
    /// Days after which a list is too old.
    max_age: i32,
    /// The list that comes with the program.
    own_list: &'static str,
}

/// Where networks are published, and in which form.
#[derive(Debug, PartialEq, Eq)]
pub enum Publication {
    /// One object of JSON, with the networks in these arrays (RFC 6901).
    Json {
        /// Its address.
        url: &'static str,
        /// All of them must be there.
        arrays: &'static [&'static str],
    },
    /// One network a line at each of these addresses.
    Lines(&'static [&'static str]),
    /// Azure's file of all its networks, which has another name every week.
    ServiceTags {
        /// The page that links it.
        page: &'static str,
        /// The name of the tag.
        tag: &'static str,
    },
    /// A page for people only.
    Page(&'static str),
}

impl ProxyService {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self {
            name: "cloudflare",
            publication: Publication::Json {
                url: "https://api.cloudflare.com/client/v4/ips",
                arrays: &["/result/ipv4_cidrs", "/result/ipv6_cidrs"],
            },
            max_age: MAX_AGE,
            own_list: include_str!("../../assets/proxies/cloudflare.txt"),
        },
        Self {
            name: "fastly",
            publication: Publication::Json {
                url: "https://api.fastly.com/public-ip-list",
                arrays: &["/addresses", "/ipv6_addresses"],
            },
            max_age: MAX_AGE,
            own_list: include_str!("../../assets/proxies/fastly.txt"),
        },
        Self {
            name: "google",
            publication: Publication::Page(
                "https://docs.cloud.google.com/load-balancing/docs/firewall-rules",
            ),
            max_age: MAX_AGE,
            own_list: include_str!("../../assets/proxies/google.txt"),
        },
        Self {
            name: "azure-front-door",
            publication: Publication::ServiceTags {
                page: "https://www.microsoft.com/en-us/download/details.aspx?id=56519",
                tag: "AzureFrontDoor.Backend",
            },
            max_age: MAX_AGE,
            own_list: include_str!("../../assets/proxies/azure-front-door.txt"),
        },
        Self {
            name: "bunny",
            publication: Publication::Lines(&[
                "https://api.bunny.net/system/edgeserverlist/plain",
                "https://api.bunny.net/system/edgeserverlist/IPv6/plain",
            ]),
            max_age: MAX_AGE_OF_SERVERS,
            own_list: include_str!("../../assets/proxies/bunny.txt"),
        },
    ];

    /// The one with this name, without the `@`.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        Self::ALL.iter().find(|service| service.name == name)
    }

    /// The file in which `tollgate trust update` puts its list, below the directory for the gate's own files.
    #[must_use]
    pub fn file(&self) -> String {
        format!("proxies/{}.txt", self.name)
    }

    /// The list that counts where [`file`](Self::file) has these bytes, and why the file does not count if
    /// it is broken.
    #[must_use]
    pub fn list(&self, updated: Option<&[u8]>) -> (NetworkList, Option<NetworkListError>) {
        // A test reads each of them. Without networks nobody would be trusted.
        let own = NetworkList::parse(self.own_list.as_bytes()).unwrap_or_default();
        match updated.map(NetworkList::parse) {
            Some(Ok(updated)) if updated.date >= own.date => (updated, None),
            Some(Err(fault)) => (own, Some(fault)),
            Some(Ok(_)) | None => (own, None),
        }
    }

    /// The age of this list in days, if it is too old on this day.
    #[must_use]
    pub fn too_old(&self, list: &NetworkList, today: Date) -> Option<i32> {
        let age = (today - list.date).get_days();
        (age > self.max_age).then_some(age)
    }
}

/// Days. Networks of proxies stay for years; new ones are announced weeks before they are used.
const MAX_AGE: i32 = 90;
/// The same for a list of single servers, some of which go every week. Anybody may rent their addresses then.
const MAX_AGE_OF_SERVERS: i32 = 30;

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn every_list_of_the_program_is_valid_and_names_its_source() {
        for service in ProxyService::ALL {
            let list = NetworkList::parse(service.own_list.as_bytes()).unwrap();
            let families = [true, false].map(|v4| list.networks.iter().any(|net| net.addr().is_ipv4() == v4));
            assert_eq!(families, [true, true], "{}", service.name);
            assert!(service.own_list.contains("\n# publisher: https://"), "{}", service.name);
            let lines = service.own_list.lines().filter(|line| !line.starts_with('#'));
            assert_eq!(lines.count(), list.networks.len(), "{}: a network twice", service.name);
        }
    }

    /// As their publishers document them.
    #[test]
    fn the_lists_have_addresses_that_are_known() {
        for (name, inside, outside) in [
            ("cloudflare", "104.16.0.1", "104.12.0.1"),
            ("cloudflare", "2606:4700::1", "2606:4701::1"),
            ("fastly", "151.101.1.1", "151.100.1.1"),
            ("google", "35.191.0.1", "35.184.0.1"),
            ("google", "130.211.3.255", "130.211.4.0"),
        ] {
            let (list, _) = ProxyService::named(name).unwrap().list(None);
            let has = |address: &str| {
                let address: IpAddr = address.parse().unwrap();
                list.networks.iter().any(|net| net.contains(&address))
            };
            assert!(has(inside) && !has(outside), "{name}: {inside}, {outside}");
        }
    }

    #[test]
    fn an_updated_list_counts_if_it_is_valid_and_not_older() {
        let service = ProxyService::named("fastly").unwrap();
        let own = service.list(None).0;
        let dated = |date: Date| format!("# current on: {date}\n8.8.8.0/24\n");
        for (text, counts, is_broken) in [
            (dated(own.date.tomorrow().unwrap()), true, false),
            (dated(own.date), true, false),
            (dated(own.date.yesterday().unwrap()), false, false),
            ("8.8.8.0/24\n".to_owned(), false, true),
            (dated(own.date) + "10.0.0.0/8\n", false, true),
            (String::new(), false, true),
        ] {
            let (list, fault) = service.list(Some(text.as_bytes()));
            assert_eq!((list.networks.len() == 1, fault.is_some()), (counts, is_broken), "{text}");
            assert!(counts || list == own, "{text}");
        }
    }

    #[test]
    fn a_list_of_servers_is_too_old_after_30_days_and_one_of_networks_after_90() {
        for (name, days) in [("bunny", 30), ("cloudflare", 90), ("google", 90)] {
            let service = ProxyService::named(name).unwrap();
            let list = service.list(None).0;
            let in_days = |days: i32| list.date.checked_add(jiff::Span::new().days(days)).unwrap();
            assert_eq!(service.too_old(&list, in_days(days)), None, "{name}");
            assert_eq!(service.too_old(&list, in_days(days + 1)), Some(days + 1), "{name}");
            assert_eq!(service.too_old(&list, in_days(-1)), None, "a clock that is slow");
        }
    }
}
