//! Temporary changes as bytes: for a snapshot, and for the store that gates share.
//!
//! JSON, because people look into stores, and because a later version adds fields.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Exemption, MAX_EXEMPTIONS, ModeOverride, Overrides};
use crate::policy::Mode;
use crate::time::Time;

#[derive(Serialize, Deserialize)]
struct OverridesRecord {
    exemptions: Vec<ExemptionRecord>,
    modes: Vec<ModeRecord>,
}

#[derive(Serialize, Deserialize)]
struct ExemptionRecord {
    prefix: String,
    /// Nanoseconds since 1970.
    until: u64,
    why: String,
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
        let exemptions = self.exemptions.iter().map(|Exemption { prefix, until, why }| ExemptionRecord {
            prefix: prefix.to_string(),
            until: until.as_nanos(),
            why: why.clone(),
        });
        let modes = self.modes.iter().map(|ModeOverride { limit, mode, until }| ModeRecord {
            limit: limit.as_deref().map(str::to_owned),
            mode: mode.name().to_owned(),
            until: until.map(Time::as_nanos),
        });
        let record = OverridesRecord { exemptions: exemptions.collect(), modes: modes.collect() };
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
        let exemption = |ExemptionRecord { prefix, until, why }: ExemptionRecord| {
            Some(Exemption { prefix: prefix.parse().ok()?, until: Time::from_nanos(until), why })
        };
        let mode = |ModeRecord { limit, mode, until }: ModeRecord| {
            let mode = [Mode::Observe, Mode::Enforce].into_iter().find(|known| known.name() == mode)?;
            Some(ModeOverride { limit: limit.map(Arc::from), mode, until: until.map(Time::from_nanos) })
        };
        Some(Self {
            exemptions: record.exemptions.into_iter().filter_map(exemption).take(MAX_EXEMPTIONS).collect(),
            modes: record.modes.into_iter().filter_map(mode).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_back_as_they_were_written() {
        let until = Time::from_nanos(1_800_000_000_000_000_001);
        let why = "a \"fair\"\u{1f3aa}".to_owned();
        let exemption = Exemption { prefix: "2001:db8::/32".parse().unwrap(), until, why };
        let mode =
            |limit: Option<&str>, mode, until| ModeOverride { limit: limit.map(Arc::from), mode, until };
        let modes = vec![mode(None, Mode::Observe, Some(until)), mode(Some("a"), Mode::Enforce, None)];
        let changes = Overrides { exemptions: vec![exemption], modes };
        assert_eq!(Overrides::decode(&changes.encode()), Some(changes));
        assert_eq!(Overrides::decode(&Overrides::default().encode()), Some(Overrides::default()));
        assert_eq!(Overrides::decode(b"{\"exemptions\": 1}"), None);
    }
}
