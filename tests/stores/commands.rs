//! `tollgate migrate` and `tollgate check --probe`: what they do and say, and how they end.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use support::servers::Tables;
use support::servers::dynamodb::Dynalite;
use support::servers::memcached::Memcached;
use support::servers::mysql::MariaDb;
use support::servers::postgres::Postgres;
use support::servers::redis::Redis;
use support::{Server, binary, eventually, free_port, new_directory, started};

const FILE: &str = "listen = \"http://127.0.0.1:1\"\nupstream = \"http://127.0.0.1:2\"\n\
    [route.login]\nmatch = \"POST /login\"\n[limit.address]\nrate = \"10 per 5m\"\n";

/// A file with this store, which is gone at the end.
struct File(PathBuf);

impl File {
    fn new(url: &str) -> Self {
        let directory = new_directory();
        fs::write(directory.join("config.toml"), format!("{FILE}[store]\nurl = \"{url}\"\n")).unwrap();
        Self(directory)
    }

    /// The exit code, what is on standard output, and what is on standard error.
    fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(binary());
        let output = command.current_dir(&self.0).args(arguments).env_remove("TOLLGATE_CONFIG").output();
        let output = output.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    }

    fn probe(&self) -> (i32, String, String) {
        self.run(&["check", "--probe"])
    }

    /// That `check --probe` has nothing to say against the store.
    fn is_good(&self, store: &str) {
        let (code, out, err) = self.probe();
        assert_eq!((code, &*err), (0, ""), "{out}");
        assert!(out.ends_with(&format!("store ({store}): ok, no warnings\n")), "{out}");
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Without its table, until `tollgate migrate`.
fn a_missing_table_is_told_and_made(server: &impl Tables, store: &str) {
    let file = File::new(&server.url());
    let (code, out, err) = file.probe();
    let expected = format!(
        "error: the store ({store}) refused: the table `tollgate_buckets` is missing or older than this gate: run \
         `tollgate migrate`\n"
    );
    assert_eq!((code, err), (1, expected));
    assert!(out.contains("config.toml: valid") && !out.contains("store"), "{out}");
    let (code, out, _) = file.run(&["check", "--probe", "--format", "json"]);
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["ok"], &said["store"]["ok"]), (1, &false.into(), &false.into()));
    assert!(said["store"]["errors"][0].as_str().unwrap().contains("`tollgate migrate`"), "{said}");

    let prepared = format!("tollgate: the store ({store}) is prepared; what was there is as it was\n");
    for _ in 0..2 {
        assert_eq!(file.run(&["migrate"]), (0, String::new(), prepared.clone()));
    }
    file.is_good(store);
}

/// As when several gates start at once, and each runs it first.
fn several_at_once_all_make_the_table(server: &impl Tables, store: &str) {
    let files: Vec<File> = (0..8).map(|_| File::new(&server.url())).collect();
    let said: Vec<_> = std::thread::scope(|scope| {
        let running: Vec<_> = files.iter().map(|file| scope.spawn(|| file.run(&["migrate"]))).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    assert!(said.iter().all(|(code, ..)| *code == 0), "{said:?}");
    files[0].is_good(store);
}

/// What is printed is what a person can run.
fn a_dba_can_make_the_table_from_what_is_printed(server: &impl Tables, store: &str) {
    let file = File::new(&server.url());
    let (code, printed, err) = file.run(&["migrate", "--print"]);
    assert_eq!((code, &*err), (0, ""));
    assert!(printed.starts_with("CREATE TABLE IF NOT EXISTS tollgate_buckets"), "{printed}");
    assert_eq!(file.probe().0, 1, "it is printed only");
    server.sql(&printed);
    server.sql(&printed);
    if store == "postgres" {
        server.sql("GRANT SELECT, INSERT, UPDATE, DELETE ON tollgate_buckets TO tollgate");
    }
    file.is_good(store);
}

/// The password is not repeated.
fn a_wrong_password_is_told(server: &impl Tables, store: &str) {
    let file = File::new(&server.url().replace("secret", "hunter2"));
    for words in [&["check", "--probe"][..], &["migrate"]] {
        // A machine that is busy with other tests may let a new connection wait for too long.
        let said = || Some(file.run(words)).filter(|(_, _, err)| !err.contains("in time"));
        let (code, _, err) = (0..20).find_map(|_| said()).unwrap();
        assert_eq!(code, 1, "{err}");
        assert!(err.contains(&format!("the store ({store})")) && err.contains("refused: "), "{err}");
        assert!(!err.contains("hunter2") && !err.contains("secret"), "{err}");
    }
}

fn missing_rights_are_told(server: &impl Tables, store: &str) {
    File::new(&server.url()).run(&["migrate"]);
    server.take_rights();
    let (code, _, err) = File::new(&server.url()).probe();
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with(&format!("error: the store ({store}) refused: ")) && err.contains("denied"),
        "{err}"
    );
}

fn a_database_that_may_only_be_read_is_told(server: &impl Tables, store: &str) {
    File::new(&server.url()).run(&["migrate"]);
    server.read_only();
    let (code, _, err) = File::new(&server.url()).probe();
    assert_eq!(code, 1, "{err}");
    assert!(err.starts_with(&format!("error: the store ({store}) refused: ")), "{err}");
}

macro_rules! tables {
    ($name:ident, $server:ty, $store:literal: $($test:ident)*) => {
        mod $name {
            $(
                #[test]
                fn $test() {
                    let server = support::started::<$server>();
                    super::$test(&server, $store);
                }
            )*
        }
    };
}

tables!(postgres, super::Postgres, "postgres":
    a_missing_table_is_told_and_made
    several_at_once_all_make_the_table
    a_dba_can_make_the_table_from_what_is_printed
    a_wrong_password_is_told
    missing_rights_are_told
    a_database_that_may_only_be_read_is_told
);
tables!(mariadb, super::MariaDb, "mysql":
    a_missing_table_is_told_and_made
    several_at_once_all_make_the_table
    a_dba_can_make_the_table_from_what_is_printed
    a_wrong_password_is_told
    missing_rights_are_told
    a_database_that_may_only_be_read_is_told
);

#[test]
fn a_table_of_dynamodb_is_told_and_made() {
    let server = started::<Dynalite>();
    let file = File::new(&server.url());
    let (code, _, err) = file.probe();
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with("error: the store (dynamodb) refused: ") && err.contains("`tollgate migrate`"),
        "{err}"
    );
    let (code, printed, err) = file.run(&["migrate", "--print"]);
    assert_eq!((code, &*err), (0, ""));
    let commands: Vec<&str> = printed.lines().collect();
    assert!(
        commands.iter().all(|line| line.starts_with("aws dynamodb ") && !line.ends_with(';')),
        "{printed}"
    );
    assert!(!printed.contains("SECRET"), "{printed}");
    assert_eq!(file.run(&["migrate"]).0, 0);
    // The imitation keeps no time to live, and that is told.
    let (code, out, err) = file.probe();
    assert_eq!(code, 0, "{err}");
    assert!(
        err.starts_with("warning: the store (dynamodb): time to live ") && err.lines().count() == 1,
        "{err}"
    );
    assert!(out.ends_with("store (dynamodb): ok, 1 warning\n"), "{out}");
}

#[test]
fn memory_redis_and_memcached_need_no_preparation() {
    let nothing = "tollgate: the buckets are in memory: nothing has to be prepared\n";
    let file = File::new("memory:");
    assert_eq!(file.run(&["migrate"]), (0, String::new(), nothing.to_owned()));
    file.is_good("memory");
    // No server listens there, and no call is made.
    let port = free_port();
    for store in ["redis", "memcached"] {
        let file = File::new(&format!("{store}://127.0.0.1:{port}"));
        let nothing =
            format!("tollgate: the store ({store}) needs nothing: buckets are written when they come\n");
        for words in [&["migrate"][..], &["migrate", "--print"]] {
            assert_eq!(file.run(words), (0, String::new(), nothing.clone()));
        }
    }
}

#[test]
fn redis_and_memcached_that_answer_are_good_and_nothing_is_written() {
    let server = started::<Redis>();
    File::new(&server.url()).is_good("redis");
    // What a probe writes is gone after a millisecond, and the server forgets it a little later.
    assert!(eventually(Duration::from_secs(5), || server.cli(&["DBSIZE"]).trim() == "0"));
    let server = started::<Memcached>();
    File::new(&server.url()).is_good("memcached");
}

#[test]
fn a_store_that_is_not_there_is_told_and_the_file_is_good_all_the_same() {
    let port = free_port();
    for store in ["redis", "memcached", "postgres", "mysql"] {
        let rest = if matches!(store, "postgres" | "mysql") { "/db" } else { "" };
        let user = if rest.is_empty() { "" } else { "tollgate:hunter2@" };
        let file = File::new(&format!("{store}://{user}127.0.0.1:{port}{rest}"));
        let (code, out, err) = file.probe();
        assert_eq!(code, 1, "{store}: {err}");
        assert!(err.starts_with(&format!("error: the store ({store}) cannot be reached: ")), "{err}");
        assert!(err.contains("refused") && !err.contains("hunter2"), "{err}");
        assert!(out.contains("config.toml: valid"), "{out}");
    }
}

#[test]
fn a_store_that_does_not_answer_is_not_waited_for_long() {
    let mut server = started::<Redis>();
    server.pause();
    let begun = std::time::Instant::now();
    let (code, _, err) = File::new(&server.url()).probe();
    let took = begun.elapsed().as_secs_f64();
    server.resume();
    assert_eq!(code, 1, "{err}");
    assert!(
        err.starts_with("error: the store (redis) cannot be reached: ") && err.lines().count() == 1,
        "{err}"
    );
    assert!(took < 8.0, "{took} s");
}

#[test]
fn a_policy_that_drops_buckets_is_a_warning() {
    let server = Redis::start_with(&["--maxmemory", "50mb", "--maxmemory-policy", "allkeys-lru"]).unwrap();
    let file = File::new(&server.url());
    let (code, out, err) = file.probe();
    assert_eq!(code, 0);
    assert!(err.starts_with("warning: the store (redis): Redis has maxmemory-policy allkeys-lru"), "{err}");
    assert!(out.ends_with("store (redis): ok, 1 warning\n"), "{out}");
    let (code, out, _) = file.run(&["check", "--probe", "--format", "json"]);
    let said: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["store"]["ok"], &said["store"]["store"]), (0, &true.into(), &"redis".into()));
    assert_eq!(said["store"]["warnings"].as_array().unwrap().len(), 1);
    assert_eq!(
        serde_json::from_str::<Value>(&file.run(&["check", "--format", "json"]).1).unwrap().get("store"),
        None
    );
}

#[test]
fn a_wrong_password_of_redis_is_told() {
    let server = Redis::start_with(&["--requirepass", "swordfish"]).unwrap();
    for login in ["", ":hunter2@"] {
        let (code, _, err) = File::new(&format!("redis://{login}127.0.0.1:{}", server.port())).probe();
        assert_eq!(code, 1, "{err}");
        assert!(err.starts_with("error: the store (redis) refused: "), "{err}");
        assert!(!err.contains("hunter2"), "{err}");
    }
    File::new(&format!("redis://:swordfish@127.0.0.1:{}", server.port())).is_good("redis");
}

/// `docs/stores.md` names them.
#[test]
fn the_rights_that_the_documents_name_are_enough_in_redis() {
    let document = fs::read_to_string("docs/stores.md").unwrap();
    let rights = document.split_once("(the prefix) and `").unwrap().1.split_once('`').unwrap().0;
    let user: Vec<&str> =
        ["--user", "gate", "on", ">swordfish", "~tollgate:*"].into_iter().chain(rights.split(' ')).collect();
    let server = Redis::start_with(&user).unwrap();
    File::new(&format!("redis://gate:swordfish@127.0.0.1:{}", server.port())).is_good("redis");
    let file = File::new(&format!("redis://gate:swordfish@127.0.0.1:{}/1", server.port()));
    file.is_good("redis");
}

#[test]
fn a_bad_file_is_78_and_no_server_is_asked() {
    let file = File::new("redis://localhost/hunter2");
    for words in [&["check", "--probe"][..], &["migrate"], &["migrate", "--print"]] {
        let (code, out, err) = file.run(words);
        assert_eq!((code, &*out), (78, ""), "{err}");
        assert!(!err.contains("the store (redis)"), "{err}");
    }
}
