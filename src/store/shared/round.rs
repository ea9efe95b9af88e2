//! One round for one bucket: all that waits for it is decided together and written by one swap.
//!
//! It begins with what the mirror has. If that is still so in the store, the swap is done, and the round took one question;
//! otherwise the answer says what stands there, and it is decided again on that. A round in which nothing is to be written,
//! because all are refused, asks only if the mirror's word is older than a second. The surprising thing: losing a race is no
//! failure, so nobody is decided without the store because of it: who cannot win in time is refused. And where all are refused
//! again and again, whoever loses does not try a second time: debt and strikes are written by those who win.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use super::job::{Deed, Doubt, Job, Said, Waiting};
use super::mirror::is_recent;
use super::words::Content;
use crate::bucket::{Answer, Key, Op, Receipt};
use crate::store::{Record, StoreError, Stored, Swap, Version};
use crate::time::{Span, Time};

/// One round.
pub(super) struct Round<'s> {
    shared: &'s Arc<Shared>,
    key: Key,
    jobs: Vec<Job>,
}

/// A bucket as far as it is known, while a round goes on.
struct Draft {
    content: Content,
    /// What stands in the store, if anything.
    version: Option<Version>,
    /// When that was seen.
    seen_at: Time,
    /// Whether that was in this round.
    is_asked: bool,
    /// Whether the bucket was seen a moment before this round, too.
    is_hot: bool,
    /// Whether nobody could say what stands there, after something was decided on what stood there before.
    is_outdated: bool,
    /// What is known here and may not be in the store: attempts that were decided while it was away.
    ours: Option<Content>,
    /// Tells whether anything was decided in the mirror alone since the round began.
    recalled: u64,
    /// Whether the content is another one than what stands in the store, whatever the jobs do.
    is_other: bool,
}

/// Whether a round goes on.
#[derive(PartialEq, Eq)]
enum Next {
    Over,
    Again,
}

impl<'s> Round<'s> {
    /// Of jobs for one bucket.
    pub(super) fn new(shared: &'s Arc<Shared>, key: Key, jobs: Vec<Job>) -> Self {
        Self { shared, key, jobs }
    }

    /// To its end: everybody who waits has an answer.
    pub(super) async fn run(mut self) {
        self.jobs.retain(|job| !job.is_given_up());
        let Some(first) = self.jobs.first() else { return };
        let mut draft = Draft::recall(first, self.shared);
        // What may have been done already has to be looked for before it is done again, and a time has to be known.
        let is_in_doubt = self.jobs.iter().any(|job| job.doubt().is_some()) || !self.shared.is_known();
        if is_in_doubt && self.look(&mut draft).await == Next::Over {
            return;
        }
        let patience = self.shared.timeout().to_std().mul_f32(PART_FOR_RACES);
        let mut tries = 0;
        while !self.jobs.is_empty() && self.attempt(&mut draft).await == Next::Again {
            tries += 1;
            self.pause(tries).await;
            self.jobs.retain(|job| !job.is_given_up());
            // From when they were asked for: who has waited for the round before has less time left.
            self.refuse(&draft, |job| tries >= MOST_TRIES || job.since.elapsed() > patience);
        }
    }

    /// Decides and writes once.
    async fn attempt(&mut self, draft: &mut Draft) -> Next {
        if draft.is_outdated {
            return self.look(draft).await;
        }
        let now = self.shared.now();
        let (said, changed) = self.decide(&mut draft.content, now);
        if !changed && !draft.is_other {
            let is_good_enough = draft.is_asked || !self.jobs.iter().any(Job::is_inspection);
            if is_recent(draft.seen_at, now) && is_good_enough {
                self.answer(said);
                return Next::Over;
            }
            return self.look(draft).await;
        }
        if draft.is_asked && draft.is_hot && self.jobs.iter().zip(&said).all(leaves_little) {
            // What that is stays in the mirror, for the next round to write.
            self.answer(said);
            return Next::Over;
        }
        if !self.shared.is_up() {
            // Nothing is asked, so nothing is in doubt.
            return self.fail(None);
        }
        let until = draft.content.gone_at().max(now.after(SHORTEST));
        let record = self.record(&draft.content, until.since(now));
        match self.shared.swap(self.key, draft.version, record).await {
            Ok(Swap::Done(version)) => {
                if let Some(job) = self.jobs.first() {
                    let seen = (Some(draft.recalled), self.shared.now());
                    job.mirror.remember(&job.place, &draft.content, (version, until), seen);
                }
                self.answer(said);
                Next::Over
            }
            Ok(Swap::Lost(stored)) => self.see(draft, stored),
            Err(StoreError::Contended) => self.look(draft).await,
            Err(_) => self.fail(Some(Doubt { old: draft.version })),
        }
    }

    /// Asks what stands there.
    async fn look(&mut self, draft: &mut Draft) -> Next {
        draft.is_outdated = true;
        match self.shared.load(self.key).await {
            Ok(stored) => self.see(draft, stored),
            Err(StoreError::Contended) => Next::Again,
            Err(_) => self.fail(None),
        }
    }

    /// Goes on from what stands there.
    fn see(&mut self, draft: &mut Draft, stored: Option<Stored>) -> Next {
        let version = stored.as_ref().map(|stored| stored.version);
        let is_undone = |job: &Job| job.doubt().is_none_or(|doubt| doubt.old == version);
        // Those that were done are over; and so are those of which nobody can say it any more, which errs on the strict side.
        let waiting = self.jobs.len();
        self.jobs.retain(is_undone);
        self.shared.are_over(waiting - self.jobs.len());
        let Some(job) = self.jobs.first() else { return Next::Over };
        draft.see(job, stored, self.shared.now());
        Next::Again
    }

    fn decide(&self, content: &mut Content, now: Time) -> (Vec<Said>, bool) {
        let mut changed = false;
        let said = self.jobs.iter().map(|job| {
            let (said, is_other) = job.run(content, now);
            changed |= is_other;
            said
        });
        (said.collect(), changed)
    }

    fn record(&self, content: &Content, ttl: Span) -> Record {
        let limit = self.jobs.first().map_or_else(|| "".into(), |job| Arc::clone(job.mirror.limit()));
        Record { bytes: content.encode(), ttl, limit, full_at: content.full_at() }
    }

    fn answer(&mut self, said: Vec<Said>) {
        for (job, said) in self.jobs.drain(..).zip(said) {
            self.shared.is_done(job, said);
        }
    }

    /// Others are faster: for now there is nothing to be had by those who can wait no longer.
    fn refuse(&mut self, draft: &Draft, is_over: impl Fn(&Job) -> bool) {
        if !self.jobs.iter().any(&is_over) {
            return;
        }
        let (mut said, _) = self.decide(&mut draft.content.clone(), self.shared.now());
        for Said { verdict, .. } in said.iter_mut().filter(|said| said.verdict.is_admitted()) {
            verdict.answer = Answer::Refused { wait: CROWDED };
            verdict.receipt = Receipt::default();
        }
        for (job, said) in std::mem::take(&mut self.jobs).into_iter().zip(said) {
            match job.waiting {
                _ if !is_over(&job) => self.jobs.push(job),
                Waiting::Asked(_) => self.shared.is_done(job, said),
                Waiting::Told { .. } => self.shared.has_failed(job, None),
            }
        }
    }

    fn fail(&mut self, doubt: Option<Doubt>) -> Next {
        for job in self.jobs.drain(..) {
            self.shared.has_failed(job, doubt);
        }
        Next::Over
    }

    /// The first loss is usual; after more of them the rivals go apart.
    async fn pause(&self, tries: u32) {
        if tries > 1 {
            let most = Duration::from_micros(100 << tries.min(6));
            tokio::time::sleep(self.shared.jitter(most)).await;
        }
    }
}

/// Whether it was refused, and what it leaves behind may be written later.
fn leaves_little((job, said): (&Job, &Said)) -> bool {
    let is_attempt =
        matches!(job.deed, Deed::Step(Op::Take(_) | Op::TakeOnce { .. } | Op::Peek(_) | Op::PeekOnce { .. }));
    is_attempt && !said.verdict.is_admitted()
}

impl Draft {
    fn recall(job: &Job, shared: &Shared) -> Self {
        let now = shared.now();
        let (content, known) = job.mirror.recall(&job.place, now);
        // What was seen before the store was away may have been lost there, and has to be written again.
        let is_old = known.seen_at < shared.back_since();
        let may_be_lost = known.version.is_some() && is_old;
        Self {
            ours: (known.is_ahead || may_be_lost).then(|| content.clone()),
            content,
            version: known.version,
            seen_at: known.seen_at,
            is_asked: false,
            is_hot: !is_old && known.seen_at <= now && now < known.seen_at.after(HOT),
            is_outdated: false,
            recalled: known.digest,
            is_other: known.is_ahead && known.version.is_some(),
        }
    }

    fn see(&mut self, Job { mirror, place, .. }: &Job, stored: Option<Stored>, now: Time) {
        self.version = stored.as_ref().map(|stored| stored.version);
        (self.seen_at, self.is_asked, self.is_outdated) = (now, true, false);
        let found = stored.and_then(|stored| Content::decode(&stored.bytes));
        // Bytes that are nobody's are written over.
        let is_foreign = found.is_none() && self.version.is_some();
        self.content = found.unwrap_or_else(|| Content::absent(place.spec));
        self.content.turn_to(&place.spec, now);
        let seen = (self.ours.is_none().then_some(self.recalled), now);
        match self.version {
            _ if is_foreign => {}
            Some(version) => {
                mirror.remember(place, &self.content, (version, self.content.gone_at()), seen);
            }
            None => mirror.forget(place, seen),
        }
        let is_more =
            self.ours.as_ref().is_some_and(|ours| self.content.join(&ours.header, &ours.state, now));
        self.is_other = is_more || is_foreign;
        if !self.is_other {
            self.ours = None;
        }
        if !is_foreign {
            self.recalled = self.content.digest();
        }
    }
}

/// Whoever is asked for again after so short a time is asked for all the time. Several limits that refuse take turns.
const HOT: Span = Span::from_secs(4);
/// More losses than a handful of gates can cause; and of the time that an attempt waits at most, the part that they may take.
const MOST_TRIES: u32 = 32;
const PART_FOR_RACES: f32 = 0.8;
/// What who cannot win is told to wait.
const CROWDED: Span = Span::from_secs(1);
/// The shortest time that something is kept: of no use for longer than anybody could be at it.
const SHORTEST: Span = Span::from_secs(1);
