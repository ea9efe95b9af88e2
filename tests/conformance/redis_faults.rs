//! What only Redis does: scripts that are forgotten, memories that are full, replicas, slots that move, and the way its
//! address is written.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tollgate::bucket::Key;
use tollgate::store::{RecordVersion, ServerEntry, StoreAddress, StoreError, StoreRecord, Stored, Swap};
use tollgate::time::{Span, Time};

use crate::gate;
use support::servers::found;
use support::servers::redis::{ClusterPlan, Member, Redis, RedisCluster, RedisTls, RedisWithSentinel};
use support::{Server, eventually, started};

/// A gate that asks for one key.
struct Gate(gate::Gate);

impl Deref for Gate {
    type Target = gate::Gate;

    fn deref(&self) -> &gate::Gate {
        &self.0
    }
}

impl Gate {
    fn new(url: &str) -> Self {
        Self(gate::Gate::new(url))
    }

    fn load(&self) -> Result<Option<Stored>, StoreError> {
        self.ask(|store| store.load(KEY))
    }

    fn swap(&self, old: Option<RecordVersion>, bytes: &[u8]) -> Result<Swap, StoreError> {
        self.ask(|store| store.swap(KEY, old, record(bytes)))
    }

    fn refusal(&self, old: Option<RecordVersion>) -> String {
        match self.swap(old, b"new") {
            Err(StoreError::Refused(why)) => why,
            answer => panic!("{answer:?} is no refusal"),
        }
    }

    /// Whether it is so within three seconds, while the store does what it does beside its questions.
    fn becomes(&self, mut is_so: impl FnMut() -> bool) -> bool {
        eventually(Duration::from_secs(10), || {
            self.rest(Duration::from_millis(50));
            is_so()
        })
    }
}

const KEY: Key = Key(0x1234);
const NAME: &str = "tollgate:1:00000000000000000000000000001234";

fn record(bytes: &[u8]) -> StoreRecord {
    let ttl = Span::from_secs(60);
    StoreRecord { bytes: bytes.to_vec(), ttl, limit: "address".into(), full_at: Time::from_nanos(1) }
}

fn done(swap: Result<Swap, StoreError>) -> RecordVersion {
    gate::done(swap.unwrap())
}

#[test]
fn a_script_that_the_server_forgot_is_told_again() {
    let mut server = started::<Redis>();
    let gate = Gate::new(&server.url());
    let version = done(gate.swap(None, b"one"));
    server.cli(&["SCRIPT", "FLUSH"]);
    let version = done(gate.swap(Some(version), b"two"));
    server.cli(&["SCRIPT", "FLUSH"]);
    assert_eq!(gate.load(), Ok(Some(Stored { bytes: b"two".to_vec(), version })));
    assert!(server.questions() >= 3);
}

#[test]
fn each_question_is_one_run_of_the_script() {
    let mut server = started::<Redis>();
    let gate = Gate::new(&server.url());
    let mut version = None;
    for round in 0..10_u8 {
        version = Some(done(gate.swap(version, &[round])));
    }
    assert_eq!(gate.swap(None, b"lost").map(|swap| matches!(swap, Swap::Conflict(Some(_)))), Ok(true));
    assert!(gate.load().unwrap().is_some());
    assert_eq!(server.questions(), 12);
}

#[test]
fn what_is_written_has_an_end_that_is_rounded_up() {
    let server = started::<Redis>();
    let gate = Gate::new(&server.url());
    for (key, nanos, millis) in [(1, 60_000_000_001, 60_001), (2, 59_999_999_999, 60_000)] {
        let written = Instant::now();
        let new = StoreRecord { ttl: Span::from_nanos(nanos), ..record(b"one") };
        gate.ask(|store| store.swap(Key(key), None, new)).unwrap();
        let end: u128 = server.cli(&["PTTL", &format!("tollgate:1:{key:032x}")]).parse().unwrap();
        assert!((millis - written.elapsed().as_millis() - 1..=millis).contains(&end), "{end}");
    }
}

/// G8: a fault like any other.
#[test]
fn a_full_memory_refuses_what_is_to_be_written() {
    let server = started::<Redis>();
    let gate = Gate::new(&server.url());
    let version = done(gate.swap(None, b"one"));
    server.cli(&["CONFIG", "SET", "maxmemory", "1"]);
    assert!(gate.refusal(Some(version)).starts_with("OOM "), "{}", gate.refusal(Some(version)));
    assert_eq!(gate.load(), Ok(Some(Stored { bytes: b"one".to_vec(), version })));
    server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
    done(gate.swap(Some(version), b"two"));
}

#[test]
fn a_replica_refuses_and_is_left_until_it_is_none() {
    let (master, server) = (started::<Redis>(), started::<Redis>());
    let gate = Gate::new(&server.url());
    // All but the one that asks.
    let connections = || {
        let list = server.cli(&["CLIENT", "LIST", "TYPE", "normal"]);
        let others = list.lines().filter(|line| !line.contains("cmd=client"));
        others.map(|line| line.split(' ').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(gate.ask(|store| store.inspect()), Ok(vec![]));
    server.cli(&["REPLICAOF", "127.0.0.1", &master.port().to_string()]);
    let is_replica = || server.cli(&["INFO", "replication"]).contains("master_link_status:up");
    assert!(eventually(Duration::from_secs(20), is_replica));
    let before = connections();
    assert_eq!(before.len(), 1, "{before:?}");
    assert!(gate.refusal(None).starts_with("READONLY "));
    // Its name may lead to another now.
    let again = || gate.within(Duration::from_millis(200), |store| store.inspect());
    let says =
        |sentences: &[String]| sentences == ["Redis is a read-only replica: nothing can be written to it"];
    assert!(gate.becomes(|| matches!(again(), Some(Ok(sentences)) if says(&sentences))));
    assert_ne!(before, connections());
    server.cli(&["REPLICAOF", "NO", "ONE"]);
    assert!(gate.becomes(|| matches!(gate.swap(None, b"one"), Ok(Swap::Done(_)))));
}

#[test]
fn a_wrong_password_is_refused_and_never_repeated() {
    let server = with(&["--requirepass", "op@n/sesame"]);
    let at = |login: &str| Gate::new(&format!("redis://{login}127.0.0.1:{}", server.port()));
    let why = |login: &str| at(login).refusal(None);
    assert!(why("").starts_with("NOAUTH "), "{}", why(""));
    for login in [":hunter2@", "default:hunter2@", "nobody:hunter2@"] {
        let why = why(login);
        assert!(why.starts_with("WRONGPASS "), "{why}");
        assert!(!why.contains("hunter2"), "{why}");
    }
    done(at(":op%40n%2Fsesame@").swap(None, b"one"));
    assert!(at("default:op%40n%2Fsesame@").load().unwrap().is_some());
}

/// G15: not fatal.
#[test]
fn another_password_at_run_time_is_a_refusal_until_it_is_the_right_one_again() {
    let mut server = started::<Redis>();
    let gate = Gate::new(&format!("redis://:secret@127.0.0.1:{}", server.port()));
    let why = gate.refusal(None);
    assert!(why.contains("without any password configured"), "{why}");
    server.cli(&["CONFIG", "SET", "requirepass", "secret"]);
    assert!(gate.becomes(|| matches!(gate.swap(None, b"one"), Ok(Swap::Done(_)))));
    // Without the password that the test knows it could not be asked either.
    server.kill();
    server.start_again();
    assert!(gate.becomes(|| matches!(gate.load(), Err(StoreError::Refused(_)))));
}

#[test]
fn a_server_that_is_still_loading_is_away_until_it_has() {
    let slowly = ["--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"];
    let mut server = with(&[&slowly[..], &["--key-load-delay", "1000"]].concat());
    let gate = Gate::new(&server.url());
    let version = done(gate.swap(None, b"one"));
    server.cli(&["DEBUG", "POPULATE", "2000"]);
    assert_eq!(server.cli(&["SAVE"]), "OK");
    server.kill();
    server.start_again();
    let is_loading =
        |answer| matches!(answer, Err(StoreError::NotConnected(why)) if why.starts_with("LOADING "));
    assert!(gate.becomes(|| is_loading(gate.load())), "{:?}", gate.load());
    assert!(gate.becomes(|| gate.load() == Ok(Some(Stored { bytes: b"one".to_vec(), version }))));
}

/// G7: before it matters.
#[test]
fn a_policy_that_drops_buckets_is_reported() {
    let server = started::<Redis>();
    let gate = Gate::new(&server.url());
    let said = || gate.ask(|store| store.inspect()).unwrap();
    for policy in ["allkeys-lru", "volatile-ttl"] {
        server.cli(&["CONFIG", "SET", "maxmemory-policy", policy]);
        server.cli(&["CONFIG", "SET", "maxmemory", "0"]);
        assert_eq!(said(), [""; 0], "nothing is dropped from a memory without bounds");
        server.cli(&["CONFIG", "SET", "maxmemory", "100mb"]);
        assert_eq!(
            said(),
            [format!(
                "Redis has maxmemory-policy {policy}: when its memory is full it drops buckets that are still \
                 needed; noeviction keeps them"
            )]
        );
    }
    server.cli(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert_eq!(said(), [""; 0]);
}

#[test]
fn a_user_with_no_other_rights_than_it_needs_is_enough() {
    let rights = ["nopass", "~tollgate:*", "+evalsha", "+script|load", "+get", "+set", "+time", "+select"];
    let server = started::<Redis>();
    let said = server.cli(&[&["ACL", "SETUSER", "gate", "on"][..], &rights[..]].concat());
    assert_eq!(said, "OK");
    let gate = Gate::new(&format!("redis://gate:any@127.0.0.1:{}", server.port()));
    let version = done(gate.swap(None, b"one"));
    assert_eq!(gate.load(), Ok(Some(Stored { bytes: b"one".to_vec(), version })));
    assert_eq!(gate.probe(), Ok(()));
    assert_eq!(gate.ask(|store| store.inspect()), Ok(vec![]), "who may not ask says nothing");
    server.cli(&["ACL", "SETUSER", "gate", "-set"]);
    assert!(
        gate.refusal(Some(version)).contains("can't run this command"),
        "{}",
        gate.refusal(Some(version))
    );
}

#[test]
fn what_is_no_string_is_written_over() {
    let server = started::<Redis>();
    let gate = Gate::new(&server.url());
    for command in [["LPUSH", NAME, "a"], ["SADD", NAME, "a"]] {
        server.cli(&["DEL", NAME]);
        server.cli(&command);
        let Ok(Some(stored)) = gate.load() else { panic!("something stands there") };
        assert_eq!(stored.bytes, b"");
        assert_eq!(gate.swap(None, b"no"), Ok(Swap::Conflict(Some(stored.clone()))));
        done(gate.swap(Some(stored.version), b"one"));
        assert_eq!(gate.load().unwrap().unwrap().bytes, b"one");
    }
}

#[test]
fn foreign_bytes_have_a_version_until_they_are_changed() {
    let server = started::<Redis>();
    let gate = Gate::new(&server.url());
    for foreign in ["", "a", "ab", "1234567", "12345678", "much longer than a version"] {
        server.cli(&["SET", NAME, foreign]);
        let Ok(Some(stored)) = gate.load() else { panic!("{foreign:?} stands there") };
        server.cli(&["SET", NAME, "other"]);
        assert!(matches!(gate.swap(Some(stored.version), b"no"), Ok(Swap::Conflict(Some(_)))), "{foreign:?}");
        server.cli(&["SET", NAME, foreign]);
        done(gate.swap(Some(stored.version), b"one"));
    }
}

#[test]
fn a_slot_that_is_moved_takes_its_buckets_along() {
    let cluster = started::<RedisCluster>();
    let gate = Gate::new(&cluster.url());
    let mut version = done(gate.swap(None, b"0"));
    let slot = cluster.members()[0].cli(&["CLUSTER", "KEYSLOT", NAME]);
    let has_it = |member: &&_| Member::cli(member, &["EXISTS", NAME]) == "1";
    let from = cluster.members().iter().find(has_it).unwrap();
    let to = cluster.members().iter().find(|member| !has_it(member)).unwrap();
    let (giver, taker) = (from.cli(&["CLUSTER", "MYID"]), to.cli(&["CLUSTER", "MYID"]));
    let mut write = |what: &[u8]| {
        version = done(gate.swap(Some(version), what));
        assert_eq!(gate.load(), Ok(Some(Stored { bytes: what.to_vec(), version })), "{what:?}");
    };
    assert_eq!(to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &giver]), "OK");
    assert_eq!(from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &taker]), "OK");
    write(b"still there");
    assert_eq!(from.cli(&["MIGRATE", "127.0.0.1", &to.port().to_string(), NAME, "0", "1000"]), "OK");
    write(b"asked there");
    assert_eq!(to.cli(&["SCRIPT", "FLUSH"]), "OK");
    write(b"asked there, and told again");
    for member in [to, from] {
        assert_eq!(member.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &taker]), "OK");
    }
    write(b"moved");
    write(b"and known to have moved");
}

/// Attempts wait for what follows. Once the probe of a server that had become a replica ended them, and once a cluster whose
/// servers had not yet heard of a promotion.
#[test]
fn a_server_that_has_lost_its_slots_and_slots_without_a_server_refuse_nothing() {
    let plan = ClusterPlan { replicas: 1, ..ClusterPlan::default() };
    let cluster = found(RedisCluster::NAME, RedisCluster::start_with(&plan));
    let gate = Gate::new(&cluster.url());
    done(gate.swap(None, b"one"));
    assert_eq!(gate.probe(), Ok(()));

    let servers = gate.store.servers();
    let promoted = cluster.members().iter().find(|member| is_replica(member)).unwrap();
    assert_eq!(promoted.cli(&["CLUSTER", "FAILOVER", "TAKEOVER"]), "OK");
    let one_is_left = || {
        let answers = servers.iter().map(|server| gate.ask(|store| store.probe(server.id)));
        let left: Vec<_> = answers.filter_map(Result::err).collect();
        assert!(left.iter().all(|why| matches!(why, StoreError::NotConnected(_))), "{left:?}");
        left.len() == 1
    };
    assert!(gate.becomes(one_is_left), "{}", promoted.cli(&["CLUSTER", "NODES"]));

    let slot = promoted.cli(&["CLUSTER", "KEYSLOT", NAME]);
    let mut members: Vec<&Member> = cluster.members().iter().collect();
    // The others believe the server that has it until it has forgotten it.
    members.sort_by_key(|member| member.cli(&["EXISTS", NAME]) != "1");
    for member in members {
        assert_eq!(member.cli(&["CLUSTER", "DELSLOTS", &slot]), "OK");
    }
    let says =
        |text| move |answer| matches!(answer, Err(StoreError::NotConnected(why)) if why.starts_with(text));
    let answer = gate.load();
    assert!(says("CLUSTERDOWN ")(answer.clone()), "{answer:?}");
    assert!(gate.becomes(|| says("no server of the cluster has slot ")(gate.load())), "{:?}", gate.load());
    let of_none = |server: &ServerEntry| &*server.name == "slots of no server";
    let none = gate.store.servers().into_iter().find(of_none).unwrap();
    assert!(matches!(gate.ask(|store| store.probe(none.id)), Err(StoreError::NotConnected(_))));
}

fn is_replica(member: &Member) -> bool {
    member.cli(&["ROLE"]).starts_with("slave")
}

#[test]
fn a_cluster_is_spoken_to_over_tls() {
    let plan = ClusterPlan { is_tls: true, ..ClusterPlan::default() };
    let cluster = RedisCluster::start_with(&plan);
    let cluster = found("redis-server with TLS as a cluster", cluster);
    let gate = gate::Gate::new(&cluster.url());
    for key in 0..20 {
        let version = gate.write(Key(key), None, record(b"one"));
        assert_eq!(gate.load(Key(key)).unwrap().version, version);
    }
    assert_eq!((gate.probe(), gate.store.servers().len()), (Ok(()), 3));
    let in_clear_text = Gate::new(cluster.url().replace("rediss", "redis").split('?').next().unwrap());
    assert!(in_clear_text.load().is_err());
}

#[test]
fn a_primary_is_found_by_its_sentinels() {
    let servers = RedisWithSentinel::start().unwrap();
    let gate = Gate::new(&servers.url());
    done(gate.swap(None, b"one"));
    let size = servers.primary.cli(&["-a", "secret", "--no-auth-warning", "EXISTS", NAME]);
    assert_eq!(size, "1");
    let unknown = Gate::new(&servers.url().replace("/gate", "/other"));
    assert!(unknown.refusal(None).contains("knows no primary of this name"), "{}", unknown.refusal(None));
}

#[test]
fn a_server_that_is_no_cluster_says_so() {
    let server = started::<Redis>();
    let gate = Gate::new(&server.url().replace("redis:", "redis-cluster:"));
    assert!(gate.refusal(None).contains("cluster support disabled"), "{}", gate.refusal(None));
}

#[test]
fn an_untrusted_certificate_is_an_error() {
    let server = started::<RedisTls>();
    let url = server.url();
    let (trusting_the_system, _) = url.split_once('?').unwrap();
    let Err(StoreError::NotConnected(why)) = Gate::new(trusting_the_system).load() else { panic!("trusted") };
    assert!(why.contains("certificate"), "{why}");
    let elsewhere = url.replace("localhost", "127.0.0.2");
    assert!(Gate::new(&elsewhere).load().is_err());
}

#[test]
fn a_server_that_hangs_up_is_tried_at_most_ten_times_a_second() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let tried = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&tried);
    // Ends with the process of the test.
    thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    let gate = Gate::new(&format!("redis://127.0.0.1:{port}"));
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(2) {
        assert!(gate.load().is_err());
        gate.rest(Duration::from_millis(1));
    }
    let tried = tried.load(Ordering::Relaxed);
    assert!((3..=20).contains(&tried), "tried {tried} times in two seconds");
}

#[test]
fn without_a_connection_the_answer_is_at_once() {
    let mut server = started::<Redis>();
    let gate = Gate::new(&server.url());
    done(gate.swap(None, b"one"));
    server.kill();
    assert!(gate.load().is_err());
    let is_at_once = |_: &u32| {
        let asked = Instant::now();
        assert!(matches!(gate.load(), Err(StoreError::NotConnected(_))));
        let taken = asked.elapsed();
        gate.rest(Duration::from_millis(5));
        taken < Duration::from_millis(20)
    };
    let at_once = (0..100).filter(is_at_once).count();
    assert!(at_once > 80, "{at_once} of 100: a busy machine holds up few of them");
}

#[test]
fn a_connection_that_swallows_everything_is_given_up() {
    let server = started::<Redis>();
    let relay = Relay::before(server.port());
    let gate = Gate::new(&format!("redis://127.0.0.1:{}", relay.port));
    done(gate.swap(None, b"one"));
    relay.swallow();
    let lost = Instant::now();
    let answered = || matches!(gate.within(Duration::from_millis(50), |store| store.load(KEY)), Some(Ok(_)));
    assert!(!answered());
    assert!(gate.becomes(answered), "not answered again");
    assert!(lost.elapsed() > Duration::from_millis(900), "given up after {:?}", lost.elapsed());
}

#[test]
fn whatever_a_server_says_is_an_error_at_worst() {
    let sayings: [&[u8]; 9] = [
        b"\r\n",
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        b"+OK\r\n",
        b":1\r\n",
        b"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n",
        b"*4\r\n:0\r\n$3\r\nabc\r\n$1\r\na\r\n*2\r\n$1\r\n1\r\n$1\r\n1\r\n",
        b"*4\r\n:0\r\n$0\r\n\r\n$-1\r\n*2\r\n$1\r\nx\r\n$1\r\n1\r\n",
        b"*-7\r\n",
        b"-\r\n",
    ];
    for saying in sayings {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let gate = Gate::new(&format!("redis://{}", listener.local_addr().unwrap()));
        thread::spawn(move || {
            // It takes the script, and answers everything else with the same.
            for stream in listener.incoming() {
                let (mut stream, mut heard) = (stream.unwrap(), [0; 4096]);
                let mut reply: &[u8] = b"$3\r\nabc\r\n";
                while stream.read(&mut heard).is_ok_and(|count| count > 0) && stream.write_all(reply).is_ok()
                {
                    reply = saying;
                }
            }
        });
        let answer = gate.load();
        assert!(answer.is_err(), "{answer:?} to {saying:?}");
    }
}

#[test]
fn mistakes_in_an_address_are_said_without_repeating_it() {
    let not_encoded =
        "in a name, a password or a path, `@`, `/`, `?` and `#` have to be written as %40, %2F, %3F and %23";
    let port = "a port is a number from 1 to 65535";
    let after = "after `?` can stand only `ca=`, and the path of a file of roots";
    for (address, mistake) in [
        ("redis://", "the name of a server is missing"),
        ("redis://:hunter2@", "the name of a server is missing"),
        ("redis://hunter2@host", "before `@` stand `name:password`, or `:password` alone"),
        ("redis://name:@host", "there is no password before `@`"),
        ("redis://:hunter2@hunter3@host", not_encoded),
        ("redis://:hunter2/@host", not_encoded),
        ("redis://:hunter2#@host", not_encoded),
        ("redis://:hunter2%ff@host", "percent-encoded text is not UTF-8"),
        ("redis://host:", port),
        ("redis://host:0", port),
        ("redis://host:hunter2", port),
        ("redis://host:65536", port),
        ("redis://[::1]6379", port),
        ("redis://::1", "the name of a server is missing"),
        ("redis://a b", "the name of a server has invalid characters"),
        ("redis://host/name", "the part after `/` is not the number of a database"),
        ("redis://host/-1", "the part after `/` is not the number of a database"),
        ("redis://host,other", "several servers are a cluster: write `redis-cluster://`"),
        ("redis://host?ca=/roots.pem", "`ca` is for `rediss://`; this is not encrypted"),
        ("rediss://host?ca=", after),
        ("rediss://host?insecure", after),
        ("rediss://host?ca=/a&b=c", after),
        (
            "redis+sentinel://a,b",
            "the name of the primary is missing: write `redis+sentinel://host,host/name`",
        ),
        ("redis+sentinel://a/name/x", "the part after `/` is not the number of a database"),
        ("redis-cluster://a?ca=/roots.pem", "`ca` is for `rediss://`; this is not encrypted"),
        ("redis-cluster://a,,b", "the name of a server is missing"),
        ("redis-cluster://a:1,b:c", port),
        ("redis-cluster://a/1", "a cluster has no databases to choose from after `/`"),
    ] {
        let error = address.parse::<StoreAddress>().unwrap_err().to_string();
        assert_eq!(error, mistake, "{address}");
    }
}

#[test]
fn addresses_that_are_right_are_taken() {
    for address in [
        "redis://host",
        "redis://host/",
        "redis://host:6380/15",
        "redis://:p%40ss@host",
        "redis://name:pass@[::1]:6380/0",
        "rediss://host",
        "rediss://host/?ca=/etc/my%20roots.pem",
        "rediss://name:pass@host:6380/1?ca=roots.pem",
        "redis-cluster://a",
        "rediss-cluster://name:pass@a,b?ca=roots.pem",
        "redis+sentinel://a/primary",
        "rediss+sentinel://name:pass@a,[::1]:26380/primary/1?ca=roots.pem",
        "redis-cluster://name:pass@a:7000,b:7001,[::1]:7002/",
    ] {
        assert!(address.parse::<StoreAddress>().is_ok_and(|address| address.is_shared()), "{address}");
    }
}

#[test]
fn a_database_that_is_chosen_is_the_one_that_is_asked() {
    let server = started::<Redis>();
    let chosen = Gate::new(&format!("{}/3", server.url()));
    done(chosen.swap(None, b"one"));
    assert_eq!(server.cli(&["-n", "3", "EXISTS", NAME]), "1");
    assert_eq!(Gate::new(&server.url()).load(), Ok(None));
    let missing = Gate::new(&format!("{}/99", server.url()));
    assert!(matches!(missing.load(), Err(StoreError::Refused(_))));
}

/// Stands before a server, until it swallows what comes over the connections it has.
struct Relay {
    port: u16,
    swallowed: Arc<Mutex<Vec<Arc<AtomicBool>>>>,
}

impl Relay {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let swallowed: Arc<Mutex<Vec<Arc<AtomicBool>>>> = Arc::default();
        let known = Arc::clone(&swallowed);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(("127.0.0.1", server)).unwrap());
                let swallows = Arc::new(AtomicBool::new(false));
                known.lock().unwrap().push(Arc::clone(&swallows));
                let (back, forth) = (near.try_clone().unwrap(), far.try_clone().unwrap());
                let both = Arc::clone(&swallows);
                thread::spawn(move || Self::carry(near, forth, &swallows));
                thread::spawn(move || Self::carry(far, back, &both));
            }
        });
        Self { port, swallowed }
    }

    fn swallow(&self) {
        self.swallowed.lock().unwrap().iter().for_each(|swallows| swallows.store(true, Ordering::Relaxed));
    }

    fn carry(mut from: TcpStream, mut to: TcpStream, swallows: &AtomicBool) {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if !swallows.load(Ordering::Relaxed) && to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    }
}

fn with(arguments: &[&str]) -> Redis {
    Redis::start_with(arguments).unwrap()
}
