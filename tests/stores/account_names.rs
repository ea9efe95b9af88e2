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

/// Texts of characters that many others are equal to, of contractions and of expansions.
const PIECES: &str = "SELECT seq, CONVERT(CONCAT(ELT(1 + FLOOR(RAND(seq) * 12), 'a', 'o', 'u', 'y', 'ss', 'ae', '', 'ch', 'll', 'e', \
                      's', 'i'), (SELECT c FROM names WHERE n = pool.n), ELT(1 + FLOOR(RAND(seq + 7) * 6), '', 'e', 's', 'a', \
                      ' ', 'h')) USING utf8mb4) AS piece FROM pool";

/// M1: three pieces, each in another spelling.
#[test]
fn names_respelled_at_random_are_one_account() {
    let database = MariaDb::start().unwrap();
    database.sql(CHARACTERS);
    database.sql(
        "CREATE TABLE pool AS SELECT ROW_NUMBER() OVER () AS seq, n FROM names WHERE n IN \
         (SELECT n FROM names WHERE n < 12288 OR n > 42560)",
    );
    database.sql(&format!("CREATE TABLE pieces AS {PIECES}"));
    let mut pairs = 0;
    for collation in COLLATIONS[0].1 {
        // The second name has, for each piece, another one of the same weights.
        database.sql(&format!(
            "CREATE OR REPLACE TABLE same AS SELECT seq, piece, ROW_NUMBER() OVER (PARTITION BY w ORDER BY RAND(seq)) AS at, \
             COUNT(*) OVER (PARTITION BY w) AS size, DENSE_RANK() OVER (ORDER BY w) AS class FROM \
             (SELECT seq, piece, WEIGHT_STRING(piece COLLATE {collation}) AS w FROM pieces) AS weighed; \
             DELETE FROM same WHERE size = 1; \
             CREATE OR REPLACE TABLE drawn AS SELECT one.piece AS one, other.piece AS other, \
             ROW_NUMBER() OVER (ORDER BY RAND(one.seq * 31)) AS at FROM same AS one JOIN same AS other \
             ON one.class = other.class AND other.at = 1 + (one.at + 6) MOD one.size LIMIT 24000; \
             ALTER TABLE drawn ADD PRIMARY KEY (at)"
        ));
        let lines = database.sql(&format!(
            "SELECT HEX(CONCAT(a.one, b.one, c.one)), HEX(CONCAT(a.other, b.other, c.other)) FROM drawn a \
             JOIN drawn b ON b.at = 1 + (a.at * 7 + 11) MOD 24000 JOIN drawn c ON c.at = 1 + (a.at * 13 + 5) MOD 24000 \
             WHERE CONCAT(a.one, b.one, c.one) COLLATE {collation} = CONCAT(a.other, b.other, c.other)"
        ));
        for (one, other) in lines.lines().filter_map(|line| line.split_once('\t')) {
            let (one, other) = (text(one), text(other));
            assert!(account(&one) == account(&other), "{one:?} {other:?} are equal by {collation}");
            pairs += 1;
        }
    }
    assert!(pairs >= 100_000, "only {pairs} pairs");
}
