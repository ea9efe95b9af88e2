//! Every reader against bytes that nobody wrote, and against damaged files: nothing panics, and what is written is valid.

use std::fs;

use clap::ValueEnum as _;
use proptest::prelude::*;

use super::{ForeignProgram, writer};

/// What is written of a text is valid, whatever the text is.
fn is_valid(program: ForeignProgram, bytes: &[u8]) -> Result<(), String> {
    let imported = program.read(&String::from_utf8_lossy(bytes));
    match writer::write(&imported, program.name(), "file") {
        (_, true) => Ok(()),
        (text, false) => {
            let loaded = crate::config::load(&crate::config::Sources::from_text("file", &text));
            let said: String = loaded.diagnostics.iter().map(|found| found.render(false)).collect();
            Err(format!("{text}\n{said}"))
        }
    }
}

/// The files of a program in the tests.
fn samples(program: ForeignProgram) -> Vec<Vec<u8>> {
    let files = fs::read_dir(format!("tests/import/{}", program.name())).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let mut paths: Vec<_> = paths.filter(|path| path.extension().is_none_or(|end| end != "toml")).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

#[derive(Debug, Clone)]
enum Damage {
    Cut { at: usize, length: usize },
    Copy { at: usize, length: usize, to: usize },
    Write { at: usize, bytes: Vec<u8> },
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<usize>(), 0..60_usize).prop_map(|(at, length)| Damage::Cut { at, length }),
        (any::<usize>(), 0..200_usize, any::<usize>()).prop_map(|(at, length, to)| Damage::Copy {
            at,
            length,
            to
        }),
        (any::<usize>(), proptest::collection::vec(any::<u8>(), 0..4))
            .prop_map(|(at, bytes)| Damage::Write { at, bytes }),
        (any::<usize>(), "[0-9$~*/;{}\" \n:.=-]{1,6}")
            .prop_map(|(at, text)| Damage::Write { at, bytes: text.into_bytes() }),
    ]
}

fn damaged(mut bytes: Vec<u8>, damages: &[Damage]) -> Vec<u8> {
    for damage in damages {
        let length = bytes.len() + 1;
        let range = |at: usize, wanted: usize| at % length..(at % length + wanted).min(length - 1);
        match damage {
            Damage::Cut { at, length } => drop(bytes.drain(range(*at, *length))),
            Damage::Copy { at, length: wanted, to } => {
                let piece = bytes[range(*at, *wanted)].to_vec();
                let to = to % length;
                drop(bytes.splice(to..to, piece));
            }
            Damage::Write { at, bytes: written } => {
                let range = range(*at, written.len());
                drop(bytes.splice(range, written.iter().copied()));
            }
        }
    }
    bytes
}

#[test]
fn every_sample_becomes_a_valid_file() {
    for program in ForeignProgram::value_variants() {
        for sample in samples(*program) {
            is_valid(*program, &sample).unwrap();
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_become_a_valid_file(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        for program in ForeignProgram::value_variants() {
            prop_assert_eq!(is_valid(*program, &bytes), Ok(()));
        }
    }

    #[test]
    fn damaged_files_become_valid_files(
        which in any::<usize>(),
        damages in proptest::collection::vec(damage(), 1..6),
    ) {
        for program in ForeignProgram::value_variants() {
            let samples = samples(*program);
            let bytes = damaged(samples[which % samples.len()].clone(), &damages);
            prop_assert_eq!(is_valid(*program, &bytes), Ok(()));
        }
    }
}
