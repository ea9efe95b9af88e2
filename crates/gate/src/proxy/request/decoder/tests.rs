use super::*;
use crate::proxy::headers::passed::{HeaderCase, PassedHeaders};

/// Valid requests, each with a name.
const CLEAN: &[(&str, &str)] = &[
    ("a GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("an empty line before it", "\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
    ("a form", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\na=b\n#"),
    ("the same length twice", "POST / HTTP/1.1\r\ncontent-length:3\r\nCONTENT-LENGTH: \t3 \r\n\r\nabc"),
    ("no body", "POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"),
    (
        "chunks",
        "POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\na\nb\r\n\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n",
    ),
    ("trailers", "POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n000;\r\nX: y\r\nDate:\r\n\r\n"),
    (
        "names that only begin alike",
        "GET / HTTP/1.1\r\nContent-Lengthy: x\r\nTransfer: y\r\nC: z\r\nT:\r\n\r\n",
    ),
    ("an old client", "GET / HTTP/1.0\r\n\r\n"),
];

/// The rest of a faulty request after its first line and `Host`, and the violation.
const FAULTY: &[(&str, FramingError)] = &[
    ("X: y\n\r\n", FramingError::BareLineFeed),
    ("X: y\r\n\n", FramingError::BareLineFeed),
    ("Content-Length: 05\r\n\r\nabcde", FramingError::ContentLength),
    ("Content-Length: 00\r\n\r\n", FramingError::ContentLength),
    ("Content-Length: +5\r\n\r\nabcde", FramingError::ContentLength),
    ("Content-Length: 5, 5\r\n\r\nabcde", FramingError::ContentLength),
    ("Content-Length:\r\n\r\n", FramingError::ContentLength),
    ("Content-Length: 1000000000000000000\r\n\r\n", FramingError::ContentLength),
    ("Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", FramingError::ContentLength),
    ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", FramingError::TwoFramings),
    ("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", FramingError::TwoFramings),
    ("Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", FramingError::TransferEncoding),
    (
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        FramingError::TransferEncoding,
    ),
    ("Transfer-Encoding: chunked\r\n\r\n5 \r\nabcde\r\n0\r\n\r\n", FramingError::ChunkSize),
    ("Transfer-Encoding: chunked\r\n\r\n0x5\r\nabcde\r\n0\r\n\r\n", FramingError::ChunkSize),
    ("Transfer-Encoding: chunked\r\n\r\n\r\n", FramingError::ChunkSize),
    ("Transfer-Encoding: chunked\r\n\r\n00000000000000005\r\nabcde\r\n0\r\n\r\n", FramingError::ChunkSize),
    ("Transfer-Encoding: chunked\r\n\r\n5;a\0b\r\nabcde\r\n0\r\n\r\n", FramingError::ChunkSize),
    ("Transfer-Encoding: chunked\r\n\r\n5;a\rb\r\nabcde\r\n0\r\n\r\n", FramingError::ChunkSize),
    ("Transfer-Encoding: chunked\r\n\r\n5\nabcde\r\n0\r\n\r\n", FramingError::BareLineFeed),
    ("Transfer-Encoding: chunked\r\n\r\n5\r\nabcdef\r\n0\r\n\r\n", FramingError::ChunkEnd),
    ("Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\n0\r\n\r\n", FramingError::BareLineFeed),
    ("Transfer-Encoding: chunked\r\n\r\n0\r\n X: y\r\n\r\n", FramingError::Trailer),
    ("Transfer-Encoding: chunked\r\n\r\n0\r\nX y\r\n\r\n", FramingError::Trailer),
    ("Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\u{7}\r\n\r\n", FramingError::Trailer),
    ("Transfer-Encoding: chunked\r\n\r\n0\r\nX: a\nGET / HTTP/1.1\r\n\r\n", FramingError::BareLineFeed),
];

/// Why reading stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Framing(FramingError),
    Head(HeadError),
}

/// Reads a connection that arrives in pieces of `step` bytes: the bodies of whole requests, and why reading stopped.
fn read(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<Stop>) {
    let (mut decoder, mut buffer, mut bodies) = (RequestDecoder::default(), BytesMut::new(), Vec::new());
    for piece in bytes.chunks(step.max(1)) {
        buffer.extend_from_slice(piece);
        if let Err(stop) = read_on(&mut decoder, &mut buffer, &mut bodies) {
            return (
                bodies.into_iter().filter_map(|(body, ended)| ended.then_some(body)).collect(),
                Some(stop),
            );
        }
    }
    (bodies.into_iter().filter_map(|(body, ended)| ended.then_some(body)).collect(), None)
}

fn read_on(
    decoder: &mut RequestDecoder,
    buffer: &mut BytesMut,
    bodies: &mut Vec<(Vec<u8>, bool)>,
) -> Result<(), Stop> {
    loop {
        if bodies.last().is_none_or(|(_, ended)| *ended) {
            let Some(head) = decoder.read_head(buffer).map_err(Stop::Head)? else { return Ok(()) };
            if let Some(fault) = head.fault {
                return Err(Stop::Framing(fault));
            }
            bodies.push((Vec::new(), false));
        }
        let (body, ended) = bodies.last_mut().unwrap();
        match decoder.read_body(buffer).map_err(Stop::Framing)? {
            BodyPart::Piece(piece) => body.extend_from_slice(&piece),
            BodyPart::End => *ended = true,
            BodyPart::NeedsMore => return Ok(()),
        }
    }
}

fn faulty() -> Vec<(String, FramingError)> {
    let first = "POST / HTTP/1.1\r\nHost: a\r\n";
    let mut all: Vec<_> = FAULTY.iter().map(|(rest, why)| (format!("{first}{rest}"), *why)).collect();
    all.extend([
        ("\nGET / HTTP/1.1\r\n\r\n".into(), FramingError::BareLineFeed),
        ("\r\n\r\nGET / HTTP/1.1\r\n\r\n".into(), FramingError::EmptyLines),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n".into(), FramingError::BareLineFeed),
        ("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n".into(), FramingError::TransferEncoding),
    ]);
    let long = |line: &str| format!("{first}{}", line.replace('~', &" ".repeat(70)));
    all.push((long("Content-Length:~5\r\n\r\nabcde"), FramingError::ContentLength));
    all.push((long("Transfer-Encoding:~chunked\r\n\r\n"), FramingError::TransferEncoding));
    let chunked = format!("{first}Transfer-Encoding: chunked\r\n\r\n");
    all.push((format!("{chunked}5;{}\r\nabcde\r\n", "x".repeat(270)), FramingError::ChunkSize));
    all.push((format!("{chunked}0\r\nX: {}\r\n\r\n", "x".repeat(1022)), FramingError::Trailer));
    all.push((format!("{chunked}0\r\n{}\r\n", "X: y\r\n".repeat(33)), FramingError::Trailer));
    all
}

#[test]
fn clean_requests_are_read_to_their_ends_however_they_arrive() {
    let all: String = CLEAN.iter().map(|(_, request)| *request).collect();
    for step in 1..all.len() {
        let (bodies, stop) = read(all.as_bytes(), step);
        assert_eq!((bodies.len(), stop), (CLEAN.len(), None), "in pieces of {step}");
        assert_eq!(bodies[5], b"a\nb\r\n0123456789");
    }
    for (name, request) in CLEAN {
        let (bodies, stop) = read(&request.as_bytes()[..request.len() - 1], 9);
        assert_eq!((bodies.len(), stop), (0, None), "{name} is not over before its last byte");
    }
}

#[test]
fn the_first_fault_is_found_behind_the_requests_before_it_however_the_bytes_arrive() {
    let (_, before) = CLEAN[5];
    for (request, why) in faulty() {
        let bytes = format!("{before}{request}");
        let (bodies, stop) = read(bytes.as_bytes(), bytes.len());
        assert_eq!((bodies.len(), stop), (1, Some(Stop::Framing(why))), "{request:?}");
        for step in 1..bytes.len() {
            let (bodies, stop) = read(bytes.as_bytes(), step);
            assert!(bodies.len() == 1 && stop.is_some(), "{request:?} in pieces of {step}: {stop:?}");
        }
    }
}

#[test]
fn what_comes_before_a_fault_in_a_body_is_handed_out() {
    let (mut decoder, mut buffer) = (RequestDecoder::default(), BytesMut::new());
    buffer
        .extend_from_slice(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n3 \r\nabc\r\n");
    assert!(decoder.read_head(&mut buffer).unwrap().is_some());
    assert_eq!(decoder.read_body(&mut buffer), Ok(BodyPart::Piece("ab".into())));
    assert_eq!(decoder.read_body(&mut buffer), Err(FramingError::ChunkSize));
}

#[test]
fn what_is_no_head_is_told_from_one_that_is_too_long() {
    let stop = |bytes: &str| read(bytes.as_bytes(), 4096).1;
    assert_eq!(stop(&format!("GET /{}", "x".repeat(MAX_HEAD))), Some(Stop::Head(HeadError::LineTooLong)));
    let long = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD));
    assert_eq!(stop(&long), Some(Stop::Head(HeadError::TooLong)));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(MAX_HEADERS + 1));
    assert_eq!(stop(&many), Some(Stop::Head(HeadError::TooLong)));
    for bytes in
        ["PRI * HTTP/2.0\r\n\r\n", "GET /\r\n\r\n", "GET / HTTP/1.1\r\nX : y\r\n\r\n", "\u{16}\u{3}\r\n\r\n"]
    {
        assert!(matches!(stop(bytes), Some(Stop::Head(HeadError::Malformed(_)))), "{bytes:?}");
    }
}

#[test]
fn bytes_of_old_clients_in_a_target_are_read_as_if_they_were_encoded() {
    let mut buffer = BytesMut::from("GET /a\\b{|}?n=\u{e9}&q=\"<^`>\" HTTP/1.1\r\n\r\n".as_bytes());
    let head = RequestDecoder::default().read_head(&mut buffer).unwrap().unwrap();
    assert_eq!(head.request.uri(), "/a\\b{|}?n=%C3%A9&q=%22%3C^%60%3E%22");
    assert!(head.received.bytes().starts_with("GET /a\\b{|}?n=\u{e9}".as_bytes()));
    let mut buffer = BytesMut::from(&b"GET /?n=\xc4\xe3 HTTP/1.1\r\nX: \xff\r\n\r\n"[..]);
    let head = RequestDecoder::default().read_head(&mut buffer).unwrap().unwrap();
    assert_eq!(head.request.uri(), "/?n=%C4%E3");
    assert_eq!(head.request.headers()["x"], b"\xff"[..]);
    let mut copied = Vec::new();
    PassedHeaders::new(HeaderMap::new(), head.received).write(HeaderCase::Preserve, &mut copied);
    assert_eq!(copied, b"X: \xff\r\n", "the line is where it was before the target became longer");
}

#[test]
fn trailers_are_kept_until_they_are_taken() {
    let mut buffer =
        BytesMut::from(&b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX-Sum:\t7 \r\n\r\n"[..]);
    let mut decoder = RequestDecoder::default();
    decoder.read_head(&mut buffer).unwrap().unwrap();
    assert_eq!(decoder.read_body(&mut buffer), Ok(BodyPart::End));
    assert_eq!(decoder.take_trailers().unwrap()["x-sum"], "7");
    assert_eq!(decoder.take_trailers(), None);
}
