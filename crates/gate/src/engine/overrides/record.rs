//! Temporary changes as bytes: for a snapshot, and for the store that gates share.
//!
//! The bytes are JSON, because people look into stores and a later version may add fields.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{MAX_BANS, MAX_EXEMPTIONS, ModeOverride, Overrides, PrefixBan, PrefixExemption, PrefixOverride};
use crate::policy::Mode;
use crate::time::Time;

#[derive(Serialize, Deserialize)]
struct OverridesRecord {
    exemptions: Vec<PrefixRecord>,
    modes: Vec<ModeRecord>,
    /// Gates of earlier versions write none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    bans: Vec<PrefixRecord>,
}

#[derive(Serialize, Deserialize)]
struct PrefixRecord {
    prefix: String,
    /// Nanoseconds since 1970.
    until: u64,
    why: String,
    /// Gates of earlier versions write none of these.
    #[serde(default)]
    since: u64,
    #[serde(default)]
    by: String,
    /// Whether a ban refuses every request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    all: bool,
    /// Whether an exemption is from limits of addresses alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    addresses: bool,
}

#[derive(Serialize, Deserialize)]
struct ModeRecord {
    limit: Option<String>,
    mode: String,
    until: Option<u64>,
}

impl Overrides {
    /// The changes as bytes; none for no changes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        if *self == Self::default() {
            return Vec::new();
        }
        let exemptions = self.exemptions.iter().map(|exemption| PrefixRecord {
            addresses: exemption.is_of_address_limits,
            ..PrefixRecord::of(&exemption.clients)
        });
        let bans = self
            .bans
            .iter()
            .map(|ban| PrefixRecord { all: ban.is_of_all_requests, ..PrefixRecord::of(&ban.clients) });
        let modes = self.modes.iter().map(|ModeOverride { limit, mode, until }| ModeRecord {
            limit: limit.as_deref().map(str::to_owned),
            mode: mode.name().to_owned(),
            until: until.map(Time::as_nanos),
        });
        let record = OverridesRecord {
            exemptions: exemptions.collect(),
            modes: modes.collect(),
            bans: bans.collect(),
        };
        // Such a record has no value that JSON cannot hold.
        serde_json::to_vec(&record).unwrap_or_default()
    }

    /// Reads what [`encode`](Self::encode) wrote; `None` for other bytes. Entries that make no sense are left out.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::default());
        }
        let record: OverridesRecord = serde_json::from_slice(bytes).ok()?;
        let exemption = |record: PrefixRecord| {
            let is_of_address_limits = record.addresses;
            Some(PrefixExemption { clients: record.clients()?, is_of_address_limits })
        };
        let ban = |record: PrefixRecord| {
            let is_of_all_requests = record.all;
            Some(PrefixBan { clients: record.clients()?, is_of_all_requests })
        };
        let mode = |ModeRecord { limit, mode, until }: ModeRecord| {
            let mode = [Mode::Observe, Mode::Enforce].into_iter().find(|known| known.name() == mode)?;
            Some(ModeOverride { limit: limit.map(Arc::from), mode, until: until.map(Time::from_nanos) })
        };
        Some(Self {
            exemptions: record.exemptions.into_iter().filter_map(exemption).take(MAX_EXEMPTIONS).collect(),
            bans: record.bans.into_iter().filter_map(ban).take(MAX_BANS).collect(),
            modes: record.modes.into_iter().filter_map(mode).collect(),
        })
    }
}

impl PrefixRecord {
    fn of(clients: &PrefixOverride) -> Self {
        let PrefixOverride { prefix, since, until, by, why } = clients;
        let (since, until) = (since.as_nanos(), until.as_nanos());
        let (why, by) = (why.clone(), by.clone());
        Self { prefix: prefix.to_string(), until, why, since, by, all: false, addresses: false }
    }

    fn clients(self) -> Option<PrefixOverride> {
        let Self { prefix, until, why, since, by, .. } = self;
        let (since, until) = (Time::from_nanos(since), Time::from_nanos(until));
        Some(PrefixOverride { prefix: prefix.parse().ok()?, since, until, by, why })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_as_they_were_written() {
        let until = Time::from_nanos(1_800_000_000_000_000_001);
        let why = "a \"fair\"\u{1f3aa}".to_owned();
        let clients = |prefix: &str| {
            let (by, why, since) = ("uid 1000".to_owned(), why.clone(), Time::from_nanos(7));
            PrefixOverride { prefix: prefix.parse().unwrap(), since, until, by, why }
        };
        let exemption = PrefixExemption { clients: clients("2001:db8::/32"), is_of_address_limits: true };
        let ban = PrefixBan { clients: clients("192.0.2.0/25"), is_of_all_requests: true };
        let mode =
            |limit: Option<&str>, mode, until| ModeOverride { limit: limit.map(Arc::from), mode, until };
        let modes = vec![mode(None, Mode::Observe, Some(until)), mode(Some("a"), Mode::Enforce, None)];
        let changes = Overrides { exemptions: vec![exemption], bans: vec![ban], modes };
        assert_eq!(Overrides::decode(&changes.encode()), Some(changes));
        assert_eq!(Overrides::decode(&Overrides::default().encode()), Some(Overrides::default()));
        assert_eq!(Overrides::decode(b"{\"exemptions\": 1}"), None);
        let earlier = br#"{"exemptions":[{"prefix":"192.0.2.0/24","until":5,"why":""}],"modes":[]}"#;
        let read = Overrides::decode(earlier).unwrap();
        assert_eq!(
            (read.exemptions.len(), read.exemptions[0].clients.by.as_str()),
            (1, ""),
            "it knows no operators"
        );
        let earlier = br#"{"exemptions":[],"modes":[{"limit":"a","mode":"observe","until":null}]}"#;
        assert_eq!(Overrides::decode(earlier).map(|read| read.modes.len()), Some(1), "it knows no bans");
    }
}
