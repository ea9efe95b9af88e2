//! The rules of one moment, and whose bucket an attempt draws on: worked out a second time, by names instead of hashes.

use std::sync::Arc;

use http::HeaderName;
use tollgate::bucket::{Continuous, Distinct, Escalation, Spec};
use tollgate::config::{Sources, load};
use tollgate::policy::field::Field;
use tollgate::policy::key::KeyPart;
use tollgate::policy::{ChargeOn, Limit, LimitKind, OwnerCookie, Policy, Route, RouteReading, Unit};
use tollgate::time::Span;

use support::dice::Dice;

/// One limit, or a facet of one, as it was drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Drawn {
    pub(crate) name: &'static str,
    pub(crate) facet: LimitKind,
    pub(crate) spends: ChargeOn,
    pub(crate) unit: Unit,
    /// Tokens, and nanoseconds for each; strikes and the first wait where waits grow.
    pub(crate) burst: u32,
    pub(crate) per: u64,
}

/// What is in force from one reload to the next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rules(pub(crate) Vec<Drawn>);

impl Rules {
    pub(crate) fn drawn(dice: &mut Dice) -> Self {
        let mut all = Vec::new();
        for (name, _) in NAMES {
            let spends = match name {
                "address" | "spray" => {
                    dice.pick(&[ChargeOn::Attempts, ChargeOn::Failures, ChargeOn::Failures])
                }
                _ => ChargeOn::Failures,
            };
            let unit = match name {
                "spray" => Unit::Users,
                "guesses" => Unit::Passwords,
                "crowd" => Unit::Clients,
                _ => Unit::Attempts,
            };
            let burst = dice.tokens(3..12);
            let per = dice.pick(&[10, 60, 180, 900, 3600]) * SECOND;
            let rate = Drawn { name, facet: LimitKind::Rate, spends, unit, burst, per };
            all.push(rate);
            let plain = Drawn { unit: Unit::Attempts, ..rate };
            if name == "account" {
                let burst = dice.tokens(15..60);
                let per = LIFETIME / u64::from(burst);
                all.push(Drawn { facet: LimitKind::Cap, burst, per, ..plain });
            }
            if dice.once_in(3) && name != "spray" {
                let (burst, per) = (dice.tokens(1..7), dice.pick(&[5, 30, 300]) * SECOND);
                all.push(Drawn { facet: LimitKind::Escalation, burst, per, ..plain });
            }
        }
        Self(all)
    }

    /// After an edit of the file: about half of the limits are others.
    pub(crate) fn edited(&self, dice: &mut Dice) -> Self {
        let other = Self::drawn(dice);
        let mut all = Vec::new();
        for (name, _) in NAMES {
            let from = if dice.once_in(2) { &other } else { self };
            all.extend(from.0.iter().filter(|drawn| drawn.name == name));
        }
        Self(all)
    }

    pub(crate) fn policy(&self) -> Policy {
        let header = |name| Field::Header(HeaderName::from_static(name));
        let route = Route {
            reading: RouteReading {
                user: vec![header("x-user")],
                password: vec![header("x-password")],
                ..RouteReading::default()
            },
            limits: (0..self.0.len()).collect(),
            ..Route::new("login", vec!["POST /login".parse().unwrap()])
        };
        let mut policy = Policy::new(vec![route], self.0.iter().map(Drawn::limit).collect());
        policy.owner_cookie = Some(devices());
        policy
    }

    /// The longest that anything but a cap is remembered.
    pub(crate) fn memory(&self) -> u64 {
        let rates = self.0.iter().filter(|drawn| drawn.facet == LimitKind::Rate);
        rates.map(|drawn| drawn.per * u64::from(drawn.burst)).max().unwrap_or(0)
    }
}

impl Drawn {
    fn limit(&self) -> Limit {
        let (facet, spends, unit) = (self.facet, self.spends, self.unit);
        let key = NAMES.iter().find(|(name, _)| *name == self.name).map(|(_, key)| key.to_vec()).unwrap();
        Limit { kind: facet, charge_on: spends, unit, key, ..Limit::new(self.name, self.spec()) }
    }

    fn spec(&self) -> Spec {
        let per = Span::from_nanos(self.per);
        if self.facet == LimitKind::Escalation {
            return Spec::Escalation(Escalation::new(self.burst, per, 2, Span::from_secs(3600)).unwrap());
        }
        let bucket = Continuous::new(1, per, self.burst).unwrap();
        match self.unit {
            Unit::Attempts => Spec::Continuous(bucket),
            Unit::Users | Unit::Clients => Spec::Distinct(Distinct::new(bucket, None).unwrap()),
            Unit::Passwords => Spec::Distinct(Distinct::new(bucket, Some(200)).unwrap()),
        }
    }

    /// Whose bucket this is; `None` if such an attempt has nothing to do with it.
    pub(crate) fn owner(&self, address: &str, account: &str, device: Option<&str>) -> Option<Owner> {
        let whose = match (self.name, device) {
            ("address" | "spray", _) => address.to_owned(),
            ("account" | "guesses" | "crowd", None) => account.to_owned(),
            ("pair", _) => format!("{account} at {address}"),
            ("device", Some(device)) => format!("{account} on {device}"),
            _ => return None,
        };
        Some((self.name, self.facet as u8, whose))
    }
}

/// The limit, which facet of it, and whose.
pub(crate) type Owner = (&'static str, u8, String);

/// Known devices by this secret, in a cookie `known`.
fn devices() -> Arc<dyn OwnerCookie> {
    let text = format!(
        "listen = \"http://[::]:80\"\nupstream = \"http://127.0.0.1:81\"\n\
         [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 5m\"\n\
         [device]\nsecret = \"{SECRET}\"\ncookie = \"known\"\n"
    );
    load(&Sources::from_text("devices", &text)).config.unwrap().policy.owner_cookie.unwrap()
}

const NAMES: [(&str, &[KeyPart]); 7] = [
    ("address", &[KeyPart::Ip]),
    ("spray", &[KeyPart::Ip]),
    ("account", &[KeyPart::User]),
    ("guesses", &[KeyPart::User]),
    ("crowd", &[KeyPart::User]),
    ("pair", &[KeyPart::User, KeyPart::Ip]),
    ("device", &[KeyPart::User, KeyPart::Owner]),
];

pub(crate) const SECRET: &str = "a secret that is none, for simulations only";
pub(crate) const SECOND: u64 = 1_000_000_000;
pub(crate) const MINUTE: u64 = 60 * SECOND;
pub(crate) const HOUR: u64 = 60 * MINUTE;
pub(crate) const DAY: u64 = 24 * HOUR;
const LIFETIME: u64 = 70 * 365 * DAY;
