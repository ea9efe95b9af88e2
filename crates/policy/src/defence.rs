//! Optional defences of a route: what one may do with an attempt, and when.
//!
//! A defence is a module of a higher layer, with its keys, its state and its words. The policy asks each what it notes of
//! an attempt, and knows none by name. What follows from a note is left to the engine.

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use http::header::CONTENT_ENCODING;

use super::attempt::{Attempt, AttemptBody, SearchedBody};
use super::fingerprint::Fingerprint;
use super::key::{KeyHasher, NamedAccount, PrefixLengths, write_bytes};
use tollgate_bucket::Time;

/// One optional defence of one route. Every point of an attempt's way has a default that does nothing.
pub trait Defence: Any + std::fmt::Debug + Send + Sync {
    /// The key that turns it on.
    fn name(&self) -> &'static str;

    /// Its worst case, in words.
    fn describe(&self) -> String;

    /// What has to be read of an attempt for it.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// What it notes of an attempt, as one route reads it.
    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote>;

    /// As how many attempts this one counts for the address of its client, from 1; asked once it is admitted.
    fn weight_of_attempt(&self, _: AttemptNote) -> u32 {
        1
    }

    /// As how many failures this one counts for the address of its client, from 1; asked once, when the attempt has
    /// failed.
    fn weight_of_failure(&self, _: AttemptNote, _: FailedAttempt) -> u32 {
        1
    }

    /// Whether a failure is charged as one; asked once, when an answer said that the attempt has failed, and only if all
    /// routes that count it have this note.
    fn charges_failure(&self, _: AttemptNote, _: FailedAttempt) -> bool {
        true
    }

    /// Takes over what the same defence of the former rules knows.
    fn carry_over(&mut self, _: &dyn Defence) {}
}

/// What has to be read of each attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Needs {
    /// The accounts that it names.
    pub accounts: bool,
    /// The whole body, as far as the route reads bodies.
    pub body: bool,
}

/// What a defence keeps of an attempt until it is settled; what the numbers mean, the defence knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttemptNote(pub u64, pub u64);

/// When a failed attempt came and when it failed, by the clock of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAttempt {
    /// When it was decided.
    pub decided: Time,
    /// Now.
    pub failed: Time,
}

/// An attempt, as one route reads it.
#[derive(Clone, Copy)]
pub struct ReadAttempt<'a> {
    pub(super) attempt: &'a Attempt<'a>,
    pub(super) hasher: &'a KeyHasher,
    pub(super) now: Time,
    /// Whether it comes from a known device or address of its account.
    pub(super) is_owner: bool,
    /// What it names; nothing if the body was not read yet, or nobody needs accounts.
    pub(super) named: &'a [NamedAccount],
}

impl ReadAttempt<'_> {
    /// Whether it comes from a known device or address of the account that it names.
    #[must_use]
    pub fn is_of_owner(&self) -> bool {
        self.is_owner
    }

    /// The hash of its client, whose addresses of one prefix are one; `None` for one without an address of its own.
    #[must_use]
    pub fn client(&self, prefixes: PrefixLengths) -> Option<u64> {
        self.attempt.client.known_ip()?;
        Some(self.hasher.tag_of_client(prefixes, self.attempt.client))
    }

    /// Whether it names one of these accounts, from no known device or address of it.
    #[must_use]
    pub fn is_strangers_at(&self, accounts: &HashSet<Fingerprint>) -> bool {
        let mut strangers = self.named.iter().filter(|named| named.owner.is_none());
        strangers.any(|named| named.listed.is_some_and(|account| accounts.contains(&account)))
    }

    /// The hash of the whole request, under a key that lives for a day in the memory of this process; `None` if its body
    /// is not known as it is sent. Only lines that proxies and libraries write anew for each request are left out.
    #[must_use]
    pub fn whole(&self) -> Option<AttemptNote> {
        let Attempt { method, path, query, host, headers, body, descriptor: None, .. } = self.attempt else {
            return None;
        };
        let (AttemptBody::Whole(body) | AttemptBody::Searched(SearchedBody { bytes: body, .. })) = *body
        else {
            return None;
        };
        // An application may find more in a coding than was decoded here.
        if headers.contains_key(CONTENT_ENCODING) {
            return None;
        }
        let whole = self.hasher.of(|hasher| {
            for part in [method.as_str(), path, host, query.unwrap_or("?")] {
                write_bytes(hasher, b'g', part.as_bytes());
            }
            for (name, value) in headers.iter().filter(|(name, _)| !NEW_EACH_TIME.contains(&name.as_str())) {
                write_bytes(hasher, b'g', name.as_str().as_bytes());
                write_bytes(hasher, b'g', value.as_bytes());
            }
            write_bytes(hasher, b'g', body);
        });
        let [high, low] = self.hasher.of_the_day(&whole.to_be_bytes(), self.now)?;
        Some(AttemptNote(high, low))
    }
}

/// The defences that a route has turned on.
#[derive(Debug, Clone, Default)]
pub struct RouteDefences(Vec<Arc<dyn Defence>>);

impl RouteDefences {
    /// With another one.
    pub fn add(&mut self, defence: impl Defence) {
        self.0.push(Arc::new(defence));
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &dyn Defence> {
        self.0.iter().map(|defence| &**defence)
    }

    /// What has to be read for any of them.
    pub(super) fn needs(&self) -> Needs {
        self.iter().map(Defence::needs).fold(Needs::default(), |one, other| Needs {
            accounts: one.accounts || other.accounts,
            body: one.body || other.body,
        })
    }

    /// Takes over what those of the former rules know.
    pub fn carry_over(&mut self, former: &Self) {
        for defence in self.0.iter_mut().filter_map(Arc::get_mut) {
            if let Some(former) = former.iter().find(|former| former.name() == defence.name()) {
                defence.carry_over(former);
            }
        }
    }
}

/// Two are equal if they say the same: what they know of attempts makes no difference.
impl PartialEq for RouteDefences {
    fn eq(&self, other: &Self) -> bool {
        self.iter().map(Defence::describe).eq(other.iter().map(Defence::describe))
    }
}

/// What the defences of all routes that count an attempt noted of it.
#[derive(Debug, Clone, Default)]
pub struct AttemptNotes(Vec<DefenceNote>);

#[derive(Debug, Clone)]
struct DefenceNote {
    defence: Arc<dyn Defence>,
    note: AttemptNote,
    /// How many routes have it.
    routes: usize,
}

impl AttemptNotes {
    /// Adds what the defences of a route note; of equal notes of one defence the last rule counts.
    pub(super) fn add(&mut self, defences: &RouteDefences, attempt: &ReadAttempt<'_>) {
        for defence in &defences.0 {
            let Some(note) = defence.note(attempt) else { continue };
            let is_same =
                |known: &&mut DefenceNote| known.defence.name() == defence.name() && known.note == note;
            match self.0.iter_mut().find(is_same) {
                Some(known) => {
                    known.defence = Arc::clone(defence);
                    known.routes += 1;
                }
                None => self.0.push(DefenceNote { defence: Arc::clone(defence), note, routes: 1 }),
            }
        }
    }

    /// Whether the defence of this name noted anything.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|noted| noted.defence.name() == name)
    }

    /// As how many attempts this one counts for the address of its client, from 1.
    #[must_use]
    pub fn weight_of_attempt(&self) -> u32 {
        self.0.iter().map(|noted| noted.defence.weight_of_attempt(noted.note)).max().unwrap_or(1)
    }

    /// As how many failures this one counts for the address of its client, from 1; to be asked once.
    #[must_use]
    pub fn weight_of_failure(&self, attempt: FailedAttempt) -> u32 {
        self.0.iter().map(|noted| noted.defence.weight_of_failure(noted.note, attempt)).max().unwrap_or(1)
    }

    /// Whether a failure is charged as one; to be asked once. So many routes count the attempt, and it is charged unless all
    /// of them have the note: a client can have a route count it that would forgive what another one must not.
    #[must_use]
    pub fn charge_failure(&self, attempt: FailedAttempt, routes: usize) -> bool {
        let mut agreed = self.0.iter().filter(|noted| noted.routes == routes);
        agreed.all(|noted| noted.defence.charges_failure(noted.note, attempt))
    }
}

/// Lines of a request that is sent again which differ although its sender means the same. No application takes a password
/// from them.
const NEW_EACH_TIME: [&str; 10] = [
    "date",
    "forwarded",
    "traceparent",
    "tracestate",
    "via",
    "x-forwarded-for",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-real-ip",
    "x-request-id",
];
