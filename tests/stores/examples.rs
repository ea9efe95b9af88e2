//! The examples that name a store, each started twice on a real one.

use std::fs;
use std::time::Instant;

use support::servers::{dynamodb, memcached, mysql, postgres, redis};
use support::{Gate, Launch, Server, Upstream, get_with, post, started};
use tollgate::store::{Namespace, StoreAddress};

#[test]
fn two_gates_on_one_redis_share_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<redis::Redis>("two-gates-one-redis/gate");
}

#[test]
fn the_example_of_redis_shares_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<redis::Redis>("stores/redis");
}

#[test]
fn the_example_of_a_redis_cluster_shares_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<redis::RedisCluster>("stores/redis-cluster");
}

#[test]
fn the_example_of_memcached_shares_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<memcached::Servers<2>>("stores/memcached");
}

#[test]
fn the_example_of_postgres_shares_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<postgres::Postgres>("stores/postgres");
}

#[test]
fn the_example_of_mysql_shares_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<mysql::MariaDb>("stores/mysql");
}

#[test]
fn the_example_of_dynamodb_shares_ten_attempts() {
    ten_attempts_are_ten_at_two_gates::<dynamodb::Dynalite>("stores/dynamodb");
}

fn ten_attempts_are_ten_at_two_gates<S: Server + 'static>(example: &str) {
    let pair = Pair::of::<S>(example);
    let answers = (0..12).map(|attempt| pair.gates[attempt % 2].ask(post("/login", "")).status);
    let expected: Vec<u16> = (0..12).map(|attempt| if attempt < 10 { 200 } else { 429 }).collect();
    assert_eq!(answers.collect::<Vec<_>>(), expected);
}

#[test]
fn the_origin_in_php_shares_its_limit_and_its_debt_over_memcached() {
    let pair = Pair::of::<memcached::Servers<1>>("origins/php-memcached");
    let form = post("/login", "").replace("app.test", "crm.example.org");
    pair.admits(40, &form, 10, |seconds| 10.0 + seconds / 30.0);
    let wait = pair.gates[0].ask(&form).retry_after();
    assert!((300..=330).contains(&wait), "ten tokens of debt and the one wanted: {wait} s");
}

#[test]
fn the_origin_in_postgresql_shares_its_tokens_and_tells_how_many_are_left() {
    let pair = Pair::of::<postgres::Postgres>("origins/postgresql-function");
    let [one, other] = ["a", "b"].map(|key| get_with("/api/x", &format!("X-Api-Key: {key}\r\n")));
    let left = pair.gates[0].ask(&one).header("ratelimit").unwrap().to_owned();
    assert!(left.starts_with("\"caller\";r=9;"), "{left}");
    pair.admits(30, &other, 10, |seconds| 10.0 + seconds);
}

#[test]
fn the_origin_in_mysql_shares_each_of_its_periods() {
    let pair = Pair::of::<mysql::MariaDb>("origins/mysql-procedure");
    // A period begins with the first call after the last one ended: as many as began, and no more.
    pair.admits(30, &get_with("/x", ""), 2, |seconds| 2.0 * (seconds.floor() + 1.0));
}

#[test]
fn the_origin_in_dynamodb_shares_its_start_balance_and_its_floor() {
    let pair = Pair::of::<dynamodb::Dynalite>("origins/dynamodb-floor");
    pair.admits(90, &get_with("/api/x", ""), 60, |seconds| 60.0 + 11.0 * seconds);
}

#[test]
fn the_origin_of_the_registry_shares_its_windows_over_redis() {
    let pair = Pair::of::<redis::Redis>("origins/rolling-window");
    pair.admits(70, &get_with("/whois/example.org", ""), 60, |seconds| {
        60.0 * ((seconds / 60.0).floor() + 1.0)
    });
}

/// An example, started twice as it stands, but for where it listens and where the others are.
struct Pair {
    gates: [Gate; 2],
    _others: (Upstream, Box<dyn std::any::Any>),
}

impl Pair {
    fn of<S: Server + 'static>(example: &str) -> Self {
        let server = started::<S>();
        let url = server.url();
        let file = fs::read_to_string(format!("examples/{example}.toml")).unwrap();
        assert_eq!(schemes(&file), schemes(&format!("url = \"{url}\"")), "the example names another store");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let address: StoreAddress = url.parse().unwrap();
        runtime.block_on(async {
            address.open(&Namespace::default()).unwrap().unwrap().migrate().await.unwrap();
        });
        let upstream = Upstream::start();
        let gates = [(); 2].map(|()| gate_like(&file, &url, &upstream));
        Self { gates, _others: (upstream, Box::new(server)) }
    }

    /// Both gates in turn admit at least `burst` of so many attempts, and never more than `most` allows for the seconds
    /// that they took.
    fn admits(&self, attempts: usize, request: &str, burst: usize, most: impl Fn(f64) -> f64) {
        let began = Instant::now();
        let admitted =
            (0..attempts).filter(|attempt| self.gates[attempt % 2].ask(request).status == 200).count();
        let most = most(began.elapsed().as_secs_f64());
        #[expect(clippy::cast_precision_loss, reason = "a few dozen")]
        let bounded = admitted as f64 <= most;
        assert!(admitted >= burst && bounded, "{admitted} of {attempts}: not between {burst} and {most}");
    }
}

fn gate_like(file: &str, url: &str, upstream: &Upstream) -> Gate {
    let without_address: String =
        file.lines().filter(|line| !line.starts_with("listen")).map(|line| format!("{line}\n")).collect();
    let launch = Launch::new(&without_address).environment("TOLLGATE_STORE__URL", url);
    // A busy machine is not what is tested here.
    let launch = launch.environment("TOLLGATE_STORE__TIMEOUT", "5s");
    launch.environment("TOLLGATE_UPSTREAM", &format!("http://{}", upstream.address)).start()
}

/// Which stores a file names.
fn schemes(file: &str) -> Vec<&str> {
    let urls = file.lines().filter_map(|line| line.strip_prefix("url = \""));
    urls.filter_map(|url| Some(url.trim_start().split_once("://")?.0)).collect()
}
