//! `[template.NAME]`: a route for the hosts of a list, as in `hosts = ["@hosts.txt"]`.
//!
//! The expansion puts it among the routes, with `hosts` as their `host`, before they are read. So a thousand sites alike are
//! one route, with the buckets, the name in metrics and the lines of `check` of one.

use tollgate_grammar::document::{TomlEntry, TomlTable, TomlValue};
use tollgate_grammar::{Findings, Located};

/// Puts each template among the routes.
pub(super) fn expand(root: &mut TomlTable, f: &mut Findings) {
    let is_template = |entry: &mut TomlEntry| entry.key.value == "template";
    for mut templates in root.0.extract_if(.., is_template).collect::<Vec<_>>() {
        let TomlValue::Table(table) = &mut templates.node.value else {
            f.error(&templates.node.spot, "`template` is no table", "write [template.NAME]");
            continue;
        };
        for mut template in std::mem::take(&mut table.0) {
            name_hosts(&mut template, f);
            put(root, template, &templates.key, f);
        }
    }
}

/// Calls the hosts what a route calls them.
fn name_hosts(template: &mut TomlEntry, f: &mut Findings) {
    let TomlValue::Table(keys) = &mut template.node.value else { return };
    if let Some(host) = keys.get("host") {
        f.error(&host.key.spot, "a template has `hosts`", "hosts = [\"@hosts.txt\"]");
    }
    keys.0.retain(|entry| entry.key.value != "host");
    match keys.get_mut("hosts") {
        Some(hosts) => "host".clone_into(&mut hosts.key.value),
        None => {
            let message = format!("template `{}` has no `hosts`", template.key.value);
            f.error(&template.key.spot, message, "hosts = [\"@hosts.txt\"], with a host a line");
        }
    }
}

fn put(root: &mut TomlTable, template: TomlEntry, key: &Located<String>, f: &mut Findings) {
    if root.get("route").is_none() {
        let (key, node) = (key.with("route".to_owned()), key.with(TomlValue::Table(TomlTable::default())));
        root.0.push(TomlEntry { key, node });
    }
    let Some(TomlEntry { node: Located { value: TomlValue::Table(routes), .. }, .. }) = root.get_mut("route")
    else {
        return;
    };
    if routes.get(&template.key.value).is_some() {
        let message = format!("there is a route `{}` already", template.key.value);
        f.error(&template.key.spot, message, "give the template another name");
        return;
    }
    routes.0.push(template);
}
