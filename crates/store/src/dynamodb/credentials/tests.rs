//! Keys from every source, and their renewal; the sources that speak HTTP are servers of the test.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;

use super::*;
use crate::dynamodb::tests::{Listener, Reaction, answer};

const NOW: Time = Time::from_nanos(1_800_000_000_000_000_000); // 2027-01-15T08:00:00Z

fn key_cache(clock: &Clock, environment: &[(&str, &str)]) -> Arc<AwsKeyCache> {
    AwsKeyCache::new(chain(None, environment), clock.clone())
}

fn chain(given: Option<AwsKeys>, environment: &[(&str, &str)]) -> KeySourceChain {
    KeySourceChain::new(given, |wanted| {
        environment.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned())
    })
}

async fn access(cache: &Arc<AwsKeyCache>) -> Result<String, String> {
    cache.get().await.map(|keys| keys.access.clone()).map_err(|error| error.to_string())
}

/// A temporary file of the test, removed when dropped.
struct File(std::path::PathBuf);

impl File {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("tollgate-{}-{name}", std::process::id()));
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const FILE: &str = "
# of the command line
[default]
aws_access_key_id = FIRST
aws_secret_access_key = secret1
region = r

[ other ]
aws_secret_access_key=secret/2+=
aws_access_key_id=SECOND
aws_session_token = token==
[half]
aws_access_key_id = THIRD
";

#[tokio::test]
async fn the_address_comes_before_the_environment_and_that_before_the_file() {
    let file = File::new("order", FILE);
    let clock = Clock::manual(NOW);
    let variables = [
        ("AWS_ACCESS_KEY_ID", "ENVIRONMENT"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_SESSION_TOKEN", "token"),
        ("AWS_SHARED_CREDENTIALS_FILE", file.path()),
    ];
    let given = AwsKeys::new("ADDRESS".to_owned(), "secret".to_owned(), None);
    let cache = AwsKeyCache::new(chain(given, &variables), clock.clone());
    assert_eq!(access(&cache).await.as_deref(), Ok("ADDRESS"));
    let cache = key_cache(&clock, &variables);
    assert_eq!(access(&cache).await.as_deref(), Ok("ENVIRONMENT"));
    assert_eq!(cache.get().await.unwrap().token.as_deref(), Some("token"));
    assert_eq!(access(&key_cache(&clock, &variables[1..])).await.as_deref(), Ok("FIRST"));
}

#[tokio::test]
async fn a_profile_of_the_shared_file_is_read_as_it_stands() {
    let file = File::new("profile", FILE);
    let clock = Clock::manual(NOW);
    let profile =
        |name| key_cache(&clock, &[("AWS_SHARED_CREDENTIALS_FILE", file.path()), ("AWS_PROFILE", name)]);
    let keys = profile("other").get().await.unwrap();
    let expected = AwsKeys::new("SECOND".to_owned(), "secret/2+=".to_owned(), Some("token==".to_owned()));
    assert!(*keys == expected.unwrap());
    assert_eq!(
        access(&profile("half")).await.unwrap_err(),
        "refused: the profile `half` of the shared file has no aws_access_key_id and aws_secret_access_key"
    );
    assert_eq!(
        access(&profile("none")).await.unwrap_err(),
        "refused: the shared file of credentials has no keys for the profile `none`"
    );
}

#[tokio::test]
async fn keys_that_were_changed_in_the_file_come_into_force() {
    let file = File::new("changed", FILE);
    let clock = Clock::manual(NOW);
    let cache = key_cache(&clock, &[("AWS_SHARED_CREDENTIALS_FILE", file.path())]);
    assert_eq!(access(&cache).await.as_deref(), Ok("FIRST"));
    std::fs::write(file.path(), FILE.replace("FIRST", "CHANGED")).unwrap();
    assert_eq!(access(&cache).await.as_deref(), Ok("FIRST"));
    clock.set(NOW.after(Span::from_secs(60)));
    assert!(becomes(&cache, "CHANGED").await);
}

/// Whether that is the key soon; each refresh is a task that has to get its turn.
async fn becomes(cache: &Arc<AwsKeyCache>, wanted: &str) -> bool {
    for _ in 0..100 {
        if access(cache).await.as_deref() == Ok(wanted) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

fn role(access: &str, expires: &str) -> String {
    let role = json!({
        "Code": "Success", "AccessKeyId": access, "SecretAccessKey": "secret", "Token": "token", "Expiration": expires,
    });
    answer("200 OK", role)
}

#[tokio::test]
async fn a_containers_endpoint_is_told_the_token_of_its_file_as_it_is_now() {
    let server = Listener::start(|_, _| Reaction::Say(role("CONTAINER", "2027-01-15T09:00:00Z"))).await;
    let url = format!("http://{}/v1/credentials?x=y", server.address);
    let token = File::new("token", "first\n");
    let clock = Clock::manual(NOW);
    let cache = key_cache(
        &clock,
        &[
            ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.path()),
            ("AWS_CONTAINER_AUTHORIZATION_TOKEN", "other"),
        ],
    );
    assert_eq!(access(&cache).await.as_deref(), Ok("CONTAINER"));
    std::fs::write(token.path(), "second").unwrap();
    cache.invalidate();
    clock.set(NOW.after(Span::from_secs(2)));
    assert_eq!(access(&cache).await.as_deref(), Ok("CONTAINER"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let requests = server.requests();
    assert_eq!(requests.len(), 2, "{requests:?}");
    assert!(requests[0].starts_with("GET /v1/credentials?x=y HTTP/1.1\r\n"), "{}", requests[0]);
    assert!(requests[0].contains("authorization: first\r\n"), "{}", requests[0]);
    assert!(requests[1].contains("authorization: second\r\n"), "{}", requests[1]);
}

#[tokio::test]
async fn a_variable_leads_no_keys_over_plain_http_to_a_stranger() {
    for (url, is_taken) in [
        ("http://example.org/x", false),
        ("http://10.0.0.1/x", false),
        ("http://169.254.170.23.example.org/x", false),
        ("http://169.254.170.23/v1/credentials", true),
        ("http://[fd00:ec2::23]/v1/credentials", true),
        ("http://127.0.0.2:80/", true),
    ] {
        let environment = |name: &str| (name == "AWS_CONTAINER_CREDENTIALS_FULL_URI").then(|| url.to_owned());
        let container = metadata::ContainerService::new(&environment);
        assert_eq!(container.is_ok_and(|found| found.is_some()), is_taken, "{url}");
    }
}

#[tokio::test]
async fn a_machines_role_is_asked_for_with_a_token() {
    let server = Listener::start(|_, request| {
        let has_token = request.contains("x-aws-ec2-metadata-token: TOKEN\r\n");
        let (line, _) = request.split_once("\r\n").unwrap();
        match line {
            "PUT /latest/api/token HTTP/1.1" if request.contains("token-ttl-seconds: ") => {
                Reaction::Say(answer("200 OK", "TOKEN"))
            }
            "GET /latest/meta-data/iam/security-credentials/ HTTP/1.1" if has_token => {
                Reaction::Say(answer("200 OK", "gate-role\n"))
            }
            "GET /latest/meta-data/iam/security-credentials/gate-role HTTP/1.1" if has_token => {
                Reaction::Say(role("MACHINE", "2027-01-15T14:00:00Z"))
            }
            _ => Reaction::Say(answer("401 Unauthorized", "")),
        }
    })
    .await;
    let url = format!("http://{}", server.address);
    let cache = key_cache(&Clock::manual(NOW), &[("AWS_EC2_METADATA_SERVICE_ENDPOINT", &url)]);
    assert_eq!(access(&cache).await.as_deref(), Ok("MACHINE"));
    assert_eq!(server.requests().len(), 3);
}

#[tokio::test]
async fn no_request_waits_for_a_renewal_and_nothing_is_signed_with_keys_that_ended() {
    let is_down = Arc::new(AtomicBool::new(false));
    let down = Arc::clone(&is_down);
    let server = Listener::start(move |before, _| match (down.load(Ordering::Relaxed), before) {
        (true, _) => Reaction::Say(answer("500 Internal Server Error", "SECRET")),
        (_, 0) => Reaction::Say(role("FIRST", "2027-01-15T09:00:00Z")),
        _ => Reaction::Say(role("SECOND", "2027-01-15T10:00:00Z")),
    })
    .await;
    let url = format!("http://{}/", server.address);
    let clock = Clock::manual(NOW);
    let cache = key_cache(&clock, &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]);
    let minutes = |minutes: u64| clock.set(NOW.after(Span::from_secs(60 * minutes)));
    assert_eq!(access(&cache).await.as_deref(), Ok("FIRST"));
    minutes(54);
    assert_eq!(access(&cache).await.as_deref(), Ok("FIRST"));
    assert_eq!(server.requests().len(), 1, "they are valid for six more minutes");
    minutes(55);
    assert_eq!(access(&cache).await.as_deref(), Ok("FIRST"), "no request waits");
    assert!(becomes(&cache, "SECOND").await);
    assert_eq!(server.requests().len(), 2);
    is_down.store(true, Ordering::Relaxed);
    minutes(119);
    assert_eq!(access(&cache).await.as_deref(), Ok("SECOND"));
    minutes(120);
    let error = access(&cache).await.unwrap_err();
    assert_eq!(
        error,
        "refused: the container's endpoint of credentials: GET was answered with 500 Internal Server Error"
    );
    let requests = server.requests().len();
    access(&cache).await.unwrap_err();
    assert_eq!(server.requests().len(), requests, "at most one refresh a second");
    is_down.store(false, Ordering::Relaxed);
    clock.set(NOW.after(Span::from_secs(7202)));
    assert!(access(&cache).await.is_err(), "the keys that it gives have ended");
}

#[tokio::test]
async fn what_a_caller_began_goes_on_when_the_caller_gives_up() {
    let late = Duration::from_millis(80);
    let server =
        Listener::start(move |_, _| Reaction::SayLate(late, role("LATE", "2027-01-15T09:00:00Z"))).await;
    let url = format!("http://{}/", server.address);
    let cache = key_cache(&Clock::manual(NOW), &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]);
    for _ in 0..3 {
        let given_up = tokio::time::timeout(Duration::from_millis(10), cache.get()).await;
        assert!(given_up.is_err());
    }
    assert_eq!(access(&cache).await.as_deref(), Ok("LATE"));
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn no_mistake_repeats_what_an_endpoint_said() {
    for (body, words) in [
        ("SECRET".to_owned(), "its response is not JSON"),
        (json!({ "AccessKeyId": "SECRET" }).to_string(), "its response holds no keys"),
        (
            json!({ "AccessKeyId": "SECRET\n", "SecretAccessKey": "SECRET" }).to_string(),
            "its response holds no keys",
        ),
        (
            json!({ "AccessKeyId": "SECRET", "SecretAccessKey": "SECRET", "Expiration": "SECRET" })
                .to_string(),
            "the end of its keys is not a date",
        ),
    ] {
        let server = Listener::start(move |_, _| Reaction::Say(answer("200 OK", &body))).await;
        let url = format!("http://{}/", server.address);
        let cache = key_cache(&Clock::manual(NOW), &[("AWS_CONTAINER_CREDENTIALS_FULL_URI", &url)]);
        let error = access(&cache).await.unwrap_err();
        assert_eq!(error, format!("refused: the container's endpoint of credentials: {words}"));
    }
}

#[tokio::test]
async fn where_nothing_is_set_up_that_is_said() {
    let cache = key_cache(&Clock::manual(NOW), &[("AWS_EC2_METADATA_DISABLED", "true")]);
    assert_eq!(
        access(&cache).await.unwrap_err(),
        "refused: there are no credentials: neither in the address, nor AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, \
         nor a shared file, nor a role"
    );
}
