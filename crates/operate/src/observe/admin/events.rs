//! `/api/v1/events`: the feed of events, for viewers who stay connected.
//!
//! Viewers have their own permits and take none of other callers. Each has a task that waits for its connection; a
//! viewer that falls behind the ring of the feed is dropped, as is one whose token a reload takes away.

use std::sync::Arc;

use http::{Method, StatusCode};
use http_body_util::Either;
use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::access::LastingToken;
use super::response::{AdminResponse, EventBody, not_allowed, problem, respond};
use crate::observe::event_feed::EventFeed;
use crate::time::Span;

/// The handler of viewers.
#[derive(Debug)]
pub(super) struct EventsApi {
    feed: Arc<EventFeed>,
    permits: Arc<Semaphore>,
}

/// A viewer's place in the feed and its permit, until it is dropped.
struct Viewer {
    feed: Arc<EventFeed>,
    messages: broadcast::Receiver<Bytes>,
    /// `None` for a viewer on a Unix socket.
    token: Option<LastingToken>,
    _permit: OwnedSemaphorePermit,
}

impl EventsApi {
    pub(super) fn new(feed: Arc<EventFeed>) -> Self {
        Self { feed, permits: Arc::new(Semaphore::new(MAX_VIEWERS)) }
    }

    pub(super) fn handle(&self, method: &Method, token: Option<LastingToken>) -> AdminResponse {
        if *method != Method::GET {
            return not_allowed("GET");
        }
        let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() else {
            let detail = format!("{MAX_VIEWERS} viewers are connected: try again when one has gone");
            return problem(StatusCode::SERVICE_UNAVAILABLE, &detail);
        };
        let (feed, messages) = (Arc::clone(&self.feed), self.feed.join());
        let viewer = Viewer { feed, messages, token, _permit: permit };
        let (sender, receiver) = mpsc::channel(MAX_UNSENT);
        tokio::spawn(viewer.watch(sender));
        respond(StatusCode::OK, "text/event-stream", "").map(|_| Either::Right(EventBody(receiver)))
    }
}

impl Viewer {
    /// Passes messages on until the viewer has gone, has fallen behind or has lost its token.
    async fn watch(mut self, to: mpsc::Sender<Bytes>) {
        let mut ticks = interval(TICK.to_std());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first byte goes at once, so that a viewer knows that it is connected.
        let mut heartbeat = Instant::now();
        loop {
            let message = tokio::select! {
                message = self.messages.recv() => message.ok(),
                () = to.closed() => None,
                now = ticks.tick() => {
                    self.feed.report_skipped();
                    if self.token.as_ref().is_some_and(LastingToken::is_gone) {
                        return;
                    }
                    if now < heartbeat {
                        continue;
                    }
                    heartbeat = now + HEARTBEAT.to_std();
                    Some(Bytes::from_static(b":\n\n"))
                }
            };
            let Some(message) = message else { return };
            if to.send(message).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.feed.leave();
    }
}

/// Viewers at once.
const MAX_VIEWERS: usize = 100;
/// Messages of one viewer next to the ring that its connection has not taken.
const MAX_UNSENT: usize = 16;
/// A comment is sent after this time at the latest, so that proxies in between keep the connection.
const HEARTBEAT: Span = Span::from_secs(15);
/// How often skipped decisions are reported.
const TICK: Span = Span::from_secs(1);
