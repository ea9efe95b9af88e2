//! Dovecot's `auth_policy`: what its questions are charged to, what they are answered, and what its reports settle.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use support::dice::Dice;
use support::{Answer, Client, Gate, Launch, Upstream, eventually, free_port, post};

/// A gate that Dovecot asks, in front of a form as well.
struct Mail {
    gate: Gate,
    address: SocketAddr,
    _upstream: Upstream,
}

impl Mail {
    fn start(tables: &str, endpoint: &str) -> Self {
        let upstream = Upstream::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let kind =
            format!("[endpoint.mail]\nkind = \"auth-policy\"\nlisten = \"http://{address}\"\n{endpoint}");
        let gate = Launch::new(&upstream.file(&format!("{tables}\n{kind}\n"))).start();
        Self { gate, address, _upstream: upstream }
    }

    fn post(&self, target: &str, body: impl AsRef<[u8]>) -> Answer {
        let body = body.as_ref();
        let head =
            format!("POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {}\r\n\r\n", body.len());
        let mut client = Client::connect(self.address);
        client.send([head.as_bytes(), body].concat());
        client.answer()
    }

    /// The `status` and `msg` of a question.
    fn allow(&self, sign_in: &SignIn) -> (i64, String) {
        let answer = self.post(ALLOW, sign_in.question());
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let said: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
        (said["status"].as_i64().unwrap(), said["msg"].as_str().unwrap().to_owned())
    }

    fn is_allowed(&self, sign_in: &SignIn) -> bool {
        self.allow(sign_in).0 == 0
    }

    fn report(&self, sign_in: &SignIn, success: bool, policy_reject: bool) {
        let answer = self.post(REPORT, sign_in.report(success, policy_reject));
        assert_eq!((answer.status, answer.text().as_str()), (200, r#"{"status":"ok"}"#));
    }

    /// Asks, and reports if the password was checked.
    fn signs_in(&self, sign_in: &SignIn, success: bool) -> bool {
        let is_allowed = self.is_allowed(sign_in);
        self.report(sign_in, success && is_allowed, !is_allowed);
        is_allowed
    }

    fn form(&self, user: &str) -> u16 {
        self.gate.ask(post("/login", &format!("user={user}&password=x"))).status
    }

    fn ended(&self, outcome: &str) -> f64 {
        self.gate.metric("tollgate_attempts_total", &format!("outcome=\"{outcome}\""))
    }
}

/// A sign-in as Dovecot tells of it.
#[derive(Clone, Copy)]
struct SignIn {
    login: &'static str,
    remote: &'static str,
    protocol: &'static str,
    session: &'static str,
}

impl SignIn {
    fn question(&self) -> String {
        let Self { login, remote, protocol, session } = self;
        format!(
            "{{\"device_id\":\"\",\"login\":\"{login}\",\"protocol\":\"{protocol}\",\"pwhash\":\"09da\",\
             \"remote\":\"{remote}\",\"session_id\":\"{session}\",\"tls\":false}}"
        )
    }

    fn report(&self, success: bool, policy_reject: bool) -> String {
        let question = self.question();
        let (rest, _) = question.rsplit_once(',').unwrap();
        format!("{rest},\"success\":{success},\"policy_reject\":{policy_reject},\"tls\":false}}")
    }
}

const ANNA: SignIn = SignIn { login: "anna", remote: "192.0.2.1", protocol: "imap", session: "x1/AAAB" };
const ALLOW: &str = "/?command=allow";
const REPORT: &str = "/?command=report";

/// Three failures for each account, by mail and by the form.
const FAILURES: &str = "[route.login]\nmatch = \"POST /login\"\nuser = \"form:user\"\nsuccess = { status = 302 }\n\
                        [route.mail]\nmatch = \"policy:*\"\n\
                        [limit.account]\nkey = \"user\"\nrate = \"3 per 1h\"\ncount = \"failures\"\n";

#[test]
fn failures_by_mail_and_by_the_form_share_the_bucket_of_the_account() {
    let mail = Mail::start(FAILURES, "");
    assert!(mail.signs_in(&SignIn { remote: "192.0.2.1", ..ANNA }, false));
    assert_eq!(mail.form("anna"), 200);
    assert!(mail.signs_in(&SignIn { login: " ANNA ", protocol: "smtp", session: "", ..ANNA }, false));
    assert!(!mail.signs_in(&SignIn { remote: "2001:db8::1", ..ANNA }, true));
    assert_eq!(mail.form("Anna"), 429);
    let (status, msg) = mail.allow(&ANNA);
    assert_eq!(status, -1);
    assert!(msg.starts_with("Too many sign-in attempts. Wait 1") && msg.contains(" seconds"), "{msg}");
    assert_eq!((mail.form("bert"), mail.is_allowed(&SignIn { login: "bert", ..ANNA })), (200, true));
    assert_eq!(mail.ended("failure"), 4.0);
}

#[test]
fn right_passwords_cost_nothing_even_where_dovecot_asks_about_each_twice() {
    let mail = Mail::start(FAILURES, "");
    for session in ["x1/AAAB", ""] {
        for _ in 0..25 {
            let sign_in = SignIn { session, ..ANNA };
            assert!(mail.is_allowed(&sign_in) && mail.is_allowed(&sign_in), "before and after the password");
            mail.report(&sign_in, true, false);
        }
    }
    assert_eq!((mail.ended("success"), mail.ended("failure")), (100.0, 0.0));
}

#[test]
fn a_failure_that_nobody_asked_about_is_charged_once_and_what_a_policy_refused_is_not() {
    let mail = Mail::start(FAILURES, "");
    (0..10).for_each(|_| mail.report(&ANNA, false, true));
    assert!(mail.signs_in(&ANNA, true));
    for _ in 0..2 {
        mail.report(&ANNA, false, false);
        assert!(mail.signs_in(&ANNA, true));
    }
    mail.report(&ANNA, false, false);
    assert!(!mail.signs_in(&ANNA, true));
    // Dovecot knows no name where it refuses one: its client pays.
    let nameless = SignIn { login: "", ..ANNA };
    (0..3).for_each(|_| mail.report(&nameless, false, false));
    assert!(!mail.is_allowed(&nameless) && mail.is_allowed(&SignIn { remote: "192.0.2.2", ..nameless }));
}

/// C2: nobody's report gives back what a guess took.
#[test]
fn a_report_settles_no_attempt_of_another_account_client_protocol_or_session() {
    let mail = Mail::start(FAILURES, "");
    (0..3).for_each(|_| assert!(mail.is_allowed(&ANNA)));
    for other in [
        SignIn { login: "bert", ..ANNA },
        SignIn { remote: "192.0.2.2", ..ANNA },
        SignIn { protocol: "pop3", ..ANNA },
        SignIn { session: "x2/AAAB", ..ANNA },
        SignIn { login: "annax1/AAAB", session: "", ..ANNA },
    ] {
        mail.report(&other, true, false);
    }
    mail.report(&ANNA, false, true);
    mail.report(&ANNA, true, true);
    assert!(!mail.is_allowed(&ANNA));
    mail.report(&ANNA, true, false);
    assert!(mail.signs_in(&ANNA, true), "its own does");
}

/// A passdb renames the account between question and report; several names that are sent may be one account.
#[test]
fn the_name_that_was_sent_ties_a_report_to_its_question() {
    let mail = Mail::start(FAILURES, "");
    let with = |body: String, login: &str, asked: &str| {
        body.replace("\"login\":\"anna\"", &format!("\"login\":\"{login}\",\"asked\":\"{asked}\""))
    };
    let signs_in = |asked: &str, success: bool| {
        let answer = mail.post(ALLOW, with(ANNA.question(), "anna", asked)).text();
        let report = with(ANNA.report(success, false), "u1000", asked);
        assert_eq!(mail.post(REPORT, report).status, 200);
        answer.contains("\"status\":0")
    };
    (0..10).for_each(|_| assert!(signs_in("anna@a1", true)));
    assert_eq!((mail.ended("success"), mail.ended("failure")), (10.0, 0.0));
    for asked in ["anna@a1", "anna@a2", "anna@a3"] {
        assert!(signs_in(asked, false));
    }
    assert_eq!(mail.ended("failure"), 3.0);
    assert!(!mail.is_allowed(&ANNA));
}

#[test]
fn strangers_lock_no_mail_program_out_where_it_signed_in_before() {
    let device = "[device]\nsecret = \"0123456789abcdef0123456789abcdef\"\naddresses = true\n";
    let mail = Mail::start(&format!("{FAILURES}{device}"), "");
    assert!(mail.signs_in(&ANNA, true));
    let stranger = SignIn { remote: "198.51.100.1", ..ANNA };
    let guesses = [0; 4].map(|_| mail.signs_in(&stranger, false));
    assert_eq!(guesses, [true, true, true, false]);
    assert!(mail.signs_in(&ANNA, true));
}

#[test]
fn of_300_guesses_at_once_exactly_the_bucket_is_allowed() {
    let mail = Mail::start(FAILURES, "");
    let allowed: usize = std::thread::scope(|scope| {
        let guess = || (0..30).filter(|_| mail.signs_in(&SignIn { session: "", ..ANNA }, false)).count();
        let threads: Vec<_> = (0..10).map(|_| scope.spawn(guess)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(allowed, 3);
}

#[test]
fn without_a_report_an_attempt_is_a_failure() {
    let mail = Mail::start(FAILURES, "outcome_timeout = \"300ms\"");
    (0..3).for_each(|_| assert!(mail.is_allowed(&ANNA)));
    assert!(eventually(Duration::from_secs(10), || mail.ended("failure") >= 3.0));
    mail.report(&ANNA, true, false);
    assert!(!mail.is_allowed(&ANNA));
}

#[test]
fn protocols_may_have_routes_of_their_own_and_a_wait_is_dovecots_to_hold() {
    let tables = "[route.imap]\nmatch = [\"policy:imap\", \"policy:pop3\"]\nlimits = \"address\"\n\
                  [route.smtp]\nmatch = \"policy:smtp\"\nlimits = \"slow\"\n\
                  [limit.address]\nkey = \"ip+header:protocol\"\nrate = \"1 per 1h\"\n\
                  [limit.slow]\nrate = \"1 per 40s\"\nwait = \"1m\"\n";
    let mail = Mail::start(tables, "");
    let by = |protocol| mail.allow(&SignIn { protocol, ..ANNA }).0;
    assert_eq!([by("imap"), by("IMAP"), by("pop3"), by("pop3")], [0, 0, 0, -1]);
    assert_eq!(by("imap"), -1);
    assert_eq!(by("smtp"), 0);
    assert!((30..=40).contains(&by("smtp")));
    assert_eq!([by("sieve"), by(""), by("sieve")], [0; 3], "what no route counts");
    let unknown = SignIn { remote: "", ..ANNA };
    assert_eq!([mail.allow(&unknown).0, mail.allow(&unknown).0], [0, -1]);
}

/// B1: garbled, doubled, of other types: refused, counted, and nothing is taken.
#[test]
fn what_is_no_question_is_refused_and_counted() {
    let mail = Mail::start(FAILURES, "");
    let (question, report) = (ANNA.question(), ANNA.report(true, false));
    let doubled = question.replace("{\"", "{\"login\":\"bert\",\"");
    let mut malformed = vec![
        (ALLOW, String::new()),
        (ALLOW, "{}".to_owned()),
        (ALLOW, question[1..].to_owned()),
        (ALLOW, question.clone() + "x"),
        (ALLOW, doubled),
        (ALLOW, question.replace("\"anna\"", "7")),
        (ALLOW, question.replace("\"192.0.2.1\"", "\"192.0.2\"")),
        (REPORT, question.clone()),
        (REPORT, report.replace("true", "\"true\"")),
        (REPORT, format!("{}{report}", "[".repeat(10_000))),
    ];
    malformed.extend(
        ["/", "/?command=ping", "/?command=allow&command=allow", "/outcome"]
            .map(|target| (target, question.clone())),
    );
    for (target, body) in &malformed {
        assert_eq!(mail.post(target, body).status, 400, "{target} {body}");
    }
    let counted = || mail.gate.metric("tollgate_requests_total", "code=\"400\"");
    assert_eq!(counted(), f64::from(u32::try_from(malformed.len()).unwrap()));
    let long = SignIn { login: Box::leak("a".repeat(70_000).into()), ..ANNA };
    assert_eq!(mail.allow(&long).0, -1, "a client may have made it so long");
    assert_eq!(mail.post(REPORT, long.report(false, false)).status, 413);
    (0..3).for_each(|_| assert!(mail.signs_in(&ANNA, false), "nothing was taken"));
}

/// B1: bytes that are no question.
#[test]
fn random_bytes_always_get_an_answer() {
    let (mail, seed) = (Mail::start(FAILURES, ""), 2021);
    let mut dice = Dice::new(seed);
    let good = [ANNA.question(), ANNA.report(false, false)];
    let mut client = Client::connect(mail.address);
    for number in 0..500 {
        let which = usize::try_from(dice.within(0..2)).unwrap();
        let mut bytes = good[which].clone().into_bytes();
        for _ in 0..dice.within(0..4) {
            let at = usize::try_from(dice.within(0..180)).unwrap();
            let byte = u8::try_from(dice.within(0..256)).unwrap();
            bytes.get_mut(at).into_iter().for_each(|place| *place = byte);
        }
        let target = [ALLOW, REPORT][which];
        let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", bytes.len());
        client.send([head.as_bytes(), &bytes].concat());
        let answer = client.answer();
        assert!(matches!(answer.status, 200 | 400), "seed {seed}, number {number}: {answer:?}");
        if answer.status == 400 {
            client = Client::connect(mail.address);
        }
    }
    assert!(!mail.gate.messages().contains("panic"));
}

/// C2: whoever may not ask takes nothing.
#[test]
fn only_those_who_are_trusted_may_ask() {
    let mail = Mail::start(FAILURES, "trust = [\"127.0.7.0/24\"]");
    assert_eq!(mail.post(ALLOW, ANNA.question()).status, 403);
    assert_eq!(mail.post(REPORT, ANNA.report(false, false)).status, 403);
}
