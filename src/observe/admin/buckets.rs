//! `/api/v1/buckets/{ip:ADDRESS|user:NAME}`: single buckets, as JSON.
//!
//! It reads requests and writes answers; what is done to buckets the engine does. The surprising thing: how a rate and a
//! length of time are written is the configuration's business, which lies above, so whoever builds these pages hands a
//! reader for both in.

mod read;
mod shown;

use std::error::Error;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Body;

pub use self::read::Grammar;
pub(super) use self::read::Path;

use self::read::{Ask, Problem, What};
use super::answer::{Answer, not_allowed, problem, respond};
use crate::engine::{Engine, NotDone, Shown};
use crate::event::Operator;
use crate::policy::holder::Holder;
use crate::store::memory::NotGiven;

/// Whoever wants something of a single bucket comes here.
pub(super) struct Desk {
    engine: Arc<Engine>,
    grammar: Grammar,
}

impl Desk {
    pub(super) fn new(engine: Arc<Engine>, grammar: Grammar) -> Self {
        Self { engine, grammar }
    }

    /// Whether there is a store that gates share, and it is not asked.
    pub(super) fn misses_its_store(&self) -> bool {
        self.engine.store().is_some_and(|store| !store.is_up())
    }

    /// Does what is asked and says how the buckets are then.
    pub(super) async fn answer<B>(&self, by: Operator, path: Path, request: Request<B>) -> Answer
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let allowed = path.what.methods();
        if !allowed.split(", ").any(|method| method == head.method.as_str()) {
            return not_allowed(allowed);
        }
        let done = async {
            let holder = path.holder()?;
            let ask = Ask::read(head.uri.query(), body, self.grammar).await?;
            self.act(&holder, path.what, &head.method, ask, by).await
        };
        match done.await {
            Ok(shown) => respond(StatusCode::OK, "application/json", shown::json(&shown).to_string()),
            Err(Problem { status, detail }) => problem(status, &detail),
        }
    }

    async fn act(
        &self,
        holder: &Holder,
        what: What,
        method: &Method,
        ask: Ask,
        by: Operator,
    ) -> Result<Shown, Problem> {
        let (engine, limit) = (&self.engine, ask.limit.as_deref());
        let done = match (what, method) {
            (What::Bucket, &Method::DELETE) => {
                ask.has_only(&["limit"])?;
                engine.reset(holder, limit, by).await
            }
            (What::Bucket, _) => {
                ask.has_only(&[])?;
                engine.show(holder).await
            }
            (What::Credit, _) => {
                ask.has_only(&["tokens", "limit"])?;
                engine.credit(holder, limit, ask.tokens()?, by).await
            }
            (What::Rate, &Method::PUT) => {
                let (rate, lasts) = ask.rate()?;
                engine.give_rate(holder, ask.limit()?, (rate, lasts), by).await
            }
            (What::Rate, _) => {
                ask.has_only(&["limit"])?;
                engine.end_rate(holder, limit, by).await
            }
        };
        done.map_err(|error| {
            let status = match error {
                NotDone::NoBucket(_) => StatusCode::NOT_FOUND,
                NotDone::NotGiven(NotGiven::TooMany) => StatusCode::CONFLICT,
                NotDone::NotGiven(_) | NotDone::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
            };
            Problem::new(status, error.to_string())
        })
    }
}

impl std::fmt::Debug for Desk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}
