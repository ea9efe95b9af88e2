//! Finds the fields in a body that was read: at once if the body is short, otherwise on another thread.
//!
//! The decision itself searches a short body. A long body, or one with a content coding, which may be long, would block the worker, so
//! [threads](crate::proxy::body::BodySearches) search a copy of it. Their result is valid only for the rules that they searched by.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::head_check::UnreadAttempt;
use super::server::Server;
use crate::engine::Rules;
use crate::policy::attempt::{Attempt, AttemptBody, Client, SearchedBody};
use crate::policy::body_coding::{BodyCoding, UndecodableBody};
use crate::policy::field::BodySearch;
use crate::proxy::body::{self, BufferedBody, MemoryReservation};
use crate::proxy::connection::DownstreamConnection;
use crate::proxy::error::Error;
use crate::proxy::request::target;

/// A body as the decision sees it.
pub(super) struct ReadBody {
    /// The body without its coding; `None` if it is too long or not in its coding.
    bytes: Option<Bytes>,
    error: Option<UndecodableBody>,
    /// What was found in it, and by which rules.
    search: Option<(BodySearch, u64)>,
}

/// What a body says about its coding, and memory for it without.
pub(super) type CodedBody = Option<(BodyCoding, MemoryReservation)>;

impl ReadBody {
    /// The body for a decision by these rules.
    ///
    /// # Errors
    /// It is needed, and not there.
    pub(super) fn check(&self, is_needed: bool) -> Result<(), Error> {
        match (&self.bytes, self.error) {
            (None, Some(error)) if is_needed => Err(error.into()),
            (None, None) if is_needed => Err(Error::BodyTooLong),
            _ => Ok(()),
        }
    }

    pub(super) fn for_rules(&self, rules: &Rules) -> AttemptBody<'_> {
        match (&self.bytes, &self.search) {
            (None, _) => AttemptBody::TooLong,
            // After a reload it is looked at once more.
            (Some(bytes), Some((found, generation))) if *generation == rules.generation => {
                AttemptBody::Searched(SearchedBody { bytes, found })
            }
            (Some(bytes), _) => AttemptBody::Whole(bytes),
        }
    }
}

impl Server {
    /// Decodes and searches a body.
    ///
    /// # Errors
    /// The request is malformed, or there is no memory for what it is without its coding.
    pub(super) async fn search_body<B>(
        &self,
        connection: &DownstreamConnection,
        request: &Request<B>,
        buffered: &BufferedBody,
        coding: CodedBody,
        unread: &UnreadAttempt,
    ) -> Result<ReadBody, Error> {
        let BufferedBody::Whole(bytes) = buffered else {
            return Ok(ReadBody { bytes: None, error: None, search: None });
        };
        let coding = coding.filter(|_| !bytes.is_empty());
        if coding.is_none() && bytes.len() <= MAX_AT_ONCE {
            // Empty at first: the routes and the charges read the same fields, and what the first of them finds is kept.
            let search = (!bytes.is_empty()).then(|| (BodySearch::default(), unread.generation));
            return Ok(ReadBody { bytes: Some(bytes.clone()), error: None, search });
        }
        let config = self.config.current();
        let client = config.client_of(connection, request)?;
        let host = target::validate_again(connection, request)?.into_owned();
        let owner = config.shared.client.prefix_of(client);
        let search = LongBody {
            rules: Arc::clone(&config.shared.rules),
            request: head_of(request),
            host,
            client,
            bytes: bytes.clone(),
            coding,
            max_bytes: unread.requirement.max_bytes,
            routes: unread.routes.clone(),
            generation: unread.generation,
        };
        self.run_search(owner, bytes.len(), search).await
    }

    async fn run_search(
        &self,
        owner: Option<IpAddr>,
        bytes: usize,
        search: LongBody,
    ) -> Result<ReadBody, Error> {
        // What a coding makes of it counts as much as may come of it.
        let bytes = if search.coding.is_some() { search.max_bytes } else { bytes };
        self.body_searches.run(owner, bytes, move || search.run()).await
    }
}

/// A body to be searched, with what decides what is looked for.
struct LongBody {
    rules: Arc<Rules>,
    request: Request<()>,
    host: String,
    client: Client,
    bytes: Bytes,
    coding: CodedBody,
    max_bytes: usize,
    routes: crate::policy::MatchedRoutes,
    generation: u64,
}

impl LongBody {
    fn run(self) -> Result<ReadBody, Error> {
        let bytes = match self.coding {
            None => self.bytes,
            Some((coding, memory)) => match body::decode(coding, &self.bytes, self.max_bytes, memory)? {
                Ok(Some(bytes)) => bytes,
                Ok(None) => return Ok(ReadBody { bytes: None, error: None, search: None }),
                Err(error) => return Ok(ReadBody { bytes: None, error: Some(error), search: None }),
            },
        };
        let (policy, generation) = (&self.rules.policy, self.rules.generation);
        let uri = self.request.uri();
        let attempt = Attempt {
            method: self.request.method(),
            path: uri.path(),
            query: uri.query(),
            host: &self.host,
            client: self.client,
            headers: self.request.headers(),
            body: AttemptBody::Whole(&bytes),
            descriptor: None,
            tls: None,
        };
        let before = match generation == self.generation {
            true => self.routes,
            false => policy.routes_of(&attempt),
        };
        let found = policy.search_body(&before, &attempt);
        Ok(ReadBody { bytes: Some(bytes), error: None, search: Some((found, generation)) })
    }
}

/// A copy without the body.
fn head_of<B>(request: &Request<B>) -> Request<()> {
    let mut head = Request::new(());
    request.method().clone_into(head.method_mut());
    request.uri().clone_into(head.uri_mut());
    request.headers().clone_into(head.headers_mut());
    head
}

/// Bytes of a body that are searched at once: several times the length of a form with a name and a password, and well
/// below a millisecond of work.
const MAX_AT_ONCE: usize = 4 * 1024;
