//! `tollgate import PROGRAM FILE`: writes a configuration from the limits of another program, and what is lost, line by line.
//!
//! Each reader is one module, which turns its file into an [`Imported`](imported::Imported); `writer` makes TOML of
//! that. A line that is not understood is a loss, never an error.

mod apache;
mod bound;
mod fail2ban;
mod haproxy;
mod imported;
mod ingress;
mod nginx;
mod path_patterns;
mod rates;
#[cfg(test)]
mod tests;
mod times;
mod writer;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use self::imported::Imported;
use super::Exit;
use super::sources::counted;
use crate::cli::output::{errln, out};

#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// The program whose file it is
    #[arg(value_enum)]
    program: ForeignProgram,
    /// The file; - is standard input. Files that it includes are named, and not read
    file: PathBuf,
}

/// A program that limits attempts.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum ForeignProgram {
    /// nginx.conf, or a file that it includes: limit_req, limit_conn, geo, map, real_ip
    Nginx,
    /// haproxy.cfg: stick tables, what tracks them, and what denies
    Haproxy,
    /// jail.local, or a file of jail.d
    Fail2ban,
    /// A configuration of Apache with mod_evasive
    Apache,
    /// Manifests with annotations for ingress-nginx
    Ingress,
}

impl ForeignProgram {
    fn name(self) -> &'static str {
        match self {
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Fail2ban => "fail2ban",
            Self::Apache => "apache",
            Self::Ingress => "ingress",
        }
    }

    fn read(self, text: &str) -> Imported {
        match self {
            Self::Nginx => nginx::read(text),
            Self::Haproxy => haproxy::read(text),
            Self::Fail2ban => fail2ban::read(text),
            Self::Apache => apache::read(text),
            Self::Ingress => ingress::read(text),
        }
    }

    /// What would have been imported.
    fn looked_for(self) -> &'static str {
        match self {
            Self::Nginx => "limit_req with its limit_req_zone, or set_real_ip_from",
            Self::Haproxy => "http-request deny if a rate of a stick-table is above a number",
            Self::Fail2ban => "jails of applications that tollgate has a preset for",
            Self::Apache => "DOSPageCount, DOSSiteCount, or proxies of mod_remoteip",
            Self::Ingress => "annotations such as nginx.ingress.kubernetes.io/limit-rps",
        }
    }
}

pub(super) fn import(arguments: &ImportArgs) -> anyhow::Result<Exit> {
    let file = &arguments.file;
    let name = if file == Path::new("-") { "standard input".to_owned() } else { file.display().to_string() };
    let text = match file == Path::new("-") {
        true => bounded_text(io::stdin().lock()),
        false => File::open(file).and_then(bounded_text),
    };
    let text = text.with_context(|| format!("cannot read {name}"))?;
    let program = arguments.program;
    let imported = program.read(&text);
    if !imported.has_something() {
        errln!(
            "tollgate: nothing to import from {name}: looked for {} of {}",
            program.looked_for(),
            program.name()
        );
        return Ok(Exit::Failed);
    }
    let (text, is_valid) = writer::write(&imported, program.name(), &name);
    out!("{text}");
    errln!("tollgate: {name}: {}", summary(&imported));
    if !is_valid {
        errln!("tollgate: the written file is not valid: `tollgate check` shows why");
        return Ok(Exit::Failed);
    }
    Ok(Exit::Ok)
}

fn summary(imported: &Imported) -> String {
    let limits = counted(imported.limits.len(), "limit");
    let routes = counted(imported.routes.len(), "route");
    let losses = counted(imported.losses().len(), "comment");
    format!("{limits} on {routes}; {losses} at the end on what is not carried over")
}

/// The text of a file; letters that are not UTF-8 are replaced.
fn bounded_text(reader: impl Read) -> io::Result<String> {
    let mut bytes = Vec::new();
    reader.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_FILE {
        true => Err(io::Error::other("it is larger than 4 MiB")),
        false => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Bytes of a file to import.
const MAX_FILE: u64 = 4 << 20;
