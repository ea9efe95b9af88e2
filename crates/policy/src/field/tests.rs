use http::header::{AUTHORIZATION, CONTENT_TYPE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderValue, Method};

use super::super::attempt::{AttemptBody, Client};
use super::*;

/// Why the values of a body are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldReadError {
    /// The body can be read in several ways, or not at all.
    Unreadable,
    /// Too many values.
    TooMany(TooManyValues),
}

impl From<TooManyValues> for FieldReadError {
    fn from(error: TooManyValues) -> Self {
        Self::TooMany(error)
    }
}

/// The values of these fields in a request with these headers; an error if there may be others.
fn read_with(fields: &[Field], lines: &[(HeaderName, &str)], query: &str, body: AttemptBody<'_>) -> Found {
    let found = find_with(fields, lines, query, body)?;
    if found.is_unreadable() { Err(FieldReadError::Unreadable) } else { Ok(shown(&found)) }
}

fn shown(found: &Values) -> Vec<String> {
    found.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
}

fn find_with(
    fields: &[Field],
    lines: &[(HeaderName, &str)],
    query: &str,
    body: AttemptBody<'_>,
) -> Result<Values, TooManyValues> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(name, value.parse().unwrap());
    }
    let attempt = Attempt {
        method: &Method::POST,
        path: "/login",
        query: Some(query),
        host: "",
        client: Client::UnixSocket,
        headers: &headers,
        body,
        descriptor: None,
        tls: None,
    };
    values(fields, Half::User, &attempt)
}

fn read(fields: &[Field], kind: &str, body: impl AsRef<[u8]>) -> Found {
    let lines: &[_] = if kind.is_empty() { &[] } else { &[(CONTENT_TYPE, kind)] };
    read_with(fields, lines, "", AttemptBody::Whole(body.as_ref()))
}

fn form(name: &str) -> Field {
    Field::Form(name.into())
}

fn json(pointer: &str) -> Field {
    Field::Json(pointer.into())
}

fn some(values: &[&str]) -> Found {
    Ok(values.iter().map(|value| (*value).to_owned()).collect())
}

type Found = Result<Vec<String>, FieldReadError>;
const FORM: &str = "application/x-www-form-urlencoded";

#[test]
fn a_form_is_read_whatever_it_is_said_to_be() {
    for kind in ["", FORM, "application/x-www-form-urlencoded; charset=UTF-8", "text/plain", "nonsense", ";"]
    {
        assert_eq!(read(&[form("log")], kind, "log=admin&pwd=x"), some(&["admin"]), "{kind}");
    }
}

#[test]
fn d17_the_field_is_found_in_every_format_that_frameworks_take() {
    let log = [form("log")];
    let multipart = "--x\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\nadmin\r\n--x--\r\n";
    assert_eq!(read(&log, "multipart/form-data; boundary=x", multipart), some(&["admin"]));
    assert_eq!(read(&log, "application/json", r#"{"log": "admin"}"#), some(&["admin"]));
    let nested = r#"{"user": {"email": "a@b"}}"#;
    assert_eq!(read(&[form("user[email]")], "application/vnd.api+json", nested), some(&["a@b"]));
    assert_eq!(read(&log, "application/json", r#"{"log": "admin",}"#), Err(FieldReadError::Unreadable));
    assert_eq!(read(&log, "multipart/mixed; boundary=x", multipart), Err(FieldReadError::Unreadable));
}

#[test]
fn d17_padding_hides_no_field() {
    let padding = "x".repeat(1024 * 1024);
    assert_eq!(read(&[form("log")], FORM, format!("a={padding}&log=admin")), some(&["admin"]));
    assert_eq!(read(&[json("/log")], "", format!(r#"{{"a":"{padding}","log":"admin"}}"#)), some(&["admin"]));
    assert_eq!(read_with(&[form("log")], &[], "", AttemptBody::TooLong), Err(FieldReadError::Unreadable));
    assert_eq!(read_with(&[Field::Query("log".into())], &[], "log=a", AttemptBody::TooLong), some(&["a"]));
}

#[test]
fn d17_letters_that_are_something_else_are_unreadable() {
    for charset in ["utf-16", "utf-7", "ibm037", "\"UTF-16LE\""] {
        for kind in [FORM, "application/json", "multipart/form-data; boundary=x"] {
            let kind = format!("{kind}; charset={charset}");
            assert_eq!(read(&[form("log")], &kind, "log=a"), Err(FieldReadError::Unreadable), "{kind}");
        }
    }
    let lines = [(CONTENT_TYPE, FORM), (CONTENT_TYPE, "application/json")];
    assert_eq!(
        read_with(&[form("log")], &lines, "", AttemptBody::Whole(b"log=a")),
        Err(FieldReadError::Unreadable)
    );
}

/// D17: aiohttp decodes each part by the charset that the part names, which may be any of Python's.
#[test]
fn a_part_in_a_charset_that_is_not_read_has_too_many_readings() {
    let found = |head: &str, content: &str| {
        let part = format!("{head}\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\n{content}");
        read(&[form("log")], "multipart/form-data; boundary=x", format!("--x\r\n{part}\r\n--x--\r\n"))
    };
    let too_many: Found = Err(TooManyValues.into());
    for charset in ["iso-2022-jp", "_hz", "unicode_escape", "punycode", "x", "shift_jis", "\"iso2022_kr\""] {
        let head = format!("Content-Type: text/plain; charset={charset}");
        assert_eq!(found(&head, "ad\u{1b}(Bmin"), too_many, "{charset}");
        assert_eq!(
            found(&format!("{head}\r\nX-Pad: {}", "x".repeat(300)), "ad~\nmin"),
            too_many,
            "{charset}"
        );
    }
    for charset in ["utf-8", "latin1", "utf-16", "\"windows-1252\""] {
        let head = format!("Content-Type: text/plain; charset={charset}\r\nX-Other: a");
        assert_eq!(found(&head, "admin"), Err(FieldReadError::Unreadable), "{charset}");
    }
}

/// Express signs the cookie `log` by another one.
#[test]
fn a_name_of_a_cookie_has_no_members() {
    let lines = [(http::header::COOKIE, "log=a; log.sig=b; log:x=c; log[x]=d")];
    assert_eq!(read_with(&[form("log")], &lines, "", AttemptBody::Whole(b"")), some(&["a", "d"]));
}

/// M7: what two kinds of encodings could be is decoded in none.
#[test]
fn a_body_with_charsets_of_two_kinds_has_too_many_readings() {
    for kinds in [["utf-7", "utf-16"], ["cp037", "utf-16"], ["utf-7", "gbk"], ["utf-32", "cp1160"]] {
        let kind = format!("{FORM}; charset={}; charset={}", kinds[0], kinds[1]);
        assert_eq!(read(&[form("log")], &kind, "log=a"), Err(TooManyValues.into()), "{kind}");
    }
    for kinds in [["utf-16", "utf-32"], ["cp037", "gbk"], ["utf-8", "utf-16"]] {
        let kind = format!("{FORM}; charset={}; charset={}", kinds[0], kinds[1]);
        assert_eq!(read(&[form("log")], &kind, "log=a"), Err(FieldReadError::Unreadable), "{kind}");
    }
}

/// M7: a document that nests deeper than it is read may hold anything.
#[test]
fn a_document_that_nests_too_deep_is_unreadable() {
    let deep = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    for kind in ["application/json", FORM] {
        assert_eq!(read(&[form("log")], kind, deep(64)), some(&[]));
        assert_eq!(read(&[form("log")], kind, deep(65)), Err(FieldReadError::Unreadable));
    }
}

#[test]
fn d17_what_readers_skip_at_the_beginning_hides_no_field() {
    for mark in ["\u{feff}", "?", "\u{feff}?", "&", " ", "\u{feff}&"] {
        assert_eq!(read(&[form("log")], FORM, format!("{mark}log=admin")), some(&["admin"]), "{mark:?}");
    }
}

#[test]
fn json_is_read_by_its_looks_too() {
    for kind in ["", "text/plain", FORM, "application/json", "APPLICATION/JSON"] {
        assert_eq!(read(&[json("/user")], kind, "\u{feff}\n{\"user\": \"a\"}"), some(&["a"]), "{kind}");
        assert_eq!(
            read(&[json("/user")], kind, "{\"user\": \"a\""),
            Err(FieldReadError::Unreadable),
            "{kind}"
        );
        assert_eq!(
            read(&[json("/user")], kind, "/**/{\"user\": \"a\"}"),
            Err(FieldReadError::Unreadable),
            "{kind}"
        );
    }
    assert_eq!(read(&[json("/user")], FORM, "user=a"), some(&["a"]), "frameworks merge both");
    assert_eq!(read(&[json("/user")], "application/json", "user=a"), Err(FieldReadError::Unreadable));
}

#[test]
fn a_route_with_both_kinds_reads_both() {
    let both = [form("log"), json("/user")];
    assert_eq!(read(&both, FORM, "log=a"), some(&["a"]));
    assert_eq!(read(&both, "application/json", r#"{"user": "a", "log": "b"}"#), some(&["b", "a"]));
    assert_eq!(read(&both, "", r#"{"user": "a"}"#), some(&["a"]));
    assert_eq!(read(&both, "", r#"{"user": "a",}"#), Err(FieldReadError::Unreadable));
}

#[test]
fn an_empty_body_and_an_unread_one_have_no_values() {
    for fields in [[form("log")], [json("/log")]] {
        assert_eq!(read(&fields, "multipart/form-data", ""), some(&[]));
        assert_eq!(read_with(&fields, &[], "", AttemptBody::Unread), some(&[]));
    }
}

#[test]
fn a_field_of_a_form_may_stand_in_the_query() {
    assert_eq!(read_with(&[form("log")], &[], "log=a&x=1", AttemptBody::Whole(b"log=b")), some(&["a", "b"]));
}

#[test]
fn f4_a_long_value_is_cut_and_many_are_too_many() {
    let found = read(&[form("log")], FORM, format!("log={}", "x".repeat(1024 * 1024))).unwrap();
    assert_eq!(found, ["x".repeat(4096)]);
    let padded = read(&[form("log")], FORM, format!("log={}admin", "+".repeat(100_000))).unwrap();
    assert_eq!(padded, ["admin"]);
    let many: String = (0..10_000).map(|number| format!("log={number}&")).collect();
    assert_eq!(read(&[form("log")], FORM, many), Err(TooManyValues.into()));
    let parts: String = (0..9)
        .map(|number| format!("--x\r\nContent-Disposition: form-data; name=log\r\n\r\n{number}\r\n"))
        .collect();
    let kind = "multipart/form-data; boundary=x";
    assert_eq!(read(&[form("log")], kind, format!("{parts}--x--\r\n")), Err(TooManyValues.into()));
    assert_eq!(read(&[form("log")], FORM, "log[]=a&log[1]=b&log[x][y]=c"), some(&["a", "b", "c"]));
}

#[test]
fn headers_count_line_by_line_and_by_their_other_spelling() {
    let name = HeaderName::from_static;
    let lines = [(name("x-user"), "a"), (name("x_user"), "b"), (name("x-user"), "c"), (name("x-users"), "d")];
    let mut found = read_with(&[Field::Header(name("x-user"))], &lines, "", AttemptBody::Unread).unwrap();
    found.sort();
    assert_eq!(found, ["a", "b", "c"]);
}

#[test]
fn values_are_never_shown() {
    let mut found = Values::default();
    found.add(b"secret").unwrap();
    assert_eq!(format!("{found:?}"), "Values(1 hidden)");
    let broken = HeaderValue::from_bytes(b"Basic \xff").unwrap();
    let headers = HeaderMap::from_iter([(AUTHORIZATION, broken)]);
    assert!(authorization::find(&[Field::Basic], &headers, Half::User, &mut found).is_ok());
}

/// Werkzeug, Django, Tornado, Go and Python's `email` read these parts as the field.
#[test]
fn a_part_that_hides_its_name_or_its_content_makes_the_body_ambiguous() {
    let kind = "multipart/form-data; boundary=x";
    let read = |head: &str, content: &str| {
        read(&[form("username")], kind, format!("--x\r\n{head}\r\n\r\n{content}\r\n--x--\r\n"))
    };
    let disposition = "Content-Disposition: form-data;";
    for parameter in [
        "name*0=user; name*1=name",
        "name*0=\"user\"; name*1=\"name\"",
        "name*0*=utf-8''us%65r; name*1=name",
        "name*1=name; name*0=user",
        "name *0 =user; name*1=name",
        "name*=utf-16''u%00s%00e%00r%00n%00a%00m%00e%00",
        "name*=utf-7''+AHU-sername",
        "name*=\"utf-7''+AHU-sername\"",
    ] {
        let found = read(&format!("{disposition} {parameter}"), "admin");
        assert_eq!(found, Err(FieldReadError::TooMany(TooManyValues)), "{parameter}");
    }
    for coding in ["quoted-printable", " Quoted-Printable", "\r\n quoted-printable", "x-uuencode", "uue"] {
        let head = format!("{disposition} name=\"username\"\r\nContent-Transfer-Encoding:{coding}");
        assert_eq!(read(&head, "=61dmin"), Err(FieldReadError::TooMany(TooManyValues)), "{coding}");
    }
    let named = read(&format!("{disposition} name*=utf-8''user%6eame"), "admin");
    assert_eq!(named, Err(FieldReadError::Unreadable), "it is read all the same");
    let other = read(&format!("{disposition} name*=utf-8'de'gr%c3%bc%c3%9fe"), "admin");
    assert_eq!(other, Err(FieldReadError::Unreadable));
}

#[test]
fn lenient_readers_of_parts_find_the_name_in_other_lines() {
    let found = |body: &str| {
        let lines = [(CONTENT_TYPE, "multipart/form-data; boundary=x")];
        let found = find_with(&[form("username")], &lines, "", AttemptBody::Whole(body.as_bytes()));
        shown(&found.unwrap())
    };
    let part = "--x\r\nContent-Disposition: form-data; name=\"username\"\r\n";
    let folded = part.replace("user", "user\r\n\t");
    assert!(found(&format!("{folded}\r\nadmin\r\n--x--\r\n")).contains(&"admin".to_owned()));
    let unquoted = part.replace("\"username\"", "user\r\n name");
    assert!(found(&format!("{unquoted}\r\nadmin\r\n--x--\r\n")).contains(&"admin".to_owned()));
    let single = format!("{part}\r\nadmin\r\n--x--\r\n").replace("\r\n", "\r");
    assert!(found(&single).contains(&"admin".to_owned()));
    let base64 = format!("{part}Content-Transfer-Encoding: base64\r\n\r\nYW-R*ta!W4=\r\n--x--\r\n");
    assert!(found(&base64).contains(&"admin".to_owned()), "Django skips foreign letters");
}

/// Bottle joins the lines, and others do not.
#[test]
fn a_name_on_two_lines_is_that_of_both_fields_that_it_may_be() {
    let part = "--x\r\nContent-Disposition: form-data; name=user\r\n name\r\n\r\nadmin\r\n--x--\r\n";
    let fields = [form("user"), form("username")];
    let names = FieldNames::of(fields.iter());
    let kind = HeaderValue::from_static("multipart/form-data; boundary=x");
    let found = body::find(&names, &HeaderMap::from_iter([(CONTENT_TYPE, kind)]), part.as_bytes());
    for field in fields {
        let mut values = Values::default();
        found.copy_values(&names.slots_for(std::slice::from_ref(&field)).in_body, &mut values).unwrap();
        assert_eq!(shown(&values), ["admin"], "{field:?}");
    }
}

/// Python knows charsets by names with an underscore, too.
#[test]
fn a_charset_is_the_same_with_other_marks_between_its_letters() {
    for label in ["utf-7", "utf_7", "UTF7", "utf 7"] {
        let kind = format!("multipart/form-data; boundary=x; charset=\"{label}\"");
        let body = "--x\r\nContent-Disposition: form-data; name=\"log\"\r\n\r\n+AGE-dmin\r\n--x--\r\n";
        let body = AttemptBody::Whole(body.as_bytes());
        let found = find_with(&[form("log")], &[(CONTENT_TYPE, &kind)], "", body).unwrap();
        assert!(shown(&found).contains(&"admin".to_owned()), "{label}");
    }
}

/// RFC 7578, 4.6.
#[test]
fn parts_whose_charset_hides_ascii_are_ambiguous() {
    let read = |charset: &str| {
        let part = |name: &str, content: &str| {
            format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{content}\r\n")
        };
        let body = [part("_charset_", charset), part("log", "admin"), "--x--\r\n".to_owned()].concat();
        read(&[form("log")], "multipart/form-data; boundary=x", body)
    };
    for hiding in ["utf-7", "IBM037", "utf-16", " utf-32be "] {
        assert_eq!(read(hiding), Err(FieldReadError::TooMany(TooManyValues)), "{hiding}");
    }
    for usual in ["UTF-8", "windows-1252", "Shift_JIS", ""] {
        assert_eq!(read(usual), some(&["admin"]), "{usual}");
    }
}

/// Gson skips both.
#[test]
fn a_prefix_and_comments_of_a_document_hide_nothing() {
    let document = r#"{"username":"admin","password":"x"}"#;
    for body in [
        format!(")]}}'\n{document}"),
        format!("\u{feff})]}}'{document}"),
        document.replacen('{', "{#\"\n", 1),
        format!("#'\n{document}"),
        format!("# it's\n{document} # \"x"),
    ] {
        for kind in ["application/json", "text/plain"] {
            let found = find_with(
                &[json("/username")],
                &[(CONTENT_TYPE, kind)],
                "",
                AttemptBody::Whole(body.as_bytes()),
            );
            let found = found.unwrap();
            assert!(found.is_unreadable() && shown(&found).contains(&"admin".to_owned()), "{kind} {body}");
        }
    }
}

/// Authelia reads `Proxy-Authorization` where a proxy asks it.
#[test]
fn credentials_for_a_proxy_name_an_account_too() {
    let read = |lines: &[(HeaderName, &str)]| read_with(&[Field::Basic], lines, "", AttemptBody::Whole(b""));
    let basic = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    assert_eq!(read(&[(PROXY_AUTHORIZATION, basic)]), some(&["Aladdin"]));
    let both = [(AUTHORIZATION, "Basic YTpiOmM="), (PROXY_AUTHORIZATION, basic)];
    assert_eq!(read(&both), some(&["a", "Aladdin"]));
}
