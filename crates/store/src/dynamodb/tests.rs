//! Cases that dynalite cannot produce: a server of the test answers what it is told, over a real socket.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::address::DynamoDbAddress;
use crate::address::Remote;
use crate::{
    CompareAndSwap, Namespace, RecordVersion, ServerId, StoreClock, StoreError, StoreRecord, Stored, Swap,
};
use tollgate_bucket::Key;
use tollgate_bucket::{Span, Time};

/// A server of the test.
pub(super) struct Listener {
    pub(super) address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<String>>,
    connections: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

/// The reaction to a request.
pub(super) enum Reaction {
    Say(String),
    SayLate(Duration, String),
    SayAndClose(String),
    Nothing,
}

use Reaction::{Nothing, Say, SayAndClose, SayLate};

impl Listener {
    /// Answers each request as `react` says, which gets the number of earlier requests and the request.
    pub(super) async fn start(react: impl Fn(usize, &str) -> Reaction + Send + Sync + 'static) -> Self {
        Self::start_with(None, react).await
    }

    async fn start_with(
        tls: Option<TlsAcceptor>,
        react: impl Fn(usize, &str) -> Reaction + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (seen, react) = (Arc::new(Seen::default()), Arc::new(react));
        let shared = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, react, tls) = (Arc::clone(&shared), Arc::clone(&react), tls.clone());
                tokio::spawn(async move {
                    seen.connections.fetch_add(1, Ordering::Relaxed);
                    let open = seen.open.fetch_add(1, Ordering::Relaxed) + 1;
                    seen.most_open.fetch_max(open, Ordering::Relaxed);
                    match tls {
                        None => serve(stream, &seen, &*react).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, &seen, &*react).await;
                            }
                        }
                    }
                    seen.open.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { address, seen }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.requests.lock().unwrap().clone()
    }

    fn connections(&self) -> usize {
        self.seen.connections.load(Ordering::Relaxed)
    }

    fn store(&self) -> Arc<dyn CompareAndSwap> {
        open(&format!("dynamodb://KEY:SECRET@buckets?region=r&endpoint=http://{}", self.address))
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    seen: &Seen,
    react: &(dyn Fn(usize, &str) -> Reaction + Send + Sync),
) {
    while let Some(request) = receive(&mut stream).await {
        let before = {
            let mut requests = seen.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        let (text, goes_on) = match react(before, &request) {
            Say(text) => (text, true),
            SayLate(delay, text) => {
                tokio::time::sleep(delay).await;
                (text, true)
            }
            SayAndClose(text) => (text, false),
            Nothing => std::future::pending().await,
        };
        if stream.write_all(text.as_bytes()).await.is_err() || !goes_on {
            return;
        }
    }
}

/// A whole request.
async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text.into_owned());
            }
        }
        let mut piece = [0; 4096];
        match stream.read(&mut piece).await {
            Ok(count @ 1..) => bytes.extend_from_slice(&piece[..count]),
            _ => return None,
        }
    }
}

/// A response with a date.
pub(super) fn answer(status: &str, body: impl std::fmt::Display) -> String {
    let body = body.to_string();
    format!(
        "HTTP/1.1 {status}\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn fault(kind: &str) -> String {
    answer("400 Bad Request", json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{kind}") }))
}

fn nothing_there() -> String {
    answer("200 OK", "{}")
}

fn open(url: &str) -> Arc<dyn CompareAndSwap> {
    let address = DynamoDbAddress::parse(url, |_| None).unwrap();
    address.open(&Namespace::default()).unwrap()
}

fn record() -> StoreRecord {
    let ttl = Span::from_secs(60);
    StoreRecord { bytes: b"new".to_vec(), ttl, limit: "address".into(), full_at: Time::default() }
}

const KEY: Key = Key(7);

#[tokio::test]
async fn a_question_is_signed_with_all_that_it_says_and_stamped_with_the_servers_time() {
    let server = Listener::start(|_, _| Say(nothing_there())).await;
    let store = server.store();
    let clock = store.probe(ServerId::ONLY).await.unwrap().clock;
    assert_eq!(clock, Some(StoreClock::Seconds(Time::from_nanos(784_111_777_000_000_000))));
    assert_eq!(store.load(KEY).await.unwrap().value, None);
    let requests = server.requests();
    assert_eq!(server.connections(), 1, "the connection is kept");
    assert!(requests[1].contains("x-amz-target: DynamoDB_20120810.GetItem\r\n"), "{}", requests[1]);
    assert!(requests[1].contains("x-amz-date: 19941106T0849"), "{}", requests[1]);
    assert!(
        requests[1].contains("Credential=KEY/19941106/r/dynamodb/aws4_request")
            && requests[1].contains("SignedHeaders=content-type;host;x-amz-date;x-amz-target, "),
        "{}",
        requests[1]
    );
    assert!(!requests.concat().contains("SECRET"));
}

#[tokio::test]
async fn a_lost_swap_learns_from_the_refusal_what_stands_there() {
    let item =
        json!({ "version": { "N": "9" }, "state": { "B": "b2xk" }, "expires": { "N": "9999999999999" } });
    let refused = json!({ "__type": "x#ConditionalCheckFailedException", "Item": item });
    let server = Listener::start(move |_, _| Say(answer("400 Bad Request", &refused))).await;
    let stored = Stored { bytes: b"old".to_vec(), version: RecordVersion(9) };
    let swap = server.store().swap(KEY, Some(RecordVersion(7)), record()).await.unwrap();
    assert_eq!(swap.value, Swap::Conflict(Some(stored)));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_for_what_outlived_its_time_says_that_nothing_is_there() {
    let item = json!({ "version": { "N": "9" }, "state": { "B": "b2xk" }, "expires": { "N": "1" } });
    let refused = json!({ "__type": "x#ConditionalCheckFailedException", "Item": item });
    let server = Listener::start(move |_, _| Say(answer("400 Bad Request", &refused))).await;
    let swap = server.store().swap(KEY, Some(RecordVersion(9)), record()).await.unwrap();
    assert_eq!((swap.value, server.requests().len()), (Swap::Conflict(None), 1));
}

/// G12: each request costs money.
#[tokio::test]
async fn whatever_is_refused_is_not_asked_again() {
    for (kind, error) in [
        ("ProvisionedThroughputExceededException", "throttled: ProvisionedThroughputExceededException"),
        ("ThrottlingException", "throttled: ThrottlingException"),
        ("RequestLimitExceeded", "throttled: RequestLimitExceeded"),
        ("AccessDeniedException", "refused: AccessDeniedException"),
        ("ResourceNotFoundException", "refused: there is no table `buckets`: run `tollgate migrate`"),
        ("TransactionConflictException", "write conflict"),
    ] {
        let server = Listener::start(move |_, _| Say(fault(kind))).await;
        let store = server.store();
        assert_eq!(store.load(KEY).await.unwrap_err().to_string(), error);
        assert_eq!(store.swap(KEY, None, record()).await.unwrap_err().to_string(), error);
        assert_eq!((server.requests().len(), server.connections()), (2, 1), "{kind}");
    }
}

#[tokio::test]
async fn a_write_whose_answer_is_lost_is_not_sent_again() {
    let server = Listener::start(|_, _| SayAndClose(String::new())).await;
    let error = server.store().swap(KEY, None, record()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn garbage_and_halves_are_errors_and_the_next_question_is_answered() {
    let long = format!("{{\"x\":\"{}\"}}", "x".repeat(96 * 1024));
    for (bad, is_garbled) in [
        ("garbage\r\n\r\n".to_owned(), true),
        ("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{".to_owned(), false),
        ("HTTP/1.1 200".to_owned(), false),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n".to_owned(), false),
        (format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "x".repeat(100_000)), true),
        (answer("200 OK", &long), true),
        (answer("200 OK", "{\"Item\":"), true),
        (answer("500 Internal Server Error", "<html>"), false),
    ] {
        let words = bad.chars().take(60).collect::<String>();
        let server = Listener::start(move |before, _| match before {
            0 => SayAndClose(bad.clone()),
            _ => Say(nothing_there()),
        })
        .await;
        let store = server.store();
        let error = store.load(KEY).await.unwrap_err();
        assert_eq!(matches!(error, StoreError::UnexpectedResponse(_)), is_garbled, "{error} for {words}");
        // After an error there is a pause between two connections.
        tokio::time::sleep(Duration::from_millis(210)).await;
        assert_eq!(store.load(KEY).await.unwrap().value, None, "{words}");
    }
}

#[tokio::test]
async fn numbers_of_others_are_no_reason_to_panic() {
    for number in ["-1", "1e400", "99999999999999999999999999999999999999", "NaN", ""] {
        let item =
            json!({ "version": { "N": number }, "state": { "B": "b2xk" }, "expires": { "N": number } });
        let body = json!({ "Item": item });
        let server = Listener::start(move |_, _| Say(answer("200 OK", &body))).await;
        assert_eq!(server.store().load(KEY).await.unwrap().value, None, "{number}");
    }
}

#[tokio::test]
async fn an_answer_without_a_caller_goes_to_no_other_and_costs_no_connection() {
    let item =
        json!({ "version": { "N": "9" }, "state": { "B": "b2xk" }, "expires": { "N": "9999999999999" } });
    let late = answer("200 OK", json!({ "Item": item }));
    let server = Listener::start(move |before, _| match before {
        0 => Say(nothing_there()),
        1 => SayLate(Duration::from_millis(60), late.clone()),
        _ => Say(nothing_there()),
    })
    .await;
    let store = server.store();
    store.probe(ServerId::ONLY).await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(30), store.load(KEY)).await;
    assert!(given_up.is_err());
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_eq!(store.load(KEY).await.unwrap().value, None);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_that_says_nothing_is_given_up_by_those_who_would_wait_for_ever() {
    let server = Listener::start(|_, _| Nothing).await;
    let begun = tokio::time::Instant::now();
    let error = server.store().load(KEY).await.unwrap_err();
    assert_eq!(error, StoreError::Unreachable("no answer in time".to_owned()));
    assert!(begun.elapsed() < Duration::from_secs(4), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn in_trouble_there_is_at_most_one_connection_in_100_ms() {
    let server = Listener::start(|_, _| SayAndClose(String::new())).await;
    let store = server.store();
    let begun = tokio::time::Instant::now();
    let mut requests = 0;
    while begun.elapsed() < Duration::from_secs(1) {
        let together = [store.load(KEY), store.load(KEY), store.load(KEY)];
        for call in together {
            call.await.unwrap_err();
            requests += 1;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!((4..=11).contains(&server.connections()), "{} connections", server.connections());
    let most = 3 * server.connections();
    assert!(requests > most, "only {requests} requests: those between two attempts must fail at once");
}

#[tokio::test]
async fn there_are_at_most_sixteen_connections_and_no_caller_is_forgotten() {
    let server = Listener::start(|_, _| SayLate(Duration::from_millis(20), nothing_there())).await;
    let store = server.store();
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.load(KEY).await.map(|answer| answer.value) })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), Ok(None));
    }
    assert_eq!(server.seen.most_open.load(Ordering::Relaxed), 16);
    assert_eq!(server.connections(), 16);
}

#[tokio::test]
async fn a_connection_that_ended_while_idle_is_no_error() {
    let server = Listener::start(|before, _| match before {
        0 => SayAndClose(nothing_there()),
        _ => Say(nothing_there()),
    })
    .await;
    let store = server.store();
    for _ in 0..3 {
        store.probe(ServerId::ONLY).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_missing_table_and_one_of_others_are_said() {
    let server = Listener::start(|_, _| Say(fault("ResourceNotFoundException"))).await;
    let warnings = server.store().inspect().await.unwrap().value;
    assert_eq!(warnings, ["there is no table `buckets`: run `tollgate migrate`"]);
    let table = json!({
        "TableStatus": "ACTIVE",
        "KeySchema": [{ "AttributeName": "id", "KeyType": "HASH" }],
        "AttributeDefinitions": [{ "AttributeName": "id", "AttributeType": "S" }],
    });
    let body = json!({ "Table": table, "TimeToLiveDescription": { "TimeToLiveStatus": "DISABLED" } });
    let server = Listener::start(move |_, _| Say(answer("200 OK", &body))).await;
    let store = server.store();
    assert_eq!(
        store.inspect().await.unwrap().value,
        [
            "the table `buckets` has another key than the string `bucket`: it is not ours",
            "time to live by the attribute `ttl` is off for the table `buckets`: expired items stay there and \
             are paid for; run `tollgate migrate`",
        ]
    );
    let error = store.migrate().await.unwrap_err().to_string();
    assert_eq!(
        error,
        "refused: the table `buckets` is there already, and its key is not the string `bucket`"
    );
}

#[tokio::test]
async fn migrating_makes_the_table_and_turns_time_to_live_on() {
    let made = json!({
        "TableStatus": "ACTIVE",
        "KeySchema": [{ "AttributeName": "bucket", "KeyType": "HASH" }],
        "AttributeDefinitions": [{ "AttributeName": "bucket", "AttributeType": "S" }],
    });
    let server = Listener::start(move |before, _| match before {
        0 => Say(fault("ResourceNotFoundException")),
        1 => Say(nothing_there()),
        2 => Say(answer(
            "200 OK",
            json!({ "Table": { "TableStatus": "CREATING", "KeySchema": made["KeySchema"],
            "AttributeDefinitions": made["AttributeDefinitions"] } }),
        )),
        3 => Say(answer("200 OK", json!({ "Table": made }))),
        4 => Say(answer("200 OK", json!({ "TimeToLiveDescription": { "TimeToLiveStatus": "DISABLED" } }))),
        _ => Say(nothing_there()),
    })
    .await;
    server.store().migrate().await.unwrap();
    let requests = server.requests();
    let operations: Vec<_> = requests
        .iter()
        .filter_map(|request| request.split("DynamoDB_20120810.").nth(1)?.lines().next())
        .collect();
    assert_eq!(
        operations,
        [
            "DescribeTable",
            "CreateTable",
            "DescribeTable",
            "DescribeTable",
            "DescribeTimeToLive",
            "UpdateTimeToLive"
        ]
    );
    assert!(requests[1].contains(r#""BillingMode":"PAY_PER_REQUEST""#), "{}", requests[1]);
    assert!(requests[5].contains(r#""AttributeName":"ttl","Enabled":true"#), "{}", requests[5]);
}

#[test]
fn the_table_can_be_made_by_hand() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _within = runtime.enter();
    let store = open("dynamodb://KEY:SECRET@buckets?region=eu-central-1&endpoint=http://127.0.0.1:8000");
    let target = "--region eu-central-1 --endpoint-url http://127.0.0.1:8000 --table-name buckets";
    assert_eq!(
        store.schema(),
        [
            format!(
                "aws dynamodb create-table {target} --billing-mode PAY_PER_REQUEST --attribute-definitions \
                 AttributeName=bucket,AttributeType=S --key-schema AttributeName=bucket,KeyType=HASH"
            ),
            format!("aws dynamodb wait table-exists {target}"),
            format!(
                "aws dynamodb update-time-to-live {target} --time-to-live-specification Enabled=true,AttributeName=ttl"
            ),
        ]
    );
}

/// A server of the test that speaks TLS, with a certificate for 127.0.0.1 that `ca.pem` signed.
fn acceptor() -> TlsAcceptor {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let pem = include_bytes!("tests/server.pem");
    let certificate = CertificateDer::from_pem_slice(pem).unwrap();
    let key = PrivateKeyDer::from_pem_slice(pem).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let versions =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = versions.unwrap().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap();
    TlsAcceptor::from(Arc::new(config))
}

#[tokio::test]
async fn over_tls_only_a_server_of_the_given_authority_is_asked() {
    let server = Listener::start_with(Some(acceptor()), |_, _| Say(nothing_there())).await;
    let port = server.address.port();
    let ca = concat!(env!("CARGO_MANIFEST_DIR"), "/src/dynamodb/tests/ca.pem");
    let url =
        |host: &str| format!("dynamodb://KEY:SECRET@buckets?region=r&endpoint=https://{host}:{port}&ca={ca}");
    assert_eq!(open(&url("127.0.0.1")).load(KEY).await.unwrap().value, None);
    // The certificate is for the address and not for the name.
    let error = open(&url("localhost")).load(KEY).await.unwrap_err();
    assert!(matches!(&error, StoreError::NotConnected(why) if why.contains("certificate")), "{error}");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn over_tls_a_server_of_an_unknown_authority_is_not_asked() {
    let server = Listener::start_with(Some(acceptor()), |_, _| Say(nothing_there())).await;
    let address = server.address;
    let address = DynamoDbAddress::parse(
        &format!("dynamodb://KEY:SECRET@buckets?region=r&endpoint=https://{address}"),
        |_| None,
    );
    // On a machine without roots, opening the store fails.
    if let Ok(store) = address.unwrap().open(&Namespace::default()) {
        let error = store.load(KEY).await.unwrap_err();
        assert!(matches!(&error, StoreError::NotConnected(why) if why.contains("certificate")), "{error}");
    }
    assert!(server.requests().is_empty());
}
