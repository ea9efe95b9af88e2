//! The calls of a store to its database: within the deadline, and with their status recorded.
//!
//! Each reply tells the clock of the key's server and whether the server takes calls. What is asked is left to
//! [`batch`](super::batch) and [`swap_group`](super::swap_group).

use std::future::Future;

use tokio::time::Instant;

use super::circuit_breaker::CallKind;
use super::server::StoreServer;
use super::{Arithmetic, AvailabilityChange, CallStatus, SharedStore};
use crate::attempt_probe::unused_key;
use crate::{Clocked, StepShape, StoreError, Stored, Swap, SwapRequest, SwapResults};
use tollgate_bucket::{Key, Spec, Time};

impl SharedStore {
    pub(super) async fn load(&self, server: &StoreServer, key: Key) -> Result<Option<Stored>, StoreError> {
        let call = self.backend.load(key);
        self.call_backend(server, CallKind::Read, key, call, |_| CallStatus::Ok).await
    }

    pub(super) async fn swap(
        &self,
        server: &StoreServer,
        SwapRequest { key, old, new, program }: SwapRequest,
    ) -> Result<Swap, StoreError> {
        let call = match program {
            Some(program) => self.backend.swap_or_step(key, old, new, program),
            None => self.backend.swap(key, old, new),
        };
        self.call_backend(server, CallKind::Write, key, call, status_of).await
    }

    /// Swaps records that the database writes in one request.
    pub(super) async fn swap_all(&self, mut swaps: Vec<SwapRequest>) -> Result<SwapResults, StoreError> {
        let Some(key) = swaps.first().map(|swap| swap.key) else { return Ok(Vec::new()) };
        let server = self.server_of(key);
        if swaps.len() == 1 {
            return Ok(vec![self.swap(&server, swaps.remove(0)).await]);
        }
        let result = |results: &SwapResults| {
            let is_won = |result: &Result<Swap, StoreError>| {
                result.as_ref().is_ok_and(|swap| status_of(swap) == CallStatus::Ok)
            };
            if results.iter().all(is_won) { CallStatus::Ok } else { CallStatus::Conflict }
        };
        self.call_backend(&server, CallKind::Write, key, self.backend.swap_all(swaps), result).await
    }

    /// Whether the database steps buckets like this one.
    pub(super) fn can_step(&self, spec: &Spec) -> bool {
        self.options.arithmetic == Arithmetic::Store
            && StepShape::of(spec).is_some_and(|shape| self.backend.can_step(&shape))
    }

    /// Whether an attempt that this bucket may refuse can take its tokens at once, because to look first would cost as much.
    pub(crate) fn takes_untried(&self, spec: &Spec) -> bool {
        // What refusals take is counted with that of the other buckets.
        !spec.has_debt() && self.can_step(spec) && self.backend.refuses_cheaply()
    }

    /// Calls the database within the deadline, and records the status and the clock of the key's server.
    pub(super) async fn call_backend<T>(
        &self,
        server: &StoreServer,
        kind: CallKind,
        key: Key,
        call: impl Future<Output = Result<Clocked<T>, StoreError>>,
        result: impl FnOnce(&T) -> CallStatus,
    ) -> Result<T, StoreError> {
        let begun = self.clock.now();
        if server.breaker.is_open() {
            return Err(StoreError::NotConnected("it did not answer lately".to_owned()));
        }
        let answer = tokio::time::timeout(self.options.timeout.to_std(), call).await;
        let mut answer = answer.unwrap_or(Err(timeout_error()));
        if self.backend.server_of(key) != server.id
            && let Ok(answer) = &mut answer
        {
            // The key has moved, so another server may have answered.
            answer.clock = None;
        }
        self.record_answer(server, kind, begun, answer, result)
    }

    /// Asks a server what time it is there, and what attempts ask.
    pub(super) async fn probe(&self, server: &StoreServer) {
        let (begun, limit) = (self.clock.now(), self.options.timeout.to_std());
        let answer = tokio::time::timeout(limit, self.backend.probe(server.id)).await;
        let answer = answer.unwrap_or(Err(timeout_error()));
        let status = self.record_call(server, begun, &answer, |()| CallStatus::Ok);
        let refusal = if answer.is_ok() { self.attempt_refusal(server).await } else { None };
        let Some(refusal) = refusal else {
            return self.record_availability(server, CallKind::Probe, status, answer.as_ref().err());
        };
        // A failure counts and is reported like that of any call.
        let _ =
            self.record_answer(server, CallKind::Probe, begun, Err::<Clocked<()>, _>(refusal), |()| status);
    }

    /// Why the server refuses what attempts ask, if it does. That is two requests, so that a slow network is no reason.
    async fn attempt_refusal(&self, server: &StoreServer) -> Option<StoreError> {
        let key = unused_key(&*self.backend, server.id)?;
        let probe = self.backend.probe_attempt(key, self.now_at(server));
        let ended = tokio::time::timeout(self.options.timeout.to_std(), probe).await.ok()?;
        ended.err().filter(StoreError::is_refusal)
    }

    fn record_answer<T>(
        &self,
        server: &StoreServer,
        kind: CallKind,
        begun: Time,
        answer: Result<Clocked<T>, StoreError>,
        result: impl FnOnce(&T) -> CallStatus,
    ) -> Result<T, StoreError> {
        let status = self.record_call(server, begun, &answer, result);
        self.record_availability(server, kind, status, answer.as_ref().err());
        Ok(answer?.value)
    }

    /// Counts a call, and corrects the server's clock by it.
    fn record_call<T>(
        &self,
        server: &StoreServer,
        begun: Time,
        answer: &Result<Clocked<T>, StoreError>,
        result: impl FnOnce(&T) -> CallStatus,
    ) -> CallStatus {
        let now = self.clock.now();
        let status = match answer {
            Ok(answer) => result(&answer.value),
            Err(StoreError::WriteConflict) => CallStatus::Conflict,
            Err(StoreError::Throttled(_)) => CallStatus::Throttled,
            Err(error) if *error == timeout_error() => CallStatus::Timeout,
            Err(_) => CallStatus::Error,
        };
        self.observer.call_finished(status, now.since(begun));
        if let Some(clock) = answer.as_ref().ok().and_then(|answer| answer.clock)
            && let Some(correction) = server.offset.record(clock, begun, now)
            && server.tells_clock()
        {
            self.observer.warned(&server.describe(correction));
        }
        status
    }

    fn record_availability(
        &self,
        server: &StoreServer,
        kind: CallKind,
        status: CallStatus,
        error: Option<&StoreError>,
    ) {
        let refusal = error.filter(|error| error.is_refusal());
        let has_changed = match status {
            CallStatus::Ok => server.breaker.succeeded(kind, self.now_at(server)),
            // Throttling concerns one key, unless every attempt meets it.
            CallStatus::Throttled if kind != CallKind::Probe => self.answered(server),
            // Nothing was written, but the server answered.
            CallStatus::Conflict => self.answered(server),
            CallStatus::Timeout | CallStatus::Error | CallStatus::Throttled => {
                let (now, least) = (Instant::now(), self.options.timeout.to_std());
                match refusal {
                    // A quota that is used up for a moment is none that is used up for good.
                    None | Some(StoreError::Throttled(_)) => server.breaker.failed(kind, now, least),
                    Some(_) => server.breaker.refused(kind, now, least),
                }
            }
        };
        // A connection that is lost may be one to a server that comes back empty.
        let is_lost = matches!(status, CallStatus::Error);
        if has_changed || (refusal.is_some() || is_lost) && kind != CallKind::Probe {
            server.to_probe.notify_one();
        }
        self.report(server, has_changed, error);
    }

    fn answered(&self, server: &StoreServer) -> bool {
        server.breaker.succeeded(CallKind::Read, self.now_at(server))
    }

    /// Tells operators that a server went down or came back, and once a minute why it still fails.
    fn report(&self, server: &StoreServer, has_changed: bool, error: Option<&StoreError>) {
        let up = !server.breaker.is_open();
        if has_changed && !up {
            self.trips.add(self.clock.now());
        }
        let why = || error.map_or_else(|| "it answers again".to_owned(), StoreError::to_string);
        let tells = server.tells_availability();
        if has_changed || tells {
            let why = why();
            let change =
                AvailabilityChange { server: &server.name, up, is_store_up: self.is_up(), why: &why };
            if has_changed {
                self.observer.availability_changed(&change);
            }
            if tells {
                self.observer.availability_reported(&change);
            }
        } else if error.is_some_and(|error| error.is_refusal() || !up && *error != StoreError::WriteConflict)
            && server.tells_failure()
        {
            let change =
                AvailabilityChange { server: &server.name, up, is_store_up: self.is_up(), why: &why() };
            self.observer.failed(&change);
        }
    }
}

fn status_of(swap: &Swap) -> CallStatus {
    match swap {
        Swap::Done(_) | Swap::Stepped { .. } => CallStatus::Ok,
        Swap::Conflict(_) => CallStatus::Conflict,
    }
}

pub(super) fn timeout_error() -> StoreError {
    StoreError::unreachable("no answer in time")
}
