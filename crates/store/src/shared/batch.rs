//! One batch for one bucket: all requests that wait for it are decided together and written by one swap.
//!
//! A batch starts from the mirror's state. If the store still has that version, the swap succeeds and the batch took
//! one call; otherwise the reply brings the current record, and the batch is decided again on that. A batch that writes
//! nothing, because all requests are refused, calls the store only if the mirror's state is older than a second.
//! Waiting for a turn is left to [`queue`](super::queue).
//!
//! Where the database can do the arithmetic, a swap that would be lost takes the step there, so that a batch takes one
//! call all the same. Elsewhere a batch that loses tries again. A request that cannot win in time is refused if the bucket
//! as last seen refuses it, or if this gate would decide alone; otherwise it is answered as if the store had not answered. One
//! whose connection is gone waits for the next one as long as the request may. Where a bucket refuses all requests for a while, a batch that loses does not try again: the
//! winners write debt and strikes.

use std::sync::Arc;
use std::time::Duration;

use super::backend::timeout_error;
use super::mirror::is_recent;
use super::request::{StoreOp, StoreReply, StoreRequest, UncertainWrite};
use super::server::StoreServer;
use super::swap_group::GroupMember;
use super::{OnError, SharedStore};
use crate::bucket_state::BucketState;
use crate::{RecordVersion, StepProgram, StoreError, StoreRecord, Stored, Swap, SwapRequest};
use tollgate_bucket::{Admission, Key, Op, Receipt, RecordHeader};
use tollgate_bucket::{Span, Time};

/// The requests for one bucket that are decided together.
pub(super) struct StoreBatch<'s> {
    shared: &'s Arc<SharedStore>,
    /// The server of the bucket when the batch began, or last waited for a connection.
    server: Arc<StoreServer>,
    key: Key,
    requests: Vec<StoreRequest>,
    /// Whose first swap this batch's is sent with.
    group: Option<GroupMember>,
    /// Whether the last call found no connection, or lost it.
    is_disconnected: bool,
}

/// What a batch knows of its bucket.
struct BatchState {
    state: BucketState,
    /// The version in the store, if it has a record.
    version: Option<RecordVersion>,
    /// When that was seen.
    seen_at: Time,
    /// Whether this batch has read it from the store.
    is_loaded: bool,
    /// Whether it was seen shortly before this batch, too.
    is_hot: bool,
    /// Whether it was seen a moment before this batch.
    is_busy: bool,
    /// Whether the record must be read before the next decision, because a conflict left it unknown.
    is_outdated: bool,
    /// A state known here that the store may lack: decisions that were made while it was down, or what it has lost.
    local_state: Option<BucketState>,
    /// Whether the store has certainly lost the record.
    is_lost: bool,
    /// The digest of the mirror's state: another one means that the mirror alone has decided since.
    mirror_digest: u64,
    /// Whether the state differs from the store's even if no request changes it.
    is_dirty: bool,
    /// Whether the store's record is none to step: it is of another limit, or a clock was set back.
    is_unusual: bool,
}

/// Whether a batch continues.
#[derive(PartialEq, Eq)]
enum BatchStep {
    Done,
    Retry,
}

impl<'s> StoreBatch<'s> {
    /// A batch of requests for one bucket.
    pub(super) fn new(
        shared: &'s Arc<SharedStore>,
        key: Key,
        requests: Vec<StoreRequest>,
        group: Option<GroupMember>,
    ) -> Self {
        Self { shared, server: shared.server_of(key), key, requests, group, is_disconnected: false }
    }

    /// Runs the batch until every caller has a reply.
    pub(super) async fn run(mut self) {
        self.requests.retain(|request| !request.is_cancelled());
        let Some(first) = self.requests.first() else { return };
        let mut draft = BatchState::recall(first, &self.server, self.now());
        // A write that may have been done must be looked up before it is repeated, and the server's clock must be known.
        let is_in_doubt = self.requests.iter().any(|request| request.uncertain().is_some())
            || !self.server.breaker.has_ever_succeeded();
        if is_in_doubt && self.load(&mut draft).await == BatchStep::Done {
            return;
        }
        if self.requests.len() >= HOT_BATCH || draft.is_busy {
            self.lease(&draft);
        }
        let timeout = self.shared.timeout().to_std() * RETRY_PERCENT / 100;
        let (mut tries, mut looks) = (0, 0);
        while !self.requests.is_empty() && self.decide_and_write(&mut draft).await == BatchStep::Retry {
            if std::mem::take(&mut self.is_disconnected) {
                self.wait_for_connection(timeout, looks).await;
                looks += 1;
                // Another server may have the bucket by now.
                self.server = self.shared.server_of(self.key);
                continue;
            }
            tries += 1;
            if tries == HOT_TRIES {
                self.lease(&draft);
            }
            self.pause(tries).await;
            self.requests.retain(|request| !request.is_cancelled());
            // Counted from the request's own start: one that has waited for this batch has less time left.
            self.give_up(&draft, |request| tries >= MAX_TRIES || request.since.elapsed() > timeout);
        }
    }

    /// Takes tokens in advance, too, if the bucket has its limit's specification.
    fn lease(&mut self, draft: &BatchState) {
        if let Some(first) = self.requests.first()
            && draft.state.header == RecordHeader::of(first.bucket.spec)
        {
            self.requests.extend(self.shared.begin_lease(first, self.requests.len()));
        }
    }

    /// Decides and writes once.
    async fn decide_and_write(&mut self, draft: &mut BatchState) -> BatchStep {
        if draft.is_outdated {
            return self.load(draft).await;
        }
        let now = self.now();
        let (replies, changed) = self.decide(&mut draft.state, now);
        if !changed && !draft.is_dirty {
            let is_good_enough = draft.is_loaded || !self.requests.iter().any(StoreRequest::is_inspection);
            if is_recent(draft.seen_at, now) && is_good_enough {
                self.reply(replies);
                return BatchStep::Done;
            }
            return self.load(draft).await;
        }
        let may_wait = |(request, reply)| is_deferrable(request, reply);
        if draft.is_loaded && draft.is_hot && self.requests.iter().zip(&replies).all(may_wait) {
            // The mirror keeps the change for the next batch to write.
            self.reply(replies);
            return BatchStep::Done;
        }
        if self.server.breaker.is_open() {
            // No call is made, so no write is uncertain.
            return self.fail(None);
        }
        let until = draft.state.gone_at().max(now.after(SHORTEST_TTL));
        let record = self.record(&draft.state, until.since(now));
        let program = self.program(draft, now);
        match self.swap(SwapRequest { key: self.key, old: draft.version, new: record, program }).await {
            Ok(Swap::Done(version)) => {
                self.remember(draft, version);
                self.reply(replies);
                BatchStep::Done
            }
            Ok(Swap::Conflict(stored)) => self.apply_stored(draft, stored).await,
            Ok(Swap::Stepped { found, now, version }) => self.apply_step(draft, &found, now, version),
            Err(StoreError::WriteConflict) => self.load(draft).await,
            Err(error) => {
                draft.is_outdated = true;
                self.disconnected(&error, Some(UncertainWrite { old: draft.version }))
            }
        }
    }

    async fn swap(&mut self, swap: SwapRequest) -> Result<Swap, StoreError> {
        match self.group.take() {
            Some(member) => member.swap(swap).await,
            None => self.shared.swap(&self.server, swap).await,
        }
    }

    /// What the database needs to decide these requests by itself; `None` if they are decided here only. Nothing of what
    /// the record lacks may be left out, and one that may have been done must not be stepped: a swap that is repeated is done once.
    fn program(&self, draft: &BatchState, now: Time) -> Option<StepProgram> {
        let header = draft.state.header;
        let is_plain = draft.local_state.is_none()
            && !(draft.is_dirty || draft.is_unusual)
            && header.own_until.is_none();
        if !is_plain || !self.shared.can_step(&header.spec) {
            return None;
        }
        let op = |request: &StoreRequest| match request.op {
            _ if request.bucket.spec != header.spec || request.uncertain().is_some() => None,
            StoreOp::Step(op) => Some(op),
            StoreOp::ReturnLease(receipt) => Some(Op::Refund(receipt)),
            _ => None,
        };
        let ops: Vec<Op> = self.requests.iter().map(op).collect::<Option<_>>()?;
        StepProgram::new(&header.spec, ops, now, now.after(self.shared.timeout()))
    }

    /// Takes the step that the database took: this gives the verdicts and the state there.
    fn apply_step(
        &mut self,
        draft: &mut BatchState,
        found: &[u8],
        now: Time,
        version: RecordVersion,
    ) -> BatchStep {
        let Some(found) = BucketState::decode(found) else { return self.fail(None) };
        draft.state = found;
        let (replies, _) = self.decide(&mut draft.state, now);
        self.remember(draft, version);
        self.reply(replies);
        BatchStep::Done
    }

    /// Records what the store has now.
    fn remember(&self, draft: &BatchState, version: RecordVersion) {
        if let Some(StoreRequest { mirror, bucket, .. }) = self.requests.first() {
            mirror.remember(bucket, &draft.state, version, Some(draft.mirror_digest), self.now());
        }
    }

    /// Reads the current record.
    async fn load(&mut self, draft: &mut BatchState) -> BatchStep {
        draft.is_outdated = true;
        self.group = None;
        match self.shared.load(&self.server, self.key).await {
            Ok(stored) => self.apply_stored(draft, stored).await,
            Err(StoreError::WriteConflict) => BatchStep::Retry,
            Err(error) => self.disconnected(&error, None),
        }
    }

    /// Goes on once there is a connection again, if the server is not known to be down and the request was not refused.
    fn disconnected(&mut self, error: &StoreError, write: Option<UncertainWrite>) -> BatchStep {
        let write = write.filter(|_| !matches!(error, StoreError::NotConnected(_)));
        let may_go_on = !error.is_refusal() && *error != timeout_error() && !self.server.breaker.is_open();
        if !may_go_on {
            return self.fail(write);
        }
        if let Some(write) = write {
            // A refund may still be on its way there; its next try is later than that. An attempt is repeated once.
            let is_ended = |request: &StoreRequest| request.is_enqueued() || request.uncertain().is_some();
            let (ended, others): (Vec<_>, _) =
                std::mem::take(&mut self.requests).into_iter().partition(is_ended);
            ended.into_iter().for_each(|request| self.shared.fail(request, Some(write)));
            self.requests = others;
            self.requests.iter_mut().for_each(|request| request.set_uncertain(write));
        }
        self.is_disconnected = true;
        BatchStep::Retry
    }

    /// Ends the requests that can wait no longer for a connection.
    async fn wait_for_connection(&mut self, longest: Duration, looks: u32) {
        // A cluster without a majority answers each look.
        let pause = RECONNECT_POLL * (1 << (looks / 8).min(4));
        tokio::time::sleep(pause + self.shared.jitter(pause)).await;
        let is_waiting =
            |request: &StoreRequest| !request.is_cancelled() && request.since.elapsed() <= longest;
        let (waiting, late): (Vec<_>, _) =
            std::mem::take(&mut self.requests).into_iter().partition(is_waiting);
        self.requests = waiting;
        for request in late {
            self.shared.fail(request, None);
        }
    }

    /// Continues from the current record.
    async fn apply_stored(&mut self, draft: &mut BatchState, stored: Option<Stored>) -> BatchStep {
        self.is_disconnected = false;
        if draft.version.is_some() {
            self.recall_if_lost(draft, stored.as_ref()).await;
        }
        let version = stored.as_ref().map(|stored| stored.version);
        // Where there is no record, nothing is left of a write, if it was done: the bucket is full.
        let is_undone = |request: &StoreRequest| {
            version.is_none()
                || request.may_be_repeated()
                || request.uncertain().is_none_or(|write| write.old == version)
        };
        // Drops other requests than attempts that are done or whose outcome can no longer be known, which errs on the strict side.
        let enqueued = |requests: &[StoreRequest]| requests.iter().filter(|r| r.is_enqueued()).count();
        let waiting = enqueued(&self.requests);
        self.requests.retain(is_undone);
        // These are late enough that nothing of an earlier try is on its way.
        self.requests.iter_mut().filter(|request| request.is_enqueued()).for_each(StoreRequest::set_certain);
        self.shared.release_enqueued(waiting - enqueued(&self.requests));
        let Some(request) = self.requests.first() else { return BatchStep::Done };
        draft.apply_stored(request, stored, self.now());
        BatchStep::Retry
    }

    /// A record is gone that cannot have expired, or has more than it had: if the server has lost its records, what was known of
    /// this one is written back.
    async fn recall_if_lost(&self, draft: &mut BatchState, stored: Option<&Stored>) {
        let (Some(first), now) = (self.requests.first(), self.now()) else { return };
        let (known, _) = first.mirror.recall(&first.bucket, now);
        let found = stored.and_then(|stored| BucketState::decode(&stored.bytes));
        if found.is_some_and(|found| !found.has_less_than(&known, now)) {
            return;
        }
        let is_lost = self.shared.has_lost_records(&self.server, draft.seen_at).await;
        // A batch that has waited for another server knows what that one may not have heard.
        if is_lost || draft.seen_at < self.server.may_have_lost_before() {
            (draft.local_state, draft.is_lost) = (Some(known), draft.is_lost || is_lost);
        }
    }

    /// The present time at the server.
    fn now(&self) -> Time {
        self.shared.now_at(&self.server)
    }

    fn decide(&self, state: &mut BucketState, now: Time) -> (Vec<StoreReply>, bool) {
        let mut changed = false;
        let replies = self.requests.iter().map(|request| {
            let (reply, has_changed) = request.run(state, now);
            changed |= has_changed;
            reply
        });
        (replies.collect(), changed)
    }

    fn record(&self, state: &BucketState, ttl: Span) -> StoreRecord {
        let limit =
            self.requests.first().map_or_else(|| "".into(), |request| Arc::clone(request.mirror.limit()));
        StoreRecord { bytes: state.encode(), ttl, limit, full_at: state.full_at() }
    }

    fn reply(&mut self, replies: Vec<StoreReply>) {
        if let (Some(request), Some(reply)) = (self.requests.last(), replies.last()) {
            self.shared.keep_in_mind(request, reply);
        }
        for (request, reply) in self.requests.drain(..).zip(replies) {
            self.shared.complete(request, reply);
        }
    }

    /// Ends the requests that can wait no longer, because concurrent writers keep winning: what the bucket refuses is
    /// refused, and all else has no answer. To decide without the store would take tokens that no rival sees taken; so
    /// where that is what would follow, the attempt waits for the next token.
    fn give_up(&mut self, draft: &BatchState, is_late: impl Fn(&StoreRequest) -> bool) {
        if !self.requests.iter().any(&is_late) {
            return;
        }
        let (replies, _) = self.decide(&mut draft.state.clone(), self.now());
        for (request, reply) in std::mem::take(&mut self.requests).into_iter().zip(replies) {
            if !is_late(&request) {
                self.requests.push(request);
            } else if !draft.is_outdated && is_deferrable(&request, &reply) {
                self.shared.complete(request, reply);
            } else if self.shared.on_error() == OnError::Local {
                self.shared.observer.race_lost(request.mirror.limit());
                self.shared.complete(request, refused(reply));
            } else {
                self.shared.observer.race_lost(request.mirror.limit());
                self.shared.fail(request, None);
            }
        }
    }

    fn fail(&mut self, uncertain: Option<UncertainWrite>) -> BatchStep {
        for request in self.requests.drain(..) {
            self.shared.fail(request, uncertain);
        }
        BatchStep::Done
    }

    /// The first conflict is usual; after more of them the writers spread out.
    async fn pause(&self, tries: u32) {
        if tries > 1 {
            let max = Duration::from_micros(100 << tries.min(6));
            tokio::time::sleep(self.shared.jitter(max)).await;
        }
    }
}

/// The reply that others get what is left: the attempt has to wait for the next token.
fn refused(mut reply: StoreReply) -> StoreReply {
    reply.verdict.admission = Admission::Refused { wait: reply.verdict.next_token };
    reply.verdict.receipt = Receipt::default();
    reply
}

/// Whether the request was refused, and its effect may be written later.
fn is_deferrable(request: &StoreRequest, reply: &StoreReply) -> bool {
    request.is_attempt() && !reply.verdict.is_admitted()
}

impl BatchState {
    fn recall(request: &StoreRequest, server: &StoreServer, now: Time) -> Self {
        let (content, known) = request.mirror.recall(&request.bucket, now);
        // A record that was seen before an outage may be lost in the store, and is written again.
        let is_old = known.seen_at < server.may_have_lost_before();
        let may_be_lost = known.version.is_some() && is_old;
        Self {
            local_state: (known.is_ahead || may_be_lost).then(|| content.clone()),
            is_lost: known.seen_at < server.marker.emptied_at(),
            state: content,
            version: known.version,
            seen_at: known.seen_at,
            is_loaded: false,
            is_hot: !is_old && known.seen_at <= now && now < known.seen_at.after(HOT_SPAN),
            is_busy: !is_old && known.seen_at <= now && now < known.seen_at.after(BUSY_SPAN),
            is_outdated: false,
            mirror_digest: known.digest,
            is_dirty: known.is_ahead && known.version.is_some(),
            is_unusual: false,
        }
    }

    fn apply_stored(
        &mut self,
        StoreRequest { mirror, bucket, .. }: &StoreRequest,
        stored: Option<Stored>,
        now: Time,
    ) {
        self.version = stored.as_ref().map(|stored| stored.version);
        (self.seen_at, self.is_loaded, self.is_outdated) = (now, true, false);
        let found = stored.and_then(|stored| BucketState::decode(&stored.bytes));
        // Foreign bytes are overwritten.
        let is_foreign = found.is_none() && self.version.is_some();
        self.state = found.unwrap_or_else(|| BucketState::absent(bucket.spec));
        let header = self.state.header;
        self.state.convert_to(&bucket.spec, now);
        let is_ahead = self.state.decision_time(now) < self.state.written_at();
        self.is_unusual = is_ahead || self.state.header != header;
        let recalled = self.local_state.is_none().then_some(self.mirror_digest);
        match self.version {
            _ if is_foreign => {}
            Some(version) => mirror.remember(bucket, &self.state, version, recalled, now),
            None => mirror.forget(bucket, recalled, now),
        }
        let is_more = self.local_state.as_ref().is_some_and(|local| match self.is_lost {
            true => self.state.restore(local, now),
            false => self.state.join(&local.header, &local.state, now),
        });
        self.is_dirty = is_more || is_foreign;
        if !self.is_dirty {
            self.local_state = None;
        }
        if !is_foreign {
            self.mirror_digest = self.state.digest();
        }
    }
}

/// A bucket that was seen this recently is in constant use. Longer than a refusal is repeated, because several limits
/// that refuse the same attempts take turns.
const HOT_SPAN: Span = Span::from_secs(4);
/// A bucket that was seen this recently gets a lease: beyond 200 attempts a second one request for each is too much.
const BUSY_SPAN: Span = Span::from_millis(5);
/// As many attempts at once on one bucket get one, too.
const HOT_BATCH: usize = 8;
/// A batch that has lost as many races gets one: the first is usual, since another gate may have written long before.
const HOT_TRIES: u32 = 2;
/// More conflicts than a handful of gates can cause.
const MAX_TRIES: u32 = 32;
/// How often a batch without a connection looks for one: from once to twice this time, after a second 16 times as long.
const RECONNECT_POLL: Duration = Duration::from_millis(5);
/// How much of an attempt's longest wait conflicts may take.
const RETRY_PERCENT: u32 = 80;
/// The shortest time to live: no process works on a bucket for longer than that.
const SHORTEST_TTL: Span = Span::from_secs(1);
