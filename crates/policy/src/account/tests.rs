use proptest::prelude::*;

use super::*;

fn fold(name: impl AsRef<[u8]>) -> String {
    String::from_utf8(Account::fold(name.as_ref()).0).unwrap()
}

#[test]
fn f3_spellings_of_a_name_are_one_account() {
    for name in [
        "admin",
        "ADMIN",
        " admin\t",
        "\u{e4}dmin",
        "a\u{308}dmin",
        "\u{c4}DMIN",
        "\u{ff21}\u{ff44}\u{ff4d}in",
        "ad\u{200b}min",
        "ad\u{ad}min",
        "\u{feff}admin",
        "adm\u{131}n",
        "ADM\u{130}N",
        "admin\0",
        "\0\nadmin",
        "adm\u{1}in",
        "\u{a0}admin\u{3000}",
        "\u{1d41a}dmin",
        "\u{24d0}dmin",
        "a\u{e01ef}dmin",
        "admi\u{207f}",
        "\u{a3}admin",
        "ad\u{901}min",
        "a\u{e47}dmin",
        "ad\u{fc5e}min",
    ] {
        assert_eq!(fold(name), "admin", "{name:?}");
    }
    assert_eq!(fold("Ma\u{df}  E\n\u{17f}\u{df}\u{fb01}x"), "mas e sfix");
    assert_eq!(fold("A@X.Example"), fold("a@x.example"));
    assert_eq!(fold("\u{3a3}\u{3c2}\u{3c3}"), "\u{3c3}\u{3c3}\u{3c3}");
    assert_eq!(fold("\u{d55c}\u{ae00}"), "\u{d55c}\u{ae00}");
    assert_eq!(fold("S\u{f8}ren \u{141}ukasz \u{c6}gir"), "soren lukasz agir");
}

#[test]
fn names_of_different_people_are_different_accounts() {
    let names = [
        "anna",
        "anne",
        "ann a",
        "a+tag@x",
        "a@x",
        "corp\\a",
        "",
        "\u{438}\u{432}\u{430}\u{43d}",
        "\u{438}\u{432}\u{433}\u{430}",
        "\u{930}\u{93e}\u{92e}",
        "\u{930}\u{94b}\u{92e}",
        "\u{5f20}",
        "\u{674e}",
        "at&t",
        "100%",
        "a;b",
        "&",
        "o'neill",
        "a_b",
        "a-b",
        "a.b",
    ];
    for (at, one) in names.iter().enumerate() {
        for other in &names[at + 1..] {
            assert_ne!(fold(one), fold(other), "{one:?} {other:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_latin_or_stay_different() {
    assert_eq!(fold(b"\xe4dmin"), "admin");
    assert_eq!(fold(b"j\xf8rg\xa0"), "jorg");
    // WordPress reads these bytes as `th` and `dh`, and the letters as `th` and `d`.
    assert_eq!((fold(b"\xfe\xf0a"), fold("\u{fe}\u{f0}a")), (fold("thdha"), fold("thda")));
    assert_eq!(fold("thdha"), fold("thda"));
    assert_eq!((fold(b"x%\xe5\xe5"), fold("x%ae")), ("<".to_owned(), "<".to_owned()), "an escaped byte");
    let bytes: Vec<String> = (0x84..=0x89).chain(0x90..=0x99).map(|byte| fold([b'a', byte])).collect();
    for (at, one) in bytes.iter().enumerate() {
        assert!(!bytes[at + 1..].contains(one) && one != "a", "{one:?}");
    }
}

/// By `remove_accents` of WordPress. In a name that is no UTF-8 it takes each byte of a character for a letter.
#[test]
fn bytes_of_which_wordpress_makes_letters_are_these_letters() {
    assert_eq!(fold(b"\x80\x83\x8a\x8e\x9a\x9e\x9f\xa2\xa5\xb5"), fold("EfSZszYcYu"));
    assert_eq!(fold(b"wp\xa2\xb5\x83y"), fold("wpcufy"));
    assert_eq!(fold(b"\xc3\xa2c\xf2unt"), "<", "to WordPress this is `account`");
    assert_eq!((fold("\u{e2}ccount"), fold(b"\xe2ccount")), ("account".to_owned(), "account".to_owned()));
}

#[test]
fn f3_names_with_markup_are_one_account_together() {
    for name in
        ["adm<i>in", "admin<", "<script>junk</script>admin", "%41admin", "&amp;admin", "a&b;", "ad\0min"]
    {
        assert_eq!(fold(name), "<", "{name:?}");
    }
}

#[test]
fn names_that_a_usual_collation_takes_for_the_same_share_an_account() {
    let pairs = [
        ("bob1", "bob\u{661}"),
        ("bob1", "bob\u{0967}"),
        ("yves", "\u{fc}ves"),
        ("goethe", "g\u{f6}the"),
        ("haakon", "h\u{e5}kon"),
        ("aegir", "\u{e6}gir"),
        ("42", "4\u{2461}"),
        ("\u{e01}\u{e40}", "\u{e40}\u{e01}"),
        ("\u{1f600}anna", "anna"),
    ];
    for (one, other) in pairs {
        assert_eq!(fold(one), fold(other), "{one:?} {other:?}");
    }
}

#[test]
fn letters_that_old_databases_ignore_name_a_second_account() {
    let without = |name: &str| Account::fold_without_later(name.as_bytes());
    for later in ["\u{1d41a}", "\u{2c30}", "\u{1e9e}", "\u{7c1}"] {
        assert!(without(&format!("ad{later}min")) == Some(Account::fold(b"admin")), "{later:?}");
        assert!(without(later).is_none(), "{later:?}");
    }
    assert!(without("admin").is_none() && without("\u{e4}dmin").is_none());
}

/// It was cut to bytes and no more, so that invisible letters in front of the cut made another account.
#[test]
fn a_name_is_read_as_far_as_its_application_reads_it() {
    let cuts = |name: &str, length| -> Vec<String> {
        Account::cuts(name.as_bytes(), length)
            .into_iter()
            .map(|cut| String::from_utf8(cut.to_vec()).unwrap())
            .collect()
    };
    assert_eq!(cuts(" alice", 60), ["alice"]);
    assert_eq!(cuts("alice   x", 7), ["alice   x", "alice"]);
    assert_eq!(cuts("bj\u{f6}rn", 3), ["bj\u{f6}rn", "bj", "bj\u{f6}"]);
    assert_eq!(cuts("\u{1f600}bob", 3), ["\u{1f600}bob", "", "\u{1f600}b", "\u{1f600}bo"]);
    assert_eq!(Account::cuts(b"\xff\xfe\xfd", 2), [&b"\xff\xfe\xfd"[..], b"\xff\xfe"].into());
    let hidden = format!("m{}argaret", "\u{200b}".repeat(20));
    assert!(
        Account::cuts(hidden.as_bytes(), 60)
            .into_iter()
            .any(|cut| Account::fold(cut) == Account::fold(b"margaret"))
    );
}

/// Two marks of Unicode 15 made any number of accounts of one to PostgreSQL with ICU.
#[test]
fn letters_that_no_known_version_has_are_dropped() {
    assert_eq!(fold("mar\u{cf3}g\u{ece}aret\u{897}"), "margaret");
    assert_eq!(fold("\u{cf3}"), "<", "to other databases it is a letter");
}

#[test]
fn names_of_emoji_are_one_account_and_names_of_nothing_are_none() {
    for name in ["\u{1f600}", "\u{1f601}\u{1f602}", " \u{20bb7}"] {
        assert_eq!(fold(name), "<", "{name:?}");
    }
    for name in ["", " \t", "\u{200b}", "\u{901}", "_", "\u{a0}", "\u{7f}", "\u{80}"] {
        assert_eq!(fold(name), "", "{name:?}");
    }
}

#[test]
fn f4_a_long_name_is_cut_at_a_letter() {
    assert_eq!(fold("x".repeat(1024 * 1024)), "x".repeat(256));
    assert_eq!(fold(format!("{}\u{5f20}", "x".repeat(254))), "x".repeat(254));
    assert_eq!(fold(format!("{}   x", "x".repeat(255))), "x".repeat(255));
    assert_eq!(fold(format!("{}x", " ".repeat(1024 * 1024))), "x");
    assert!(fold("\u{fdfa}".repeat(100_000)).len() <= 256);
}

#[test]
fn every_letter_is_folded_for_good() {
    // Beyond these ranges are private use and unassigned characters.
    for letter in ('\0'..'\u{32000}').chain('\u{e0000}'..'\u{e1000}') {
        let once = fold(letter.to_string());
        assert_eq!(fold(&once), once, "{letter:?}");
        // The iota below a Greek letter is a mark in lower case and a letter in upper case.
        if !letter.to_string().nfd().any(|part| part == '\u{345}') {
            assert_eq!(fold(letter.to_uppercase().collect::<String>()), once, "{letter:?}");
        }
        if letter == '\0' {
            continue;
        }
        assert_eq!(fold(format!("a{letter}\u{301}\u{200b}")), fold(format!("A{letter}")), "{letter:?}");
    }
}

#[test]
fn a_name_is_never_shown() {
    assert_eq!(format!("{:?}", Account::fold(b"admin")), "Account(hidden)");
}

proptest! {
    #[test]
    fn folding_twice_is_folding_once(name in any::<Vec<u8>>(), text in "\\PC*") {
        for name in [&name[..], text.as_bytes()] {
            let once = Account::fold(name);
            prop_assert!(once.as_bytes().len() <= 256);
            prop_assert!(Account::fold(once.as_bytes()) == once);
        }
    }

    #[test]
    fn ascii_is_folded_like_any_text(name in "[ -~]{0,40}") {
        let wide: String = name.chars().flat_map(|letter| [letter, '\u{200b}']).collect();
        prop_assert_eq!(fold(&wide), fold(&name));
    }
}

#[test]
fn a_user_of_a_directory_has_one_name_with_and_without_its_domain() {
    let of = |name: &str| Account::fold(Account::without_domain(name.as_bytes())).without_folded_domain();
    for name in
        ["anna", "CORP\\anna", "anna@corp.example", "corp/Anna", "corp.example\\anna@corp", "ＡNNA＠corp"]
    {
        assert!(of(name) == Account::fold(b"anna"), "{name}");
    }
    assert!(of("CORP＼anna") == Account::fold(b"anna") && of("CORP\\anna ") == Account::fold(b"anna"));
    assert!(of("anna.smith@corp") != of("anna") && of("CORP\\").as_bytes().is_empty());
    // Some applications bind with the second part, and an attacker writes anything into the others.
    for name in ["CORP\\anna\\1", "CORP\\anna\\2", "a/CORP\\anna", "CORP＼anna\\3", "\\\\anna"] {
        assert!(of(name) == of("CORP\\anna\\1"), "{name}");
    }
}
