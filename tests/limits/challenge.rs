//! Challenges on a running gate: what a browser earns by a proof of work, and what everybody else does not.

use std::net::Ipv4Addr;

use sha2::{Digest, Sha256};

use support::{Gate, ONE_AN_HOUR, Upstream, get_with, post, post_with};

const WORK: &str = "[refuse]\nchallenge = \"work\"\n";
const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(127, 0, 9, 9);
const BROWSER: &str = "Accept: text/html,application/xhtml+xml;q=0.9\r\n";

fn gate_with(upstream: &Upstream, tables: &str) -> Gate {
    Gate::start(&upstream.file(&format!("{ONE_AN_HOUR}{tables}")))
}

fn from_browser(target: &str) -> String {
    post_with(target, BROWSER)
}

/// The challenge on the page that this gate refuses with; `None` if it offers none.
fn challenge(gate: &Gate, target: &str) -> Option<String> {
    let page = gate.ask(from_browser(target));
    assert_eq!(page.status, 429);
    let text = page.text();
    let (_, rest) = text.split_once("data-challenge=\"")?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn zero_bits(proof: &str) -> u32 {
    let hash: [u8; 32] = Sha256::digest(proof).into();
    u32::from_be_bytes(*hash.first_chunk().unwrap()).leading_zeros()
}

/// By four threads, each with numbers of its own.
fn solve(challenge: &str) -> String {
    let bits: u32 = challenge.split('-').nth(1).unwrap().parse().unwrap();
    let is_found = std::sync::atomic::AtomicBool::new(false);
    let search = |first: u64| {
        (first..50_000_000).step_by(4).map_while(|number| {
            let is_over = is_found.load(std::sync::atomic::Ordering::Relaxed);
            (!is_over).then(|| format!("{challenge}-{number}"))
        })
    };
    let find = |first| {
        let proof = search(first).find(|proof| zero_bits(proof) >= bits);
        is_found.fetch_or(proof.is_some(), std::sync::atomic::Ordering::Relaxed);
        proof
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|first| scope.spawn(move || find(first))).collect();
        threads.into_iter().find_map(|thread| thread.join().unwrap()).unwrap()
    })
}

/// L18: a proof of work earns its client one attempt, once, and never reaches the application.
#[test]
fn a_proof_earns_one_attempt_of_its_client_and_no_second_one() {
    let upstream = Upstream::start();
    let gate = gate_with(&upstream, WORK);
    let attempt = |from: Ipv4Addr| {
        let mut client = gate.connect_from(from);
        client.send(post("/login", "a=b"));
        client.answer().status
    };
    assert_eq!([attempt(Ipv4Addr::LOCALHOST), attempt(NEIGHBOUR), attempt(NEIGHBOUR)], [200, 200, 429]);
    let proof = solve(&challenge(&gate, "/login?next=%2Fhome").unwrap());
    let target = format!("/login?next=%2Fhome&tollgate-proof={proof}");
    let mut neighbour = gate.connect_from(NEIGHBOUR);
    neighbour.send(from_browser(&target));
    assert_eq!(neighbour.answer().status, 429, "a proof of another client");
    for broken in ["", "1", &proof.replace("-19-", "-1-"), &format!("{proof}0"), &proof[..40]] {
        let answer = gate.ask(from_browser(&format!("/login?tollgate-proof={broken}")));
        assert_eq!((answer.status, answer.header("retry-after").is_some()), (429, true), "{broken}");
    }
    assert_eq!(
        gate.ask(from_browser(&format!("{target}&tollgate-proof={proof}"))).status,
        429,
        "two at once"
    );
    let earned = gate.ask(from_browser(&target));
    assert_eq!((earned.status, earned.header("location")), (303, Some("./login?next=%2Fhome")));
    assert_eq!((earned.header("cache-control"), earned.header("set-cookie")), (Some("no-store"), None));
    assert_eq!(attempt(Ipv4Addr::LOCALHOST), 200);
    assert_eq!(attempt(Ipv4Addr::LOCALHOST), 429);
    assert_eq!(gate.ask(from_browser(&target)).status, 429, "used");
    assert_eq!(upstream.requests().len(), 3);
    assert!(!upstream.saw("tollgate-proof"));
    let counted = |result: &str| gate.metric("tollgate_challenges_total", &format!("result=\"{result}\""));
    assert_eq!((counted("solved"), counted("refused")), (1.0, 8.0));
    assert!(counted("offered") >= 1.0);
}

/// L18: programs, other methods and pages elsewhere are refused as ever.
#[test]
fn a_challenge_is_offered_to_browsers_that_sent_a_form_and_to_nobody_else() {
    let upstream = Upstream::start();
    let gate = gate_with(&upstream, WORK);
    assert_eq!(gate.ask(post("/login", "a=b")).status, 200);
    let page = gate.ask(from_browser("/login"));
    let policy = page.header("content-security-policy").unwrap();
    let text = page.text();
    let script = text.split_once("<script>").unwrap().1.split_once("</script>").unwrap().0;
    let hash = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, Sha256::digest(script));
    assert!(policy.starts_with("default-src 'none';"), "{policy}");
    assert!(policy.ends_with(&format!("script-src 'sha256-{hash}'")), "{policy}");
    assert!(policy.contains("form-action 'self'"), "{policy}");
    for accept in ["application/json", "*/*", "text/plain"] {
        let answer = gate.ask(post_with("/login", &format!("Accept: {accept}\r\n")));
        assert_eq!((answer.status, answer.text().contains("challenge")), (429, false), "{accept}");
    }
    let put = gate.ask(from_browser("/login").replace("POST ", "PUT "));
    assert_eq!((put.status, put.text().contains("<script>")), (429, false));
}

#[test]
fn a_gate_without_challenges_takes_a_proof_for_an_attempt_as_any_other() {
    let upstream = Upstream::start();
    let gate = gate_with(&upstream, "");
    let target = "/login?tollgate-proof=1-1-1-1";
    assert_eq!(gate.ask(from_browser(target)).status, 200);
    assert_eq!(challenge(&gate, target), None);
    assert!(upstream.saw("tollgate-proof"));
}

/// L18: neither what an account limit refuses nor what time does not lift is for sale, and no request with a proof goes on.
#[test]
fn limits_of_accounts_and_debts_are_not_for_sale() {
    let upstream = Upstream::start();
    let account = "[limit.account]\nkey = \"user\"\nrate = \"1 per 1h\"\n";
    let route = "[route.login]\nmatch = \"POST /login\"\nuser = \"query:u\"\n";
    let gate = Gate::start(&upstream.file(&format!("{route}{account}{WORK}")));
    assert_eq!(gate.ask(from_browser("/login?u=alice")).status, 200);
    assert_eq!(challenge(&gate, "/login?u=alice"), None);
    let debt = "[limit.address]\nrate = \"1 per 1h\"\ndebt = 3\n";
    let gate = Gate::start(&upstream.file(&format!("{route}{debt}{WORK}")));
    assert_eq!(gate.ask(from_browser("/login")).status, 200);
    assert_eq!(challenge(&gate, "/login"), None);
    let elsewhere = gate.ask(get_with("/other?x=1&tollgate-proof=7", ""));
    assert_eq!((elsewhere.status, elsewhere.header("location")), (303, Some("./other?x=1")));
    assert!(!upstream.saw("tollgate-proof"));
}
