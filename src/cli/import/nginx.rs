//! Reads nginx: `limit_req` and `limit_conn` by location, `geo` and `map` as exemptions, `real_ip` as trusted proxies.
//!
//! A rate of nginx with `burst=N` is a bucket of N + 1: the first attempt counts here. Attempts that nginx would hold are held
//! here, too (`wait`). Files that `include` names are not read.

mod addresses;
mod client;
mod directives;
mod keys;
mod places;
mod reader;
mod servers;
mod words;
mod zones;

use self::directives::Directives;
use self::reader::NginxReader;
use super::imported::Imported;

/// What a file of nginx says.
pub(super) fn read(text: &str) -> Imported {
    let file = Directives::parse(text);
    NginxReader::new(&file).read()
}
