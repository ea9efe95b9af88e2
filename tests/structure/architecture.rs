//! The layers only look down: every arrow between two of them stands in [`ARROWS`], and no other.
//!
//! Tests may reach anywhere, so they are left out, and so are links in documentation. A `super::` that climbs to the
//! root is an arrow as well.

#![allow(clippy::unwrap_used, clippy::unreachable, reason = "these are tests")]

use crate::source;

use std::collections::{BTreeMap, BTreeSet};

use source::{Source, Token, closing};

/// Who may use whom, from the bottom up: the table of ARCHITECTURE.md, with the reason of each exception.
const ARROWS: &[(&str, &str)] = &[
    // Settings of jemalloc, which only the program itself takes.
    ("allocator", ""),
    ("bucket", ""),
    // The clock counts in the spans of buckets.
    ("base", "bucket"),
    // It reads lengths of time.
    ("grammar", "bucket"),
    ("policy", "bucket"),
    ("store", "bucket base"),
    // The clock of `base`, under a name of its own.
    ("time", ""),
    ("net", "base time"),
    ("event", "bucket time policy"),
    // Not `net`: a decision knows no sockets.
    ("engine", "bucket time policy store event"),
    // The modules that a file may turn on; they are called by traits of the policy.
    ("defences", "bucket grammar time policy"),
    // Siblings: neither may use the other. Of defences they take the lists: headers, counters, the form of an offer.
    ("proxy", "bucket time policy store net event engine defences"),
    ("observe", "base bucket time policy store net event engine defences"),
    // It names decisions and times as the logs do, and what a log does not show as the defences do.
    ("replay", "bucket time policy store event engine defences observe"),
    ("config", "grammar bucket time policy store net event engine proxy observe defences"),
    ("app", "allocator base bucket time policy store net event engine proxy observe defences config"),
    ("cli", "base bucket time policy store net event engine proxy observe replay defences config app"),
    // It only calls `cli::main`, and chooses the allocator.
    ("main", "allocator cli"),
    // A crate of its own, which uses the program as a library.
    ("tower", "net proxy config app"),
    // It only names the layers.
    ("lib", "base bucket policy store"),
];

/// Crates that only these layers may use, and with them everything that serves a socket, a file or a terminal.
const CRATES: &[(&str, &str)] = &[
    ("tokio", "base store net proxy observe app cli"),
    ("hyper", "base proxy observe cli"),
    ("hyper_util", "base proxy observe cli"),
    ("http_body", "proxy tower"),
    ("http_body_util", "base store proxy observe cli"),
    ("rustls", "base net"),
    ("rustls_native_certs", "base"),
    ("x509_cert", "net"),
    ("rcgen", "net"),
    ("instant_acme", "app"),
    ("tokio_rustls", "base net"),
    ("redis", "store"),
    ("tokio_postgres", "store"),
    ("mysql_async", "store"),
    ("socket2", "net"),
    ("proxy_header", "net"),
    // The policy asks it for randomness, which is no file, and `top` whether its terminal is still there.
    ("rustix", "policy app observe net cli"),
    ("governor", "net"),
    ("prometheus_client", "observe"),
    ("opentelemetry_proto", "observe"),
    ("prost", "proxy observe"),
    ("tracing", "observe app cli"),
    ("tracing_subscriber", "observe"),
    ("xorf", "defences"),
    ("toml", "grammar config cli"),
    ("annotate_snippets", "grammar"),
    ("landlock", "app"),
    ("seccompiler", "app"),
    ("libc", "app"),
    ("clap", "cli"),
    ("clap_complete", "cli"),
    ("clap_mangen", "cli"),
    ("anyhow", "cli"),
    ("html5gum", "cli"),
    ("indicatif", "cli"),
    ("cardinality_estimator", "replay"),
    ("ratatui", "cli"),
    ("tikv_jemalloc_ctl", "allocator"),
    ("tikv_jemallocator", "allocator"),
    ("signal_hook", "cli"),
];

#[test]
fn every_arrow_is_in_the_table() {
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|&(from, to)| (from, to.split_whitespace().collect())).collect();
    for (arrow, places) in arrows() {
        let (from, to) = &arrow;
        let known = allowed.get(&from[..]).is_some_and(|layers| layers.contains(&to[..]));
        assert!(known, "`{from}` may not use `{to}`: {}", places.join(", "));
    }
}

#[test]
fn the_table_itself_only_looks_down() {
    for (at, (from, targets)) in ARROWS.iter().enumerate() {
        for to in targets.split_whitespace() {
            let below = ARROWS[..at].iter().any(|(layer, _)| *layer == to);
            assert!(below, "`{to}` is not below `{from}`");
        }
    }
    for (from, to) in [("observe", "proxy"), ("proxy", "observe")] {
        let (_, targets) = ARROWS.iter().find(|(layer, _)| *layer == from).unwrap();
        assert!(!targets.contains(to), "`{from}` and `{to}` are siblings");
    }
}

#[test]
fn sockets_files_and_logs_stay_where_they_belong() {
    for source in Source::all() {
        for (name, layers) in CRATES {
            let at = (0..source.tokens.len())
                .find(|&at| source.tokens[at].text == *name && is_root(&source.tokens, at));
            let allowed = layers.split_whitespace().any(|allowed| allowed == layer(source));
            let place = at.map(|at| source.place(at));
            assert!(allowed || place.is_none(), "`{}` may not use `{name}`: {place:?}", layer(source));
        }
    }
}

#[test]
fn no_modules_of_one_parent_use_each_other_in_a_circle() {
    let sources = Source::all();
    let modules: BTreeSet<Vec<&str>> =
        sources.iter().map(|source| source.module.split('/').collect()).collect();
    let mut siblings: BTreeMap<Vec<String>, Uses> = BTreeMap::new();
    for source in sources {
        let own: Vec<&str> = source.module.split('/').collect();
        for path in source.paths() {
            let shared = own.iter().zip(&path).take_while(|(a, b)| a == b).count();
            let target: Vec<&str> = path.iter().take(shared + 1).map(|name| &name[..]).collect();
            if shared < own.len().min(path.len()) && modules.contains(&target) {
                let parent = path[..shared].to_vec();
                siblings
                    .entry(parent)
                    .or_default()
                    .entry(own[shared].to_owned())
                    .or_default()
                    .insert(path[shared].clone());
            }
        }
    }
    for (parent, uses) in siblings {
        let circle = circle(&uses);
        assert!(circle.is_empty(), "in `{}`: {}", parent.join("::"), circle.join(" -> "));
    }
}

/// Which modules each of them uses.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Modules that remain when all that use none of the others are taken away, again and again.
fn circle(uses: &Uses) -> Vec<String> {
    let mut left = uses.clone();
    loop {
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.values_mut().for_each(|targets| targets.retain(|target| names.contains(target)));
        let before = left.len();
        left.retain(|_, targets| !targets.is_empty());
        if left.len() == before {
            return left.into_keys().collect();
        }
    }
}

/// Every use of one layer by another, with its places.
fn arrows() -> BTreeMap<(String, String), Vec<String>> {
    let mut arrows: BTreeMap<_, Vec<String>> = BTreeMap::new();
    for source in Source::all() {
        for (at, to) in root_paths(source) {
            if to != layer(source) {
                arrows.entry((layer(source).to_owned(), to)).or_default().push(source.place(at));
            }
        }
    }
    arrows
}

/// What `crate::`, `tollgate::` in the binary, `tollgate_NAME`, and as many `super::` as lead to the root are followed by.
fn root_paths(source: &Source) -> Vec<(usize, String)> {
    let other_crates = ["allocator", "base", "bucket", "policy", "store"].into_iter().flat_map(|name| {
        let at = source.positions(&[&format!("tollgate_{name}"), ":", ":"]);
        at.into_iter().map(|at| (at, name.to_owned())).collect::<Vec<_>>()
    });
    let root = match (&source.root, &source.module[..]) {
        (Some(name), _) if name == "tower" => "tollgate",
        (Some(_), _) => return other_crates.collect(),
        (None, "main") => "tollgate",
        (None, _) => "crate",
    };
    let depth = source.module.split('/').count();
    let to_the_root = ["super", ":", ":"].repeat(depth);
    let by_name = source.positions(&[root, ":", ":"]).into_iter().map(|at| at + 3);
    let by_climbing = source.positions(&to_the_root).into_iter().map(|at| at + to_the_root.len());
    let own = by_name.chain(by_climbing).flat_map(|at| named_at(&source.tokens, at));
    own.chain(other_crates).collect()
}

/// The one name that stands there, or the first names of a list in braces.
fn named_at(tokens: &[Token], at: usize) -> Vec<(usize, String)> {
    if tokens[at].text != "{" {
        return vec![(at, tokens[at].text.clone())];
    }
    let mut names = Vec::new();
    let mut inside = at + 1;
    while inside < closing(tokens, at) {
        names.push((inside, tokens[inside].text.clone()));
        while !matches!(&tokens[inside].text[..], "," | "}") {
            inside = if tokens[inside].text == "{" { closing(tokens, inside) + 1 } else { inside + 1 };
        }
        inside += 1;
    }
    names
}

/// Whether a path begins there: `name::`, `use name;`, `#[name(`, but neither `a::name` nor a variable.
fn is_root(tokens: &[Token], at: usize) -> bool {
    let before = |back: usize| at.checked_sub(back).map_or("", |at| &tokens[at].text[..]);
    let after = |next: usize| tokens.get(at + next).map_or("", |token| &token.text[..]);
    let path = (after(1), after(2)) == (":", ":");
    before(1) != ":" && (path || before(1) == "use")
}

fn layer(source: &Source) -> &str {
    source.module.split('/').next().unwrap()
}
