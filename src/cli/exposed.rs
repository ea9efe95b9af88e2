//! `tollgate exposed`: makes a filter of a list of exposed passwords.
//!
//! The filter is written next to its place and then moved there: a gate that watches it never reads half a file.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use super::Exit;
use crate::cli::output::outln;
use crate::defences::exposed::{self, Built};
use crate::replay::decoded;

#[derive(Debug, Args)]
pub(super) struct ExposedArgs {
    #[command(subcommand)]
    action: FilterCommand,
}

#[derive(Debug, Subcommand)]
enum FilterCommand {
    /// Build a filter from a list of SHA-1 hashes, one a line and in order, as Have I Been Pwned gives them
    Build {
        /// The list, plain or compressed by gzip or Zstandard; `-` is standard input
        file: PathBuf,
        /// The filter, for `exposed.file` of the configuration
        out: PathBuf,
    },
}

pub(super) fn exposed(ExposedArgs { action }: &ExposedArgs) -> anyhow::Result<Exit> {
    let FilterCommand::Build { file, out } = action;
    let Built { hashes, bytes } = build(file, out)?;
    outln!("{hashes} hashes in {bytes} bytes: every one is found, and one in 1024 others");
    Ok(Exit::Ok)
}

fn build(list: &Path, out: &Path) -> anyhow::Result<Built> {
    let name = list.display();
    let bytes: Box<dyn Read + Send> = match list.to_str() {
        Some("-") => Box::new(io::stdin()),
        _ => Box::new(File::open(list).with_context(|| format!("cannot read {name}"))?),
    };
    let lines = decoded(bytes).with_context(|| format!("cannot read {name}"))?;
    let mut partial = out.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let built = write(BufReader::with_capacity(BUFFER, lines), &partial);
    let moved = built.with_context(|| format!("{name} makes no filter")).and_then(|built| {
        std::fs::rename(&partial, out).with_context(|| format!("cannot write {}", out.display()))?;
        Ok(built)
    });
    if moved.is_err() {
        // The error to tell is the first one.
        drop(std::fs::remove_file(&partial));
    }
    moved
}

fn write(lines: impl io::BufRead, path: &Path) -> anyhow::Result<Built> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    let mut out = BufWriter::with_capacity(BUFFER, file);
    let built = exposed::build(lines, &mut out)?;
    out.get_ref().sync_all()?;
    Ok(built)
}

const BUFFER: usize = 1 << 20;
