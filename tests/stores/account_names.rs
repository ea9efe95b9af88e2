//! Names that a database takes for the same are one account, asked of a real MariaDB.

use std::collections::HashMap;

use support::servers::mysql::MariaDb;
use support::servers::{Server, Tables};
use tollgate_policy::account::Account;

/// What legacy applications use, by character set.
const COLLATIONS: [(&str, &[&str]); 2] = [
    (
        "utf8mb4",
        &[
            "utf8mb4_general_ci",
            "utf8mb4_unicode_ci",
            "utf8mb4_unicode_520_ci",
            "utf8mb4_uca1400_ai_ci",
            "utf8mb4_german2_ci",
        ],
    ),
    (
        "latin1",
        &[
            "latin1_swedish_ci",
            "latin1_general_ci",
            "latin1_german1_ci",
            "latin1_german2_ci",
            "latin1_danish_ci",
            "latin1_spanish_ci",
        ],
    ),
];

fn account(name: &str) -> Account {
    Account::fold(name.as_bytes())
}

/// Names that are equal by a collation: each with the weights that the database gives it.
fn assert_equal_names_share(lines: &str, collation: &str) -> usize {
    let mut first: HashMap<&str, &str> = HashMap::new();
    let mut equal = 0;
    for (name, weights) in lines.lines().filter_map(|line| line.split_once('\t')) {
        let one = *first.entry(weights).or_insert(name);
        let (one, other) = (text(one), text(name));
        equal += usize::from(one != other);
        assert!(account(&one) == account(&other), "{one:?} {other:?} are equal by {collation}");
    }
    equal
}

fn text(hex: &str) -> String {
    let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    String::from_utf8((0..hex.len()).step_by(2).map(byte).collect()).unwrap()
}

/// Every character of the first plane.
const CHARACTERS: &str = "CREATE TABLE names AS SELECT seq AS n, CONVERT(CAST(UNHEX(LPAD(HEX(seq), 4, '0')) AS CHAR \
                          CHARACTER SET utf16) USING utf8mb4) COLLATE utf8mb4_bin AS c FROM seq_32_to_65533 \
                          WHERE seq NOT BETWEEN 55296 AND 57343";

/// M1: inside of a name, and at its ends.
#[test]
fn characters_that_a_database_takes_for_the_same_are_one_account() {
    let database = MariaDb::start().unwrap();
    database.sql(CHARACTERS);
    let mut equal = 0;
    for (set, collations) in COLLATIONS {
        // Swedish and Danish latin1 have letters where ISO 646 had signs.
        let letters = if set == "latin1" { " AND c NOT REGEXP '^[!-/:-@[-`{-~]$'" } else { "" };
        for collation in collations {
            for name in ["c", "CONCAT('ab', c, 'xz')", "CONCAT('ab', c)"] {
                let lines = database.sql(&format!(
                    "SELECT HEX({name}), HEX(WEIGHT_STRING(CONVERT({name} USING {set}) COLLATE {collation})) \
                     FROM names WHERE CONVERT(CONVERT(c USING {set}) USING utf8mb4) = c{letters}"
                ));
                equal += assert_equal_names_share(&lines, collation);
            }
        }
    }
    assert!(equal > 50_000, "only {equal} pairs");
}

/// Texts of a character between letters of contractions and expansions.
const PIECES: &str = "SELECT HEX(CONVERT(piece USING utf8mb4)), HEX(WEIGHT_STRING(piece COLLATE COLLATION)) FROM (SELECT \
                      CONCAT(ELT(1 + FLOOR(RAND(n) * 12), 'a', 'o', 'u', 'y', 'ss', 'ae', '', 'ch', 'll', 'e', 's', 'i'), c, \
                      ELT(1 + FLOOR(RAND(n + 7) * 6), '', 'e', 's', 'a', ' ', 'h')) COLLATE utf8mb4_bin AS piece FROM names \
                      WHERE n < 12288 OR n > 42560 AND NOT n BETWEEN 44032 AND 55203) AS pieces";

/// M1: three pieces, each in another spelling.
#[test]
fn names_respelled_at_random_are_one_account() {
    let database = MariaDb::start().unwrap();
    database.sql(CHARACTERS);
    let mut pairs = 0;
    for collation in COLLATIONS[0].1 {
        let lines = database.sql(&PIECES.replace("COLLATION", collation));
        let mut classes: HashMap<&str, Vec<String>> = HashMap::new();
        for (piece, weights) in lines.lines().filter_map(|line| line.split_once('\t')) {
            classes.entry(weights).or_default().push(text(piece));
        }
        let classes: Vec<Vec<String>> = classes.into_values().filter(|pieces| pieces.len() > 1).collect();
        let piece = |number: usize| {
            let pieces = &classes[number * 7919 % classes.len()];
            [&pieces[number % pieces.len()], &pieces[(number / 3 + 1) % pieces.len()]]
        };
        for number in 0..25_000 {
            let [a, b, c] = [piece(number), piece(number * 31 + 11), piece(number * 17 + 5)];
            let [one, other] = [0, 1].map(|at| [a[at].as_str(), b[at], c[at]].concat());
            assert!(account(&one) == account(&other), "{one:?} {other:?} are equal by {collation}");
            pairs += 1;
        }
    }
    assert!(pairs >= 100_000, "only {pairs} pairs");
}
