//! `[kernel]`: what the kernel does in the gate's place.

use tollgate_grammar::Findings;
use tollgate_grammar::kind::Checked as _;

use super::context::CheckContext;

/// The table in which the kernel drops clients; `None` if it does not.
pub(super) fn check(cx: &CheckContext<'_>, f: &mut Findings) -> Option<String> {
    let raw = &cx.raw.kernel;
    let is_on = raw.nftables.checked(f).unwrap_or(false);
    if let Some(table) = &raw.table {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        let begins = table.value.starts_with(|first: char| first.is_ascii_alphabetic());
        if !begins || table.value.len() > MAX_NAME || !table.value.bytes().all(is_name) {
            let hint = "a letter, then letters, digits, - and _, 32 in all";
            f.error(&table.spot, format!("`{}` is no name for a table", table.value), hint);
        } else if !is_on && table.value != DEFAULT {
            f.error(&table.spot, "`table` does nothing here", "it goes with nftables = \"on\"");
        }
    }
    let spot = raw.nftables.as_ref().filter(|_| is_on).map(|on| &on.spot)?;
    if cx.listen.is_empty() {
        f.warning(spot, "the kernel drops nobody here: no client connects to this gate", "leave it out");
    } else if cx.raw.proxy.proxy_protocol.as_ref().is_some_and(|version| version.value != "off") {
        let hint = "leave it out: the kernel sees the proxies' addresses, not those of the clients";
        f.warning(spot, "the kernel drops nobody here: with `proxy_protocol` only proxies connect", hint);
    } else if !cx.client.trust.is_empty() || cx.client.trust_unix {
        let hint = "leave it out, unless other clients connect directly";
        f.warning(spot, "clients behind the proxies of `client.trust` are not dropped", hint);
    }
    Some(raw.table.as_ref().map_or(DEFAULT, |table| &table.value).to_owned())
}

const DEFAULT: &str = "tollgate";
const MAX_NAME: usize = 32;
