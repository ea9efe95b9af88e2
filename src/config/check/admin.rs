//! `[admin]`: where operators connect, the tokens that callers over TCP need, and the audit log.
//!
//! With a token a listener lets its callers see and change the gate, so a token must not travel unencrypted to another
//! machine. Without one only health and metrics are shown, and any address may be named.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_grammar::diagnostic::suggest;
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::list::distinct;
use tollgate_grammar::table::SecretText;
use tollgate_grammar::{Findings, Located, RawItem, Syntax as _};

use super::super::OperatorSettings;
use super::super::raw;
use super::super::values::ListenUrl;
use super::context::CheckContext;
use super::files::Files;
use super::secret::resolve;
use crate::net::listener::ListenAddress;
use crate::observe::admin::{AdminToken, AdminTokens, NamedToken, OperatorRole};
use crate::policy::{Policy, Site};

/// `admin.listen`.
pub(super) fn listen(cx: &CheckContext<'_>, f: &mut Findings) -> Vec<ListenAddress> {
    let raw = &cx.raw.admin;
    let single = raw.token.as_ref().filter(|token| !token.value.0.is_empty());
    let single = single.map(|token| ("token", &token.spot));
    let tokens = single.or(raw.tokens.key.as_ref().map(|spot| ("tokens", spot)));
    let mut addresses = Vec::new();
    for item in distinct(raw.listen.as_deref(), f) {
        let Some(ListenUrl(address)) = ListenUrl::read(item, f) else { continue };
        let is_far = matches!(&address, ListenAddress::Tcp(tcp) if !tcp.ip().to_canonical().is_loopback());
        if is_far && let Some((key, _)) = tokens {
            f.error(
                &item.spot,
                format!("`{}` would carry `admin.{key}` unencrypted to other machines", item.value),
                "https://, an address of this machine such as http://127.0.0.1:9180, or no token",
            );
        }
        if cx.listen.contains(&address) {
            f.error(&item.spot, format!("`{}` is an address of `listen` as well", item.value), "");
        }
        addresses.push(address);
    }
    let is_tcp = |address: &ListenAddress| !matches!(address, ListenAddress::Unix(_));
    if let Some((_, spot)) = tokens.filter(|_| !addresses.iter().any(is_tcp)) {
        f.warning(spot, "no listener asks for this token", "callers on Unix sockets need none");
    }
    addresses
}

/// Where operators connect, as [`listen`] found it, and who they are.
pub(super) fn operators(
    cx: &mut CheckContext<'_>,
    policy: &Policy,
    has_own_policy: bool,
    f: &mut Findings,
) -> OperatorSettings {
    let raw = &cx.raw.admin;
    let mut tokens: Vec<NamedToken> = Vec::new();
    if let Some(token) = token_text(raw, &mut cx.files, f).map(|text| AdminToken::new(&text)) {
        tokens.extend(NamedToken::of_all(token));
    }
    let sites = SiteNames { policy, has_own_policy };
    for item in raw.tokens.value.iter().flatten() {
        let Some(token) = named_token(item, &sites, &mut cx.files, f) else { continue };
        match tokens.iter().find(|other| other.name == token.name || other.is_same_as(&token)) {
            Some(other) if other.name == token.name => {
                f.error(&item.spot, format!("the name `{}` is taken", token.name), OWN_NAME);
            }
            Some(other) => {
                let message = format!("`{}` has the same token as `{}`", token.name, other.name);
                f.error(
                    &item.spot,
                    message,
                    "with a separate token for each, the log shows who made a change",
                );
            }
            None if tokens.len() > MAX_TOKENS => {
                f.error(&item.spot, "too many tokens", format!("at most {MAX_TOKENS}"));
                break;
            }
            None => tokens.push(token),
        }
    }
    OperatorSettings {
        admin: std::mem::take(&mut cx.admin),
        tokens: AdminTokens::new(tokens),
        audit: audit(raw, &cx.files),
        exempts_operators: raw.exempt.checked(f).unwrap_or(true),
    }
}

/// `admin.audit`: a file of the state directory, or none.
fn audit(raw: &raw::RawAdmin, files: &Files<'_>) -> Option<PathBuf> {
    let path = raw.audit.as_ref().filter(|path| !path.value.is_empty())?;
    Some(files.resolve_state(&path.value))
}

/// One of `admin.tokens`.
fn named_token(
    RawItem { value: raw, spot, .. }: &RawItem<raw::RawAdminToken>,
    sites: &SiteNames<'_>,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<NamedToken> {
    let keys = [("name", &raw.name.key), ("role", &raw.role.key), ("token", &raw.token.key)];
    for (key, _) in keys.iter().filter(|(_, place)| place.is_none()) {
        f.error(spot, format!("`{key}` is missing"), EXAMPLE);
    }
    let name = raw.name.value.as_ref().and_then(|name| {
        let parsed = name.value.parse();
        parsed
            .map_err(|error| {
                f.error(&name.spot, format!("`{}` is not a name", name.value), format!("{error}"))
            })
            .ok()
    });
    let role: Option<OperatorRole> = raw.role.value.as_ref().and_then(|role| role.checked(f));
    let sites = match &raw.sites {
        None => None,
        Some(list) if list.is_empty => {
            f.error(&list.spot, "the list is empty", "name a site or a route, or leave `sites` out for all");
            return None;
        }
        Some(list) => Some(sites.checked(list, f)),
    };
    let token = raw.token.value.as_ref().and_then(|token| checked_text(token, files, f));
    Some(NamedToken { name: name?, role: role?, sites, token: AdminToken::new(&token?) })
}

/// What `sites` may name.
struct SiteNames<'p> {
    policy: &'p Policy,
    /// Whether all routes are in the file; the store's policy may change them at any time.
    has_own_policy: bool,
}

impl SiteNames<'_> {
    /// The names of the list; one that is unknown shows nothing.
    fn checked(&self, list: &tollgate_grammar::list::StringList, f: &mut Findings) -> BTreeSet<Arc<str>> {
        let sites = Site::all(self.policy).into_iter().map(|site| site.name);
        let routes = self.policy.routes.iter().map(|route| &*route.name);
        let known: BTreeSet<&str> = sites.chain(routes).collect();
        let names = distinct(Some(list), f);
        for name in names.iter().filter(|name| !known.contains(name.value.as_str())) {
            let message = format!("unknown site or route `{}`", name.value);
            match self.has_own_policy {
                true => f.error(&name.spot, message, suggest(&name.value, known.iter().copied())),
                false => f.warning(&name.spot, message, "callers with this token see nothing of it"),
            }
        }
        names.iter().map(|name| Arc::from(name.value.as_str())).collect()
    }
}

/// The text of `admin.token`.
pub(in crate::config) fn token_text(
    raw: &raw::RawAdmin,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<String> {
    let secret = raw.token.as_ref().filter(|token| !token.value.0.is_empty())?;
    checked_text(secret, files, f)
}

/// The text of a token.
fn checked_text(secret: &Located<SecretText>, files: &mut Files<'_>, f: &mut Findings) -> Option<String> {
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
/// Each request is compared with all of them.
const MAX_TOKENS: usize = 100;
const OWN_NAME: &str = "every token needs another name; that of `admin.token` is `admin`";
const EXAMPLE: &str = "as in { name = \"desk\", role = \"unlock\", token = \"${file:desk.token}\" }";
