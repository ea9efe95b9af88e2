//! Bodies that Envoy keeps back, and bodies of which it does not say that they are whole.

use std::net::Ipv4Addr;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request};
use support::{Client, Upstream, polite, post_with};

use super::front::{Front, Proxy};
use super::http2_from;

/// M6: Envoy shows no body of an upgrade, and says of each request that it has none.
#[test]
fn an_upgrade_counts_behind_envoy_where_bodies_are_read() {
    let application = Upstream::start();
    let front = Front::passing_upgrades(application.address, |file| {
        file.replace(ROUTE, &format!("{ROUTE}when = \"form:password\"\n"))
    });
    let statuses = |last, lines| {
        [(); 6].map(|()| {
            let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 8, last), front.address);
            client.send(post_with("/login", lines));
            client.answer().status
        })
    };
    assert_eq!(statuses(1, ""), [200; 6], "{}", front.said());
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
    assert_eq!(statuses(2, upgrade), [200, 200, 200, 200, 200, 429], "{}", front.said());
}

/// M6: before trailers Envoy shows a whole body like one that it cut.
#[test]
fn a_body_with_trailers_passes_envoy_if_its_length_shows_that_it_is_whole() {
    let application = Upstream::start();
    let front = Front::start(Proxy::EnvoyProc, application.address, |file| {
        let file = file.replace(ROUTE, &format!("{ROUTE}user = \"form:user\"\n"));
        file.replace("[limit.address]\n", "[limit.account]\nkey = \"user\"\n")
    });
    let body = "user=anna&password=a";
    let ask = |length: Option<usize>| {
        polite::run(async {
            let send = http2_from(Ipv4Addr::new(127, 0, 8, 1), front.http2).await;
            let request = Request::post("http://app.test/login");
            let mut request = request.header("content-type", "application/x-www-form-urlencoded");
            if let Some(length) = length {
                request = request.header("content-length", length);
            }
            let mut ready = send.ready().await.unwrap();
            let (answer, mut out) = ready.send_request(request.body(()).unwrap(), false).unwrap();
            out.send_data(Bytes::from(body), false).unwrap();
            let sum = HeaderValue::from_static("1");
            out.send_trailers(HeaderMap::from_iter([("x-sum".parse().unwrap(), sum)])).unwrap();
            answer.await.unwrap().status().as_u16()
        })
    };
    assert_eq!(ask(None), 413, "{}", front.said());
    let statuses = [(); 6].map(|()| ask(Some(body.len())));
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{}", front.said());
    assert_eq!(application.requests().len(), 5);
}

/// The route of `gate.toml`.
const ROUTE: &str = "match = \"POST /login\"\n";
