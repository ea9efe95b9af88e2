//! One batch for one bucket: all requests that wait for it are decided together and written by one swap.
//!
//! It begins with what the mirror has. If that is still so in the store, the swap is done, and the round took one question;
//! otherwise the answer says what stands there, and it is decided again on that. A round in which nothing is to be written,
//! because all are refused, asks only if the mirror's word is older than a second. The surprising thing: losing a race is no
//! failure, so nobody is decided without the store because of it: who cannot win in time is refused. And where all are refused
//! again and again, whoever loses does not try a second time: debt and strikes are written by those who win.

use std::sync::Arc;
use std::time::Duration;

use super::SharedStore;
use super::bucket_state::BucketState;
use super::mirror::is_recent;
use super::request::{Completion, StoreOp, StoreReply, StoreRequest, UncertainWrite};
use crate::bucket::{Admission, Key, Op, Receipt};
use crate::store::{RecordVersion, StoreError, StoreRecord, Stored, Swap};
use crate::time::{Span, Time};

/// One round.
pub(super) struct StoreBatch<'s> {
    shared: &'s Arc<SharedStore>,
    key: Key,
    requests: Vec<StoreRequest>,
}

/// A bucket as far as it is known, while a round goes on.
struct BatchState {
    state: BucketState,
    /// What stands in the store, if anything.
    version: Option<RecordVersion>,
    /// When that was seen.
    seen_at: Time,
    /// Whether that was in this round.
    is_loaded: bool,
    /// Whether the bucket was seen a moment before this round, too.
    is_hot: bool,
    /// Whether nobody could say what stands there, after something was decided on what stood there before.
    is_outdated: bool,
    /// What is known here and may not be in the store: attempts that were decided while it was away.
    local_state: Option<BucketState>,
    /// Tells whether anything was decided in the mirror alone since the round began.
    mirror_digest: u64,
    /// Whether the content is another one than what stands in the store, whatever the jobs do.
    is_dirty: bool,
}

/// Whether a round goes on.
#[derive(PartialEq, Eq)]
enum BatchStep {
    Done,
    Retry,
}

impl<'s> StoreBatch<'s> {
    /// Of jobs for one bucket.
    pub(super) fn new(shared: &'s Arc<SharedStore>, key: Key, jobs: Vec<StoreRequest>) -> Self {
        Self { shared, key, requests: jobs }
    }

    /// To its end: everybody who waits has an answer.
    pub(super) async fn run(mut self) {
        self.requests.retain(|job| !job.is_cancelled());
        let Some(first) = self.requests.first() else { return };
        let mut draft = BatchState::recall(first, self.shared);
        // What may have been done already has to be looked for before it is done again, and a time has to be known.
        let is_in_doubt =
            self.requests.iter().any(|job| job.uncertain().is_some()) || !self.shared.has_ever_answered();
        if is_in_doubt && self.load(&mut draft).await == BatchStep::Done {
            return;
        }
        let patience = self.shared.timeout().to_std().mul_f32(RETRY_SHARE);
        let mut tries = 0;
        while !self.requests.is_empty() && self.decide_and_write(&mut draft).await == BatchStep::Retry {
            tries += 1;
            self.pause(tries).await;
            self.requests.retain(|job| !job.is_cancelled());
            // From when they were asked for: who has waited for the round before has less time left.
            self.refuse(&draft, |job| tries >= MAX_TRIES || job.since.elapsed() > patience);
        }
    }

    /// Decides and writes once.
    async fn decide_and_write(&mut self, draft: &mut BatchState) -> BatchStep {
        if draft.is_outdated {
            return self.load(draft).await;
        }
        let now = self.shared.now();
        let (said, changed) = self.decide(&mut draft.state, now);
        if !changed && !draft.is_dirty {
            let is_good_enough = draft.is_loaded || !self.requests.iter().any(StoreRequest::is_inspection);
            if is_recent(draft.seen_at, now) && is_good_enough {
                self.reply(said);
                return BatchStep::Done;
            }
            return self.load(draft).await;
        }
        if draft.is_loaded && draft.is_hot && self.requests.iter().zip(&said).all(is_deferrable) {
            // What that is stays in the mirror, for the next round to write.
            self.reply(said);
            return BatchStep::Done;
        }
        if !self.shared.is_up() {
            // Nothing is asked, so nothing is in doubt.
            return self.fail(None);
        }
        let until = draft.state.gone_at().max(now.after(SHORTEST_TTL));
        let record = self.record(&draft.state, until.since(now));
        match self.shared.swap(self.key, draft.version, record).await {
            Ok(Swap::Done(version)) => {
                if let Some(job) = self.requests.first() {
                    let seen = (Some(draft.mirror_digest), self.shared.now());
                    job.mirror.remember(&job.bucket, &draft.state, (version, until), seen);
                }
                self.reply(said);
                BatchStep::Done
            }
            Ok(Swap::Conflict(stored)) => self.apply_stored(draft, stored),
            Err(StoreError::WriteConflict) => self.load(draft).await,
            Err(_) => self.fail(Some(UncertainWrite { old: draft.version })),
        }
    }

    /// Asks what stands there.
    async fn load(&mut self, draft: &mut BatchState) -> BatchStep {
        draft.is_outdated = true;
        match self.shared.load(self.key).await {
            Ok(stored) => self.apply_stored(draft, stored),
            Err(StoreError::WriteConflict) => BatchStep::Retry,
            Err(_) => self.fail(None),
        }
    }

    /// Goes on from what stands there.
    fn apply_stored(&mut self, draft: &mut BatchState, stored: Option<Stored>) -> BatchStep {
        let version = stored.as_ref().map(|stored| stored.version);
        let is_undone = |job: &StoreRequest| job.uncertain().is_none_or(|doubt| doubt.old == version);
        // Those that were done are over; and so are those of which nobody can say it any more, which errs on the strict side.
        let waiting = self.requests.len();
        self.requests.retain(is_undone);
        self.shared.release_enqueued(waiting - self.requests.len());
        let Some(job) = self.requests.first() else { return BatchStep::Done };
        draft.apply_stored(job, stored, self.shared.now());
        BatchStep::Retry
    }

    fn decide(&self, content: &mut BucketState, now: Time) -> (Vec<StoreReply>, bool) {
        let mut changed = false;
        let said = self.requests.iter().map(|job| {
            let (said, is_other) = job.run(content, now);
            changed |= is_other;
            said
        });
        (said.collect(), changed)
    }

    fn record(&self, content: &BucketState, ttl: Span) -> StoreRecord {
        let limit = self.requests.first().map_or_else(|| "".into(), |job| Arc::clone(job.mirror.limit()));
        StoreRecord { bytes: content.encode(), ttl, limit, full_at: content.full_at() }
    }

    fn reply(&mut self, said: Vec<StoreReply>) {
        for (job, said) in self.requests.drain(..).zip(said) {
            self.shared.complete(job, said);
        }
    }

    /// Others are faster: for now there is nothing to be had by those who can wait no longer.
    fn refuse(&mut self, draft: &BatchState, is_over: impl Fn(&StoreRequest) -> bool) {
        if !self.requests.iter().any(&is_over) {
            return;
        }
        let (mut said, _) = self.decide(&mut draft.state.clone(), self.shared.now());
        for StoreReply { verdict, .. } in said.iter_mut().filter(|said| said.verdict.is_admitted()) {
            verdict.admission = Admission::Refused { wait: CONFLICT_WAIT };
            verdict.receipt = Receipt::default();
        }
        for (job, said) in std::mem::take(&mut self.requests).into_iter().zip(said) {
            match job.completion {
                _ if !is_over(&job) => self.requests.push(job),
                Completion::Call(_) => self.shared.complete(job, said),
                Completion::Enqueued { .. } => self.shared.fail(job, None),
            }
        }
    }

    fn fail(&mut self, doubt: Option<UncertainWrite>) -> BatchStep {
        for job in self.requests.drain(..) {
            self.shared.fail(job, doubt);
        }
        BatchStep::Done
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
fn is_deferrable((job, said): (&StoreRequest, &StoreReply)) -> bool {
    let is_attempt = matches!(
        job.op,
        StoreOp::Step(Op::Take(_) | Op::TakeOnce { .. } | Op::Peek(_) | Op::PeekOnce { .. })
    );
    is_attempt && !said.verdict.is_admitted()
}

impl BatchState {
    fn recall(job: &StoreRequest, shared: &SharedStore) -> Self {
        let now = shared.now();
        let (content, known) = job.mirror.recall(&job.bucket, now);
        // What was seen before the store was away may have been lost there, and has to be written again.
        let is_old = known.seen_at < shared.back_since();
        let may_be_lost = known.version.is_some() && is_old;
        Self {
            local_state: (known.is_ahead || may_be_lost).then(|| content.clone()),
            state: content,
            version: known.version,
            seen_at: known.seen_at,
            is_loaded: false,
            is_hot: !is_old && known.seen_at <= now && now < known.seen_at.after(HOT_SPAN),
            is_outdated: false,
            mirror_digest: known.digest,
            is_dirty: known.is_ahead && known.version.is_some(),
        }
    }

    fn apply_stored(
        &mut self,
        StoreRequest { mirror, bucket: place, .. }: &StoreRequest,
        stored: Option<Stored>,
        now: Time,
    ) {
        self.version = stored.as_ref().map(|stored| stored.version);
        (self.seen_at, self.is_loaded, self.is_outdated) = (now, true, false);
        let found = stored.and_then(|stored| BucketState::decode(&stored.bytes));
        // Bytes that are nobody's are written over.
        let is_foreign = found.is_none() && self.version.is_some();
        self.state = found.unwrap_or_else(|| BucketState::absent(place.spec));
        self.state.convert_to(&place.spec, now);
        let seen = (self.local_state.is_none().then_some(self.mirror_digest), now);
        match self.version {
            _ if is_foreign => {}
            Some(version) => {
                mirror.remember(place, &self.state, (version, self.state.gone_at()), seen);
            }
            None => mirror.forget(place, seen),
        }
        let is_more =
            self.local_state.as_ref().is_some_and(|ours| self.state.join(&ours.header, &ours.state, now));
        self.is_dirty = is_more || is_foreign;
        if !self.is_dirty {
            self.local_state = None;
        }
        if !is_foreign {
            self.mirror_digest = self.state.digest();
        }
    }
}

/// Whoever is asked for again after so short a time is asked for all the time. Several limits that refuse take turns.
const HOT_SPAN: Span = Span::from_secs(4);
/// More losses than a handful of gates can cause; and of the time that an attempt waits at most, the part that they may take.
const MAX_TRIES: u32 = 32;
const RETRY_SHARE: f32 = 0.8;
/// What who cannot win is told to wait.
const CONFLICT_WAIT: Span = Span::from_secs(1);
/// The shortest time that something is kept: of no use for longer than anybody could be at it.
const SHORTEST_TTL: Span = Span::from_secs(1);
