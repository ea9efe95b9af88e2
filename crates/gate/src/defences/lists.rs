//! `[lists.NAME]`: what attempts from networks pay that others publish as dangerous.
//!
//! An attempt costs more for limits by address, or is refused. The keys, the files and their forms are left to
//! `config/lists.rs`, and other rates to the limits.

use std::sync::Arc;

use http::StatusCode;

use super::{DefenceCheck, DefendedRoute};
use crate::policy::network::NetworkSet;
use crate::policy::{AttemptNote, Defence, DefenceRefusal, ReadAttempt};

/// A list, and what attempts from its networks pay.
#[derive(Debug)]
pub struct ListedNetworks {
    /// Its name.
    pub name: String,
    /// Its networks.
    pub networks: NetworkSet,
    /// As many times its cost an attempt pays, from 1.
    pub cost: u32,
    /// Whether attempts are refused.
    pub denies: bool,
}

/// All lists, in the order of the file; at most [`MAX_LISTS`].
#[derive(Debug)]
struct Lists {
    lists: Arc<[ListedNetworks]>,
    /// Whether no attempt is refused.
    observes: bool,
    /// Whether a limit by address applies to the route.
    has_address_limit: bool,
}

pub(super) fn check(check: &DefenceCheck<'_>, to: &mut DefendedRoute<'_>) {
    let lists = &check.shared.lists;
    let is_any = lists.iter().any(|list| list.denies || list.cost > 1);
    let has_address_limit = to.has_address_limit;
    if let Some(route) = to.route.as_deref_mut().filter(|_| is_any) {
        let (lists, observes) = (Arc::clone(lists), check.shared.observes);
        route.defences.add(Lists { lists, observes, has_address_limit });
    }
}

impl Lists {
    /// The lists that a note is about.
    fn noted(&self, AttemptNote(_, lists): AttemptNote) -> impl Iterator<Item = &ListedNetworks> {
        self.lists.iter().enumerate().filter(move |(at, _)| lists >> at & 1 == 1).map(|(_, list)| list)
    }

    fn denies(&self, list: &ListedNetworks) -> bool {
        list.denies && !self.observes
    }
}

/// A note has the greatest cost of its lists, and a bit for each of them.
impl Defence for Lists {
    fn name(&self) -> &'static str {
        "lists"
    }

    fn describe(&self) -> Option<String> {
        let words = |list: &ListedNetworks| match list {
            _ if self.denies(list) => Some(format!("an attempt from the list `{}` is refused", list.name)),
            ListedNetworks { name, cost: 2.., .. } if self.has_address_limit => {
                Some(format!("an attempt from the list `{name}` costs {} times for its address", list.cost))
            }
            _ => None,
        };
        let all: Vec<_> = self.lists.iter().filter_map(words).collect();
        Some(all.join("; ")).filter(|words| !words.is_empty())
    }

    /// A log of a reload tells of other networks.
    fn settings(&self) -> String {
        let numbers = self.lists.iter().map(|list| format!("{} {}", list.name, list.networks.iter().count()));
        let numbers: Vec<_> = numbers.collect();
        format!("{}; {}", self.describe().unwrap_or_default(), numbers.join(", "))
    }

    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        let mut note = AttemptNote(1, 0);
        for (at, list) in self.lists.iter().enumerate().filter(|(_, list)| attempt.is_from(&list.networks)) {
            note = AttemptNote(note.0.max(list.cost.into()), note.1 | 1 << at);
        }
        Some(note).filter(|note| note.1 != 0)
    }

    fn refusal(&self, note: AttemptNote) -> Option<&'static DefenceRefusal> {
        self.noted(note).any(|list| self.denies(list)).then_some(&REFUSAL)
    }

    fn address_cost_factor(&self, AttemptNote(cost, _): AttemptNote) -> u32 {
        u32::try_from(cost).unwrap_or(u32::MAX)
    }

    fn explain(&self, note: AttemptNote) -> Option<(&'static str, String)> {
        let names: Vec<_> = self.noted(note).map(|list| format!("`{}`", list.name)).collect();
        let cost = match note.0 {
            _ if self.refusal(note).is_some() => ": refused".to_owned(),
            ..=1 => String::new(),
            cost => format!(": costs {cost} times for limits by address"),
        };
        Some(("lists", format!("its network is on {}{cost}", names.join(" and "))))
    }
}

/// Lists of a configuration at most: a note has a bit for each.
pub const MAX_LISTS: usize = 64;

const REFUSAL: DefenceRefusal = DefenceRefusal {
    status: StatusCode::FORBIDDEN,
    why: "its network is on a list",
    detail: "Sign-ins from this network are not accepted here.",
};
