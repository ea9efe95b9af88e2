//! Takes attempts and their outcomes through all policies, in the order of their times.
//!
//! The clock is that of the log and never steps back: an attempt whose line comes later than the window of
//! [`timeline`](super::timeline) is judged at the time of its predecessor, and counted.

use super::ReplayError;
use super::attempt::{LoggedAttempt, Told};
use super::input::{BlockReader, LineBlock, LogInput};
use super::line::FormatChoice;
use super::pipeline::{self, LineFilter, ParsedBlock};
use super::policy_run::{PolicyRun, Replayed, ReplayedPolicy};
use super::report::{Comparison, LogReport, OneSidedRefusals, ReplayReport};
use super::seen_paths::SeenPaths;
use super::tally::RefusedClients;
use super::timeline::Timeline;
use crate::engine::Reservation;
use crate::event::AttemptEnd;
use crate::observe::timestamp::rfc3339;
use crate::time::Time;

/// How a log is replayed.
#[derive(Debug, Clone)]
pub struct ReplaySettings {
    /// The format of all lines.
    pub format: FormatChoice,
    /// The share of good clients that a suggested rate may refuse, from 0 to 1.
    pub good_share: f64,
}

/// Replays logs, one after the other, against one policy, or two that are compared.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay(
    logs: Vec<LogInput>,
    policies: Vec<ReplayedPolicy>,
    settings: &ReplaySettings,
) -> Result<ReplayReport, ReplayError> {
    let mut reader = BlockReader::new(logs);
    let first = reader.next()?.ok_or(ReplayError::Empty)?;
    let format = pipeline::find_format(&first, &settings.format)?;
    let columns = pipeline::columns(&first, format.as_ref());
    let runs = policies.into_iter().map(|policy| PolicyRun::new(policy, columns));
    let mut driver = ReplayDriver::new(runs.collect::<Result<_, _>>()?);
    let policies = driver.runs.iter().map(|run| run.policy().clone()).collect();
    let filter = LineFilter { format, policies };
    let parse = |block: &LineBlock| ParsedBlock::of(block, &filter);
    pipeline::for_each_block(first, reader, &parse, |block| driver.add(block))?;
    driver.finish(settings.good_share)
}

struct ReplayDriver {
    runs: Vec<PolicyRun>,
    timeline: Timeline<LogEvent>,
    now: Time,
    log: LogReport,
    first: Option<Time>,
    last: Option<Time>,
    compared: ComparedRefusals,
    posts: SeenPaths,
    /// The last attempt that was read: a decision log has more lines about it, maybe.
    last_read: Option<Box<LoggedAttempt>>,
}

enum LogEvent {
    Attempt(Box<LoggedAttempt>),
    /// The attempts of each policy that are settled so.
    Settled(Vec<Option<Box<Reservation>>>, AttemptEnd),
}

/// Attempts that the two policies decide on differently.
#[derive(Default)]
struct ComparedRefusals {
    both: u64,
    /// By the first policy only, and by the second only.
    one_sided: [(u64, RefusedClients); 2],
}

impl ReplayDriver {
    fn new(runs: Vec<PolicyRun>) -> Self {
        let (now, log, compared, posts) = Default::default();
        let (first, last, last_read) = (None, None, None);
        Self { runs, timeline: Timeline::new(), now, log, first, last, compared, posts, last_read }
    }

    fn add(&mut self, block: ParsedBlock) {
        let log = &mut self.log;
        log.lines += block.lines;
        log.unreadable += block.unreadable;
        if log.first_unreadable.is_none() {
            log.first_unreadable = block.first_unreadable;
        }
        for format in block.formats {
            if !log.formats.contains(&format) {
                log.formats.push(format);
            }
        }
        self.posts.add_all(&block.posts);
        self.first = [self.first, block.first].into_iter().flatten().min();
        self.last = self.last.max(block.last);
        for attempt in block.attempts {
            let next = match &mut self.last_read {
                Some(last) => last.merge(attempt),
                None => Some(attempt),
            };
            if let Some(next) = next {
                let last = self.last_read.replace(Box::new(next));
                last.into_iter().for_each(|last| self.observe(last));
            }
        }
    }

    fn observe(&mut self, attempt: Box<LoggedAttempt>) {
        self.timeline.observe(attempt.decided, LogEvent::Attempt(attempt));
        while let Some((at, event)) = self.timeline.pop_due() {
            self.handle(at, event);
        }
    }

    fn handle(&mut self, at: Time, event: LogEvent) {
        let is_late = at < self.now;
        self.now = self.now.max(at);
        match event {
            LogEvent::Attempt(attempt) => {
                self.log.attempts += 1;
                self.log.late += u64::from(is_late);
                self.decide(&attempt);
            }
            LogEvent::Settled(reservations, end) => {
                for (run, reservation) in self.runs.iter().zip(reservations) {
                    reservation.into_iter().for_each(|taken| run.settle(*taken, end, self.now));
                }
            }
        }
    }

    fn decide(&mut self, attempt: &LoggedAttempt) {
        let now = self.now;
        let replayed: Vec<Option<Replayed>> =
            self.runs.iter_mut().map(|run| run.decide(attempt, now)).collect();
        if let [Some(one), Some(other)] = &replayed[..] {
            let client = self.runs[0].shown(attempt.client);
            match (one.is_refused, other.is_refused) {
                (true, true) => self.compared.both += 1,
                (false, false) => {}
                (is_first, _) => {
                    let (attempts, clients) = &mut self.compared.one_sided[usize::from(!is_first)];
                    *attempts += 1;
                    clients.refuse(client, now);
                }
            }
        }
        if let Told::Settled(end) = attempt.told {
            let taken = replayed.into_iter().map(|replayed| replayed?.reservation).collect();
            return self.timeline.schedule(end.at, LogEvent::Settled(taken, end));
        }
        for (run, replayed) in self.runs.iter().zip(replayed) {
            replayed.into_iter().for_each(|replayed| run.settle_by_response(replayed, &attempt.told, now));
        }
    }

    fn finish(mut self, good_share: f64) -> Result<ReplayReport, ReplayError> {
        self.last_read.take().into_iter().for_each(|last| self.observe(last));
        while let Some((at, event)) = self.timeline.pop() {
            self.handle(at, event);
        }
        let LogReport { lines, unreadable, .. } = self.log;
        if lines == 0 {
            return Err(ReplayError::Empty);
        }
        if let Some(first) = self.log.first_unreadable.clone().filter(|_| unreadable > lines / 2) {
            return Err(ReplayError::Unreadable { lines, unreadable, first: Box::new(first) });
        }
        self.log.from = self.first.map(rfc3339);
        self.log.to = self.last.map(rfc3339);
        if self.log.attempts == 0 {
            self.log.posts = self.posts.most();
        }
        let comparison = (self.runs.len() == 2).then(|| self.compared.report());
        let policies = self.runs.iter().map(|run| run.report(good_share)).collect();
        Ok(ReplayReport { log: self.log, policies, comparison })
    }
}

impl ComparedRefusals {
    fn report(&self) -> Comparison {
        let one_sided = |(attempts, clients): &(u64, RefusedClients)| OneSidedRefusals {
            attempts: *attempts,
            clients: clients.distinct(),
            worst: clients.worst(),
        };
        let [first, second] = &self.one_sided;
        Comparison { both: self.both, only_first: one_sided(first), only_second: one_sided(second) }
    }
}
