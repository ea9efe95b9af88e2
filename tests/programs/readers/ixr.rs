//! What is counted in a body, beside what WordPress's own XML-RPC server finds in it: never less.
//!
//! The bodies are what an attacker would write: batches whose parts stand in odd places, in disguise, or cut out by the
//! patterns with which that server prepares a body. Seeded: a failure names its body. Needs PHP and WordPress, which
//! `scripts/real-apps --install` gets.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout, reason = "these are tests")]

use std::io::Write;
use std::process::Stdio;

use support::{installed, root};
use tollgate::policy::count::Count;

#[test]
#[ignore = "needs PHP and WordPress"]
fn wordpress_never_finds_more_attempts_in_a_body_than_are_charged() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut dice = Dice(seed);
    let bodies: Vec<String> = (0..30_000).map(|_| body(&mut dice)).collect();
    let found = found_by_wordpress(&bodies);
    let count = Count::Element("methodName".into());
    let (mut batches, mut unreadable) = (0, 0);
    for (body, found) in bodies.iter().zip(found) {
        let charged = count.of(body.as_bytes()).map(|calls| calls.max(1));
        unreadable += u32::from(charged.is_err());
        batches += u32::from(found > 1 && charged.is_ok());
        assert!(
            !charged.is_ok_and(|calls| calls < found),
            "seed {seed}: {found} in\n{body}\nand not {charged:?}"
        );
    }
    println!("{batches} batches that WordPress takes, {unreadable} bodies that we do not");
    assert!(batches > 1000, "only {batches} of them are batches to both");
}

#[test]
#[ignore = "needs PHP and WordPress"]
fn what_wordpress_cuts_out_of_a_body_hides_nothing_from_the_count() {
    let call = "<value><struct><member><name>methodName</name><value><string>login</string></value></member><member>\
        <name>params</name><value><array><data></data></array></value></member></struct></value>";
    let batch = format!(
        "<methodName>system.multicall</methodName><params><param><value><array><data>{}</data></array></value></param>\
         </params>",
        call.repeat(3)
    );
    let bodies = [
        format!("<methodCall><![CDATA[<?xml ]]><!-- ?>]]>{batch}--></methodCall>"),
        format!("\u{b}<methodCall>{batch}</methodCall>"),
        format!("<!DOCTYPE methodCall><methodCall>{batch}</methodCall>"),
        format!(
            "<methodCall>{}</methodCall>",
            batch.replace("<name>methodName", "<name>x<y/>&#32;methodName")
        ),
    ];
    assert_eq!(found_by_wordpress(&bodies), [3, 3, 3, 3]);
    let count = Count::Element("methodName".into());
    let charged = bodies.map(|body| count.of(body.as_bytes()).ok());
    assert_eq!(charged, [None, Some(3), None, Some(3)]);
}

fn found_by_wordpress(bodies: &[String]) -> Vec<u32> {
    let mut php = installed("php", "php-cli");
    php.args(["-d", "memory_limit=1G"]).arg(root().join("tests/apps/ixr.php"));
    php.arg("/usr/share/wordpress/wp-includes/IXR").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = php.spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let input: Vec<u8> = bodies
        .iter()
        .flat_map(|body| [format!("{}\n", body.len()).as_bytes(), body.as_bytes()].concat())
        .collect();
    let writing = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = process.wait_with_output().unwrap();
    writing.join().unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let found: Vec<u32> = lines.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(found.len(), bodies.len());
    found
}

/// A batch, and some of what could be done to it.
fn body(dice: &mut Dice) -> String {
    let calls: String = (0..dice.below(5)).map(|_| call(dice)).collect();
    let data = format!("<data>{}{calls}{}</data>", odd(dice), odd(dice));
    let around = match dice.below(4) {
        0 => format!("<member><name>methodName</name>{data}</member>"),
        1 => format!("<name>{}</name>{data}", name(dice, "methodName")),
        _ => data,
    };
    let mut body = format!(
        "{}<methodCall{}>{}<methodName>system.multicall</methodName><params><param><value>{around}</value></param>\
         </params>{}</methodCall>{}",
        dice.pick(&STARTS),
        dice.pick(&["", "", " a='>'", "\n"]),
        odd(dice),
        odd(dice),
        dice.pick(&["", "", "\n", "<!-- x -->", " \u{b}"]),
    );
    for _ in 0..dice.below(6).saturating_sub(3) {
        splice(dice, &mut body);
    }
    body
}

/// A call of a batch, in one of the forms that IXR takes for one.
fn call(dice: &mut Dice) -> String {
    let method = format!("<value><string>login</string></value>{}", odd(dice));
    let params = format!("<value><{0}><data></data></{0}></value>", dice.pick(&["array", "x"]));
    let member = |dice: &mut Dice, key: &str, value: &str| {
        let key = name(dice, key);
        match dice.below(8) {
            0 => value.to_owned(),
            1 => format!("<name>{key}</name>{value}"),
            2 => format!("{value}<member></member>"),
            3 => format!("<member><name>{key}</name><name>{key}</name>{value}</member>"),
            4 => format!("<Member><name>{key}</name>{value}</Member>"),
            _ => format!("<member><name>{key}</name>{value}</member>"),
        }
    };
    let (first, second) = (member(dice, "methodName", &method), member(dice, "params", &params));
    format!("<value><struct>{first}{}{second}</struct></value>", odd(dice))
}

/// A member's name, in plain or in disguise.
fn name(dice: &mut Dice, key: &str) -> String {
    let (start, end) = key.split_at(4);
    match dice.below(12) {
        0 => format!("&#{};{}", key.as_bytes()[0], &key[1..]),
        1 => format!("{start}<![CDATA[{end}]]>"),
        2 => format!("{start}<!-- - -->{end}"),
        3 => format!("{start}<?x ?>{end}"),
        4 => format!("junk<x/> {key}\n"),
        5 => format!("<x>junk</x>{key}&#x20;"),
        6 => format!("<{0}>{start}</{0}>{end}", dice.pick(&["name", "string", "b"])),
        _ => key.to_owned(),
    }
}

/// What may stand anywhere, mostly nothing.
fn odd(dice: &mut Dice) -> &'static str {
    if dice.below(4) > 0 {
        return "";
    }
    dice.pick(&[
        "<!-- <x> -->",
        "<?x <x> ?>",
        "<![CDATA[ ]]>",
        "<![CDATA[<?xml ]]><!-- ?>]]>",
        "-->",
        "<name>methodName</name>",
        "<member/>",
        "<Name>methodName</Name>",
        "<name/>",
        "<value>methodName</value>",
        "&lt;",
        "<struct></struct>",
        "<x:member></x:member>",
        "<member><name>params</name></member>",
    ])
}

/// Copies a piece of the body over another, or writes a piece of markup somewhere.
fn splice(dice: &mut Dice, body: &mut String) {
    let at = |dice: &mut Dice, body: &str| {
        let mut at = dice.below(body.len() + 1);
        while !body.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let (one, two) = (at(dice, body), at(dice, body));
    let piece = match dice.below(2) {
        0 => body[one.min(two)..one.max(two)].to_owned(),
        _ => dice
            .pick(&["<!--", "-->", "<![CDATA[", "]]>", "<?xml ", "?>", "'", "\"", "<x a='", "'/>"])
            .to_owned(),
    };
    let target = at(dice, body);
    body.insert_str(target, &piece);
}

const STARTS: [&str; 8] = [
    "",
    "<?xml version=\"1.0\"?>\n",
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>",
    " \u{b}\n",
    "<?xml version='1.0'?><!-- ?>",
    "<!DOCTYPE methodCall>",
    "<?xml version='1.0'?> <!doctype x>",
    "\u{feff}",
];

/// Seeded: xorshift.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, most: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 20) % most.max(1) as u64).unwrap()
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
