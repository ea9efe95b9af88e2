//! A route for an application without a preset, from its form and from its answers to sign-ins.
//!
//! Only plain names and paths from the server's answers are written.

use http::header::{LOCATION, SET_COOKIE};

use super::html::{HtmlForm, SignInFields};
use super::site::FetchedPage;
use crate::cli::toml_value::quoted;
use crate::policy::matcher::Pattern;

/// What is written of a route, apart from its pattern.
#[derive(Debug, Clone)]
pub(in crate::cli::init) struct RouteProposal {
    /// Lines of TOML.
    fields: String,
    rules: String,
    pub(in crate::cli::init) names_accounts: bool,
    /// Whether an answer to a right password was seen that no wrong one gets.
    pub(in crate::cli::init) tells_successes: bool,
}

impl RouteProposal {
    /// The pattern and the rest of a route, by a form alone; `None` if its names do not fit into a file.
    pub(super) fn of(
        form: &HtmlForm,
        fields: SignInFields,
        path: &str,
        has_query: bool,
    ) -> Option<(String, Self)> {
        let pattern = format!("POST {path}");
        let _: Pattern = is_plain_path(path).then(|| pattern.parse().ok())??;
        let password = Some(form.name(fields.password)).filter(|name| is_plain_name(name))?;
        let user = fields.user.map(|at| form.name(at)).filter(|name| is_plain_name(name));
        let mut lines = Vec::new();
        // Other forms of the application go to the same path.
        if has_query || path == "/" {
            lines.push(format!("when = {}", quoted(&format!("form:{password}"))));
        }
        lines.extend(user.map(|user| format!("user = {}", quoted(&format!("form:{user}")))));
        lines.push(format!("password = {}", quoted(&format!("form:{password}"))));
        let fields = lines.join("\n");
        let own =
            Self { fields, rules: UNSEEN.to_owned(), names_accounts: user.is_some(), tells_successes: false };
        Some((pattern, own))
    }

    /// The lines below the pattern.
    pub(in crate::cli::init) fn lines(&self) -> String {
        format!("{}\n{}\notherwise = \"failure\"", self.fields, self.rules)
    }

    /// The same with rules that may tell both answers apart, the surest first; none if the second answer may be that to a
    /// mistyped password. The caller tries them.
    pub(super) fn with_rules(&self, wrong: &FetchedPage, right: &FetchedPage) -> Vec<Self> {
        let leads_on = right.status.is_success() || right.status.is_redirection();
        let differs = right.status != wrong.status || path_of_location(right) != path_of_location(wrong);
        if !leads_on || !differs || wrong.tells_nothing() {
            return Vec::new();
        }
        let failure = match plain_location(wrong).filter(|_| wrong.status.is_redirection()) {
            Some(path) if path.len() > 1 => {
                format!("failure = [{{ location = {} }}, {{ status = 500 }}]", quoted(&format!("*{path}*")))
            }
            _ => "failure = { status = 500 }".to_owned(),
        };
        let status = right.status.as_u16();
        let cookies = new_cookies(wrong, right).into_iter();
        let mut conditions: Vec<_> = cookies.map(|name| format!("set_cookie = {}", quoted(&name))).collect();
        let location = plain_location(right).filter(|path| Some(path) != plain_location(wrong).as_ref());
        // Every path begins with a slash.
        let below = |path: String| if path == "/" { path } else { format!("{path}*") };
        conditions.extend(location.map(|path| format!("location = {}", quoted(&below(path)))));
        let mut rules: Vec<String> =
            conditions.iter().map(|condition| format!("{{ status = {status}, {condition} }}")).collect();
        if right.status != wrong.status {
            rules.push(format!("{{ status = {status} }}"));
        }
        let both = [failure.as_str(), "failure = { status = 500 }"];
        let all = both.into_iter().flat_map(|failure| rules.iter().map(move |rule| (failure, rule)));
        all.map(|(failure, rule)| Self {
            rules: format!("{SEEN}\n{failure}\nsuccess = {rule}"),
            tells_successes: true,
            ..self.clone()
        })
        .collect()
    }
}

/// Cookies of a right sign-in that a wrong one does not set.
fn new_cookies(wrong: &FetchedPage, right: &FetchedPage) -> Vec<String> {
    let lines = right.headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok());
    let names = lines.filter_map(|line| {
        let (name, rest) = line.split_once('=')?;
        let value = rest.split(';').next().unwrap_or_default().trim();
        (!value.is_empty() && value != "deleted").then(|| name.trim().to_owned())
    });
    let is_new = |name: &String| is_plain_name(name) && !wrong.cookies().any(|known| known == *name);
    let mut new: Vec<String> = names.filter(is_new).collect();
    // A token against forged forms is no session.
    new.sort_by_key(|name| {
        let name = name.to_ascii_lowercase();
        name.contains("csrf") || name.contains("xsrf")
    });
    new.truncate(MAX_NEW_COOKIES);
    new
}

/// The path that an answer leads to, without its query.
fn plain_location(page: &FetchedPage) -> Option<String> {
    path_of_location(page).filter(|path| is_plain_path(path)).map(str::to_owned)
}

fn path_of_location(page: &FetchedPage) -> Option<&str> {
    page.headers.get(LOCATION)?.to_str().ok()?.split(['?', '#']).next()
}

/// Whether a name means nothing but itself in a file: `${` would be a reference.
fn is_plain_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:[]$".contains(&byte);
    (1..=MAX_NAME).contains(&name.len())
        && name.bytes().all(is_plain)
        && name.bytes().any(|byte| byte.is_ascii_alphanumeric())
}

fn is_plain_path(path: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-_.~+@:".contains(&byte);
    path.starts_with('/') && path.len() <= MAX_PATH && path.bytes().all(is_plain)
}

const SEEN: &str =
    "# As one wrong and one right sign-in were answered. Look at other answers, too: codes, locked accounts.";
const UNSEEN: &str = "\
# No answer to a right password is known, so none is taken for a success, and every attempt costs a token.
# `tollgate init --detect` with --user proposes a rule from one.
failure = { status = 500 }";
/// Bytes.
const MAX_NAME: usize = 64;
const MAX_PATH: usize = 200;
const MAX_NEW_COOKIES: usize = 4;
