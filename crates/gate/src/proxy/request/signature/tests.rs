#![cfg(feature = "tls")]

use http::HeaderValue;
use proptest::prelude::*;

use super::*;

/// `test-key-ed25519` (RFC 9421, B.1.4).
const KEY: &str = "JrQLj5P_89iXES9-vFgrIy29clF9CC_oPPsw3c5D0bs";

/// A request of the standard or of a draft.
#[derive(Clone)]
struct SignedVector {
    method: &'static str,
    target: &'static str,
    lines: Vec<(&'static str, String)>,
}

impl SignedVector {
    fn with(method: &'static str, target: &'static str, lines: &[(&'static str, &str)]) -> Self {
        let lines = lines.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { method, target, lines }
    }

    /// RFC 9421, B.2.6.
    fn of_the_standard() -> Self {
        let lines = [
            ("host", "example.com"),
            ("date", "Tue, 20 Apr 2021 02:07:55 GMT"),
            ("content-type", "application/json"),
            ("content-length", "18"),
            (
                "signature-input",
                "sig-b26=(\"date\" \"@method\" \"@path\" \"@authority\" \"content-type\" \"content-length\");created=1618884473;keyid=\"test-key-ed25519\"",
            ),
            (
                "signature",
                "sig-b26=:wqcAqbmYJ2ji2glfAMaRy4gruYYnx2nEFN2HN6jrnDnQCK1u02Gb04v9EDgwUPiu4A0w6vuQv5lIp5WPpBKRCw==:",
            ),
        ];
        Self::with("POST", "/foo?param=Value&Pet=dog", &lines)
    }

    /// draft-meunier-web-bot-auth-architecture, without an agent, with one, and with one in a dictionary.
    fn of_the_drafts() -> [Self; 3] {
        let of = |agent: Option<&str>, input: &str, signature: &str| {
            let lines = [("host", "example.com"), ("signature-input", input), ("signature", signature)];
            let mut signed = Self::with("GET", "/path/to/resource", &lines);
            signed.lines.extend(agent.map(|agent| ("signature-agent", agent.to_owned())));
            signed
        };
        [
            of(
                None,
                "sig1=(\"@authority\");created=1735689600;keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";alg=\"ed25519\";expires=1735693200;nonce=\"mYotfW3CUjI68sbGw6oKd7kyXqPjZEtU8xFPGWFrqOAf5qC6MDe3pys3SWWCudB0MvwslHy32WXUpkR7u0lt/w==\";tag=\"web-bot-auth\"",
                "sig1=:+NA/cssf4Y2bQTMTkyvTGRCaVzp9quyUevdwwMtMOWhhOOZ2T1subBj0BtvdnrpDEuwSAbiTeElXDzHL3WWKCw==:",
            ),
            of(
                Some("\"https://signature-agent.test\""),
                "sig2=(\"@authority\" \"signature-agent\");created=1735689600;keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";alg=\"ed25519\";expires=1735693200;nonce=\"e8N7S2MFd/qrd6T2R3tdfAuuANngKI7LFtKYI/vowzk4lAZYadIX6wW25MwG7DCT9RUKAJ0qVkU0mEeLElW1qg==\";tag=\"web-bot-auth\"",
                "sig2=:jdq0SqOwHdyHr9+r5jw3iYZH6aNGKijYp/EstF4RQTQdi5N5YYKrD+mCT1HA1nZDsi6nJKuHxUi/5Syp3rLWBA==:",
            ),
            of(
                Some("agent2=\"https://signature-agent.test\""),
                "sig2=(\"@authority\" \"signature-agent\";key=\"agent2\");created=1735689600;keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";alg=\"ed25519\";expires=4889289600;nonce=\"n9p433xm+NJ3ph3upfBIGmsuwHw387YV7Q/F+6BSpGCVjYCqQw6rznNA8PVVLySrAWsv0hQtFioQb6E1YsauiA==\";tag=\"web-bot-auth\"",
                "sig2=:RdNFx5Bj6au3YgAMQL/RzmUlZE8QZLIaXGRpw985hWnwPfMxT228NMk6ehRS1PSl4e8PhbNZACSanGdhEwYCCg==:",
            ),
        ]
    }

    fn request(&self) -> Option<Request<()>> {
        let mut request = Request::new(());
        *request.method_mut() = self.method.parse().ok()?;
        *request.uri_mut() = self.target.parse().ok()?;
        for (name, value) in &self.lines {
            request.headers_mut().append(*name, HeaderValue::from_bytes(value.as_bytes()).ok()?);
        }
        Some(request)
    }

    fn value(&mut self, name: &str) -> &mut String {
        &mut self.lines.iter_mut().find(|(known, _)| *known == name).unwrap().1
    }

    /// When it expires.
    fn expires(&self) -> u64 {
        let (_, after) = self.lines[1].1.split_once("expires=").unwrap();
        after.split(';').next().unwrap().parse().unwrap()
    }

    /// The signer, at this second.
    fn signer_at(&self, seconds: u64) -> Signer {
        monitors().signer_of(&self.request().unwrap(), true, at(seconds))
    }
}

fn at(seconds: u64) -> Time {
    Time::from_nanos(seconds * 1_000_000_000)
}

fn public() -> [u8; 32] {
    BASE64_URL_SAFE_NO_PAD.decode(KEY).unwrap().try_into().unwrap()
}

fn monitors() -> Monitors {
    let mut monitors = Monitors::new().unwrap();
    assert!(monitors.insert(&"probe".into(), public()));
    monitors
}

fn probe() -> Signer {
    Signer::Monitor("probe".into())
}

/// Whether the standard's part holds, whatever Web Bot Auth asks for.
fn holds(request: &Request<()>) -> bool {
    let dictionaries = || {
        let inputs = dictionary(request.headers(), SIGNATURE_INPUT)?;
        let (label, ListEntry::InnerList(input)) = inputs.first()? else { return None };
        let signature = byte_sequence(&dictionary(request.headers(), SIGNATURE)?, label)?;
        let base = signature_base(request, true, input)?;
        Some(Ed25519::new()?.verifies(&public(), &base, &signature))
    };
    dictionaries().unwrap_or(false)
}

#[test]
fn the_vector_of_rfc_9421_verifies() {
    assert!(holds(&SignedVector::of_the_standard().request().unwrap()));
}

#[test]
fn the_vectors_of_the_drafts_are_of_their_monitor_until_they_expire() {
    assert_eq!(thumbprint(&public()), "poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U");
    for signed in SignedVector::of_the_drafts() {
        let expires = signed.expires();
        for (seconds, signer) in [
            (expires, Signer::Invalid),
            (expires - 1, probe()),
            (expires - 330, probe()),
            (expires - 331, Signer::Invalid),
            (1_735_689_569, Signer::Invalid),
        ] {
            assert_eq!(signed.signer_at(seconds), signer, "{}", expires - seconds);
        }
    }
}

#[test]
fn nothing_signed_can_be_altered() {
    let standard = SignedVector::of_the_standard();
    let altered: [fn(&mut SignedVector); 9] = [
        |signed| signed.method = "PUT",
        |signed| signed.target = "/fooo?param=Value&Pet=dog",
        |signed| signed.value("host").push('m'),
        |signed| signed.value("date").push(' '),
        |signed| *signed.value("content-length") = "19".into(),
        |signed| signed.lines.push(("date", "Tue, 20 Apr 2021 02:07:55 GMT".into())),
        |signed| signed.lines.retain(|(name, _)| *name != "content-type"),
        |signed| *signed.value("signature-input") = signed.value("signature-input").replace("473", "474"),
        |signed| *signed.value("signature-input") = signed.value("signature-input").replace(" \"@path\"", ""),
    ];
    for (number, alter) in altered.into_iter().enumerate() {
        let mut signed = standard.clone();
        alter(&mut signed);
        // Blanks around a value are none of it.
        assert_eq!(holds(&signed.request().unwrap()), number == 3, "{number}");
    }
    // What is not covered is not signed.
    let mut other = standard.clone();
    other.target = "/foo?param=Other";
    assert!(holds(&other.request().unwrap()));
}

#[test]
fn each_altered_letter_of_a_vector_ends_its_validity() {
    for signed in SignedVector::of_the_drafts() {
        let now = signed.expires() - 1;
        let lines = signed.lines.clone();
        for (line, (name, value)) in lines.iter().enumerate() {
            for place in 0..value.len() {
                let mut altered = signed.clone();
                let byte = value.as_bytes()[place];
                let other = if byte.eq_ignore_ascii_case(&b'a') { 'Q' } else { 'A' };
                altered.lines[line].1.replace_range(place..=place, &other.to_string());
                let Some(request) = altered.request() else { continue };
                let signer = monitors().signer_of(&request, true, at(now));
                assert_ne!(signer, probe(), "{name}: {place} of {value}");
            }
        }
    }
}

#[test]
fn a_signature_has_to_be_what_web_bot_auth_asks_for() {
    let [plain, of_agent, _] = SignedVector::of_the_drafts();
    let now = plain.expires() - 1;
    let mut agent = plain.clone();
    agent.lines.push(("signature-agent", "\"https://other.test\"".into()));
    assert_eq!(agent.signer_at(now), Signer::Invalid, "an agent that is not covered");
    let mut twice = of_agent.clone();
    twice.lines.push(("signature-agent", "\"https://other.test\"".into()));
    assert_eq!(twice.signer_at(now), Signer::Invalid);
    for (known, other, signer) in [
        ("tag=\"web-bot-auth\"", "tag=\"other\"", Signer::Unknown),
        ("poqk", "poqK", Signer::Unknown),
        ("alg=\"ed25519\"", "alg=\"hmac-sha256\"", Signer::Invalid),
        (";expires=1735693200", "", Signer::Invalid),
        ("created=1735689600;", "", Signer::Invalid),
        ("(\"@authority\")", "()", Signer::Invalid),
        ("(\"@authority\")", "(\"@authority\" \"@authority\")", Signer::Invalid),
        ("(\"@authority\")", "(\"@authority\";req)", Signer::Invalid),
        ("(\"@authority\")", "(\"@authority\" \"@status\")", Signer::Invalid),
        ("(\"@authority\")", "(\"@authority\" \"Host\")", Signer::Invalid),
        ("sig1=", "sig3=", Signer::Invalid),
        ("sig1=(", "sig1=((", Signer::Unknown),
    ] {
        let mut changed = plain.clone();
        *changed.value("signature-input") = changed.value("signature-input").replacen(known, other, 1);
        assert_eq!(changed.signer_at(now), signer, "{known} {other}");
    }
    let mut long = plain.clone();
    long.lines.push(("signature-input", format!("other=\"{}\"", "x".repeat(MAX_FIELD))));
    assert_eq!(long.signer_at(now), Signer::Unknown);
    let mut second = plain.clone();
    second.value("signature-input").insert_str(0, "other=(\"@method\");tag=\"other\", ");
    second.value("signature").insert_str(0, "other=:AAAA:, ");
    assert_eq!(second.signer_at(now), probe(), "next to another signer's signature");
    let mut with_port = plain.clone();
    *with_port.value("host") = "EXAMPLE.com:443".into();
    assert_eq!(with_port.signer_at(now), probe());
    *with_port.value("host") = "example.com:80".into();
    assert_eq!(with_port.signer_at(now), Signer::Invalid);
}

#[test]
fn a_key_is_of_one_monitor() {
    let mut monitors = monitors();
    assert!(monitors.insert(&"probe".into(), public()), "the same once more");
    assert!(!monitors.insert(&"other".into(), public()));
    assert_ne!(monitors, Monitors::new().unwrap());
}

proptest! {
    #[test]
    fn any_signature_is_read_without_a_panic(
        input in "(sig1=)?[ -~]{0,80}|sig1=\\((\"(@?[a-z-]{1,9})\"(;key=\"a\"|;sf|;bs)? ?){0,20}\\);created=[0-9]{1,15};expires=[0-9]{1,15};keyid=\"poqkLGiymh_W0uP6PZFw-dvez3QJT5SolqXBCW38r0U\";tag=\"web-bot-auth\"",
        signature in "[ -~]{0,80}|sig1=:[A-Za-z0-9]{86}==:",
        now in any::<u64>(),
    ) {
        let mut signed = SignedVector::of_the_drafts()[1].clone();
        (*signed.value("signature-input"), *signed.value("signature")) = (input, signature);
        let signer = monitors().signer_of(&signed.request().unwrap(), false, Time::from_nanos(now));
        prop_assert_ne!(signer, probe());
    }
}
