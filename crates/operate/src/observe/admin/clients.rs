//! `/api/v1/clients` and `/api/v1/rates`: who is there, and which buckets have a temporary rate, as JSON.
//!
//! Clients are counted elsewhere; here they get their addresses and their tokens. With `log.clients = "hash"` a client
//! is a hash alone; otherwise its prefix is written, because an operator has to name it.

use std::sync::Arc;

use http::{Method, Request, StatusCode};

use super::asker::SeenSites;
use super::buckets::seconds;
use super::pages::{ClientPart, ClientsPage, RatePart, RatesPage};
use super::request::{AdminProblem, pairs, wrong};
use super::response::{AdminResponse, json_response, not_allowed};
use crate::defences::OWNERS;
use crate::engine::{BucketLevel, Engine, OwnRateView};
use crate::event::BucketOwner;
use crate::observe::client_format::ClientFormatter;
use crate::observe::heavy_hitters::{CountedTime, HeavyHitter, HeavyHitters, HitterOrder};
use crate::observe::timestamp::rfc3339;
use crate::policy::attempt::Client;
use crate::policy::bucket_ref::BucketSelector;
use crate::policy::{Limit, Policy};

/// The handler of the pages about all clients.
#[derive(Debug)]
pub(super) struct ClientsApi {
    hitters: Arc<HeavyHitters>,
    engine: Arc<Engine>,
    formatter: ClientFormatter,
}

/// A page about all clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientsPath {
    Clients,
    Rates,
}

/// What a list of clients is asked for.
#[derive(Debug, PartialEq, Eq)]
struct ClientsQuery {
    order: HitterOrder,
    limit: Option<String>,
    /// Only this client or account, as the admin API names buckets.
    key: Option<String>,
    n: usize,
    window: CountedTime,
}

impl ClientsPath {
    /// `None` for any other path.
    pub(super) fn parse(path: &str) -> Option<Self> {
        match path {
            "/api/v1/clients" => Some(Self::Clients),
            "/api/v1/rates" => Some(Self::Rates),
            _ => None,
        }
    }
}

impl ClientsApi {
    pub(super) fn new(hitters: Arc<HeavyHitters>, engine: Arc<Engine>, formatter: ClientFormatter) -> Self {
        Self { hitters, engine, formatter }
    }

    pub(super) async fn handle<B>(
        &self,
        seen: &SeenSites,
        page: ClientsPath,
        request: &Request<B>,
    ) -> AdminResponse {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return not_allowed("GET, HEAD");
        }
        let query = request.uri().query().unwrap_or_default();
        let done = match page {
            ClientsPath::Clients => {
                self.clients(seen, query).await.map(|page| json_response(StatusCode::OK, &page))
            }
            ClientsPath::Rates => self.rates(seen, query).map(|page| json_response(StatusCode::OK, &page)),
        };
        done.unwrap_or_else(AdminResponse::from)
    }

    async fn clients(&self, seen: &SeenSites, query: &str) -> Result<ClientsPage, AdminProblem> {
        let ClientsQuery { order, limit, key, n, window } = ClientsQuery::parse(query)?;
        let rules = Arc::clone(&self.engine.rules());
        limit.as_deref().map_or(Ok(()), |limit| seen.check_limit(limit))?;
        if let Some(limit) = limit.as_deref().filter(|limit| !has_limit(&rules.policy, limit)) {
            return Err(wrong(format!("there is no limit `{}`", limit.escape_debug())));
        }
        let now = self.engine.clock().now();
        let counted = if key.is_some() || seen.limits().is_some() { usize::MAX } else { n };
        let mut found = self.hitters.top(order, counted, limit.as_deref(), window, now);
        found.retain(|hitter| seen.has_limit(&hitter.limit));
        if let Some(key) = key {
            let selector =
                BucketSelector::parse(key.as_bytes(), OWNERS).map_err(|error| wrong(error.to_string()))?;
            let account = selector.account().map(|account| self.engine.log_id(account));
            found.retain(|hitter| match hitter.owner {
                BucketOwner::Account(hash) => account == Some(hash),
                BucketOwner::Client(_) => has_bucket(&rules.policy, hitter, selector.client()),
                BucketOwner::Key(_) => false,
            });
        }
        found.truncate(n);
        let mut rows = Vec::with_capacity(found.len());
        let mut levels_left = if self.formatter.is_hashed() { 0 } else { MAX_LEVELS };
        for hitter in &found {
            let mut row = self.row(&rules.policy, hitter);
            if levels_left > 0
                && let BucketOwner::Client(client) = hitter.owner
            {
                levels_left -= 1;
                let selector = BucketSelector::of_client(client);
                match self.engine.show_under(&selector, &hitter.limit).await {
                    Ok(views) => views.first().into_iter().for_each(|view| add_level(&mut row, view.rate)),
                    // The list itself needs no store, and the next bucket would wait for it as long.
                    Err(_) => levels_left = 0,
                }
            }
            rows.push(row);
        }
        let by = if order == HitterOrder::Refused { "refused" } else { "attempts" };
        let since = rfc3339(window.since(now));
        Ok(ClientsPage { minutes: window.minutes().into(), since, by: by.to_owned(), clients: rows })
    }

    fn row(&self, policy: &Policy, hitter: &HeavyHitter) -> ClientPart {
        let HeavyHitter { limit, owner, attempts, refused, error, last } = hitter;
        let (client, account) = self.owner(policy, limit, Some(*owner));
        ClientPart {
            limit: limit.to_string(),
            client,
            account,
            attempts: (*attempts).into(),
            refused: (*refused).into(),
            error: (*error).into(),
            last: rfc3339(*last),
            mode: limit_named(policy, limit).map(|limit| limit.mode.name().to_owned()).into(),
            ..ClientPart::default()
        }
    }

    fn rates(&self, seen: &SeenSites, query: &str) -> Result<RatesPage, AdminProblem> {
        if let Some((name, _)) = pairs(query)?.first() {
            return Err(unknown(name));
        }
        let rules = Arc::clone(&self.engine.rules());
        let mut all = self.engine.own_rates();
        all.retain(|rate| seen.has_limit(&rate.limit));
        let row = |OwnRateView { limit, owner, own }: &OwnRateView| {
            let (client, account) = self.owner(&rules.policy, limit, *owner);
            RatePart {
                limit: limit.to_string(),
                client,
                account,
                burst: own.rate.burst(),
                seconds_per_token: seconds(own.rate.per_token()),
                until: rfc3339(own.until),
            }
        };
        Ok(RatesPage { rates: all.iter().take(MAX_ROWS).map(row).collect(), total: all.len() as u64 })
    }

    /// The client and the account, as they are written.
    fn owner(
        &self,
        policy: &Policy,
        limit: &str,
        owner: Option<BucketOwner>,
    ) -> (Option<String>, Option<String>) {
        match owner {
            Some(BucketOwner::Client(client)) => (Some(self.client(policy, limit, client)), None),
            Some(BucketOwner::Account(hash)) => (None, Some(format!("{hash:012x}"))),
            Some(BucketOwner::Key(_)) | None => (None, None),
        }
    }

    /// The prefix that shares a bucket under this limit: an address if it is one.
    fn client(&self, policy: &Policy, limit: &str, client: Client) -> String {
        let limit = limit_named(policy, limit);
        let network = client.ip().zip(limit).and_then(|(ip, limit)| limit.prefixes.network_of(ip));
        match network {
            Some(network) if self.formatter.is_hashed() => {
                self.formatter.show(Client::from_ip(network.network()))
            }
            Some(network) if network.prefix_len() == network.max_prefix_len() => network.addr().to_string(),
            Some(network) => network.to_string(),
            None => self.formatter.show(client),
        }
    }
}

impl ClientsQuery {
    fn parse(query: &str) -> Result<Self, AdminProblem> {
        let (mut order, mut limit, mut key, mut n, mut window) = (None, None, None, None, None);
        for (name, value) in pairs(query)? {
            let is_twice = match name.as_str() {
                "by" => order.replace(parse_order(&value)?).is_some(),
                "limit" => limit.replace(value).is_some(),
                "key" => key.replace(value).is_some(),
                "n" => n.replace(parse_count(&value)?).is_some(),
                "minutes" => window.replace(parse_window(&value)?).is_some(),
                _ => return Err(unknown(&name)),
            };
            if is_twice {
                return Err(wrong(format!("`{name}` is given twice")));
            }
        }
        Ok(Self {
            order: order.unwrap_or(HitterOrder::Refused),
            limit,
            key,
            n: n.unwrap_or(DEFAULT_ROWS),
            window: window.unwrap_or(CountedTime::TenMinutes),
        })
    }
}

fn parse_order(value: &str) -> Result<HitterOrder, AdminProblem> {
    match value {
        "refused" => Ok(HitterOrder::Refused),
        "attempts" => Ok(HitterOrder::Attempts),
        _ => Err(wrong("`by` has to be refused or attempts")),
    }
}

fn parse_count(value: &str) -> Result<usize, AdminProblem> {
    let count = value.parse().ok().filter(|count| (1..=MAX_ROWS).contains(count));
    count.ok_or_else(|| wrong("`n` has to be a whole number from 1 to 1,000"))
}

fn parse_window(value: &str) -> Result<CountedTime, AdminProblem> {
    let window = value.parse().ok().and_then(CountedTime::of_minutes);
    window.ok_or_else(|| wrong("`minutes` has to be 1, 10 or 60"))
}

fn unknown(name: &str) -> AdminProblem {
    wrong(format!("`{}` means nothing here", name.escape_debug()))
}

fn has_limit(policy: &Policy, name: &str) -> bool {
    limit_named(policy, name).is_some()
}

fn limit_named<'p>(policy: &'p Policy, name: &str) -> Option<&'p Limit> {
    policy.limits.iter().find(|limit| *limit.name == *name)
}

/// Whether this client pays from the bucket that was counted: the same address, or a neighbour that shares it.
fn has_bucket(policy: &Policy, hitter: &HeavyHitter, client: Option<Client>) -> bool {
    let network = |client: Client| limit_named(policy, &hitter.limit)?.prefixes.network_of(client.ip()?);
    let BucketOwner::Client(counted) = hitter.owner else { return false };
    client.is_some_and(|client| network(counted).is_some() && network(counted) == network(client))
}

fn add_level(row: &mut ClientPart, BucketLevel { spec, verdict }: BucketLevel) {
    row.tokens = Some(verdict.left.into()).into();
    row.burst = Some(spec.burst()).into();
    row.next = Some(seconds(verdict.next_token)).into();
    row.full_at = Some(rfc3339(verdict.full_at)).into();
}

const DEFAULT_ROWS: usize = 50;
/// Rows of a list.
const MAX_ROWS: usize = 1_000;
/// Rows of a list that have their tokens: over a shared store each is a call.
const MAX_LEVELS: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_defaults_and_bounds() {
        let of = |query: &str| ClientsQuery::parse(query).map_err(|problem| problem.detail);
        let (order, n, window) = (HitterOrder::Refused, 50, CountedTime::TenMinutes);
        assert_eq!(of(""), Ok(ClientsQuery { order, limit: None, key: None, n, window }));
        let (order, n, window) = (HitterOrder::Attempts, 1_000, CountedTime::SixtyMinutes);
        let (limit, key) = (Some("a b".to_owned()), Some("user:é".to_owned()));
        assert_eq!(
            of("by=attempts&limit=a%20b&n=1000&minutes=60&key=user:%C3%A9"),
            Ok(ClientsQuery { order, limit, key, n, window })
        );
        for wrong in
            ["by=", "by=tokens", "n=0", "n=1001", "n=-1", "n=x", "minutes=5", "min=1", "n=1&n=1", "limit=%ff"]
        {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }
}
