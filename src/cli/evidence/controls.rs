//! What the figures show for single controls of OWASP ASVS 5.0, PCI DSS 4.0.1 and NIST SP 800-63B-4.
//!
//! Each is judged by the configuration and the logs alone. What they cannot show is `not shown`, never `met`.

use serde::Serialize;

use super::compared_lines::told_words;
use super::parts::{AuditedPart, DecisionsPart};
use crate::cli::replay::text::{grouped, plural};
use crate::config::Config;
use crate::defences::first_wait;
use crate::policy::key::KeyPart;
use crate::policy::{Limit, LimitKind, Route};
use crate::replay::evidence::{AuditEvidence, LimitFigures, PromiseFigures, ReadChange, ShownLine};
use crate::time::Span;

/// What is shown for one control.
#[derive(Debug, Serialize)]
pub(super) struct ControlFinding {
    pub(super) standard: &'static str,
    pub(super) number: &'static str,
    /// What it requires, in short.
    pub(super) asks: &'static str,
    pub(super) state: ControlState,
    /// The figure that shows it.
    pub(super) figure: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum ControlState {
    #[serde(rename = "met")]
    Met,
    #[serde(rename = "not met")]
    NotMet,
    #[serde(rename = "not shown")]
    NotShown,
}

impl ControlState {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::NotMet => "not met",
            Self::NotShown => "not shown",
        }
    }
}

/// A judgement, and its figure.
type Judged = (ControlState, String);

/// Lines of the decision log that are not there.
struct LineFaults {
    /// Any more.
    missing: u64,
    /// Because the gate could not write them.
    lost: u64,
}

/// What controls are judged by.
struct JudgedFacts<'s> {
    config: &'s Config,
    decisions: &'s DecisionsPart,
    audited: &'s AuditedPart,
    audit: &'s AuditEvidence,
    has_log: bool,
}

pub(super) fn findings(
    config: &Config,
    decisions: &DecisionsPart,
    audited: &AuditedPart,
    (audit, has_log): (&AuditEvidence, bool),
) -> Vec<ControlFinding> {
    let shown = JudgedFacts { config, decisions, audited, audit, has_log };
    let logged = shown.attempts_are_logged();
    let judged = [
        (
            ASVS,
            "6.1.1",
            "controls against guessing are documented, and how they are configured",
            shown.routes_are_limited(),
        ),
        (ASVS, "6.3.1", "the controls work as they are documented", shown.promises_are_kept()),
        (ASVS, "16.3.1", "all attempts to sign in are logged", logged.clone()),
        (
            PCI,
            "8.3.4",
            "at most 10 invalid attempts, then locked for 30 minutes or until identified",
            shown.accounts_are_locked(),
        ),
        (PCI, "10.2.1.2", "actions of administrators are logged", shown.changes_are_logged()),
        (PCI, "10.2.1.4", "invalid attempts are logged", logged),
        (PCI, "10.2.1.6", "starts and stops of the logs are logged", shown.starts_are_logged()),
        (PCI, "10.3.4", "a change of logged lines is found", shown.logs_are_whole()),
        (PCI, "10.5.1", "12 months of logs, three of them at hand", shown.logs_are_kept()),
        (NIST, "3.2.2", "at most 100 failures in a row on one account", shown.rows_are_bounded()),
    ];
    let finding =
        |(standard, number, asks, (state, figure))| ControlFinding { standard, number, asks, state, figure };
    judged.into_iter().map(finding).collect()
}

impl JudgedFacts<'_> {
    fn routes_are_limited(&self) -> Judged {
        let routes = &self.config.policy.routes;
        let bare: Vec<&str> = routes
            .iter()
            .filter(|route| self.enforced(route).next().is_none())
            .map(|route| &*route.name)
            .collect();
        if routes.is_empty() {
            return (ControlState::NotMet, "no route counts attempts".to_owned());
        }
        if !bare.is_empty() {
            return (ControlState::NotMet, format!("no limit enforces at {}", bare.join(", ")));
        }
        let owners = match (&self.config.policy.owner_cookie, &self.config.policy.owner_memory) {
            (None, None) => "owners have no separate budget",
            _ => "owners who signed in before keep a budget that others cannot use up",
        };
        let routes = plural(count(routes.len()), "route");
        (ControlState::Met, format!("{routes}, each with limits that enforce; {owners}"))
    }

    fn promises_are_kept(&self) -> Judged {
        let limits = &self.decisions.shown.limits;
        let kept = limits.iter().filter_map(|limit| Some((limit, limit.promise.as_ref()?)));
        let kept: Vec<(&LimitFigures, &PromiseFigures)> = kept.collect();
        if let Some((limit, promise, at)) =
            kept.iter().find_map(|(limit, promise)| Some((limit, promise, promise.broken_at.as_ref()?)))
        {
            let figure = format!(
                "limit {}: {} {} of one account or client within {} s, at most {} are promised: {}",
                limit.limit,
                grouped(promise.greatest),
                promise.counts,
                promise.window,
                grouped(promise.most),
                place(at)
            );
            return (ControlState::NotMet, figure);
        }
        if let Some(why) = self.why_incomplete() {
            return (ControlState::NotShown, why);
        }
        let silent: Vec<String> = limits.iter().filter_map(|limit| self.silence_of(limit)).collect();
        let of = format!("{} of {} limits", kept.len(), kept.len() + silent.len());
        if kept.is_empty() || !silent.is_empty() {
            let figure = [format!("{of} can be compared")].into_iter().chain(silent);
            return (ControlState::NotShown, figure.collect::<Vec<_>>().join("; "));
        }
        // A limit that enforces has observed only while an operator, or an earlier file, had it observe.
        let not_followed = |(limit, promise): &(&LimitFigures, &PromiseFigures)| {
            promise.left_out + promise.over_before + limit.observed
        };
        let unfollowed: u64 = kept.iter().map(not_followed).sum();
        let unfollowed = unfollowed + self.decisions.shown.late;
        if unfollowed > 0 {
            let rest = format!("{of} can be compared; {} attempts could not", grouped(unfollowed));
            return (ControlState::NotShown, rest);
        }
        let figure = |(limit, promise): &(&LimitFigures, &PromiseFigures)| {
            format!(
                "{}: {} of {} {}",
                limit.limit,
                grouped(promise.greatest),
                grouped(promise.most),
                promise.counts
            )
        };
        let figures: Vec<String> = kept.iter().map(figure).collect();
        (ControlState::Met, format!("{of}, the greatest number in any window: {}", figures.join("; ")))
    }

    /// Why the promise of a limit that enforces cannot be compared.
    fn silence_of(&self, shown: &LimitFigures) -> Option<String> {
        let why = shown.not_shown?;
        let is_meant =
            |limit: &Limit| limit.kind == LimitKind::Rate && limit.enforces() && *limit.name == *shown.limit;
        let is_enforced = self.config.policy.limits.iter().any(is_meant);
        is_enforced.then(|| format!("{}: {why}", shown.limit))
    }

    fn attempts_are_logged(&self) -> Judged {
        let (shown, attempts) = (&self.decisions.shown, self.decisions.shown.attempts);
        if !self.has_log {
            return (ControlState::NotShown, "log.decisions is no file".to_owned());
        }
        let LineFaults { missing, lost } = self.line_faults();
        if missing + lost + shown.unreadable > 0 {
            let figure = format!(
                "{} missing, {} not written, {} unreadable",
                plural(missing, "line"),
                grouped(lost),
                grouped(shown.unreadable)
            );
            return (ControlState::NotMet, figure);
        }
        if let Some(why) = self.why_uncounted() {
            return (ControlState::NotShown, format!("{}; {why}", plural(shown.lines, "line")));
        }
        let told = self.decisions.compared.as_ref().map(|compared| told_words(shown.lines, compared));
        let figure = format!(
            "{} in {}{}; {} refused, {} failed",
            plural(attempts.all, "attempt"),
            plural(shown.lines, "line"),
            told.unwrap_or_default(),
            grouped(attempts.refused),
            grouped(attempts.failed)
        );
        (ControlState::Met, figure)
    }

    /// Whether each route with accounts locks them as PCI DSS asks.
    fn accounts_are_locked(&self) -> Judged {
        let locks = |limit: &Limit| match limit.kind {
            LimitKind::Cap => limit.spec.burst() <= MAX_INVALID,
            _ => first_wait(limit).is_some_and(|(after, wait)| after <= MAX_INVALID && wait >= LOCKED),
        };
        let accounts = &self.decisions.shown.accounts;
        let figure = format!(
            "the most failures in a row at one account within 30 minutes: {}{}",
            grouped(accounts.most_in_half_an_hour),
            accounts.most_at.as_ref().map_or_else(String::new, |at| format!(", {}", place(at)))
        );
        let is_over = accounts.most_in_half_an_hour > MAX_INVALID.into();
        self.judge_accounts(&locks, is_over, figure, "locks after 10")
    }

    fn rows_are_bounded(&self) -> Judged {
        let bounds = |limit: &Limit| limit.kind == LimitKind::Cap && limit.spec.burst() <= MAX_IN_A_ROW;
        let accounts = &self.decisions.shown.accounts;
        let figure = format!(
            "the longest row at one account: {}{}",
            grouped(accounts.longest_row),
            accounts.longest_row_at.as_ref().map_or_else(String::new, |at| format!(", {}", place(at)))
        );
        let is_over = accounts.longest_row > MAX_IN_A_ROW.into();
        self.judge_accounts(&bounds, is_over, figure, "bounds failures in a row (max_failures)")
    }

    fn judge_accounts(
        &self,
        is_meant: &dyn Fn(&Limit) -> bool,
        is_over: bool,
        figure: String,
        what: &str,
    ) -> Judged {
        let mut routes =
            self.config.policy.routes.iter().filter(|route| !route.reading.user.is_empty()).peekable();
        if routes.peek().is_none() {
            return (ControlState::NotMet, format!("no route knows accounts (user); {figure}"));
        }
        let bare: Vec<&str> = routes
            .filter(|route| !self.enforced(route).any(|limit| is_of_whole_accounts(limit) && is_meant(limit)))
            .map(|route| &*route.name)
            .collect();
        if is_over {
            return (ControlState::NotMet, figure);
        }
        if !bare.is_empty() {
            return (
                ControlState::NotMet,
                format!("no limit by account {what} at {}; {figure}", bare.join(", ")),
            );
        }
        if let Some(why) = self.why_incomplete() {
            return (ControlState::NotShown, format!("{why}; {figure}"));
        }
        let blind = self.routes_without_outcome();
        if !blind.is_empty() {
            let blind = blind.join(", ");
            return (ControlState::NotShown, format!("no outcome was recognized at {blind}; {figure}"));
        }
        if self.audit.runs.len() > 1 && !self.config.store.keeps_buckets() {
            let why = "without a store or a snapshot each start of the gate begins new rows";
            return (ControlState::NotShown, format!("{figure}; {why}"));
        }
        match self.decisions.shown.accounts.exact {
            true => (ControlState::Met, figure),
            false => (ControlState::NotShown, format!("{figure}; too many accounts to follow all")),
        }
    }

    /// Routes with accounts at which attempts were admitted, and none is known to have failed or not.
    fn routes_without_outcome(&self) -> Vec<&str> {
        let knows_accounts = |name: &str| {
            let mut routes = self.config.policy.routes.iter();
            routes.any(|route| *route.name == *name && !route.reading.user.is_empty())
        };
        let routes = self.decisions.shown.routes.iter().filter(|route| {
            let attempts = route.attempts;
            attempts.admitted > 0 && attempts.signed_in + attempts.failed == 0
        });
        routes.map(|route| &*route.route).filter(|name| knows_accounts(name)).collect()
    }

    fn changes_are_logged(&self) -> Judged {
        if let Some(broken) = self.chain_fault() {
            return broken;
        }
        let changes = &self.audit.changes;
        let mut names: Vec<&str> = changes.iter().map(|change| &*change.entry.who).collect();
        names.sort_unstable();
        names.dedup();
        let all = count(changes.len()) + self.audit.left_out;
        (ControlState::Met, format!("{} by {}", plural(all, "line"), plural(count(names.len()), "name")))
    }

    fn starts_are_logged(&self) -> Judged {
        if let Some(broken) = self.chain_fault() {
            return broken;
        }
        let unannounced = count(self.audited.gaps.iter().filter(|gap| !gap.announced).count());
        let ends = count(self.audited.unannounced_ends.len());
        let figure = format!(
            "{}, {} without a gate, {} of them not announced; {} without a line of it",
            plural(self.audited.starts, "start"),
            plural(count(self.audited.gaps.len()), "time"),
            grouped(unannounced),
            plural(ends, "end")
        );
        match self.audit.runs.is_empty() || unannounced + ends > 0 {
            true => (ControlState::NotShown, figure),
            false => (ControlState::Met, figure),
        }
    }

    fn logs_are_whole(&self) -> Judged {
        let missing = self.line_faults().missing;
        if missing > 0 {
            let hour = self.decisions.compared.as_ref().and_then(|compared| compared.hours.first());
            let first =
                hour.map_or_else(String::new, |hour| format!(", the first in the hour {}", hour.hour));
            return (
                ControlState::NotMet,
                format!("{} of the decision log missing{first}", plural(missing, "line")),
            );
        }
        if let Some(broken) = self.chain_fault() {
            return broken;
        }
        let whole = format!("{} of the audit log are one chain", plural(self.audited.lines, "line"));
        if let Some(why) = self.why_uncounted() {
            return (ControlState::NotShown, format!("{whole}; {why}"));
        }
        let compared = self.decisions.compared.as_ref();
        let told = plural(compared.map_or(0, |compared| compared.written), "line");
        let untold = compared.map_or(0, |compared| compared.untold);
        let untold = match untold {
            0 => String::new(),
            _ => format!("; of {} more no gate told", grouped(untold)),
        };
        let figure = format!("{whole}; the gate told of {told} of the decision log, 0 are missing{untold}");
        (ControlState::Met, figure)
    }

    fn logs_are_kept(&self) -> Judged {
        let LineFaults { missing, .. } = self.line_faults();
        let shown = &self.decisions.shown;
        let (Some(from), Some(to)) = (&shown.from, &shown.to) else {
            return (ControlState::NotShown, "there is no line".to_owned());
        };
        if missing > 0 {
            return (ControlState::NotMet, format!("{} missing", plural(missing, "line")));
        }
        (
            ControlState::NotShown,
            format!("lines from {from} to {to} are here; where older ones are kept is not known"),
        )
    }

    /// Why the log may lack attempts that matter.
    fn why_incomplete(&self) -> Option<String> {
        let LineFaults { missing, lost } = self.line_faults();
        let shown = &self.decisions.shown;
        if !self.has_log {
            return Some("log.decisions is no file".to_owned());
        }
        if missing + lost + shown.unreadable > 0 {
            return Some(format!(
                "{} of the log are missing or unreadable",
                plural(missing + lost + shown.unreadable, "line")
            ));
        }
        let is_forgotten =
            |change: &ReadChange| change.entry.what == "forget" && change.entry.failed.is_none();
        if self.audit.changes.iter().any(is_forgotten) {
            return Some("a person was forgotten, and attempts without a name cannot be compared".to_owned());
        }
        let is_empty = shown.attempts.all == 0;
        self.why_uncounted().or_else(|| is_empty.then(|| "there was no attempt".to_owned()))
    }

    /// Why it is not known whether all lines are there.
    fn why_uncounted(&self) -> Option<String> {
        let Some(compared) = &self.decisions.compared else {
            return Some("no audit log tells how many lines were written".to_owned());
        };
        (compared.older > 0).then(|| {
            let lines = plural(compared.older, "line");
            format!("{lines} from before the logs that are left, rotated away or removed: set log.retention")
        })
    }

    fn chain_fault(&self) -> Option<Judged> {
        match (self.audited.chain, &self.audited.broken) {
            (_, Some(broken)) => Some((ControlState::NotMet, broken.clone())),
            ("whole", _) => None,
            ("off", _) => Some((ControlState::NotShown, "admin.audit is off".to_owned())),
            _ => Some((ControlState::NotShown, "there is no audit log".to_owned())),
        }
    }

    fn line_faults(&self) -> LineFaults {
        let missing = self.decisions.compared.as_ref().map_or(0, |compared| compared.missing);
        LineFaults { missing, lost: self.audited.lost }
    }

    /// The limits of a route that refuse.
    fn enforced<'r>(&'r self, route: &'r Route) -> impl Iterator<Item = &'r Limit> {
        let limits = route.limits.iter().filter_map(|&at| self.config.policy.limits.get(at));
        limits.filter(|limit| limit.enforces())
    }
}

/// Whether an account has one bucket, which no client can leave by sending another value.
fn is_of_whole_accounts(limit: &Limit) -> bool {
    limit.is_account() && limit.key.iter().all(|part| matches!(part, KeyPart::User | KeyPart::Host))
}

fn place(ShownLine { log, line, time }: &ShownLine) -> String {
    format!("line {line} of {log} ({time})")
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

const ASVS: &str = "OWASP ASVS 5.0";
const PCI: &str = "PCI DSS 4.0.1";
const NIST: &str = "NIST SP 800-63B-4";
/// Invalid attempts before PCI DSS wants an account locked.
const MAX_INVALID: u32 = 10;
/// For how long.
const LOCKED: Span = Span::from_secs(1800);
/// Failures in a row that NIST allows.
const MAX_IN_A_ROW: u32 = 100;
