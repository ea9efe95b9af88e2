//! What publishers of networks answer: JSON in a form that each chose, or one network a line.
//!
//! A wrong entry makes the whole answer wrong. A page of HTML is a list with a wrong first line.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use ipnet::IpNet;
use serde_json::Value;

use crate::config::proxies::{NetworkList, Publication};

/// The networks of an answer; never none.
pub(super) fn networks(publication: &Publication, text: &str) -> anyhow::Result<BTreeSet<IpNet>> {
    if !text.trim_start().starts_with(['{', '[']) {
        return Ok(NetworkList::networks_of(text)?);
    }
    let json: Value = serde_json::from_str(text).context("it is not JSON")?;
    let mut found = BTreeSet::new();
    for array in arrays(publication, &json)? {
        let items =
            array.as_array().filter(|items| !items.is_empty()).context("a list of networks is empty")?;
        for item in items {
            let text = item.as_str().with_context(|| format!("{item} is not a network"))?;
            found.insert(NetworkList::network_of(text)?);
        }
    }
    Ok(found)
}

/// The arrays of networks in an answer. All that the publisher names must be there.
fn arrays<'j>(publication: &Publication, json: &'j Value) -> anyhow::Result<Vec<&'j Value>> {
    if json.get("success").is_some_and(|success| *success != Value::Bool(true)) {
        bail!("the publisher answers that it failed");
    }
    match publication {
        Publication::Json { arrays, .. } => arrays
            .iter()
            .map(|pointer| json.pointer(pointer).with_context(|| format!("it has no {pointer}")))
            .collect(),
        Publication::ServiceTags { tag, .. } => {
            let values = json["values"].as_array().context("it has no /values")?;
            let mut named = values.iter().filter(|value| value["name"] == *tag);
            let value = named.next().with_context(|| format!("it has no tag {tag}"))?;
            ensure!(named.next().is_none(), "it has the tag {tag} twice");
            Ok(vec![&value["properties"]["addressPrefixes"]])
        }
        Publication::Lines(_) | Publication::Page(_) => Ok(vec![json]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::proxies::ProxyService;

    fn of(name: &str, text: &str) -> Result<Vec<String>, String> {
        let publication = &ProxyService::named(name).unwrap().publication;
        let found = networks(publication, text).map_err(|error| format!("{error:#}"))?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn answers_of_each_form_are_read() {
        let cloudflare = r#"{"result":{"ipv4_cidrs":["173.245.48.0/20"],"ipv6_cidrs":["2400:cb00::/32"],"etag":"38f"},
            "success":true,"errors":[],"messages":[]}"#;
        assert_eq!(of("cloudflare", cloudflare).unwrap(), ["173.245.48.0/20", "2400:cb00::/32"]);
        let fastly = r#"{"addresses":["23.235.32.0/20"],"ipv6_addresses":["2a04:4e40::/32"]}"#;
        assert_eq!(of("fastly", fastly).unwrap(), ["23.235.32.0/20", "2a04:4e40::/32"]);
        let azure = "{\r\n  \"changeNumber\": 421,\r\n  \"cloud\": \"Public\",\r\n  \"values\": [\r\n\
            {\"name\": \"AzureFrontDoor.Frontend\", \"properties\": {\"addressPrefixes\": [\"8.8.8.0/24\"]}},\r\n\
            {\"name\": \"AzureFrontDoor.Backend\", \"id\": \"AzureFrontDoor.Backend\", \"properties\":\r\n\
            {\"changeNumber\": 24, \"addressPrefixes\": [\"4.153.250.0/29\", \"2603:1000:4::600/123\"]}}]}";
        assert_eq!(of("azure-front-door", azure).unwrap(), ["4.153.250.0/29", "2603:1000:4::600/123"]);
        for bunny in ["89.187.188.227\r\n2400:52e0::1", r#"["89.187.188.227","2400:52e0::1"]"#] {
            assert_eq!(of("bunny", bunny).unwrap(), ["89.187.188.227/32", "2400:52e0::1/128"]);
        }
        assert_eq!(of("google", "35.191.0.0/16\n").unwrap(), ["35.191.0.0/16"]);
    }

    #[test]
    fn other_answers_are_refused_with_what_is_wrong() {
        for (name, text, why) in [
            ("cloudflare", r#"{"result":null,"success":false,"errors":[{"code":1}]}"#, "that it failed"),
            (
                "cloudflare",
                r#"{"result":{"ipv4_cidrs":["173.245.48.0/20"]},"success":true}"#,
                "no /result/ipv6",
            ),
            ("fastly", r#"{"addresses":["23.235.32.0/20"],"ipv6_addresses":[]}"#, "is empty"),
            ("fastly", r#"{"addresses":["23.235.32.0/20"]}"#, "no /ipv6_addresses"),
            (
                "fastly",
                r#"{"addresses":["23.235.32.0/20","10.0.0.0/8"],"ipv6_addresses":["::/0"]}"#,
                "not public",
            ),
            ("fastly", r#"{"addresses":["23.235.32.0/20",7],"ipv6_addresses":["::/0"]}"#, "7 is not"),
            ("fastly", r#"{"addresses":["23.235.32.0/20","#, "not JSON"),
            ("azure-front-door", r#"{"values":[{"name":"AzureFrontDoor.Frontend"}]}"#, "no tag"),
            ("azure-front-door", r#"{"values":[{"name":"AzureFrontDoor.Backend"}]}"#, "is empty"),
            ("bunny", "[]", "is empty"),
            ("bunny", r#"{"a":1}"#, "is empty"),
            ("bunny", "", "no network"),
            ("bunny", "<!DOCTYPE html><html>", "line 1: `<!DOCTYPE html>"),
        ] {
            let said = of(name, text).unwrap_err();
            assert!(said.contains(why), "{name}, {text}: {said}");
        }
    }
}
