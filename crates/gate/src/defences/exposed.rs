//! `exposed`: what happens to an attempt whose password is in published lists.
//!
//! `[exposed]` names the list: a static filter in a file, built from an ordered list of SHA-1 hashes. It finds every hash
//! of its list, and one in 1,024 others. It is a row of binary fuse filters (Graf and Lemire, "Binary Fuse Filters: Fast
//! and Smaller Than Xor Filters", ACM JEA 27, 2022), each for up to a million hashes that follow each other: so building
//! takes little memory, however long the list is. `xorf` builds them. A password is hashed here, and forgotten.

mod builder;
mod filter;
mod format;
mod hash_list;

use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use sha1::{Digest as _, Sha1};
use tollgate_grammar::kind::{Free, Key, Word};
use tollgate_grammar::{Findings, Located, tables, words};
use zeroize::Zeroize as _;

pub use self::builder::{BuildError, Built, build};

use self::filter::{FilterError, PasswordFilter};
use super::{DefenceCheck, DefenceFiles, DefendedRoute};
use crate::policy::{AttemptNote, Defence, DefenceCounter, DefenceRefusal, Needs, ReadAttempt};

tables! {
    /// Exposed passwords.
    pub RawExposedList {
        file: Key<Free>,
    }

    pub RawExposed {
        exposed: Key<Word<ExposedActions>> = Example,
    }
}

words! {
    /// What happens to an exposed password.
    pub ExposedActions: ExposedAction {
        "mark" => ExposedAction::Mark,
        "charge" => ExposedAction::Charge,
        "refuse" => ExposedAction::Refuse,
    }
}

/// What happens to an attempt with an exposed password. Later ones win where several routes count it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExposedAction {
    /// It is counted.
    Observe,
    /// The application is told.
    Mark,
    /// The application is told, and the attempt costs twice.
    Charge,
    /// It is refused.
    Refuse,
}

/// Exposed passwords on one route.
#[derive(Debug)]
struct ExposedPasswords {
    action: ExposedAction,
    /// `None` if no file is read.
    filter: Option<Arc<PasswordFilter>>,
}

/// The list that a file names.
pub(super) struct PasswordList<'r> {
    file: Option<&'r Located<String>>,
    filter: Option<Arc<PasswordFilter>>,
}

impl<'r> PasswordList<'r> {
    pub(super) fn open<'a>(
        raw: &'r RawExposedList,
        mut routes: impl Iterator<Item = &'a RawExposed>,
        files: &mut dyn DefenceFiles,
        f: &mut Findings,
    ) -> Self {
        let file = raw.file.as_deref().filter(|file| !file.value.is_empty());
        let is_asked = routes.any(|route| route.exposed.is_some());
        if let Some(file) = file.filter(|_| !is_asked) {
            f.warning(&file.spot, "no route looks passwords up here", "[route.NAME] exposed = \"mark\"");
        }
        let filter = file.and_then(|file| open(file, files, f)).map(Arc::new);
        Self { file, filter }
    }
}

fn open(
    Located { value, spot }: &Located<String>,
    files: &mut dyn DefenceFiles,
    f: &mut Findings,
) -> Option<PasswordFilter> {
    let path = files.path_of(value, spot, f)?;
    match PasswordFilter::open(&path) {
        Ok(filter) => Some(filter),
        Err(FilterError::Read(error)) => {
            files.cannot_read(&path, &error, spot, f);
            None
        }
        Err(FilterError::Format(why)) => {
            f.error(spot, format!("cannot use `{}`: {why}", path.display()), BUILD_AGAIN);
            None
        }
    }
}

pub(super) fn check(
    raw: &RawExposed,
    check: &DefenceCheck<'_>,
    to: &mut DefendedRoute<'_>,
    f: &mut Findings,
) {
    let Some(word) = &raw.exposed else { return };
    let list = &check.passwords;
    let action = word.checked(f);
    if list.file.is_none() {
        f.error(&word.spot, "no list of exposed passwords is named", MAKE_ONE);
    }
    if !to.names_password {
        let hint = "add password = \"form:password\"";
        to.warn(&word.spot, "names no `password`, so none is looked up", hint, f);
    }
    if let (Some(route), Some(action)) = (to.route.as_deref_mut(), action) {
        let action = if check.shared.observes { ExposedAction::Observe } else { action };
        route.defences.add(ExposedPasswords { action, filter: list.filter.clone() });
    }
}

impl Defence for ExposedPasswords {
    fn name(&self) -> &'static str {
        "exposed"
    }

    fn settings(&self) -> String {
        format!("{:?}", self.action)
    }

    fn needs(&self) -> Needs {
        let is_strict = self.action == ExposedAction::Refuse;
        Needs { passwords: true, is_strict, ..Needs::default() }
    }

    fn note(&self, attempt: &ReadAttempt<'_>) -> Option<AttemptNote> {
        let filter = self.filter.as_deref()?;
        // All are looked up, so that the time tells nothing of their order.
        let exposed = attempt.passwords().filter(|password| is_exposed(filter, password)).count();
        (exposed > 0).then(|| self.action.note())
    }

    fn counter(&self) -> Option<&'static DefenceCounter> {
        Some(&COUNTER)
    }

    fn refusal(&self, note: AttemptNote) -> Option<&'static DefenceRefusal> {
        (note == ExposedAction::Refuse.note()).then_some(&REFUSAL)
    }

    fn cost_factor(&self, note: AttemptNote) -> u32 {
        if note == ExposedAction::Charge.note() { 2 } else { 1 }
    }

    fn mark(&self, note: AttemptNote) -> Option<(HeaderName, HeaderValue)> {
        let is_told = note >= ExposedAction::Mark.note();
        is_told.then(|| (HeaderName::from_static(HEADER), HeaderValue::from_static("1")))
    }

    fn explain(&self, _: AttemptNote) -> Option<(&'static str, String)> {
        Some(("password", "exposed".into()))
    }
}

impl ExposedAction {
    fn note(self) -> AttemptNote {
        AttemptNote(self as u64, 0)
    }
}

fn is_exposed(filter: &PasswordFilter, password: &[u8]) -> bool {
    let mut hash: [u8; 20] = Sha1::digest(password).into();
    let is_exposed = filter.contains(&hash);
    hash.zeroize();
    is_exposed
}

/// The header in which the application is told, with the value `1`.
pub(super) const HEADER: &str = "exposed-credential-check";

pub(super) const COUNTER: DefenceCounter =
    DefenceCounter { name: "tollgate_exposed_passwords", help: "Attempts with exposed passwords" };

const REFUSAL: DefenceRefusal = DefenceRefusal {
    status: StatusCode::FORBIDDEN,
    why: "the password is exposed",
    detail: "Published lists have this password. Reset it, and choose one that you use nowhere else.",
};

const BUILD_AGAIN: &str = "`tollgate exposed build LIST FILE` makes one of a list of hashes";
const MAKE_ONE: &str =
    "[exposed] file = \"passwords.filter\", which `tollgate exposed build` makes of a list of hashes";

#[cfg(test)]
mod tests;
