//! The language of a refusal's page, as a browser asks for it.

use support::{Gate, Upstream, post_with};

const FILE: &str = "[route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"1 per 1h\"\n\
                    [refuse]\ncontact = \"help@example.org\"\n\
                    [refuse.texts.nl]\ntitle = \"Even wachten\"\n\
                    [refuse.texts.de-AT]\ntitle = \"Bitte warten S' a bisserl\"\n";
const HTML: &str = "Accept: text/html\r\n";

#[test]
fn a_browser_is_refused_in_its_language() {
    let upstream = Upstream::start();
    let gate = Gate::start(&upstream.file(FILE));
    assert_eq!(gate.ask(post_with("/login", HTML)).status, 200);
    let refused = |lines: &str| gate.ask(post_with("/login", lines));
    for (accepted, tag, title) in [
        ("Accept-Language: fr-CA,fr;q=0.9,en;q=0.8\r\n", "fr", "<h1>Trop de tentatives de connexion</h1>"),
        ("Accept-Language: nl\r\n", "nl", "<h1>Even wachten</h1>"),
        ("Accept-Language: zh-HK,zh;q=0.9\r\n", "zh-TW", "<h1>登入嘗試次數過多</h1>"),
        ("Accept-Language: de-AT,de;q=0.9\r\n", "de-AT", "<h1>Bitte warten S&#39; a bisserl</h1>"),
        ("Accept-Language: sv\r\n", "en", "<h1>Too many sign-in attempts</h1>"),
        ("", "en", "<h1>Too many sign-in attempts</h1>"),
    ] {
        let page = refused(&format!("{HTML}{accepted}"));
        assert_eq!((page.status, page.header("content-language")), (429, Some(tag)));
        assert!(page.text().contains(title), "{}", page.text());
        assert!(page.text().contains("<a href=\"mailto:help@example.org\">"), "{}", page.text());
    }
    let text = refused("Accept-Language: fr\r\n");
    assert_eq!((text.header("content-language"), text.header("vary")), (None, Some("Accept")));
    assert!(text.text().contains("Too many sign-in attempts"));
}
