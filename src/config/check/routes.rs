//! `[route.NAME]`: what is protected.
//!
//! The limits of a route are left to [`bindings`](super::bindings), once limits are known too.

use std::collections::HashMap;

use tollgate_grammar::diagnostic::grouped;
use tollgate_grammar::kind::{Checked as _, Text};
use tollgate_grammar::list::{List, distinct};
use tollgate_grammar::{Findings, Located, RawNamed, Syntax as _, name as names};

use super::super::preset::Applications;
use super::super::raw;
use super::super::rules;
use super::super::values::{FieldValue, UpstreamHostValue};
use super::addresses::upstream_group;
use super::context::CheckContext;
use super::files::Files;
use super::groups::{GroupTable, OwnForwarding};
use super::{cors, health, hosts, methods};
use crate::defences;
use crate::policy::canonical::Case;
use crate::policy::field::Field;
use crate::policy::matcher::{HostPattern, Pattern, PatternError};
use crate::policy::{Cost, DEFAULT_BODY_BYTES, Route, RouteMatch, RouteReading};

/// The routes without their limits, in the order of the file; `None` for one that cannot be built.
pub(super) fn check(
    cx: &mut CheckContext<'_>,
    applications: &Applications,
    f: &mut Findings,
) -> Vec<Option<Route>> {
    let raw = &cx.raw.routes;
    let (groups, files) = (&mut cx.groups, &mut cx.files);
    let routes = raw.iter().map(|named| check_route(named, applications, groups, files, f));
    let mut routes: Vec<_> = routes.collect();
    hosts::take_others(raw, &mut routes);
    warn_of_shadows(raw, &routes, f);
    routes
}

fn check_route(
    RawNamed { name, value: raw }: &RawNamed<raw::RawRoute>,
    applications: &Applications,
    groups: &mut GroupTable,
    files: &mut Files<'_>,
    f: &mut Findings,
) -> Option<Route> {
    names::check(name, f);
    let patterns = patterns(name, raw, f);
    let cost = raw.cost.checked(f).unwrap_or(Cost::Fixed(1));
    let [when, user, password] = check_fields(raw, f);
    let reads_body = matches!(cost, Cost::Counted(_))
        || [&when, &user, &password].into_iter().flatten().any(Field::is_in_body);
    Some(Route {
        application: applications.get(&name.value).unwrap_or(&name.value).as_str().into(),
        matching: RouteMatch {
            patterns,
            when,
            hosts: hosts::check(raw, files, f),
            other_than: None,
            case: raw.case.checked(f).unwrap_or_default(),
        },
        reading: RouteReading {
            user,
            user_length: raw.user_length.checked(f).unwrap_or(usize::MAX),
            password,
            cost,
            body: check_body(raw, reads_body, f),
        },
        step: defences::step(&raw.step, f),
        upstream: upstream(raw, groups, f),
        rules: rules::check(&raw.rules, f),
        cors: cors::check(raw.cors.as_deref(), f),
        on_error: raw.on_error.checked(f),
        ..Route::new(&name.value, Vec::new())
    })
}

fn patterns(name: &Located<String>, raw: &raw::RawRoute, f: &mut Findings) -> Vec<Pattern> {
    let hint = "match = \"POST /login\"";
    match &raw.patterns {
        None if raw.preset.is_some() => {}
        None => f.error(&name.spot, format!("route `{}` has no `match`", name.value), hint),
        Some(list) if list.is_empty => f.error(&list.spot, "`match` is empty", hint),
        Some(_) => {}
    }
    let mut patterns: Vec<Pattern> = Vec::new();
    for text in raw.patterns.as_ref().map_or(&[][..], |list| &list.value) {
        match Pattern::parse(&text.value) {
            Ok(pattern) if patterns.contains(&pattern) => {
                f.error(&text.spot, format!("`{}` is listed twice", text.value), "");
            }
            Ok(pattern) => patterns.push(pattern),
            Err(errors) => {
                errors.iter().for_each(|error| f.error(&text.spot, error.to_string(), pattern_hint(error)));
            }
        }
        methods::warn(text, f);
    }
    patterns
}

fn pattern_hint(error: &PatternError) -> String {
    match error {
        PatternError::TwoWords => "write the method, a blank and the path".into(),
        PatternError::Method(word) if *word == word.to_uppercase() => {
            "as in POST, or ANY for every one".into()
        }
        PatternError::Method(word) => format!("write it in capitals: {}", word.to_uppercase()),
        PatternError::Path(url) if url.contains("://") => "write the path here and the host in `host`".into(),
        PatternError::Path(path) => format!("write /{path}"),
        PatternError::Glob(_) => "leave the letters out, or write one pattern for each path".into(),
        PatternError::NeverMatches(_) => "write the path as the application sees it".into(),
        PatternError::Options => "write POST".into(),
        PatternError::Descriptor => "as in \"rls:edge\"".into(),
        PatternError::Protocol => "as in \"policy:imap\"".into(),
    }
}

/// `when`, `user` and `password`.
fn check_fields(raw: &raw::RawRoute, f: &mut Findings) -> [Vec<Field>; 3] {
    let mut fields = |name: &str, list: Option<&FieldList>| {
        if let Some(list) = list.filter(|list| list.is_empty) {
            f.error(&list.spot, format!("`{name}` is empty"), "leave it out to mean none");
        }
        distinct(list.map(|list| &**list), f)
            .into_iter()
            .filter_map(|text| {
                let FieldValue(field) = FieldValue::read(text, f)?;
                if name == "password" && matches!(field, Field::Ntlm | Field::Negotiate) {
                    f.error(&text.spot, format!("`{}` holds no password", text.value), "leave it out here");
                }
                Some(field)
            })
            .collect()
    };
    [
        fields("when", raw.when.as_ref()),
        fields("user", raw.user.as_ref()),
        fields("password", raw.password.as_ref()),
    ]
}

/// How many bytes of a body are read for fields and counts.
fn check_body(raw: &raw::RawRoute, reads_body: bool, f: &mut Findings) -> usize {
    let Some(text) = &raw.body else { return DEFAULT_BODY_BYTES };
    if !reads_body {
        f.warning(
            &text.spot,
            "nothing here reads a body",
            "add user = \"form:NAME\" or cost = \"count:methodName\", or leave it out",
        );
    }
    text.checked(f).unwrap_or(DEFAULT_BODY_BYTES)
}

/// The index of a group, which routes with the same upstreams share.
fn upstream(raw: &raw::RawRoute, groups: &mut GroupTable, f: &mut Findings) -> Option<usize> {
    let host = raw.upstream_host.checked(f).map(|UpstreamHostValue(host)| host);
    let own = OwnForwarding {
        reply_timeout: raw.reply_timeout.checked(f),
        streams: raw.buffer.checked(f).unwrap_or_default(),
    };
    let mut group = match &raw.upstream {
        Some(list) if list.is_empty => {
            f.error(&list.spot, "`upstream` is empty", "leave it out to mean the top-level one");
            return None;
        }
        Some(list) => upstream_group(Some(&**list), &mut groups.services, f),
        None if host.is_some() || own != OwnForwarding::default() => groups.first()?,
        None => {
            health::of_route(raw, &[], groups, f);
            return None;
        }
    };
    group.targets.iter_mut().for_each(|target| target.host.clone_from(&host));
    health::of_route(raw, &group.targets, groups, f);
    Some(groups.number_of(group, own))
}

/// Warns of a pattern that an earlier route has as well, for the same hosts: the later one is never reached. A route
/// with a `when` hides none.
fn warn_of_shadows(raw: &[RawNamed<raw::RawRoute>], routes: &[Option<Route>], f: &mut Findings) {
    let mut earlier = Covered::new();
    for (index, later) in routes.iter().enumerate() {
        let Some(later) = later else { continue };
        let RouteMatch { hosts, case, patterns, .. } = &later.matching;
        let texts = raw[index].value.patterns.as_ref().map_or(&[][..], |list| &list.value);
        for text in texts {
            let Some(pattern) = text.value.parse().ok().and_then(|pattern| find(patterns, &pattern)) else {
                continue;
            };
            let any_host = [&[][..], hosts].into_iter().filter_map(|hosts| earlier.get(&(pattern, hosts)));
            let covering = any_host.flatten().filter(|(of_earlier, _)| covers(*of_earlier, *case));
            if let Some(index) = covering.map(|(_, index)| *index).min() {
                let name = routes[index].as_ref().map_or("", |route| &route.name);
                let message = format!("`{}` is never reached here", text.value);
                f.warning(&text.spot, message, format!("route `{name}` above has it already"));
            }
        }
        for pattern in patterns.iter().filter(|_| !later.is_conditional()) {
            let known = earlier.entry((pattern, hosts)).or_default();
            if !known.iter().any(|(known, _)| known == case) {
                known.push((*case, index));
            }
        }
    }
}

/// For each pattern and its hosts the first route that has them, of each case.
type Covered<'r> = HashMap<(&'r Pattern, &'r [HostPattern]), Vec<(Case, usize)>>;

/// The same pattern in a list, as one that lives as long.
fn find<'r>(patterns: &'r [Pattern], wanted: &Pattern) -> Option<&'r Pattern> {
    patterns.iter().find(|pattern| *pattern == wanted)
}

/// Whether a route that distinguishes case so counts what one that does otherwise would.
fn covers(one: Case, other: Case) -> bool {
    one == Case::Insensitive || one == other
}

/// What an attempt costs, for messages.
pub(super) fn tokens(count: u32) -> String {
    let number = grouped(count.into());
    if count == 1 { format!("{number} token") } else { format!("{number} tokens") }
}

type FieldList = List<Text<FieldValue>>;
