//! Documents with presets, expanded.

use tollgate_grammar::RawTable;

use super::super::raw::{RawFile, RawRoute};
use super::super::secrets::DIALECT;
use super::super::{Sources, load};
use super::*;

/// The document with its presets expanded, and the diagnostics.
fn expanded(text: &str) -> (TomlTable, Applications, Vec<String>) {
    let source = Arc::new(SourceText {
        kind: SourceKind::File,
        name: "f".into(),
        text: text.into(),
        dialect: &DIALECT,
    });
    let mut f = Findings::default();
    let mut root = TomlTable::parse(&source, &mut f).unwrap();
    let applications = expand(&mut root, &RawRoute::keys(), &mut f);
    let diagnostics = f.sorted().iter().map(|found| found.render(false)).collect();
    (root, applications, diagnostics)
}

fn entries<'t>(root: &'t TomlTable, section: &str) -> &'t [TomlEntry] {
    &table(root.get(section).unwrap()).unwrap().0
}

fn names(root: &TomlTable) -> Vec<&str> {
    entries(root, "route").iter().map(|route| route.key.value.as_str()).collect()
}

fn text<'t>(root: &'t TomlTable, route: &str, key: &str) -> Option<&'t str> {
    let route = entries(root, "route").iter().find(|entry| entry.key.value == route).unwrap();
    match &table(route)?.get(key)?.node.value {
        TomlValue::String(text) => Some(text),
        _ => None,
    }
}

fn strings(entry: &TomlEntry) -> Vec<&str> {
    let TomlValue::List(items) = &entry.node.value else { panic!("a list") };
    let text = |item: &'_ Located<TomlValue>| matches!(item.value, TomlValue::String(_));
    assert!(items.iter().all(text));
    items
        .iter()
        .filter_map(|item| if let TomlValue::String(text) = &item.value { Some(&**text) } else { None })
        .collect()
}

#[test]
fn every_preset_on_disk_is_built_in_and_named_like_its_main_endpoint() {
    let mut files: Vec<_> = std::fs::read_dir("presets")
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name != "starter")
        .collect();
    files.sort();
    assert_eq!(files, presets().iter().map(|preset| preset.name).collect::<Vec<_>>());
    for preset in presets() {
        let mut f = Findings::default();
        let routes = preset.routes(&mut f).unwrap();
        assert!(!f.has_errors(), "{}", preset.name);
        assert!(routes.iter().any(|route| route.key.value == preset.name), "{}", preset.name);
        for route in routes.iter().filter(|route| route.key.value != preset.name) {
            assert!(route.key.value.starts_with(&format!("{}-", preset.name)), "{}", route.key.value);
        }
    }
}

#[test]
fn every_preset_says_what_it_is_and_where_it_comes_from() {
    for preset in presets() {
        assert!(!preset.about().is_empty(), "{}", preset.name);
        let origin = preset.origin();
        let known =
            ["verified: ", "from documentation: https://"].iter().any(|word| origin.starts_with(word));
        assert!(known, "{}: {origin}", preset.name);
    }
}

/// `init --detect` would leave a preset with broken markers out without a word.
#[test]
fn markers_are_read_and_are_no_part_of_a_presets_routes() {
    let with_markers = presets().iter().filter(|preset| preset.file.contains("[detect]"));
    let mut count = 0;
    for preset in with_markers {
        let markers = preset.markers().unwrap_or_else(|| panic!("{}: its markers are broken", preset.name));
        let kinds = [markers.pages.len(), markers.forms.len(), markers.cookies.len(), markers.headers.len()];
        assert!(kinds.iter().sum::<usize>() > 0, "{}", preset.name);
        assert!(!preset.text().contains("detect]") && preset.text().ends_with('\n'), "{}", preset.name);
        assert_eq!(preset.file.matches("[detect]").count(), 1, "{}", preset.name);
        count += 1;
    }
    assert!(count >= 49, "{count} presets have markers");
}

#[test]
fn presets_use_no_keys_but_those_of_an_endpoint() {
    for preset in presets() {
        for route in preset.routes(&mut Findings::default()).unwrap() {
            for entry in &table(&route).unwrap().0 {
                let key = entry.key.value.as_str();
                assert!(key == "body" || KEYS_OF_ONE_ROUTE.contains(&key), "{}: {key}", preset.name);
            }
        }
    }
}

#[test]
fn a_preset_becomes_its_endpoints_in_the_place_of_its_route() {
    let (root, applications, diagnostics) = expanded(
        "[route.first]\nmatch = \"POST /a\"\n[route.blog]\npreset = \"wordpress\"\n[route.last]\nmatch = \"POST /b\"\n",
    );
    assert_eq!(diagnostics, [""; 0]);
    assert_eq!(names(&root), ["first", "blog.mail", "blog", "blog.ajax", "blog.xmlrpc", "blog.api", "last"]);
    assert_eq!(text(&root, "blog", "match"), Some("POST /**/wp-login.php"));
    assert_eq!(text(&root, "blog.xmlrpc", "cost"), Some("count:methodName"));
    assert_eq!(text(&root, "blog", "preset"), None);
    for route in ["blog", "blog.mail", "blog.ajax", "blog.xmlrpc", "blog.api"] {
        assert_eq!(applications[route], "blog");
    }
    assert!(!applications.contains_key("first"));
}

#[test]
fn all_endpoints_are_one_application() {
    let text = "listen = \"http://[::1]:1\"\nupstream = \"http://[::1]:2\"\n[route.blog]\npreset = \"wordpress\"\n\
                [route.login]\nmatch = \"POST /login\"\n[limit.a]\nrate = \"1/s\"\n";
    let routes = load(&Sources::from_text("f", text)).config.unwrap().policy.routes;
    let found: Vec<_> = routes.iter().map(|route| (&*route.name, &*route.application)).collect();
    let names = ["blog.mail", "blog", "blog.ajax", "blog.xmlrpc", "blog.api"];
    let expected: Vec<_> = names.map(|name| (name, "blog")).into_iter().chain([("login", "login")]).collect();
    assert_eq!(found, expected);
}

#[test]
fn what_is_true_of_all_endpoints_is_said_once() {
    let others = "host = \"blog.example.org\"\nupstream = \"http://[::1]:1\"\nlimits = \"a\"\ncase = \"sensitive\"\n\
                  upstream_host = \"blog.internal\"\n";
    let (root, _, diagnostics) = expanded(&format!("[route.blog]\npreset = \"wordpress\"\n{others}"));
    assert_eq!(diagnostics, [""; 0]);
    for route in ["blog", "blog.mail", "blog.ajax", "blog.xmlrpc", "blog.api"] {
        assert_eq!(text(&root, route, "host"), Some("blog.example.org"), "{route}");
        assert_eq!(text(&root, route, "upstream"), Some("http://[::1]:1"), "{route}");
        assert_eq!(text(&root, route, "upstream_host"), Some("blog.internal"), "{route}");
        assert_eq!(text(&root, route, "limits"), Some("a"), "{route}");
        assert_eq!(text(&root, route, "case"), Some("sensitive"), "{route}");
    }
}

#[test]
fn a_bound_on_bodies_goes_to_the_endpoints_that_read_them() {
    let (root, _, _) = expanded("[route.blog]\npreset = \"wordpress\"\nbody = \"1MiB\"\n");
    let bounds = ["blog", "blog.xmlrpc", "blog.api"].map(|route| text(&root, route, "body"));
    assert_eq!(bounds, [Some("1MiB"), Some("1MiB"), None]);
    let (root, _, _) = expanded("[route.web]\npreset = \"basic\"\nbody = \"1MiB\"\n");
    assert_eq!(text(&root, "web", "body"), Some("1MiB"), "it goes to all, and each warns");
}

#[test]
fn what_is_true_of_one_endpoint_replaces_what_a_preset_of_one_endpoint_says() {
    let (root, _, diagnostics) =
        expanded("[route.db]\npreset = \"phpmyadmin\"\nmatch = \"POST /pma/**\"\notherwise = \"neutral\"\n");
    assert_eq!(diagnostics, [""; 0]);
    assert_eq!(names(&root), ["db"]);
    assert_eq!(text(&root, "db", "match"), Some("POST /pma/**"));
    assert_eq!(text(&root, "db", "otherwise"), Some("neutral"));
    assert_eq!(text(&root, "db", "user"), Some("form:pma_username"));
}

#[test]
fn a_limit_that_names_an_application_means_all_its_endpoints() {
    let (root, _, diagnostics) = expanded(
        "[route.blog]\npreset = \"wordpress\"\n[route.login]\nmatch = \"POST /login\"\n\
         [limit.a]\nroutes = \"blog\"\n[limit.b]\nroutes = [\"login\", \"blog\"]\n\
         [limit.c]\nroutes = [\"blog.xmlrpc\"]\n[limit.d]\nroutes = \"login\"\n",
    );
    assert_eq!(diagnostics, [""; 0]);
    let routes: Vec<_> =
        entries(&root, "limit").iter().map(|limit| table(limit).unwrap().get("routes").unwrap()).collect();
    assert_eq!(strings(routes[0]), ["blog", "blog.ajax", "blog.api", "blog.mail", "blog.xmlrpc"]);
    assert_eq!(strings(routes[1]), ["login", "blog", "blog.ajax", "blog.api", "blog.mail", "blog.xmlrpc"]);
    assert_eq!(strings(routes[2]), ["blog.xmlrpc"]);
    assert!(matches!(&routes[3].node.value, TomlValue::String(name) if name == "login"));
}

#[test]
fn what_is_wrong_in_a_preset_is_shown_there() {
    let (root, ..) = expanded("[route.blog]\npreset = \"wordpress\"\n");
    let mut f = Findings::default();
    RawFile::read(&root, &mut f);
    let route = &entries(&root, "route")[0];
    f.error(&table(route).unwrap().get("match").unwrap().node.spot, "no pattern", "");
    let rendered: Vec<_> = f.sorted().iter().map(|found| found.render(false)).collect();
    assert!(rendered.iter().any(|text| text.contains("--> preset wordpress:13:9")), "{rendered:?}");
}

#[test]
fn two_applications_of_one_kind_stand_beside_each_other() {
    let (root, applications, diagnostics) = expanded(
        "[route.a]\npreset = \"tomcat\"\nhost = \"a\"\n[route.b]\npreset = \"tomcat\"\nhost = \"b\"\n",
    );
    assert_eq!(diagnostics, [""; 0]);
    assert_eq!(names(&root), ["a", "a.basic", "b", "b.basic"]);
    assert_eq!((&*applications["a.basic"], &*applications["b.basic"]), ("a", "b"));
}

#[test]
fn keys_of_a_single_sign_in_leave_messages_alone_but_for_a_common_pattern() {
    let confined = "match = \"POST /x/**\"\nsuccess = { status = 302 }\n";
    for (preset, of_mail) in [("mediawiki", "POST /x/**"), ("django-admin", "POST /**/password_reset")] {
        let (root, _, diagnostics) = expanded(&format!("[route.a]\npreset = \"{preset}\"\n{confined}"));
        assert_eq!(diagnostics, [""; 0]);
        assert_eq!(names(&root), ["a", "a.mail"]);
        assert_eq!(text(&root, "a", "match"), Some("POST /x/**"));
        assert_eq!(text(&root, "a.mail", "match"), Some(of_mail));
        let mail = table(&entries(&root, "route")[1]).unwrap();
        assert!(mail.get("success").is_none() && mail.get("step").is_none());
    }
}

#[test]
fn what_is_no_table_is_left_to_its_reader() {
    for text in
        ["route = 1\n", "[route]\nx = 1\n", "limit = 1\n[route.a]\npreset = \"basic\"\n", "[limit]\na = 1\n"]
    {
        expanded(text);
    }
}
