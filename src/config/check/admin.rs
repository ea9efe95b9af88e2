//! `[admin]`: where operators connect, and the token that callers over TCP need.
//!
//! With a token a listener lets its callers do everything, so the token must not travel unencrypted to another machine.
//! Without one only health and metrics are shown, and any address may be named.

use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::list::distinct;
use tollgate_grammar::{Findings, Syntax as _};

use super::super::OperatorSettings;
use super::super::raw;
use super::super::values::ListenUrl;
use super::context::CheckContext;
use super::files::Files;
use super::secret::resolve;
use crate::net::listener::ListenAddress;
use crate::observe::admin::AdminToken;

/// `admin.listen`.
pub(super) fn listen(cx: &CheckContext<'_>, f: &mut Findings) -> Vec<ListenAddress> {
    let raw = &cx.raw.admin;
    let has_token = raw.token.as_ref().is_some_and(|token| !token.value.0.is_empty());
    let mut addresses = Vec::new();
    for item in distinct(raw.listen.as_deref(), f) {
        let Some(ListenUrl(address)) = ListenUrl::read(item, f) else { continue };
        let is_far = matches!(&address, ListenAddress::Tcp(tcp) if !tcp.ip().to_canonical().is_loopback());
        if is_far && has_token {
            f.error(
                &item.spot,
                format!("`{}` would carry `admin.token` unencrypted to other machines", item.value),
                "https://, an address of this machine such as http://127.0.0.1:9180, or no token",
            );
        }
        if cx.listen.contains(&address) {
            f.error(&item.spot, format!("`{}` is an address of `listen` as well", item.value), "");
        }
        addresses.push(address);
    }
    let is_tcp = |address: &ListenAddress| !matches!(address, ListenAddress::Unix(_));
    if let Some(token) = raw.token.as_ref().filter(|_| has_token && !addresses.iter().any(is_tcp)) {
        let hint = "callers on Unix sockets need none";
        f.warning(&token.spot, "no listener asks for this token", hint);
    }
    addresses
}

/// Where operators connect, as [`listen`] found it, and who they are.
pub(super) fn operators(cx: &mut CheckContext<'_>, f: &mut Findings) -> OperatorSettings {
    let raw = &cx.raw.admin;
    OperatorSettings {
        admin: std::mem::take(&mut cx.admin),
        admin_token: token_text(raw, &mut cx.files, f).map(|text| AdminToken::new(&text)),
        exempts_operators: raw.exempt.checked(f).unwrap_or(true),
    }
}

/// The text of `admin.token`.
pub(in crate::config) fn token_text(
    raw: &raw::RawAdmin,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<String> {
    let secret = raw.token.as_ref().filter(|token| !token.value.0.is_empty())?;
    let (text, origin) = resolve(secret, files, f)?;
    let text = text.trim_end();
    if text.len() < MIN_TOKEN_LEN {
        f.error(&secret.spot, format!("{origin} is too short for a token"), MAKE_ONE);
        return None;
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        let hint = "letters, digits and signs of ASCII, in one line";
        f.error(&secret.spot, format!("{origin} cannot be sent in a header"), hint);
        return None;
    }
    Some(text.to_owned())
}

const MIN_TOKEN_LEN: usize = 16;
const MAKE_ONE: &str = "at least 16 characters; `openssl rand -base64 32` makes a good one";
