use super::*;

const KIND: &[u8] = b"multipart/form-data; boundary=----x1";

fn read(kind: &[u8], body: impl AsRef<[u8]>) -> Option<Vec<(String, String)>> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let parts = parts(kind, body.as_ref()).ok()?;
    Some(parts.iter().map(|part| (text(part.name), text(part.content))).collect())
}

/// One part with this head.
fn with_head(head: &str) -> Option<Vec<(String, String)>> {
    read(KIND, format!("------x1\r\n{head}\r\n\r\nadmin\r\n------x1--\r\n"))
}

#[test]
fn what_browsers_and_curl_send_is_read() {
    let body = "------x1\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\nadmin\r\n------x1\r\n\
        Content-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\nContent-Type: text/plain\r\n\r\n\
        --line\r\n\n--\r\n\r\n------x1--\r\n";
    let parts = vec![("log".into(), "admin".into()), ("file".into(), "--line\r\n\n--\r\n".into())];
    assert_eq!(read(KIND, body), Some(parts.clone()));
    assert_eq!(read(b"Multipart/Form-Data;boundary=\"----x1\"; charset=utf-8", body), Some(parts));
    assert_eq!(read(KIND, "------x1--\r\n"), Some(vec![]));
    assert_eq!(read(KIND, "------x1--"), Some(vec![]));
    for head in [
        "Content-Disposition: form-data; name=\"log\"",
        "content-disposition:form-data;name=log",
        "Content-Type: text/plain; charset=UTF-8\r\nContent-Disposition: form-data; name=log",
        "Content-Disposition: form-data; name=\"log\"\r\nContent-Transfer-Encoding: 8bit\r\nContent-Length: 5",
    ] {
        assert_eq!(with_head(head), Some(vec![("log".into(), "admin".into())]), "{head:?}");
    }
}

#[test]
fn a_type_that_two_readers_take_for_two_boundaries_is_unreadable() {
    let body = "--x\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\nadmin\r\n--x--\r\n";
    assert!(read(b"multipart/form-data; boundary=x", body).is_some());
    for kind in [
        &b"multipart/form-data"[..],
        b"multipart/form-data; boundary=",
        b"multipart/form-data; boundary=\"\"",
        b"multipart/form-data; boundary=x; boundary=y",
        b"multipart/form-data; boundary=y; boundary=x",
        b"multipart/form-data; xboundary=y; boundary=x",
        b"multipart/form-data; Boundary=x",
        b"multipart/form-data; boundary =x",
        b"multipart/form-data; boundary= x",
        b"multipart/form-data; boundary='x'",
        b"multipart/form-data; boundary=x,y",
        b"multipart/form-data; boundary=x y",
        b"multipart/form-data; boundary=\"x",
        b"multipart/form-data; boundary=\"\\x\"",
        b"multipart/form-data; boundary*=utf-8''x",
        b"multipart/form-data, boundary=x",
        b"multipart/form-data;; boundary=x",
        b"multipart/form-data; boundary=x;",
        b"multipart/mixed; boundary=x",
        b"text/plain; boundary=x",
    ] {
        assert_eq!(read(kind, body), None, "{}", String::from_utf8_lossy(kind));
    }
}

#[test]
fn delimiters_stand_where_they_belong_or_the_body_is_unreadable() {
    let part = "Content-Disposition: form-data; name=\"log\"\r\n\r\nadmin";
    for body in [
        String::new(),
        format!("preamble\r\n------x1\r\n{part}\r\n------x1--\r\n"),
        format!("\r\n------x1\r\n{part}\r\n------x1--\r\n"),
        format!("------x1\r\n{part}\r\n------x1--\r\nepilogue"),
        format!("------x1\r\n{part}\r\n------x1--\r\n------x1\r\n{part}\r\n------x1--\r\n"),
        format!("------x1\r\n{part}\r\n"),
        format!("------x1\r\n{part}\r\n------x1"),
        format!("------x1\r\n{part}\r\n------x1\r\n"),
        format!("------x1\r\n{part}\r\n------x1-"),
        format!("------x1 \r\n{part}\r\n------x1--\r\n"),
        format!("------x1\n{part}\r\n------x1--\r\n"),
        format!("------x1\r\n{part}\n------x1--\r\n"),
        format!("------x1\r\n{part} ------x1--\r\n"),
        format!("------x1\r\n{part}\r\n------x12\r\n------x1--\r\n"),
        format!("------x1\r\n{part}\r\n------x1\r\n------x1--\r\n"),
    ] {
        assert_eq!(read(KIND, &body), None, "{body:?}");
    }
}

#[test]
fn heads_that_two_readers_take_for_two_things_are_unreadable() {
    let long = format!("Content-Disposition: form-data; name=\"{}\"", "x".repeat(1024));
    for head in [
        "",
        "Content-Type: text/plain",
        "Content-Disposition: form-data",
        "Content-Disposition: form-data; filename=\"log\"",
        "Content-Disposition: attachment; name=\"log\"",
        "Content-Disposition: form-data; name=\"log\"; name=\"x\"",
        "Content-Disposition: form-data; name=\"log\"; filename=a; filename=b",
        "Content-Disposition: form-data; name=\"log\"; filename*=utf-8''a",
        "Content-Disposition: form-data; name*=utf-8''log",
        "Content-Disposition: form-data; name*0=lo; name*1=g",
        "Content-Disposition: form-data; Name=\"log\"",
        "Content-Disposition: form-data; name=\"l\\og\"",
        "Content-Disposition: form-data; name=\"log\\\"; x=\"",
        "Content-Disposition: form-data; name='log'",
        "Content-Disposition: form-data; name=\"log\" x",
        "Content-Disposition: form-data; name=\"log\"x",
        "Content-Disposition: form-data; name=\"log",
        "Content-Disposition: form-data; name=",
        "Content-Disposition : form-data; name=\"log\"",
        " Content-Disposition: form-data; name=\"log\"",
        "Content-Disposition: form-data;\r\n name=\"log\"",
        "Content-Disposition: form-data; name=\"log\"\nX: y",
        "Content-Disposition: form-data; name=\"log\"\n\njunk",
        "Content-Disposition: form-data; name=\"lo\rg\"",
        "Content-Disposition: form-data; name=\"lo\0g\"",
        "Content-Disposition: form-data; name=\"log\"\r\nContent-Disposition: form-data; name=\"x\"",
        "Content-Disposition: form-data; name=\"log\"\r\nContent-Transfer-Encoding: base64",
        "Content-Disposition: form-data; name=\"log\"\r\nContent-Transfer-Encoding: quoted-printable",
        "Content-Disposition: form-data; name=\"log\"\r\nContent-Type: text/plain; charset=utf-16",
        "Content-Disposition: form-data; name=\"log\"\r\nContent-Type: multipart/mixed; boundary=y",
        "Content-Disposition: form-data; name=\"log\"\r\nX-Other: 1",
        "Content-Disposition: form-data; name=\"log\"\r\nnonsense",
        &long,
    ] {
        assert_eq!(with_head(head), None, "{head:?}");
    }
}

#[test]
fn an_escaped_name_has_both_names() {
    let body = "------x1\r\nContent-Disposition: form-data; name=\"l%6Fg\"\r\n\r\na\r\n------x1--\r\n";
    let parts = parts(KIND, body.as_bytes()).unwrap();
    assert_eq!(parts[0].names().collect::<Vec<_>>(), [&b"l%6Fg"[..], b"log"]);
}
