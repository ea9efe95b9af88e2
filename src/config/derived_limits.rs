//! Routes that name a limit mean the limits made of it, too: its candidate and the rungs of its ladder.
//!
//! Their names begin with its name and a dot, which the name of no limit in the file may have.

use tollgate_grammar::Located;
use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};

/// Adds to each route's `limits` the limits that were made of those that it names.
pub(super) fn name_all(root: &mut TomlTable) {
    let Some(limits) = root.get("limit").and_then(|entry| table(&entry.node)) else { return };
    let names = limits.0.iter().map(|limit| &limit.key.value).filter(|name| name.contains('.'));
    let names: Vec<String> = names.cloned().collect();
    let routes = root.get_mut("route").map(|entry| &mut entry.node.value);
    let Some(TomlValue::Table(routes)) = routes else { return };
    for route in &mut routes.0 {
        let TomlValue::Table(route) = &mut route.node.value else { continue };
        if let Some(TomlEntry { node, .. }) = route.get_mut("limits") {
            name_derived(node, &names);
        }
    }
}

fn name_derived(list: &mut Located<TomlValue>, names: &[String]) {
    let mut listed = match &list.value {
        TomlValue::List(items) => items.clone(),
        _ => vec![list.clone()],
    };
    let is_of = |name: &str, limit: &str| name.strip_prefix(limit).is_some_and(|rest| rest.starts_with('.'));
    let mut derived: Vec<Located<TomlValue>> = Vec::new();
    for name in names {
        let owner = |item: &&Located<TomlValue>| matches!(&item.value, TomlValue::String(limit) if is_of(name, limit));
        derived.extend(listed.iter().find(owner).map(|item| item.with(TomlValue::String(name.clone()))));
    }
    if !derived.is_empty() {
        listed.extend(derived);
        list.value = TomlValue::List(listed);
    }
}

fn table(node: &Located<TomlValue>) -> Option<&TomlTable> {
    match &node.value {
        TomlValue::Table(table) => Some(table),
        _ => None,
    }
}
