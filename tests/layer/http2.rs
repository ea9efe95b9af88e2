//! A request over HTTP/2 is that over HTTP/1 in another form.

use axum::http::Version;
use h2::client::handshake;
use support::application::{ROUTE, cookie, form as fields, right, sign_in};
use support::polite::{Polite, post, run};
use tokio::net::TcpStream;

use crate::{ACCOUNT, Form, form};

/// A form of this host alone, and browsers that are known.
fn policy() -> String {
    let route = ROUTE.replace("user =", "host = \"app.test\"\nuser =");
    format!("{route}{ACCOUNT}[device]\nsecret = \"0123456789abcdef0123456789abcdef\"\n")
}

#[test]
fn host_and_cookies_of_http_2_count_and_the_application_gets_the_request_as_it_came() {
    let program = Form::start(&policy(), form);
    let signed_in = program.ask(sign_in("alice", &right("alice")));
    let device = cookie(&signed_in, "tollgate_device").expect("a cookie for the browser");
    run(async {
        let stream = TcpStream::connect(program.address).await.unwrap();
        let (send, connection) = handshake(stream).await.unwrap();
        tokio::spawn(async move { drop(connection.await) });
        let mut client = Polite { send };
        let mut request = post("/login?a=1");
        request.headers_mut().insert("content-type", FORM.parse().unwrap());
        for number in 0..5 {
            let answer = client.ask(request.clone(), &fields("alice", &format!("wrong{number}"))).await;
            assert_eq!(answer.unwrap().status(), 200, "guess {number}");
        }
        let refused = client.ask(request.clone(), &fields("alice", &right("alice"))).await.unwrap();
        assert_eq!(refused.status(), 429, "for a stranger");
        for cookie in ["a=1".to_owned(), format!("tollgate_device={device}"), "b=2".to_owned()] {
            request.headers_mut().append("cookie", cookie.parse().unwrap());
        }
        let owner = client.ask(request, &fields("alice", &right("alice"))).await.unwrap();
        assert_eq!(owner.status(), 302);
    });
    let seen = program.seen();
    let (first, last) = (&seen[1].head, &seen[6].head);
    assert_eq!((first.version, &first.uri.to_string()[..]), (Version::HTTP_2, "https://app.test/login?a=1"));
    assert!(!first.headers.contains_key("host"));
    assert_eq!(last.headers["cookie"], "a=1; b=2");
}

const FORM: &str = "application/x-www-form-urlencoded";
