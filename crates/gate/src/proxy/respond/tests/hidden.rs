//! Account limits: a response reveals nothing of them but a coarse wait.

use super::*;
use crate::policy::key::KeyPart;

/// A limit with the account in its key.
fn hidden(name: &str) -> Limit {
    Limit { key: vec![KeyPart::User], ..Limit::new(name, spec()) }
}

/// A shown limit, then a hidden one.
fn open_and_hidden() -> Policy {
    Policy::new(Vec::new(), vec![Limit::new("address", spec()), hidden("account")])
}

fn refused_by(admissions: [Admission; 2]) -> Refusal {
    let waits = admissions.iter().filter_map(|admission| match admission {
        Admission::Refused { wait } => Some(*wait),
        _ => None,
    });
    let wait = waits.max().filter(|_| !admissions.contains(&Admission::NeverFits));
    let statuses =
        admissions.into_iter().enumerate().map(|(limit, admission)| status(limit, admission)).collect();
    Refusal { route: 0, wait, statuses, attempt: DecidedAttempt::default() }
}

fn hidden_response(settings: &RefuseSettings, what: &Refusal, accept: &'static str) -> Response<Bytes> {
    let (accept, id) = (HeaderValue::from_static(accept), HeaderValue::from_static("01-ab"));
    let negotiation = Negotiation {
        accept: Some(&accept),
        head: false,
        request_id: &id,
        language: PageLanguage::default(),
        offer: None,
    };
    refusal(settings, &open_and_hidden(), what, &negotiation)
}

fn seconds(seconds: u64) -> Admission {
    Admission::Refused { wait: Span::from_secs(seconds) }
}

#[test]
fn a_limit_of_accounts_does_not_show_itself() {
    let what = refused_by([Admission::Admitted, seconds(77)]);
    for accept in ["*/*", "text/html", "application/json"] {
        let response = hidden_response(&RefuseSettings::default(), &what, accept);
        assert!(!format!("{response:?}").contains("account"), "{accept}");
        assert_eq!(response.headers()["retry-after"], "120", "a coarse wait");
        assert_eq!(response.headers()["ratelimit"], r#""address";r=7;t=30"#);
        assert_eq!(response.headers()["ratelimit-policy"], r#""address";q=10;w=300"#);
    }
    let json = hidden_response(&RefuseSettings::default(), &what, "application/json");
    assert!(body(&json).contains(r#""retry_after":120,"violated-policies":[],"#), "{}", body(&json));

    let alone = status(1, Admission::Admitted);
    assert!(rate_limit_headers(ShowLimits::Legacy, &open_and_hidden(), &[alone]).is_none());
    let pages = RefusalPages { html: Some(Template::parse("<{{limit}}>")), ..RefusalPages::default() };
    let settings = RefuseSettings { pages, ..RefuseSettings::default() };
    assert_eq!(body(&hidden_response(&settings, &what, "text/html")), "<>");
    let both = refused_by([seconds(5), seconds(77)]);
    assert_eq!(body(&hidden_response(&settings, &both, "text/html")), "<address>");
}

#[test]
fn only_the_wait_of_an_account_is_coarse() {
    let table = [
        ([seconds(200), seconds(77)], "200"),
        ([seconds(100), seconds(77)], "120"),
        ([seconds(200), Admission::Admitted], "200"),
        ([seconds(200), seconds(201)], "300"),
        ([Admission::Admitted, seconds(90_000)], "172800"),
    ];
    for (admissions, shown) in table {
        let response = hidden_response(&RefuseSettings::default(), &refused_by(admissions), "*/*");
        assert_eq!(response.headers()["retry-after"], shown, "{admissions:?}");
    }
}

#[test]
fn what_does_not_open_with_time_is_said_in_the_same_words_whatever_it_is() {
    for accept in ["*/*", "text/html", "application/json"] {
        let of = |what: Refusal| hidden_response(&RefuseSettings::default(), &what, accept);
        let small = of(refused_by([Admission::Admitted, Admission::NeverFits]));
        // As the engine refuses when a limit on consecutive failures is full.
        let row = of(Refusal { wait: None, ..refused_by([Admission::Admitted, seconds(80_000)]) });
        assert_eq!((lines(small.headers()), body(&small)), (lines(row.headers()), body(&row)));
        assert_eq!(row.headers()["ratelimit"], r#""address";r=7"#);
        assert!(!row.headers().contains_key("retry-after"));
        let open = of(refused_by([Admission::NeverFits, seconds(77)]));
        assert!(body(&open).contains("Waiting does not help here."));
    }
}

#[test]
fn a_remembered_refusal_by_an_account_is_a_fresh_one_but_for_its_id() {
    let (cache, settings, policy) =
        (RefusalCache::default(), Arc::new(RefuseSettings::default()), open_and_hidden());
    let id = HeaderValue::from_static("1");
    let negotiation = Negotiation {
        accept: None,
        head: false,
        request_id: &id,
        language: PageLanguage::default(),
        offer: None,
    };
    let cases = [
        [Admission::Admitted, seconds(61)],
        [Admission::Admitted, seconds(119)],
        [Admission::Admitted, seconds(121)],
        [seconds(119), seconds(61)],
        [seconds(120), seconds(61)],
        [seconds(120), Admission::Admitted],
        [Admission::Admitted, Admission::NeverFits],
    ];
    for admissions in cases.iter().chain(&cases) {
        let what = refused_by(*admissions);
        let given = sent(cache.refusal(1, &settings, &policy, &what, &negotiation), &id);
        let fresh = refusal(&settings, &policy, &what, &negotiation);
        assert_eq!(
            (lines(given.headers()), given.body()),
            (lines(fresh.headers()), fresh.body()),
            "{admissions:?}"
        );
    }
}
