use super::*;

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
    ("Transfer-Encoding: \u{b}chunked\r\n\r\n0\r\n\r\n", FramingError::TransferEncoding),
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

fn faulty() -> Vec<(String, FramingError)> {
    let first = "POST / HTTP/1.1\r\nHost: a\r\n";
    let long = |line: &str| line.replace('~', &" ".repeat(70));
    let mut all: Vec<_> = FAULTY.iter().map(|(rest, why)| (format!("{first}{rest}"), *why)).collect();
    all.extend([
        ("\nGET / HTTP/1.1\r\n\r\n".into(), FramingError::BareLineFeed),
        ("\r\n\r\nGET / HTTP/1.1\r\n\r\n".into(), FramingError::EmptyLines),
        ("GET / HTTP/1.1\nHost: a\r\n\r\n".into(), FramingError::BareLineFeed),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".into(), FramingError::Preface),
        (long(&format!("{first}Content-Length:~5\r\n\r\nabcde")), FramingError::ContentLength),
        (long(&format!("{first}Transfer-Encoding:~chunked\r\n\r\n")), FramingError::TransferEncoding),
    ]);
    let chunked = format!("{first}Transfer-Encoding: chunked\r\n\r\n");
    all.push((format!("{chunked}5;{}\r\nabcde\r\n", "x".repeat(270)), FramingError::ChunkSize));
    all.push((format!("{chunked}0\r\nX: {}\r\n\r\n", "x".repeat(1022)), FramingError::Trailer));
    all.push((format!("{chunked}0\r\n{}\r\n", "X: y\r\n".repeat(33)), FramingError::Trailer));
    all
}

#[test]
fn clean_requests_are_followed_to_their_ends_however_they_arrive() {
    let all: String = CLEAN.iter().map(|(_, request)| *request).collect();
    for length in 1..all.len() {
        let mut validator = Validator::new();
        for piece in all.as_bytes().chunks(length) {
            validator.read(piece).unwrap();
        }
        assert_eq!(validator.request(), CLEAN.len() as u64 + 1, "in pieces of {length}");
    }
    for (name, request) in CLEAN {
        let mut validator = Validator::new();
        validator.read(&request.as_bytes()[..request.len() - 1]).unwrap();
        assert_eq!(validator.request(), 1, "{name} is not over before its last byte");
        validator.read(&request.as_bytes()[request.len() - 1..]).unwrap();
        assert_eq!(validator.request(), 2, "{name}");
    }
}

#[test]
fn the_first_fault_is_found_and_the_requests_before_it_are_counted() {
    let (_, before) = CLEAN[5];
    for (request, why) in faulty() {
        let fault = Validator::new().read(format!("{before}{request}").as_bytes()).unwrap_err();
        assert_eq!((fault.error, fault.request), (why, 2), "{request:?}");
    }
}

#[test]
fn a_fault_is_found_however_the_bytes_arrive() {
    for (request, _) in faulty() {
        for length in 1..request.len() {
            let mut validator = Validator::new();
            let mut pieces = request.as_bytes().chunks(length);
            let fault = pieces.find_map(|piece| validator.read(piece).err());
            assert_eq!(fault.map(|fault| fault.request), Some(1), "{request:?} in pieces of {length}");
        }
    }
}

#[test]
fn what_comes_before_a_fault_in_a_body_is_clean() {
    let head = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
    let clean = format!("{head}2\r\nab\r\n");
    let fault = Validator::new().read(format!("{clean}3 \r\nabc\r\n").as_bytes()).unwrap_err();
    assert_eq!(fault.allowed, Some(clean.len()));
    let fault = Validator::new().read(b"GET / HTTP/1.1\r\nX: y\n\r\n").unwrap_err();
    assert_eq!(fault.allowed, None);
    let fault = Validator::new().read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap_err();
    assert_eq!(fault.allowed, Some(16));
}

#[test]
fn little_is_kept_of_a_line_that_does_not_end() {
    let mut validator = Validator::new();
    validator.read(b"GET / HTTP/1.1\r\nCookie: ").unwrap();
    for _ in 0..1000 {
        validator.read(&[b'x'; 1000]).unwrap();
    }
    assert!(validator.partial.capacity() <= 2 * MAX_PARTIAL_LINE);
    validator.read(b"\r\n\r\n").unwrap();
    assert_eq!(validator.request(), 2);
}
