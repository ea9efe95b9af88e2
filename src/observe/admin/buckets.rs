//! `/api/v1/buckets/{ip:ADDRESS|user:NAME}`: single buckets, as JSON.
//!
//! It reads requests and writes answers; what is done to buckets the engine does. The surprising thing: how a rate and a
//! length of time are written is the configuration's business, which lies above, so whoever builds these pages hands a
//! reader for both in.

mod json;
mod request;

use std::error::Error;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Body;

pub(super) use self::request::BucketPath;
pub use self::request::Grammar;

use self::request::{AdminProblem, BucketRequest, BucketResource};
use super::response::{AdminResponse, not_allowed, problem, respond};
use crate::engine::{BucketAdminError, BucketReport, Engine};
use crate::event::Operator;
use crate::policy::bucket_ref::BucketSelector;
use crate::store::memory::OwnRateError;

/// Whoever wants something of a single bucket comes here.
pub(super) struct BucketsApi {
    engine: Arc<Engine>,
    grammar: Grammar,
}

impl BucketsApi {
    pub(super) fn new(engine: Arc<Engine>, grammar: Grammar) -> Self {
        Self { engine, grammar }
    }

    /// Whether there is a store that gates share, and it is not asked.
    pub(super) fn is_store_down(&self) -> bool {
        self.engine.store().is_some_and(|store| !store.is_up())
    }

    /// Does what is asked and says how the buckets are then.
    pub(super) async fn handle<B>(&self, by: Operator, path: BucketPath, request: Request<B>) -> AdminResponse
    where
        B: Body<Error: Into<Box<dyn Error + Send + Sync>>>,
    {
        let (head, body) = request.into_parts();
        let allowed = path.resource.methods();
        if !allowed.split(", ").any(|method| method == head.method.as_str()) {
            return not_allowed(allowed);
        }
        let done = async {
            let holder = path.selector()?;
            let ask = BucketRequest::read(head.uri.query(), body, self.grammar).await?;
            self.act(&holder, path.resource, &head.method, ask, by).await
        };
        match done.await {
            Ok(shown) => respond(StatusCode::OK, "application/json", json::json(&shown).to_string()),
            Err(AdminProblem { status, detail }) => problem(status, &detail),
        }
    }

    async fn act(
        &self,
        holder: &BucketSelector,
        what: BucketResource,
        method: &Method,
        ask: BucketRequest,
        by: Operator,
    ) -> Result<BucketReport, AdminProblem> {
        let (engine, limit) = (&self.engine, ask.limit.as_deref());
        let done = match (what, method) {
            (BucketResource::Bucket, &Method::DELETE) => {
                ask.has_only(&["limit"])?;
                engine.reset(holder, limit, by).await
            }
            (BucketResource::Bucket, _) => {
                ask.has_only(&[])?;
                engine.show(holder).await
            }
            (BucketResource::Credit, _) => {
                ask.has_only(&["tokens", "limit"])?;
                engine.credit(holder, limit, ask.tokens()?, by).await
            }
            (BucketResource::Rate, &Method::PUT) => {
                let (rate, lasts) = ask.rate()?;
                engine.give_rate(holder, ask.limit()?, (rate, lasts), by).await
            }
            (BucketResource::Rate, _) => {
                ask.has_only(&["limit"])?;
                engine.end_rate(holder, limit, by).await
            }
        };
        done.map_err(|error| {
            let status = match error {
                BucketAdminError::NoBucket(_) => StatusCode::NOT_FOUND,
                BucketAdminError::OwnRate(OwnRateError::TooMany) => StatusCode::CONFLICT,
                BucketAdminError::OwnRate(_) | BucketAdminError::Unavailable(_) => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
            };
            AdminProblem::new(status, error.to_string())
        })
    }
}

impl std::fmt::Debug for BucketsApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Desk")
    }
}
