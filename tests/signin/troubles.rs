//! Troubles of the gate itself, of which every webhook of the file hears.

use serde_json::Value;

use support::application::{ROUTE, application, status_from};
use support::authority::{Authority, TABLE};
use support::{Launch, Reply, Upstream, free_port};

const ACCOUNT: &str = "[limit.account]\nkey = \"user\"\nrate = \"100 per 1h\"\n";

/// What a webhook heard, in the order of its arrival.
fn heard(receiver: &Upstream) -> Vec<Value> {
    receiver.requests().iter().map(|request| serde_json::from_slice(&request.body).unwrap()).collect()
}

fn receiver() -> (Upstream, String) {
    let receiver = Upstream::answering(|_, _| Reply::text("HTTP/1.1 204 No Content\r\n\r\n"));
    let url = format!("webhook = \"http://{}/hook\"\n", receiver.address);
    (receiver, format!("[route.login.attack]\nfailures = \"1000/min\"\n{url}"))
}

#[test]
fn a_webhook_hears_of_a_certificate_that_has_ended_before_anybody_connects() {
    let (application, (receiver, attack)) = (application(), receiver());
    let pair = Authority::new().issue_until(&["app.test"], 2002);
    let file = application.file(&format!("{ROUTE}{attack}{ACCOUNT}{TABLE}"));
    let gate = Launch::new(&file).on_tls_too().with(&pair, "server").start();
    receiver.wait_for(1);
    let said = heard(&receiver).remove(0);
    assert_eq!((&said["event"], &said["subject"]), (&"certificate_expires".into(), &"app.test".into()));
    assert!(said["why"].as_str().unwrap().starts_with("ended 2002-01-01"), "{said}");
    assert!(gate.messages().contains("the certificate app.test ended 2002-01-01"), "{}", gate.messages());
}

#[test]
fn a_webhook_hears_of_a_store_that_does_not_answer() {
    let (application, (receiver, attack)) = (application(), receiver());
    let store = format!("[store]\nurl = \"redis://127.0.0.1:{}\"\n", free_port());
    let gate = Launch::new(&application.file(&format!("{ROUTE}{attack}{ACCOUNT}{store}"))).start();
    status_from(&gate, [127, 3, 0, 1].into(), "alice", "wrong");
    receiver.wait_for(1);
    let said = heard(&receiver).remove(0);
    assert_eq!((&said["event"], &said["route"]), (&"store_down".into(), &Value::Null));
    assert!(!said["why"].as_str().unwrap().is_empty() && said["gate"].is_string(), "{said}");
}
