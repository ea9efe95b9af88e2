//! `tollgate explain`: what would happen to a request, step by step, decided by the gate's own functions.
//!
//! Without `--live` it asks no gate: every bucket is new, as for a client that the gate has never seen.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, anyhow};
use clap::Args;
use clap::error::ErrorKind;
use http::{HeaderName, HeaderValue, Method, Uri};
use serde_json::Value;

use super::admin_api::{AdminArgs, ApiRequest};
use super::sources::{ConfigArgs, load_with_addresses};
use super::{Exit, usage_error};
use crate::app::explain::Explanation;
use crate::observe::admin::pages::{ExplainPage, ExplainPart, ExplainedRequest};
use crate::observe::admin::{DEFAULT_PEER, ExplainRequest};

#[derive(Debug, Args)]
#[command(allow_missing_positional = true)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    admin: AdminArgs,
    /// Ask a running gate, with the buckets as they are now; takes nothing
    #[arg(long)]
    live: bool,
    /// The client's address, whatever the headers say
    #[arg(long, value_name = "IP")]
    from: Option<IpAddr>,
    /// The address that connects
    #[arg(long, value_name = "IP", default_value_t = DEFAULT_PEER)]
    peer: IpAddr,
    /// A header line; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// The body, for routes that count the attempts in it
    #[arg(long, value_name = "BODY")]
    data: Option<String>,
    /// The method [default: POST]
    method: Option<String>,
    /// The address asked for, or only its path; 'POST /login' as one word names the method, too
    url: String,
}

pub(super) fn explain(arguments: &ExplainArgs) -> anyhow::Result<Exit> {
    let request = arguments.request();
    if arguments.live {
        return explain_live(arguments, &request);
    }
    let Some(config) = load_with_addresses(arguments.admin.sources()?).1 else {
        return Ok(Exit::BadConfiguration);
    };
    let explanation = Explanation::of_config(config, &request)?;
    arguments.admin.print(&serde_json::to_value(explanation.page())?, |_: &ExplainPage| explanation.to_text())
}

fn explain_live(arguments: &ExplainArgs, asked: &ExplainRequest) -> anyhow::Result<Exit> {
    let request = ApiRequest { method: "POST", path: "/api/v1/explain".into(), body: Some(body(asked)?) };
    let Some(response) = arguments.admin.call(request)? else { return Ok(Exit::BadConfiguration) };
    arguments.admin.print(&response.success()?, |page: &ExplainPage| {
        let line = |ExplainPart { step, says }: &ExplainPart| {
            let indent = if matches!(step.as_str(), "as" | "or") { "  " } else { "" };
            format!("{:<9} {says}\n", format!("{indent}{step}"))
        };
        page.steps.iter().map(line).collect()
    })
}

impl ExplainArgs {
    pub(super) fn config_mut(&mut self) -> &mut ConfigArgs {
        self.admin.config_mut()
    }

    /// The method and the address; other words are a usage error.
    fn target(&self) -> (Method, Uri) {
        let (method, url) = match (&self.method, self.url.as_str()) {
            (Some(method), path) if !path.contains('/') => wrong_target(
                path,
                &format!("is not an address: write a path, as in {} /{path}", method.to_uppercase()),
            ),
            (Some(method), url) => (method.as_str(), url),
            (None, url) if url.contains('/') => url.split_once(' ').unwrap_or(("POST", url)),
            (None, word) => wrong_target(word, "is not an address: write a path, as in POST /login"),
        };
        let method = method.parse().unwrap_or_else(|_| wrong_target(method, "is not a method of HTTP"));
        (method, url.parse().unwrap_or_else(|_| wrong_target(url, "is neither an address nor a path")))
    }

    fn request(&self) -> ExplainRequest {
        let (method, url) = self.target();
        ExplainRequest {
            method,
            url,
            from: self.from,
            peer: self.peer,
            headers: self.headers.clone(),
            data: self.data.clone(),
        }
    }
}

/// The request for a running gate, which takes each header once.
fn body(request: &ExplainRequest) -> anyhow::Result<Value> {
    let mut headers = BTreeMap::new();
    for (name, value) in &request.headers {
        if headers.insert(name.to_string(), value.to_str()?.to_owned()).is_some() {
            anyhow::bail!("`{name}` is there twice: --live takes each header once");
        }
    }
    Ok(serde_json::to_value(ExplainedRequest {
        method: request.method.to_string(),
        url: request.url.to_string(),
        from: request.from.map(|from| from.to_string()).into(),
        peer: Some(request.peer.to_string()).into(),
        headers: Some(headers).into(),
        data: request.data.clone().into(),
    })?)
}

fn wrong_target(word: &str, what: &str) -> ! {
    usage_error(ErrorKind::ValueValidation, format!("`{word}` {what}"))
}

fn header(text: &str) -> anyhow::Result<(HeaderName, HeaderValue)> {
    let (name, value) = text.split_once(':').context("write 'Name: value'")?;
    let name = name.trim().parse().map_err(|_| anyhow!("`{name}` is not a header name"))?;
    let value = value.trim().parse().map_err(|_| anyhow!("`{value}` is not a header value"))?;
    Ok((name, value))
}
