//! The script of Redis takes the steps of [`step`](tollgate::bucket::step).
//!
//! The script is the gate's own, but for its clock, which the test sets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use tollgate::store::StepProgram;
use tollgate::time::{Span, Time};

use crate::arithmetic::{Case, Shape};
use support::servers::redis::Redis;
use support::started;

#[test]
fn a_continuous_bucket_is_stepped_as_by_the_gate() {
    same_as_step(Shape::Continuous);
}

#[test]
fn an_interval_is_stepped_as_by_the_gate() {
    same_as_step(Shape::Interval);
}

#[test]
fn a_floor_is_stepped_as_by_the_gate() {
    same_as_step(Shape::Floor);
}

fn same_as_step(shape: Shape) {
    let server = started::<Redis>();
    let mut script = Script::new(server.port());
    let (mut stepped, mut usual) = (0, 0);
    for (number, case) in Case::all(shape, 10_000, &NOWS).enumerate() {
        let Some(program) = case.program() else { continue };
        let found = case.record(&case.words);
        let (written, after, millis) = script.run(&found, &program, case.now);
        let what =
            || format!("case {number}: {:?} {:?} {:?} at {:?}", case.spec, case.words, case.ops, case.now);
        let expected = case.expected();
        // Numbers of Lua are not exact beyond.
        let is_unusual = case.is_unusual() || case.spec.max_ttl() >= Span::from_nanos(1 << 53);
        usual += usize::from(expected.is_some() && !is_unusual);
        if !written {
            assert_eq!(after, found, "{}", what());
            assert!(expected.is_none() || is_unusual, "{} is usual: {expected:?}", what());
            continue;
        }
        stepped += 1;
        let expected = expected.unwrap_or_else(|| panic!("{} changes nothing", what()));
        assert_eq!(after, case.record(&expected), "{}: {expected:?}", what());
        let life = Time::from_nanos(expected[0]).since(case.now).as_nanos().div_ceil(1_000_000).max(1_000);
        // A time as long as this has been rounded; a moment has passed.
        let lasts = millis + 20 >= life && millis <= life + 2;
        assert!(lasts, "{} lives {millis} of {life} ms", what());
    }
    assert!(stepped > usual / 2 && usual > 100);
}

/// The script on a connection of its own.
struct Script {
    connection: BufReader<TcpStream>,
}

impl Script {
    fn new(port: u16) -> Self {
        Self { connection: BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap()) }
    }

    /// On this record, at this time. Returns whether it stepped, the record after it, and how long it lives.
    fn run(&mut self, found: &[u8], program: &StepProgram, now: Time) -> (bool, Vec<u8>, u64) {
        let script = include_str!("../../crates/store/src/redis/swap.lua");
        let text = format!(
            "redis.call('SET', KEYS[1], ARGV[7])\nlocal function run()\n{}\nend\nlocal reply = run()\n\
             return {{type(reply[2]) == 'number' and reply[2] or 0, redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}}",
            script.replace("redis.call('TIME')", "{ARGV[5], ARGV[6]}")
        );
        let value = [b"VERSION0", found].concat();
        let new = [b"VERSION2", found].concat();
        let micros = now.as_nanos() / 1000;
        let (seconds, rest) = ((micros / 1_000_000).to_string(), (micros % 1_000_000).to_string());
        let arguments = [
            b"EVAL",
            text.as_bytes(),
            b"1",
            b"key",
            b"VERSION1",
            &new,
            b"1000",
            &program.encode(),
            seconds.as_bytes(),
            rest.as_bytes(),
            &value,
        ];
        let mut request = format!("*{}\r\n", arguments.len()).into_bytes();
        for argument in arguments {
            request.extend(format!("${}\r\n", argument.len()).bytes());
            request.extend(argument);
            request.extend(b"\r\n");
        }
        self.connection.get_mut().write_all(&request).unwrap();
        assert_eq!(self.line(), "*3");
        let result = self.line();
        let length = self.line();
        let length: usize = length.strip_prefix('$').unwrap().parse().unwrap();
        let mut after = vec![0; length + 2];
        self.connection.read_exact(&mut after).unwrap();
        let millis = self.line().strip_prefix(':').unwrap().parse().unwrap_or(0);
        after.truncate(length);
        let is_stepped = result == ":2";
        assert!(is_stepped || result == ":0", "{result}");
        assert_eq!(&after[..8], if is_stepped { b"VERSION2" } else { b"VERSION0" });
        (is_stepped, after[8..].to_vec(), millis)
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.connection.read_line(&mut line).unwrap();
        assert!(!line.starts_with('-'), "{line}");
        line.trim_end().to_owned()
    }
}

/// In microseconds: a day of 2027, the first second, and a day of 2255.
const NOWS: [u64; 3] = [1_800_000_000_000_000, 1_000_000, 9_000_000_000_000_000];
