//! No row of the threat table without a test: each has its mark in the tests or beside the code.
//!
//! A mark is a doc line that begins with the row's number, or with several, and a colon, directly above a test, or above a function that is
//! mounted as one.

#![allow(clippy::unwrap_used, reason = "these are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The rows that are built.
const ROWS: &str = "
    A1 A2 A3 A4 A5 A6 A7 A8 A9 A10 A11 A12 A13 A14 A15 A16 A17 A18 A19 A20 A21 A22 A23 A24 A25 A26 A27 A28 A29 A30 A31 A32
    B1 B2 B3 B4 B5 B6 B7 B8 B9 B10 B11 B12 B13 B14
    C1 C2 C3 C4 C5 C6 C7 C8 C9 C10 C11 C12 C13 C14 C15 C16 C17
    D1 D2 D3 D4 D5 D6 D7 D8 D9 D10 D11 D12 D13 D14 D15 D16 D17 D18 D19 D20 D21 D22 D23 D24
    E1 E2 E3 E4 E5 E6 E7 E8 E9 E10 E11 E12 E13 E14 E15 E16 E17 E18 E19 E20 E21 E22 E23 E24
    F1 F2 F3 F4 F5 F6 F7 F8 F9
    G1 G2 G3 G4 G5 G6 G7 G8 G9 G10 G11 G12 G13 G14 G15 G16 G17 G18
    H1 H2 H3 H4 H5 H6 H7 H8 H9 H10 H11 H12 H13 H14 H15 H16 H17
    I1 I2 I3 I4 I5 I6 I7 I8 I9 I10 I11
    J1 J2 J3 J4 J5 J6 J7 J8
    K1 K2 K3 K4 K5 K6 K7
    L1 L2 L3 L4 L5 L6 L7 L8 L9 L10 L11 L12 L13 L14 L15 L16 L18 L19 L20
    M1 M2 M3 M4 M5 M6 M7 M8 M9 M10 M11";

#[test]
fn every_threat_has_a_test_that_names_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut marked = BTreeSet::new();
    for folder in ["tests", "src", "crates"] {
        collect(&root.join(folder), &mut marked);
    }
    let missing: Vec<&str> = ROWS.split_whitespace().filter(|row| !marked.contains(*row)).collect();
    assert!(missing.is_empty(), "no test says `/// ROW: ...` for {missing:?}");
}

fn collect(folder: &Path, marked: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, marked);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            collect_marks(&fs::read_to_string(&path).unwrap(), marked);
        }
    }
}

fn collect_marks(source: &str, marked: &mut BTreeSet<String>) {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((row, _)) = line.strip_prefix("/// ").and_then(|line| line.split_once(':')) else {
            continue;
        };
        let below = lines[at + 1..].iter().find(|line| !line.starts_with("///"));
        // Suites of the conformance tests are mounted for each store.
        let tests = ["#[test]", "#[tokio::test]", "pub(crate) fn"];
        if below.is_some_and(|line| tests.iter().any(|test| line.starts_with(test))) {
            marked.extend(row.split(", ").map(str::to_owned));
        }
    }
}
