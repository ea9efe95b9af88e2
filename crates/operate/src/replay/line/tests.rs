//! Lines of each format, and bytes of any kind.

use proptest::prelude::*;

use super::*;
use crate::policy::outcome::Outcome;

fn read(line: &str) -> (LoggedRequest<'_>, AccessLogFormat) {
    parse(line.as_bytes(), None).unwrap_or_else(|error| panic!("{error}: {line}"))
}

/// What every format shows, as one text.
fn seen(line: &str) -> String {
    let (request, _) = read(line);
    let LoggedRequest { arrived, client, method, target, host, user, status, location, .. } = request;
    let client = client.ip().map_or("-".to_owned(), |ip| ip.to_string());
    format!("{} {client} {method} {target} {status} {host:?} {user:?} {location:?}", arrived.as_nanos())
}

const REST: &str = "\"-\" \"curl/8\"";

#[test]
fn the_combined_and_the_common_format_are_told_apart() {
    let line = "203.0.113.9 - - [20/Nov/2026:23:21:52 +0000] \"POST /login?a=b HTTP/1.1\" 429 512";
    let expected = "1795216912000000000 203.0.113.9 POST /login?a=b 429 None None None";
    assert_eq!((seen(line), read(line).1), (expected.to_owned(), AccessLogFormat::Common));
    let line = format!("{line} {REST}");
    assert_eq!((seen(&line), read(&line).1), (expected.to_owned(), AccessLogFormat::Combined));
    assert_eq!(seen(&format!("{line} refused_by=address")), expected);
}

#[test]
fn a_user_a_zone_and_escapes_are_read() {
    let line = r#"2001:db8::1 - anna smith [21/Nov/2026:00:21:52 +0100] "GET /a\"b\x20\\c HTTP/1.0" 200 -"#;
    assert_eq!(seen(line), r#"1795216912000000000 2001:db8::1 GET /a"b \c 200 None Some("anna smith") None"#);
}

#[test]
fn a_client_that_spoke_no_http_is_no_attempt_and_no_mistake() {
    let line = r#"203.0.113.9 - - [20/Nov/2026:23:21:52 +0000] "\x16\x03\x01" 400 0 "-" "-""#;
    assert_eq!(seen(line), "1795216912000000000 203.0.113.9   400 None None None");
    let line = r#"203.0.113.9 - - [20/Nov/2026:23:21:52 +0000] "-" 408 0 "-" "-""#;
    assert_eq!(seen(line), "1795216912000000000 203.0.113.9   408 None None None");
}

#[test]
fn what_others_put_before_the_client_is_passed_over() {
    let rest = "- - [20/Nov/2026:23:21:52 +0000] \"POST /login HTTP/1.1\" 401 12";
    let expected = "1795216912000000000 203.0.113.9 POST /login 401 None None None";
    for before in [
        "app.example.org:443 203.0.113.9",
        "203.0.113.9, 10.0.0.1, 10.0.0.2",
        "Nov 20 23:21:52 10.1.2.3 nginx[812]: 203.0.113.9",
        "<190>Nov 20 23:21:52 web nginx: 203.0.113.9",
        "web_1  | 203.0.113.9",
        "2026-11-20T23:21:52.123456789Z stdout F 203.0.113.9",
        "[pod/web-7d9/nginx] 203.0.113.9",
    ] {
        assert_eq!(seen(&format!("{before} {rest}")), expected, "{before}");
    }
    for (address, client) in
        [("[2001:db8::5]", "2001:db8::5"), ("fe80::1%eth0", "fe80::1"), ("203.0.113.9:4711", "203.0.113.9")]
    {
        assert_eq!(seen(&format!("{address} {rest}")), expected.replace("203.0.113.9", client), "{address}");
    }
}

#[test]
fn a_connection_of_haproxy_without_a_request_is_no_attempt_and_no_mistake() {
    let line = "Nov 20 23:21:52 lb haproxy[9]: 203.0.113.9:4711 [20/Nov/2026:23:21:52.000] https-in/1: SSL handshake failure";
    assert_eq!(seen(line), "1795216912000000000 203.0.113.9   400 None None None");
}

#[test]
fn haproxy_is_read_with_and_without_a_header_of_syslog() {
    let bare = "10.0.1.2:33317 [20/Nov/2026:23:21:52.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- \
                1/1/1/1/0 0/0 {1wt.eu} {} \"POST /login HTTP/1.1\"";
    let expected = "1795216912655000000 10.0.1.2 POST /login 200 None None None";
    for header in ["", "Nov 20 23:21:52 localhost haproxy[14389]: "] {
        let line = format!("{header}{bare}");
        assert_eq!((seen(&line), read(&line).1), (expected.to_owned(), AccessLogFormat::Haproxy));
    }
    let line = bare.replace("10.0.1.2:", "2001:db8::2:").replace(" 200 ", " -1 ");
    assert_eq!(seen(&line), "1795216912655000000 2001:db8::2 POST /login 503 None None None");
}

#[test]
fn caddy_logs_the_end_and_the_location() {
    let line = r#"{"level":"info","ts":1795216912.75,"logger":"http.log.access","msg":"handled request",
        "request":{"remote_ip":"10.0.0.1","remote_port":"1","client_ip":"203.0.113.9","proto":"HTTP/2.0",
        "method":"POST","host":"app.test","uri":"/login","headers":{"User-Agent":["curl"]}},
        "user_id":"","duration":0.25,"size":1,"status":302,"resp_headers":{"Location":["/home"]}}"#;
    let expected = "1795216912500000000 203.0.113.9 POST /login 302 Some(\"app.test\") None Some(\"/home\")";
    assert_eq!(seen(line), expected);
}

#[test]
fn traefik_logs_the_start_with_nanoseconds() {
    let line = r#"{"ClientAddr":"203.0.113.9:4711","ClientHost":"203.0.113.9","ClientUsername":"-",
        "DownstreamStatus":401,"Duration":7,"RequestHost":"app.test","RequestMethod":"POST",
        "RequestPath":"/login","StartUTC":"2026-11-20T23:21:52.123456789Z","time":"2026-11-20T23:21:53Z"}"#;
    assert_eq!(seen(line), "1795216912123456789 203.0.113.9 POST /login 401 Some(\"app.test\") None None");
}

#[test]
fn nginx_is_read_by_the_names_of_its_variables() {
    let line = r#"{"time_local":"20/Nov/2026:23:21:52 +0000","msec":"1795216912.655","remote_addr":"203.0.113.9",
        "remote_user":"anna","request":"POST /login HTTP/1.1","status":"302","request_time":"0.155",
        "http_host":"app.test:8080","uri":"/index.php","sent_http_location":"/home"}"#;
    assert_eq!(
        seen(line),
        "1795216912500000000 203.0.113.9 POST /index.php 302 Some(\"app.test:8080\") Some(\"anna\") Some(\"/home\")"
            .replace("/index.php", "/login")
    );
}

#[test]
fn the_gates_own_format_tells_its_decision() {
    let line = r#"{"time":"2026-11-20T23:21:52.043000001Z","client":"203.0.113.9","method":"POST","target":"/login",
        "protocol":"HTTP/1.1","host":"app.test","status":200,"bytes":1,"duration_ms":1.234,"added_us":4.250,
        "route":"login","refused_by":null,"decided_us":2.125,"outcome":"success","settled_us":1000.001}"#;
    assert_eq!(seen(line), "1795216912043000001 203.0.113.9 POST /login 200 Some(\"app.test\") None None");
    let gate = read(line).0.gate.unwrap();
    let at = Time::from_nanos(1_795_216_912_044_000_002);
    assert_eq!(gate.settled, Some(AttemptEnd { outcome: Outcome::Success, at }));
    assert_eq!((gate.is_attempt, gate.decided, gate.refused_by), (true, Span::from_nanos(2_125), None));
}

#[test]
fn what_cannot_be_read_says_why() {
    let cases = [
        ("", LineError::UnknownFormat),
        ("Nov 20 23:21:52 localhost sshd: hello", LineError::UnknownFormat),
        ("{\"time\":", LineError::BadJson),
        ("{}", LineError::NoTime),
        ("{\"time\":1795216912}", LineError::NoClient),
        ("{\"time\":1795216912,\"client\":\"0123456789abcdef\"}", LineError::HashedClient),
        ("{\"time\":1795216912,\"client\":\"192.0.2.1\"}", LineError::NoStatus),
        ("{\"time\":1795216912,\"client\":\"192.0.2.1\",\"status\":200}", LineError::NoRequest),
        ("192.0.2.1 - - [20/Nov/2026:23:21:52 +0000] \"GET / HTTP/1.1\" 2 0", LineError::NoStatus),
        ("192.0.2.1 - - [20/Xxx/2026:23:21:52 +0000] \"GET / HTTP/1.1\" 200 0", LineError::NoTime),
        ("192.0.2.1 - - [20/Nov/2026:23:21:52 +1080010800] \"GET / HTTP/1.1\" 200 0", LineError::NoTime),
        ("host.test - - [20/Nov/2026:23:21:52 +0000] \"GET / HTTP/1.1\" 200 0", LineError::NoClient),
    ];
    for (line, error) in cases {
        assert_eq!(parse(line.as_bytes(), None).err(), Some(error), "{line}");
    }
    assert_eq!(parse(&[b'a'; MAX_LINE + 1], None).err(), Some(LineError::TooLong));
}

#[test]
fn nesting_does_not_end_the_process() {
    let deep = "{\"request\":".repeat(20_000);
    assert_eq!(parse(&deep.as_bytes()[..MAX_LINE], None).err(), Some(LineError::BadJson));
}

#[test]
fn a_line_of_the_gates_own_logs_tells_what_came_of_an_attempt() {
    let decision = "{\"time\":\"2026-11-20T23:21:52.043Z\",\"request_id\":\"a1\",\"route\":\"login\",\"limit\":\"account\",\
                    \"verdict\":\"refuse\",\"client\":\"203.0.113.9\",\"account\":\"123456789abc\",\"left\":0,\"wait\":21.500,\
                    \"outcome\":null,\"device\":true,\"attack\":false,\"nanoseconds\":43000000}";
    let line = parse_gate_line(decision.as_bytes()).unwrap();
    assert_eq!((line.route.as_deref(), line.refused_by.as_deref()), (Some("login"), Some("account")));
    assert_eq!((line.account, line.is_owner, line.outcome), (Some(0x1234_5678_9abc), Some(true), None));
    assert!(line.attempt.is_some() && !line.would_refuse && !line.is_alarmed);
    let admitted =
        decision.replace("\"refuse\"", "\"admit\"").replace("\"outcome\":null", "\"outcome\":\"success\"");
    let line = parse_gate_line(admitted.as_bytes()).unwrap();
    assert_eq!((line.refused_by, line.outcome), (None, Some(Outcome::Success)));
    let hashed = decision.replace("203.0.113.9", "0f1e2d3c4b5a6978");
    assert_eq!(parse_gate_line(hashed.as_bytes()).unwrap().client, None);
    let other =
        br#"{"ts":1795216912.5,"request":{"client_ip":"203.0.113.9","method":"GET","uri":"/"},"status":200}"#;
    assert_eq!(parse_gate_line(other), Err(LineError::NotOfGate));
    assert_eq!(parse_gate_line(b"203.0.113.9 - -"), Err(LineError::BadJson));
}

/// The same decision in the forms of `log.schema`.
const SCHEMAS: [&str; 3] = [
    r#"{"time":"2026-11-20T23:21:52.043Z","request_id":"a1","route":"login","limit":"account","verdict":"refuse","client":"203.0.113.9","account":"123456789abc","left":0,"wait":21.500,"outcome":null,"device":true,"attack":false,"bait":false,"failures":3,"nanoseconds":43000000,"decided_us":41.733,"settled_us":null}"#,
    r#"{"time_dt":"2026-11-20T23:21:52.043Z","time":1795216912043,"class_uid":3002,"category_uid":3,"activity_id":1,"type_uid":300201,"is_remote":true,"severity_id":2,"action_id":2,"disposition_id":2,"status_id":2,"service":{"name":"login"},"policy":{"name":"account"},"src_endpoint":{"ip":"203.0.113.9"},"user":{"uid":"123456789abc"},"http_request":{"uid":"a1"},"metadata":{"version":"1.8.0","product":{"name":"tollgate"},"profiles":["datetime"],"uid":"7","correlation_uid":"a1"},"unmapped":{"nanoseconds":43000000,"route":"login","limit":"account","verdict":"refuse","left":0,"wait":21.500,"outcome":null,"device":true,"attack":false,"bait":false,"failures":3,"decided_us":41.733,"settled_us":null}}"#,
    r#"{"@timestamp":"2026-11-20T23:21:52.043Z","ecs":{"version":"9.4.0"},"event":{"kind":"event","duration":41733,"id":"7"},"rule":{"name":"account"},"source":{"ip":"203.0.113.9"},"user":{"hash":"123456789abc"},"service":{"name":"tollgate"},"trace":{"id":"5"},"http":{"request":{"id":"a1"}},"tollgate":{"nanoseconds":43000000,"route":"login","limit":"account","verdict":"refuse","left":0,"wait":21.500,"outcome":null,"device":true,"attack":false,"bait":false,"failures":3,"decided_us":41.733,"settled_us":null}}"#,
];

#[test]
fn every_schema_of_the_decision_log_tells_the_same() {
    let [own, ocsf, ecs] = SCHEMAS.map(|line| parse_gate_line(line.as_bytes()).unwrap());
    assert_eq!((own.account, own.refused_by.as_deref()), (Some(0x1234_5678_9abc), Some("account")));
    assert_eq!((&ocsf, &ecs), (&own, &own));
    let [own, ocsf, ecs] = SCHEMAS.map(|line| format!("{:?}", read(line)));
    assert_eq!((&ocsf, &ecs), (&own, &own));
    // As a program may write it again.
    let sorted: std::collections::BTreeMap<String, serde_json::Value> =
        serde_json::from_str(SCHEMAS[2]).unwrap();
    let sorted = serde_json::to_string(&sorted).unwrap();
    assert_eq!(format!("{:?}", read(&sorted)), own);
}

/// Lines of refusals and of outcomes, as `tollgate forget` leaves them.
#[test]
fn a_line_without_a_client_and_an_account_is_read_alike_in_every_schema() {
    let parts = [
        [r#""client":"203.0.113.9","account":"123456789abc""#, r#""client":"-","account":null"#],
        [
            r#""src_endpoint":{"ip":"203.0.113.9"},"user":{"uid":"123456789abc"},"#,
            r#""user":{"name":"Unknown"},"#,
        ],
        [r#""source":{"ip":"203.0.113.9"},"user":{"hash":"123456789abc"},"#, ""],
    ];
    let settled = [
        (r#""verdict":"refuse""#, r#""verdict":"admit""#),
        (r#""outcome":null"#, r#""outcome":"failure""#),
        (r#""settled_us":null"#, r#""settled_us":250.125"#),
    ];
    let outcome =
        |line: &str| settled.iter().fold(line.to_owned(), |line, (from, to)| line.replace(from, to));
    let mut forgotten = Vec::new();
    for (line, [named, unnamed]) in SCHEMAS.iter().zip(parts) {
        assert!(line.contains(named), "{line}");
        let refusal = line.replace(named, unnamed);
        forgotten.push([outcome(&refusal), refusal]);
    }
    for lines in &forgotten {
        for (line, own) in lines.iter().zip(&forgotten[0]) {
            let gate = parse_gate_line(line.as_bytes()).unwrap();
            assert_eq!((gate.client, gate.account), (Some(Client::UnixSocket), None), "{line}");
            assert_eq!(gate, parse_gate_line(own.as_bytes()).unwrap());
            assert_eq!(read(line), read(own), "{line}");
        }
    }
    // What is no decision has a client, whatever else it has of a schema.
    let other = r#"{"ecs":{"version":"9.4.0"},"@timestamp":"2026-11-20T23:21:52Z","status":401,"request":"POST / HTTP/1.1"}"#;
    assert_eq!(parse(other.as_bytes(), None).err(), Some(LineError::NoClient));
}

#[test]
fn objects_of_other_programs_and_what_only_has_their_names_are_passed_over() {
    let line = br#"{"user":"","source":7,"http":[true],"remote_addr":"203.0.113.9","request":"POST /login HTTP/1.1","status":401,"ts":1795216912.5}"#;
    let line = [&line[..9], b"\xFF", &line[9..]].concat();
    let (request, _) = parse(&line, None).unwrap();
    assert_eq!((request.client.ip(), request.user), ("203.0.113.9".parse().ok(), None));
    let odd = r#"{"class_uid":3002,"user":"x","src_endpoint":[1,{}],"http":null,"unmapped":7,"time":1795216912043}"#;
    assert_eq!(parse(odd.as_bytes(), None).err(), Some(LineError::NoClient));
}

proptest! {
    #[test]
    fn no_line_causes_a_panic(
        line in proptest::collection::vec(any::<u8>(), 0..200),
        format in prop::option::of(prop::sample::select(&[AccessLogFormat::Combined, AccessLogFormat::Json, AccessLogFormat::Haproxy][..])),
    ) {
        let format = format.map(LogLineFormat::Known);
        let _ = parse(&line, format.as_ref());
        let framed = [b"192.0.2.1 - - [", &line[..], b"] \"GET / HTTP/1.1\" 200 0"].concat();
        let _ = parse(&framed, format.as_ref());
    }
}

#[test]
fn a_json_value_that_is_skipped_may_hold_any_bytes() {
    let line = |agent: &[u8]| {
        let rest = br#","remote_addr":"203.0.113.9","request":"POST /login HTTP/1.1","status":401,"agent":""#;
        [&br#"{"time_iso8601":"2026-11-20T23:21:52Z""#[..], rest, agent, b"\"}"].concat()
    };
    for agent in [&b"curl"[..], b"\xFF\xFE", "\u{901}".as_bytes()] {
        let line = line(agent);
        let (request, _) = parse(&line, None).unwrap();
        assert_eq!((&*request.target, request.status), ("/login", 401), "{}", agent.escape_ascii());
    }
}
