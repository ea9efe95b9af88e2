//! `tollgate explain`: what would happen to a request, step by step, decided by the gate's own functions.
//!
//! It reads no buckets of a running gate: every bucket is new, as for a client that the gate has never seen.

mod describe;

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::config::Config;
use crate::engine::{Decision, Engine, LimitStatuses, Rules};
use crate::event::Events;
use crate::net::stream::PeerAddr;
use crate::policy::attempt::{Attempt, AttemptBody, Client};
use crate::policy::network::embedded_ipv4;
use crate::policy::{Charges, Cost, LimitKind, Policy, Route, canonical, path_info};
use crate::proxy::error::MalformedRequest;
use crate::proxy::request::target;
use crate::time::{Clock, Span};

#[derive(Debug, Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    config: ConfigArgs,
    /// The client's address, whatever the headers say
    #[arg(long, value_name = "IP")]
    from: Option<IpAddr>,
    /// The address that connects
    #[arg(long, value_name = "IP", default_value = "192.0.2.1")]
    peer: IpAddr,
    /// A header line; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, for routes that count the attempts in it
    #[arg(long, value_name = "BODY")]
    data: Option<String>,
    /// The method
    method: Method,
    /// The address asked for, or only its path
    url: Uri,
}

pub(super) fn explain(arguments: &ExplainArgs) -> anyhow::Result<Exit> {
    let Some(config) = load_and_report(&arguments.config.sources()?) else {
        return Ok(Exit::BadConfiguration);
    };
    let request = arguments.request();
    let host = match target::check(&request) {
        Ok(host) => host,
        Err(why) => {
            println!("answer    400, because {why}");
            return Ok(Exit::Ok);
        }
    };
    let client = match arguments.client(&config, request.headers()) {
        Ok(client) => client,
        Err(why) => {
            println!("answer    400, because {why}");
            return Ok(Exit::Ok);
        }
    };
    let attempt = Attempt {
        method: request.method(),
        path: request.uri().path(),
        query: request.uri().query(),
        host: &host,
        client,
        headers: request.headers(),
        body: arguments.body(),
    };
    print_request(&attempt, arguments);
    if config.policy.could_be_a_write(&attempt) {
        println!("method    {}, which an application could take for a write", attempt.method);
    }
    print_decision(config, &attempt)?;
    Ok(Exit::Ok)
}

impl ExplainArgs {
    fn request(&self) -> Request<()> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.url.clone();
        let headers = request.headers_mut();
        let authority = self.url.authority().map_or("localhost", http::uri::Authority::as_str);
        if let Ok(host) = HeaderValue::from_str(authority) {
            headers.insert(http::header::HOST, host);
        }
        for (name, value) in &self.headers {
            if name == http::header::HOST {
                headers.remove(name);
            }
            headers.append(name, value.clone());
        }
        request
    }

    /// Without `--data` a request by GET, HEAD or OPTIONS has no body.
    fn body(&self) -> AttemptBody<'_> {
        match &self.data {
            Some(data) => AttemptBody::Whole(data.as_bytes()),
            None if matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS) => {
                AttemptBody::Whole(&[])
            }
            None => AttemptBody::Unread,
        }
    }

    fn client(&self, config: &Config, headers: &HeaderMap) -> Result<Client, MalformedRequest> {
        let peer = PeerAddr::Ip(SocketAddr::new(self.peer, 0));
        self.from.map_or_else(|| config.client.client_of(peer, headers), |ip| Ok(Client::from_ip(ip)))
    }
}

fn print_request(attempt: &Attempt<'_>, arguments: &ExplainArgs) {
    let client = attempt.client.ip().map_or_else(|| "a Unix socket".to_owned(), |ip| ip.to_string());
    let why = match attempt.client {
        _ if arguments.from.is_some() => "as told".into(),
        Client::BehindProxy(_) => {
            "a proxy that does not say who its client is: of no network of the file".into()
        }
        _ => format!("connected from {}", arguments.peer),
    };
    println!("client    {client}, {why}");
    if let Some(inside) = attempt.client.ip().and_then(embedded_ipv4) {
        println!("  as      {inside}, which it carries inside");
    }
    println!("host      {}", attempt.host);
    // Readings that look the same are shown once, as an encoded slash that stays encoded.
    let mut shown: Vec<String> = Vec::new();
    let mut show = |reading: &[u8]| {
        let text = canonical::display(reading);
        if !shown.contains(&text) {
            println!("{} {text}", if shown.is_empty() { "path     " } else { "  or     " });
            shown.push(text);
        }
    };
    let readings = canonical::readings(attempt.path);
    readings.iter().for_each(|reading| show(reading));
    for reading in &readings {
        path_info::for_each(&canonical::split(reading), |behind| show(&canonical::joined(behind)));
    }
}

fn print_decision(config: Config, attempt: &Attempt<'_>) -> anyhow::Result<()> {
    let addresses: Vec<String> = config
        .upstreams
        .iter()
        .map(|group| group.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "))
        .collect();
    if let (Ok(Some(to_read)), AttemptBody::Whole(body)) =
        (config.policy.body_requirement(attempt), attempt.body)
        && body.len() > to_read.max_bytes
        && to_read.refuse_longer
    {
        println!("answer    413, because the route reads {} bytes of a body", to_read.max_bytes);
        return Ok(());
    }
    // The engine keeps nothing, so one bucket for each limit is enough.
    let engine = Engine::new(config.policy, 1, Clock::system(), Events::default())?;
    let rules = engine.rules();
    let now = engine.clock().now();
    let before = match engine.peek(&rules, attempt) {
        Ok(found) => found,
        Err(why) => {
            println!("answer    400, because {why}");
            return Ok(());
        }
    };
    let decision = engine.decide_in_memory(&rules, attempt, now)?;
    print_limits(&rules, attempt, before, &decision);
    let group =
        rules.policy.upstream_of(attempt).and_then(|group| addresses.get(group)).or(addresses.first());
    let forwarded = format!("forwarded to {}", group.map_or("", String::as_str));
    match decision {
        Decision::Refused(refusal) => match refusal.wait {
            Some(wait) => {
                println!("answer    {}: try again in {}", config.refuse.status, describe::time(wait))
            }
            None => println!("answer    refused: the attempt costs more than a bucket holds"),
        },
        Decision::Admitted(reservation) if reservation.hold > Span::ZERO => {
            println!("answer    held for {}, then {forwarded}", describe::time(reservation.hold));
        }
        Decision::Admitted(_) | Decision::Uncounted | Decision::Denied => println!("answer    {forwarded}"),
    }
    Ok(())
}

fn print_limits(
    rules: &Rules,
    attempt: &Attempt<'_>,
    (found, before): (Charges, LimitStatuses),
    decision: &Decision,
) {
    let routes = rules.policy.routes_of(attempt);
    let routes: Vec<&Route> = routes.iter().map(|&route| &rules.policy.routes[route]).collect();
    let Some(first) = routes.first() else {
        println!("route     none: forwarded and never counted");
        return;
    };
    println!("route     {}", first.name);
    if attempt.body == AttemptBody::Unread {
        print_unread(&rules.policy, attempt, &routes);
    }
    match found.accounts {
        Some(0) => println!("account   none that can be read: such attempts pay for their client"),
        Some(count) => println!("account   {count} named"),
        None => {}
    }
    let exempt = found.exempt.into_iter().map(|limit| &rules.policy.limits[limit]);
    for limit in exempt.filter(|limit| limit.kind == LimitKind::Rate) {
        println!("limit     {}: does not see this client", limit.name);
    }
    let after = match decision {
        Decision::Admitted(reservation) => &reservation.statuses,
        Decision::Refused(refusal) => &refusal.statuses,
        Decision::Uncounted | Decision::Denied => &before,
    };
    for (before, after) in before.iter().zip(after) {
        println!(
            "limit     {}: {}",
            describe::name(&rules.policy.limits[before.charge.limit]),
            describe::taken(before)
        );
        println!("          {}", describe::left(after));
    }
}

/// Names what the decision needs from a body that was not given.
fn print_unread(policy: &Policy, attempt: &Attempt<'_>, routes: &[&Route]) {
    if routes.iter().any(|route| matches!(route.cost, Cost::Counted(_))) {
        println!("cost      counted in the body, at least 1: give it with --data");
    } else if matches!(policy.body_requirement(attempt), Ok(Some(_))) {
        println!("body      decides whether it is an attempt, or names the account: give it with --data");
    }
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write 'Name: value'")?;
    let name = name.trim().parse().map_err(|_| format!("`{name}` is not a header name"))?;
    let value = value.trim().parse().map_err(|_| format!("`{value}` is not a header value"))?;
    Ok((name, value))
}
