//! Fetches lists of networks by HTTPS, within bounds of time and size.
//!
//! A redirection must stay at its host: another one may publish anything. Plain HTTP is only for this machine.

use std::net::IpAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::uri::{PathAndQuery, Scheme};
use http::{Request, Response, StatusCode, Uri, header};
use http_body_util::Empty;
use tokio::time::timeout;
use tollgate_base::http_client::exchange;
use tollgate_base::tls::{self, Trust};

use crate::config::proxies::Publication;

/// The answers of a publisher, or those at these addresses if there are any, with their addresses.
pub(super) fn answers(publication: &Publication, urls: &[Uri]) -> anyhow::Result<Vec<(Uri, String)>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let urls = match (urls.is_empty(), publication) {
            (false, _) => urls.to_vec(),
            (true, Publication::Json { url, .. }) => vec![url.parse()?],
            (true, Publication::Lines(urls)) => {
                urls.iter().map(|url| url.parse()).collect::<Result<_, _>>()?
            }
            (true, Publication::ServiceTags { page, .. }) => {
                vec![newest_tags(&text_at(page.parse()?).await?).context(*page)?]
            }
            (true, Publication::Page(page)) => bail!("{page} is for people only"),
        };
        let mut answers = Vec::new();
        for url in urls {
            let text = text_at(url.clone()).await.with_context(|| url.to_string())?;
            answers.push((url, text));
        }
        Ok(answers)
    })
}

/// An address from the command line.
pub(super) fn address(text: &str) -> anyhow::Result<Uri> {
    let address: Uri = text.parse()?;
    let host = address.host().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
    match address.scheme_str() {
        Some("https") => Ok(address),
        Some("http") if is_here => Ok(address),
        _ => bail!("write https://HOST/PATH, or http:// for this machine alone"),
    }
}

/// The text behind an address and its redirections.
async fn text_at(mut address: Uri) -> anyhow::Result<String> {
    let trust = match address.scheme() == Some(&Scheme::HTTPS) {
        true => Some(Trust::new(tls::system()?)?.for_http1()),
        false => None,
    };
    for _ in 0..=MAX_REDIRECTS {
        let request = Request::get(&address)
            .header(header::ACCEPT, "application/json, text/plain, */*;q=0.1")
            .header(header::USER_AGENT, concat!("tollgate/", env!("CARGO_PKG_VERSION")))
            .body(Empty::<Bytes>::new())?;
        let exchanged = timeout(TIMEOUT, exchange(request, trust.as_ref(), MAX_ANSWER)).await;
        // The text of an error has its cause already.
        let answer =
            exchanged.context("no answer within 30 s")?.map_err(|error| anyhow::anyhow!("{error}"))?;
        if answer.status().is_redirection() {
            address = redirected(&address, &answer)?;
            continue;
        }
        ensure!(answer.status() == StatusCode::OK, "the answer is {}", answer.status());
        return String::from_utf8(answer.into_body().into()).context("the answer is not UTF-8");
    }
    bail!("it is redirected more than {MAX_REDIRECTS} times")
}

/// Where a redirection leads.
fn redirected(from: &Uri, answer: &Response<Bytes>) -> anyhow::Result<Uri> {
    let location =
        answer.headers().get(header::LOCATION).context("a redirection without Location")?.to_str()?;
    let to: Uri = location.parse().with_context(|| format!("redirected to {location}"))?;
    let is_path = location.starts_with('/') && !location.starts_with("//");
    let mut parts = from.clone().into_parts();
    if to.authority().is_some() {
        let origin = |uri: &Uri| (uri.scheme().cloned(), uri.authority().cloned());
        ensure!(origin(&to) == origin(from), "it is redirected to another host: {location}");
    }
    ensure!(location.contains("://") || is_path, "it is redirected to `{location}`");
    parts.path_and_query = to.path_and_query().cloned().or(Some(PathAndQuery::from_static("/")));
    Ok(Uri::from_parts(parts)?)
}

/// The newest file of Azure's tags that a page links, `https://download.microsoft.com/…/ServiceTags_Public_20261005.json`.
fn newest_tags(page: &str) -> anyhow::Result<Uri> {
    let links = page.split(['"', '\'']).filter(|text| {
        let lower = text.to_ascii_lowercase();
        let name = lower.strip_prefix(TAGS_HOST).and_then(|path| path.rsplit('/').next());
        let day = name.and_then(|name| name.strip_prefix("servicetags_public_")?.strip_suffix(".json"));
        day.is_some_and(|day| day.len() == 8 && day.bytes().all(|byte| byte.is_ascii_digit()))
    });
    let newest = links.max_by_key(|link| link.rsplit('/').next().map(str::to_ascii_lowercase));
    Ok(newest.context("the page links no ServiceTags_Public_….json")?.parse()?)
}

/// Bytes; Azure's file has 4.3 MB.
pub(super) const MAX_ANSWER: usize = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(30);
const MAX_REDIRECTS: usize = 3;
const TAGS_HOST: &str = "https://download.microsoft.com/";

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(from: &str, location: &str) -> Result<String, String> {
        let answer = Response::builder().header("location", location).body(Bytes::new()).unwrap();
        let to = redirected(&from.parse().unwrap(), &answer);
        to.map(|to| to.to_string()).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_redirection_stays_at_its_host() {
        let from = "https://proxy.test/ips-v4?x=1";
        for (location, to) in [
            ("/ips-v4/", "https://proxy.test/ips-v4/"),
            ("https://proxy.test/ips-v4/", "https://proxy.test/ips-v4/"),
            ("https://PROXY.test/a?b", "https://proxy.test/a?b"),
        ] {
            assert_eq!(redirect(from, location).as_deref(), Ok(to), "{location}");
        }
        for location in [
            "https://other.test/ips-v4",
            "http://proxy.test/ips-v4",
            "https://proxy.test:8443/ips-v4",
            "https://proxy.test@other.test/",
            "//other.test/ips-v4",
            "ips-v4/",
            "",
        ] {
            assert!(redirect(from, location).is_err(), "{location}: {:?}", redirect(from, location));
        }
    }

    #[test]
    fn the_newest_file_of_tags_is_found_in_its_page() {
        let page =
            |links: &str| format!("<html><script src=\"https://other.test/a.js\"></script>{links}</html>");
        let link =
            |host: &str, name: &str| format!("<a href=\"https://{host}/7/1/D/71D/{name}\">download</a>");
        let of = |day: &str| link("download.microsoft.com", &format!("ServiceTags_Public_{day}.json"));
        let found = newest_tags(&page(&(of("20261005") + &of("20260928"))));
        let name = "https://download.microsoft.com/7/1/D/71D/ServiceTags_Public_20261005.json";
        assert_eq!(found.unwrap().to_string(), name);
        for links in [
            link("download.microsoft.com.other.test", "ServiceTags_Public_20261005.json"),
            link("download.microsoft.com", "ServiceTags_China_20261005.json"),
            of("2026100"),
            String::new(),
        ] {
            assert!(newest_tags(&page(&links)).is_err(), "{links}");
        }
    }

    #[test]
    fn addresses_are_of_https_or_of_this_machine() {
        for text in
            ["https://mirror.test/list", "http://127.0.0.1:8080/", "http://[::1]/", "http://localhost/"]
        {
            assert!(address(text).is_ok(), "{text}");
        }
        for text in ["http://mirror.test/list", "ftp://127.0.0.1/", "/list", "mirror.test", ""] {
            assert!(address(text).is_err(), "{text}");
        }
    }
}
