//! The pages and texts of a route's refusals, at a listener and at a decision endpoint.

use std::net::{Ipv4Addr, SocketAddr};

use support::{Client, Launch, Upstream, free_port, get_with, post_with};

const FILE: &str = r#"
[route.login]
match = "POST /login"
[route.shop]
match = "POST /shop"
[route.shop.refuse]
html = "shop.html"
json = "shop.json"
[route.admin]
match = "POST /admin"
[route.admin.refuse]
html = ""
[route.admin.refuse.texts.de]
title = "Verwaltung: zu viele Versuche"
[limit.address]
key = "all"
rate = "1 per 1h"
[refuse]
html = "all.html"
[refuse.texts.de]
back = "Noch einmal"
"#;

#[test]
fn a_route_is_refused_with_pages_and_texts_of_its_own() {
    let upstream = Upstream::start();
    let edge = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let endpoint = format!(
        "[endpoint.edge]\nkind = \"forward-auth\"\nlisten = \"http://{edge}\"\nrefused_status = 403\n"
    );
    let launch = Launch::new(&upstream.file(&format!("{FILE}{endpoint}")))
        .beside("all.html", "<p>all {{request_id}}</p>")
        .beside("shop.html", "<p>shop {{request_id}}</p>")
        .beside("shop.json", "{\"shop\": \"{{request_id}}\"}");
    let gate = launch.start();
    assert_eq!(gate.ask(post_with("/login", "")).status, 200);
    let refused = |path: &str, accept: &str| {
        let lines = format!("Accept: {accept}\r\nAccept-Language: de\r\nX-Request-Id: one\r\n");
        let answer = gate.ask(post_with(path, &lines));
        assert_eq!(answer.status, 429);
        answer.text()
    };
    // Twice, as cached refusals are shared.
    for _ in 0..2 {
        assert_eq!(refused("/login", "text/html"), "<p>all one</p>");
        assert_eq!(refused("/shop", "text/html"), "<p>shop one</p>");
        assert_eq!(refused("/shop", "application/json"), "{\"shop\": \"one\"}");
        assert!(refused("/login", "application/json").contains("urn:request:one"));
        let admin = refused("/admin", "text/html");
        assert!(
            admin.contains("<h1>Verwaltung: zu viele Versuche</h1>") && admin.contains("Noch einmal"),
            "{admin}"
        );
    }
    let mut asker = Client::connect(edge);
    let question = "Accept: text/html\r\nX-Request-Id: one\r\nX-Forwarded-For: 192.0.2.1\r\n\
                    X-Original-Method: POST\r\nX-Original-URI: /shop\r\n";
    asker.send(get_with("/", question));
    let answer = asker.answer();
    assert_eq!((answer.status, &*answer.text()), (403, "<p>shop one</p>"));
}
