//! Tricks of an attacker: each makes some reader find more calls than a plain reading of the body.

use proptest::prelude::*;

use super::super::{Count, UnreadableBody};

fn count(body: impl AsRef<[u8]>) -> Result<u32, UnreadableBody> {
    Count::Element("methodName".into()).of(body.as_ref())
}

fn plain() -> String {
    format!(
        "<?xml version=\"1.0\"?>\n<methodCall><methodName>wp.getUsersBlogs</methodName>{PARAMS}</methodCall>"
    )
}

/// A batch of this number of calls, each written as `call`.
fn batch(calls: usize, call: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<methodCall><methodName>system.multicall</methodName><params>\
         <param><value><array><data>{}</data></array></value></param></params></methodCall>",
        call.repeat(calls)
    )
}

const PARAMS: &str = "<params><param><value><string>admin</string></value></param><param><value><string>1234\
    </string></value></param></params>";
const CALL: &str = "<value><struct><member><name>methodName</name><value><string>wp.getUsersBlogs</string></value>\
    </member><member><name>params</name><value><array><data><value><string>admin</string></value><value><string>\
    1234</string></value></data></array></value></member></struct></value>";

#[test]
fn a_plain_call_is_one() {
    assert_eq!(count(plain()), Ok(1));
    assert_eq!(count("<methodCall><methodName>a</methodName></methodCall>"), Ok(1));
    assert_eq!(count("\u{feff} \n\t<methodCall><methodName/></methodCall>\n\n"), Ok(1));
}

#[test]
fn a_call_with_structs_of_its_own_is_one() {
    let post = "<value><struct><member><name>title</name><value>Hello</value></member><member><name>terms</name>\
        <value><array><data><value><struct><member><name>id</name><value><int>1</int></value></member></struct>\
        </value></data></array></value></member></struct></value>";
    let body =
        format!("<methodCall><methodName>wp.newPost</methodName><params>{post}{post}</params></methodCall>");
    assert_eq!(count(body), Ok(1));
}

#[test]
fn a_batch_is_as_many_as_its_calls() {
    for calls in [1, 2, 500] {
        assert_eq!(count(batch(calls, CALL)), Ok(u32::try_from(calls).unwrap()));
    }
}

#[test]
fn what_is_no_xml_is_one_attempt() {
    for body in ["", " ", "log=admin&pwd=<methodName>", "[1,2]", "\u{feff}{}"] {
        assert_eq!(count(body), Ok(1), "{body:?}");
    }
}

#[test]
fn blanks_that_php_trims_do_not_hide_a_batch() {
    for blank in ["\u{b}", "\r\n", "\u{b}\u{feff}\u{a0}", "\u{c}"] {
        assert_eq!(count(format!("{blank}{}", batch(20, CALL))), Ok(20), "{blank:?}");
    }
}

#[test]
fn a_name_in_disguise_is_the_same_name() {
    for name in [
        "&#109;ethodName",
        "&#x6D;&#x0000065;thodName",
        "<![CDATA[methodName]]>",
        "met<![CDATA[hod]]>&#78;ame",
        "method<!-- - -->Name",
        "method<?pi <x> ?>Name",
        " \n\tmethodName\r\n ",
        "&#32;methodName&#x9;",
        "METHODNAME",
        "methodName\u{a0}",
    ] {
        let call = CALL.replace("methodName", name);
        assert_eq!(count(batch(20, &call)), Ok(20), "{name:?}");
    }
}

#[test]
fn tags_with_prefixes_attributes_blanks_and_other_letters_are_the_same_tags() {
    for (tag, other) in [
        ("<name>", "<x:name>"),
        ("<name>", "<NAME>"),
        ("<name>", "<name\n>"),
        ("<name>", "<name a='>' b=\"'/>\" >"),
    ] {
        let end = other.split_whitespace().next().unwrap().trim_end_matches('>').replace('<', "</") + "\t>";
        let call = CALL.replace(tag, other).replace("</name>", &end);
        assert_eq!(count(batch(20, &call)), Ok(20), "{other:?}");
    }
    for tag in ["<methodName/>", "<x:methodname a='b'/>", "<METHODNAME\r\n/>", "<methodName ></methodName >"]
    {
        assert_eq!(count(format!("<a>{}</a>", tag.repeat(9))), Ok(9), "{tag:?}");
    }
}

#[test]
fn text_that_ixr_drops_from_a_name_does_not_hide_it() {
    let call = CALL.replace("<name>methodName", "<name>junk<x/>methodName");
    assert_eq!(count(batch(20, &call)), Ok(20));
}

#[test]
fn a_name_that_only_other_readers_put_together_counts() {
    for name in ["method<b/>Name", "method<b>Name</b>", "<b>meth</b>od<b>Name</b>"] {
        let call = CALL.replace("<name>methodName", &format!("<name>{name}"));
        assert!(count(batch(20, &call)).unwrap() >= 20, "{name:?}");
    }
}

#[test]
fn one_name_outside_of_members_serves_every_struct_and_counts_for_each() {
    let call = CALL.replace("<member><name>methodName</name>", "").replacen("</member>", "", 1);
    let body = batch(20, &call).replace("<params>", "<params><name>methodName</name>");
    assert_eq!(count(body), Ok(20));
}

#[test]
fn one_member_around_all_structs_counts_for_each() {
    let call = CALL.replace("<member><name>methodName</name>", "").replacen("</member>", "", 1);
    let body = batch(20, &call)
        .replace("<params>", "<params><member><name>methodName</name>")
        .replace("</params>", "</member></params>");
    assert_eq!(count(body), Ok(20));
    // Tags that IXR does not know pop no name from its stack.
    for (open, close) in [("<Member>", "</Member>"), ("<x:member>", "</x:member>")] {
        let unknown = format!("<params><name>methodName</name>{open}{close}<Name>x</Name>");
        assert_eq!(count(batch(20, &call).replace("<params>", &unknown)), Ok(20), "{open}");
    }
}

#[test]
fn keys_that_python_takes_from_any_text_count() {
    let call = CALL.replace("name>", "string>").replace("<member>", "").replace("</member>", "");
    assert_eq!(count(batch(20, &call)), Ok(20));
    let split = call.replace("<string>methodName", "<string>method<b></b>Name");
    assert_eq!(count(batch(20, &split.replace("<b></b>", ""))), Ok(20));
    let inside = call.replace("<string>methodName</string>", "<string><b>method</b>Name</string>");
    assert_eq!(count(batch(20, &inside)), Ok(20));
}

#[test]
fn a_second_declaration_is_unreadable_because_ixr_cuts_it_out() {
    // IXR reads: a CDATA section that ends early, then a batch. We would read: a comment.
    let hidden = batch(20, CALL);
    let hidden = hidden.split_once("<methodCall>").unwrap().1.trim_end_matches("</methodCall>");
    let body = format!("<methodCall><![CDATA[<?xml ]]><!-- ?>]]>{hidden}--></methodCall>");
    assert_eq!(count(body), Err(UnreadableBody));
    for body in [
        "<a><?xml version=\"1.0\"?></a>",
        "<a><!-- <?XML --></a>",
        "<a b='<?xml'/>",
        "<?xml version='1.0'?>\n<a><?xml?></a>",
    ] {
        assert_eq!(count(body), Err(UnreadableBody), "{body:?}");
    }
}

#[test]
fn a_second_end_on_the_line_of_the_declaration_is_unreadable_because_old_ixr_cuts_up_to_it() {
    let hidden = CALL.repeat(20);
    let body = format!("<?xml version='1.0'?><a><!-- ?><a>{hidden}--></a>");
    assert_eq!(count(body), Err(UnreadableBody));
    assert_eq!(count("<?xml version='1.0'?>\n<a><?php ?><methodName/></a>"), Ok(1));
}

#[test]
fn what_entities_could_hide_is_unreadable() {
    for body in [
        "<!DOCTYPE a [<!ENTITY m 'methodName'>]><a>&m;</a>",
        "<!doctype a><a/>",
        "<a><!ENTITY m 'x'></a>",
        "<a>&m;</a>",
        "<a>&nbsp;</a>",
        "<a>&</a>",
        "<a>& #109;</a>",
        "<a>&#;</a>",
        "<a>&#xD800;</a>",
        "<a>&#99999999999999999999;</a>",
    ] {
        assert_eq!(count(body), Err(UnreadableBody), "{body:?}");
    }
}

#[test]
fn other_encodings_are_unreadable() {
    let declared = |label: &str| batch(20, CALL).replace("UTF-8", label);
    for label in ["UTF-16", "utf-7", "UCS-4", "EBCDIC-CP-US", "ISO-2022-JP", "HZ", "GB18030", ""] {
        assert_eq!(count(declared(label)), Err(UnreadableBody), "{label}");
    }
    for label in ["utf-8", "US-ASCII", "ISO-8859-15", "windows-1252"] {
        assert_eq!(count(declared(label)), Ok(20), "{label}");
    }
    let wide: Vec<u8> = batch(20, CALL).encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(count(&wide), Err(UnreadableBody));
    assert_eq!(count([b"\xfe\xff".as_slice(), &wide].concat()), Err(UnreadableBody));
    assert_eq!(count(b"\x4c\x6f\xa7\x94\x93\x40\xa5"), Err(UnreadableBody), "EBCDIC");
    assert_eq!(count(batch(20, CALL).replace("version=\"1.0\"", "version=\"1.1\"")), Err(UnreadableBody));
    assert_eq!(count(format!("{}\0", plain())), Err(UnreadableBody));
}

#[test]
fn letters_of_western_europe_are_read_as_they_are() {
    let body = batch(20, CALL).replace("1234", "caf\u{1}").replace("UTF-8", "ISO-8859-1");
    let bytes: Vec<u8> = body.bytes().map(|byte| if byte == 1 { 0xe9 } else { byte }).collect();
    assert_eq!(count(bytes), Ok(20));
}

#[test]
fn what_is_not_well_formed_is_unreadable() {
    for body in [
        "<",
        "<a",
        "<a>",
        "<a></b>",
        "<a></a></a>",
        "</a>",
        "<a/><b/>",
        "<a/>x",
        "<a/>&#120;",
        "<a><!-- -- --></a>",
        "<a><![CDATA[</a>",
        "<a><![cdata[x]]></a>",
        "<a><!x></a>",
        "<a b></a>",
        "<a b=c></a>",
        "<a b='></a>",
        "<a b='<'></a>",
        "<a \"></a>",
        "<meth<?xml?>odCall></methodCall>",
        "<?xml version='1.0'",
        "<?xml encoding='utf-8'?><a/>",
        "<a><?xml version='1.0'?></a>",
    ] {
        assert_eq!(count(body), Err(UnreadableBody), "{body:?}");
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "what is bounded is real time")]
fn nesting_and_size_cost_neither_stack_nor_time() {
    let started = std::time::Instant::now();
    let deep = 200_000;
    assert_eq!(count("<a>".repeat(deep) + &"</a>".repeat(deep)), Err(UnreadableBody));
    assert_eq!(count("<a>".repeat(2000) + &"</a>".repeat(2000)), Ok(0));
    let attributes: String = (0..100_000).map(|number| format!(" a{number}=''")).collect();
    assert_eq!(count(format!("<a{attributes}/>")), Ok(0));
    assert_eq!(count(format!("<a>{}</a>", "<methodName/>".repeat(100_000))), Ok(100_000));
    assert_eq!(count(format!("<a>{}</a>", "&#109;".repeat(200_000))), Ok(0));
    assert_eq!(count(format!("<{}/>", "a".repeat(4_000_000))), Ok(0));
    assert_eq!(count("<?".repeat(1_000_000)), Err(UnreadableBody));
    let took = started.elapsed();
    assert!(took < std::time::Duration::from_secs(20), "{took:?}");
}

#[test]
fn a_name_with_a_prefix_in_the_file_is_counted_by_its_local_part() {
    let logins = Count::Element("soap:Login".into());
    assert_eq!(logins.of(b"<e:Envelope><e:Body><Login/><x:login/></e:Body></e:Envelope>"), Ok(2));
}

proptest! {
    #[test]
    fn any_markup_is_counted_or_unreadable_whatever_stands_around_it(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..30),
        bytes: Vec<u8>,
    ) {
        for body in [pieces.concat().into_bytes(), [pieces.concat().as_bytes(), &bytes].concat(), bytes] {
            let attempts = count(&body);
            prop_assert!(attempts.is_err() || attempts.is_ok_and(|n| n as usize <= body.len().max(1)));
            prop_assert_eq!(count([b"\xef\xbb\xbf \x0b\n", &body[..]].concat()), attempts);
        }
    }

    #[test]
    fn an_element_more_is_an_attempt_more(pieces in prop::collection::vec(prop::sample::select(WHOLE), 0..30)) {
        let inside = pieces.concat();
        let before = count(format!("<r>{inside}</r>")).unwrap();
        let after = count(format!("<r>{inside}{}</r>", "<methodName/>".repeat(40))).unwrap();
        prop_assert!(after >= 40 && after >= before);
    }
}

const PIECES: &[&str] = &[
    "<a>",
    "</a>",
    "<a/>",
    "<name>",
    "</name>",
    "<member>",
    "</member>",
    "<struct>",
    "</struct>",
    "<data>",
    "</data>",
    "methodName",
    "<methodName>",
    "</methodName>",
    "<![CDATA[",
    "]]>",
    "<!--",
    "-->",
    "<?xml version='1.0'?>",
    "?>",
    "<?",
    "<!DOCTYPE",
    "&#109;",
    "&amp;",
    "&",
    ";",
    " b='",
    "'",
    "\"",
    "<",
    ">",
    "\u{e4}",
    "\n",
    "\0",
];

/// Well-formed pieces.
const WHOLE: &[&str] = &[
    "<a/>",
    "<name>methodName</name>",
    "<member/>",
    "<struct></struct>",
    "<struct><value/></struct>",
    "<data>x</data>",
    "<member><name>x</name></member>",
    "<x:name>&#109;</x:name>",
    "<!-- a -->",
    "<?x ?>",
    "<![CDATA[methodName]]>",
];
