//! `/api/v1/buckets/{ip:ADDRESS|user:NAME|...}`: single buckets, as JSON.
//!
//! It parses requests and writes responses; the engine changes the buckets. The grammar of rates and durations belongs
//! to the configuration, which lies above this layer, so the caller passes in a [`Grammar`].

mod page;
mod request;

use std::error::Error;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use hyper::body::Body;

pub(super) use self::page::seconds;
pub use self::page::{
    AddressesPart, BucketPart, BucketsPage, FailuresPart, FilledPart, OwnRatePart, WaitsPart,
};
pub(super) use self::request::BucketPath;
pub use self::request::Grammar;

use self::request::{BucketRequest, BucketResource};
use super::request::AdminProblem;
use super::response::{AdminResponse, json_response, not_allowed};
use crate::defences::OWNERS;
use crate::engine::{BucketAdminError, BucketReport, ChangeScope, Engine};
use crate::event::Operator;
use crate::policy::bucket_ref::BucketSelector;
use crate::store::memory::OwnRateError;

/// The handler of the pages about single buckets.
pub(super) struct BucketsApi {
    engine: Arc<Engine>,
    grammar: Grammar,
}

impl BucketsApi {
    pub(super) fn new(engine: Arc<Engine>, grammar: Grammar) -> Self {
        Self { engine, grammar }
    }

    /// Whether the store does not answer.
    pub(super) fn is_store_down(&self) -> bool {
        !self.engine.store().is_up()
    }

    /// Does what the request asks for, and returns the state of the buckets.
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
            let selector = path.selector()?;
            let request = BucketRequest::read(head.uri.query(), body, self.grammar).await?;
            self.act(&selector, path.resource, &head.method, request, by).await
        };
        match done.await {
            Ok(report) => json_response(StatusCode::OK, &page::page(&report)),
            Err(why) => why.into(),
        }
    }

    async fn act(
        &self,
        selector: &BucketSelector,
        resource: BucketResource,
        method: &Method,
        request: BucketRequest,
        by: Operator,
    ) -> Result<BucketReport, AdminProblem> {
        let (engine, limit) = (&self.engine, request.limit.as_deref());
        let done = match (resource, method) {
            (BucketResource::Bucket, &Method::DELETE) => {
                request.has_only(&["limit", "only"])?;
                let scope = ChangeScope { limit, spares_neighbours: request.is_set("only")? };
                engine.reset(selector, scope, by).await
            }
            (BucketResource::Bucket, _) => {
                request.has_only(&[])?;
                engine.show(selector).await
            }
            (BucketResource::Credit, _) => {
                request.has_only(&["tokens", "limit"])?;
                engine.credit(selector, limit, request.tokens()?, by).await
            }
            (BucketResource::Rate, &Method::PUT) => {
                let (rate, lasts) = request.rate()?;
                engine.give_rate(selector, request.limit()?, rate, lasts, by).await
            }
            (BucketResource::Exemption, &Method::PUT) => {
                request.has_only(&["limit", "for"])?;
                engine.exempt(selector, limit, request.lasts("an exemption is ended by DELETE")?, by).await
            }
            (BucketResource::Addresses, _) => {
                request.has_only(&[])?;
                engine.forget_clients(selector, by).await
            }
            (BucketResource::Ban, &Method::PUT) => {
                request.has_only(&["limit", "for"])?;
                engine.ban(selector, limit, request.lasts("a ban is ended by DELETE")?, by).await
            }
            (BucketResource::Ban, _) => {
                request.has_only(&["limit"])?;
                engine.end_ban(selector, limit, by).await
            }
            (BucketResource::Rate | BucketResource::Exemption, _) => {
                request.has_only(&["limit"])?;
                engine.end_rate(selector, limit, by).await
            }
        };
        done.map_err(|error| problem_of(&error))
    }
}

fn problem_of(error: &BucketAdminError) -> AdminProblem {
    let status = match error {
        BucketAdminError::NoBucket(_) | BucketAdminError::NothingRemembered => StatusCode::NOT_FOUND,
        BucketAdminError::Ban(_) => StatusCode::UNPROCESSABLE_ENTITY,
        BucketAdminError::OwnRate(OwnRateError::TooMany) => StatusCode::CONFLICT,
        BucketAdminError::OwnRate(_) | BucketAdminError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let text = match error {
        BucketAdminError::NothingRemembered => OWNERS.not_remembered.to_owned(),
        _ => error.to_string(),
    };
    AdminProblem::new(status, text)
}

impl std::fmt::Debug for BucketsApi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BucketsApi")
    }
}
