//! `/api/v1/buckets/{ip:ADDRESS|user:NAME|...}`: single buckets, as JSON.
//!
//! It parses requests and writes responses; the engine changes the buckets. The grammar of rates and durations belongs
//! to the configuration, which lies above this layer, so the caller passes in a [`Grammar`].

mod action;
mod page;
mod request;

use std::error::Error;
use std::sync::Arc;

use http::{Request, StatusCode};
use hyper::body::Body;
use tokio::sync::Mutex;

pub(super) use self::page::seconds;
pub use self::page::{
    AddressesPart, BucketPart, BucketsPage, FailuresPart, FilledPart, OwnRatePart, WaitsPart,
};
pub use self::request::Grammar;
pub(super) use self::request::{BucketPath, BucketResource};

use self::action::BucketAction;
use self::request::BucketRequest;
use super::audit_trail::PageContext;
use super::request::AdminProblem;
use super::response::{AdminResponse, json_response, not_allowed};
use crate::defences::OWNERS;
use crate::engine::{BucketAdminError, Engine};
use crate::store::memory::OwnRateError;

/// The handler of the pages about single buckets.
pub(super) struct BucketsApi {
    engine: Arc<Engine>,
    grammar: Grammar,
    /// Held by a change from the look at what is in force until it is made, so that the next change at this gate finds what
    /// this one made.
    turn: Mutex<()>,
}

impl BucketsApi {
    pub(super) fn new(engine: Arc<Engine>, grammar: Grammar) -> Self {
        Self { engine, grammar, turn: Mutex::default() }
    }

    /// Whether the store does not answer.
    pub(super) fn is_store_down(&self) -> bool {
        !self.engine.store().is_up()
    }

    /// Does what the request asks for, and returns the state of the buckets.
    pub(super) async fn handle<B>(
        &self,
        cx: &PageContext<'_>,
        path: BucketPath,
        request: Request<B>,
    ) -> AdminResponse
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
            let action = BucketAction::parse(path.resource, &head.method, &request)?;
            self.act(cx, &selector, action, request.limit.as_deref()).await
        };
        match done.await {
            Ok(report) => json_response(StatusCode::OK, &page::page(&report)),
            Err(why) => why.into(),
        }
    }
}

pub(super) fn problem_of(error: &BucketAdminError) -> AdminProblem {
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
