//! Random changes of the corpus: bytes taken out, put in, swapped, and two cases joined.

use crate::corpus::Case;
use crate::world::World;

/// A number from the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().unwrap())
}

/// So many changed cases on one gate.
pub(crate) fn run(cases: &[Case], seed: u64, many: u64) {
    let world = World::new();
    let mut chance = Chance(seed ^ 0x9E37_79B9_7F4A_7C15);
    let mut forwarded = 0_u32;
    for number in 0..many {
        let bytes = changed(cases, &mut chance);
        let seen = world.send(&bytes);
        let shown = || format!("number {number} of seed {seed}: {:?}", String::from_utf8_lossy(&bytes));
        assert!(seen.ended, "the connection does not end; {}", shown());
        if let Err(why) = &seen.arrived {
            panic!("arrived in two forms: {why}; {}", shown());
        }
        forwarded += u32::try_from(seen.forwarded()).unwrap();
    }
    let counted = world.counted();
    assert!(
        f64::from(forwarded) <= counted,
        "seed {seed}: {forwarded} requests arrived, and {counted} were counted"
    );
    println!("seed {seed}: {many} sent, {forwarded} arrived, {counted} counted");
}

fn changed(cases: &[Case], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = chance.of(cases).bytes.clone();
    // The few that are long would be sent again and again for the same.
    bytes.truncate(4096);
    for _ in 0..chance.below(4) {
        let (at, to) = (chance.below(bytes.len() + 1), chance.below(bytes.len() + 1));
        let (at, to) = (at.min(to), at.max(to));
        match chance.below(6) {
            0 => drop(bytes.drain(at..to.min(at + 3))),
            1 => drop(bytes.splice(at..at, chance.of(&WORDS).bytes())),
            2 => drop(bytes.splice(at..to.min(at + 1), [chance.byte()])),
            3 => drop(bytes.splice(at..at, bytes[at..to].to_vec())),
            4 => bytes.extend_from_slice(&chance.of(cases).bytes),
            _ => {
                let line = bytes[at..].iter().position(|byte| *byte == b'\n').map_or(at, |end| at + end + 1);
                bytes.splice(line..line, chance.of(&WORDS).bytes());
            }
        }
        bytes.truncate(8192);
    }
    bytes
}

/// xorshift64*: the same seed sends the same bytes.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() >> 16).unwrap() % most.max(1)
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

const WORDS: [&str; 24] = [
    "\r\n",
    "\n",
    "\r",
    " ",
    "\t",
    "\0",
    ":",
    ",",
    ";",
    "#",
    "0\r\n\r\n",
    "5\r\nabcde\r\n",
    "0",
    "\r\n\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 0\r\n",
    "Content-Length: 00\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: x\r\n",
    "Host: app.test\r\n",
    "Connection: close\r\n",
    "Expect: 100-continue\r\n",
    "GET /form HTTP/1.1\r\nHost: app.test\r\n\r\n",
    "HTTP/1.0",
];
