//! `tollgate man DIR`: writes the man pages: section 1 for each command, 5 for the file, 8 for the service.
//!
//! The pages of section 1 come from the arguments, that of section 5 from the schema of the file.

mod file_page;
mod service_page;

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, CommandFactory};
use clap_mangen::roff::{Inline, Roff, roman};

use super::Exit;

#[derive(Debug, Args)]
pub(super) struct ManArgs {
    /// The directory, which has to exist
    dir: PathBuf,
}

pub(super) fn man(arguments: &ManArgs) -> anyhow::Result<Exit> {
    let dir = &arguments.dir;
    let cannot = || format!("cannot write to {}", dir.display());
    clap_mangen::generate_to(super::Cli::command(), dir).with_context(cannot)?;
    for (name, page) in [("tollgate.toml.5", file_page::page()), ("tollgate.8", service_page::page())] {
        fs::write(dir.join(name), ascii(&page.render())).with_context(cannot)?;
    }
    Ok(Exit::Ok)
}

/// A page with its heading and its first section.
fn titled(name: &str, section: &str, about: &str) -> Roff {
    let mut page = Roff::new();
    let source = format!("tollgate {}", env!("CARGO_PKG_VERSION"));
    page.control("TH", [name, section, "", source.as_str(), ""]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {about}"))]);
    page
}

/// The page in ASCII, since not every troff takes its input for UTF-8 (groff_char(7)).
fn ascii(page: &str) -> String {
    let escaped = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    page.chars().map(escaped).collect()
}

/// A term and what it means.
fn entry(page: &mut Roff, term: Vec<Inline>, meaning: &str) {
    page.control("TP", []);
    page.text(term);
    page.text([roman(meaning)]);
}
