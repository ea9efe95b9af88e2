//! `tollgate explain`: what would happen to a request, step by step, by the functions that would decide on it.
//!
//! It has no buckets of a running gate: every bucket is as it is for a client that was never seen.

use std::net::{IpAddr, SocketAddr};

use clap::Args;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};

use super::Exit;
use super::sources::{ConfigArgs, load_and_report};
use crate::config::Config;
use crate::engine::{Engine, Standing};
use crate::event::Events;
use crate::net::stream::Peer;
use crate::policy::attempt::{Attempt, Client};
use crate::policy::canonical;
use crate::proxy::target;
use crate::time::Clock;

#[derive(Debug, Args)]
pub(super) struct Arguments {
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
    /// A body (not built yet)
    #[arg(long, value_name = "BODY", hide = true)]
    data: Option<String>,
    /// The method
    method: Method,
    /// The address asked for, or only its path
    url: Uri,
}

pub(super) fn explain(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Some(config) = load_and_report(&arguments.config.sources()?) else {
        return Ok(Exit::BadConfiguration);
    };
    anyhow::ensure!(
        arguments.data.is_none(),
        "explain --data is not built yet: this version reads no bodies"
    );
    let request = arguments.request();
    let host = match target::check(&request) {
        Ok(host) => host,
        Err(why) => {
            println!("answer    400, because {why}");
            return Ok(Exit::Ok);
        }
    };
    let client = arguments.client(&config, request.headers());
    let attempt = Attempt {
        method: request.method(),
        path: request.uri().path(),
        query: request.uri().query(),
        host: &host,
        client,
        headers: request.headers(),
        body: None,
    };
    print_request(&attempt, arguments);
    print_decision(config, &attempt)?;
    Ok(Exit::Ok)
}

impl Arguments {
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

    fn client(&self, config: &Config, headers: &HeaderMap) -> Client {
        let peer = Peer::Ip(SocketAddr::new(self.peer, 0));
        self.from.map_or_else(|| config.client.client_of(peer, headers), Client::from_ip)
    }
}

fn print_request(attempt: &Attempt<'_>, arguments: &Arguments) {
    let client = attempt.client.ip().map_or_else(|| "a Unix socket".to_owned(), |ip| ip.to_string());
    let why = if arguments.from.is_some() {
        "as told".into()
    } else {
        format!("connected from {}", arguments.peer)
    };
    println!("client    {client}, {why}");
    println!("host      {}", attempt.host);
    // An encoded slash that is kept as a letter is shown as it was sent: two readings that look the same are one here.
    let mut shown: Vec<String> = Vec::new();
    for reading in canonical::readings(attempt.path) {
        let text = canonical::display(&reading);
        if !shown.contains(&text) {
            println!("{} {text}", if shown.is_empty() { "path     " } else { "  or     " });
            shown.push(text);
        }
    }
    if attempt.could_be_a_write() {
        println!("method    {}, which an application could take for a write", attempt.method);
    }
}

fn print_decision(config: Config, attempt: &Attempt<'_>) -> anyhow::Result<()> {
    let addresses: Vec<Vec<String>> =
        config.upstreams.iter().map(|group| group.iter().map(ToString::to_string).collect()).collect();
    // Nothing is kept, so one bucket each is room enough.
    let engine = Engine::new(config.policy, 1, Clock::system(), Events::default())?;
    let rules = engine.rules();
    let (found, standings) = engine.peek(&rules, attempt)?;
    match found.routes.first() {
        None => println!("route     none: forwarded and never counted"),
        Some(&route) => println!("route     {}", rules.policy.routes[route].name),
    }
    for limit in found.exempt {
        println!("limit     {}: does not see this client", rules.policy.limits[limit].name);
    }
    for standing in &standings {
        println!("limit     {}: {}", rules.policy.limits[standing.charge.limit].name, words(standing));
    }
    let refused = standings.iter().any(Standing::refuses);
    let group = rules.policy.upstream_of(attempt).unwrap_or(0);
    match refused {
        true => println!("answer    refused: the attempt costs more than a bucket holds"),
        false => println!("answer    forwarded to {}", addresses[group].join(" or ")),
    }
    Ok(())
}

fn words(standing: &Standing) -> String {
    let (cost, verdict) = (standing.charge.cost, standing.verdict);
    let tokens = if cost == 1 { "1 token".to_owned() } else { format!("{cost} tokens") };
    let burst = standing.charge.spec.burst();
    let observing = if standing.charge.enforce { "" } else { " (only observes)" };
    format!("takes {tokens} of {} in a bucket of {burst} that is new{observing}", verdict.left)
}

fn header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text.split_once(':').ok_or("write 'Name: value'")?;
    let name = name.trim().parse().map_err(|_| format!("`{name}` is not a header name"))?;
    let value = value.trim().parse().map_err(|_| format!("`{value}` is not a header value"))?;
    Ok((name, value))
}
