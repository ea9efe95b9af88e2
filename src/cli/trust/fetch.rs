//! Where the publishers of networks have them.

use anyhow::{Context, bail, ensure};
use http::Uri;
use tollgate_base::download;
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
    ensure!(download::is_allowed(&address), "write https://HOST/PATH, or http:// for this machine alone");
    Ok(address)
}

/// The text behind an address and its redirections.
async fn text_at(address: Uri) -> anyhow::Result<String> {
    let trust =
        if download::is_https(&address) { Some(Trust::new(tls::system()?)?.for_http1()) } else { None };
    Ok(download::text_at(address, None, trust.as_ref()).await?)
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

const TAGS_HOST: &str = "https://download.microsoft.com/";

#[cfg(test)]
mod tests {
    use super::*;

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
}
