//! The header in which a proxy in front of us names its client: the PROXY protocol, versions 1 and 2.
//!
//! `proxy-header` reads the addresses. Where a header ends and whether it is sound is decided here, because that crate
//! waits for bytes that never come, takes lines of any length, and verifies no checksum. Sockets are left to `receive`.
//! In a header that names no client (`LOCAL`, `UNKNOWN`) nothing else is read.
//!
//! The protocol: <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.

mod receive;

use std::net::SocketAddr;
use std::ops::Range;

use crc::{CRC_32_ISCSI, Crc, NoTable};
use proxy_header::{ParseConfig, ProxyHeader};

pub use self::receive::{ProxyHeaderError, receive};

/// The accepted versions of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocolVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
    /// Either.
    Any,
}

/// The bytes are not a header, or none of an accepted version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a PROXY header")]
pub struct MalformedProxyHeader;

/// The end of the header at the start of these bytes; `None` if the header goes on behind them.
///
/// # Errors
/// [`MalformedProxyHeader`] as soon as no further byte could make a header of them.
pub fn end(bytes: &[u8], version: ProxyProtocolVersion) -> Result<Option<usize>, MalformedProxyHeader> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') if version != ProxyProtocolVersion::V2 => end_of_line(bytes),
        Some(b'\r') if version != ProxyProtocolVersion::V1 => end_of_block(bytes),
        Some(_) => Err(MalformedProxyHeader),
    }
}

/// The client's address in a whole header and nothing else, in canonical form; `None` if the proxy speaks for itself,
/// as in a health check.
///
/// # Errors
/// [`MalformedProxyHeader`].
pub fn source(header: &[u8]) -> Result<Option<SocketAddr>, MalformedProxyHeader> {
    let block = header.strip_prefix(SIGNATURE);
    if block.is_some_and(has_no_address) {
        return Ok(None);
    }
    let config = ParseConfig { include_tlvs: false, allow_v1: true, allow_v2: true };
    let (parsed, length) = ProxyHeader::parse(header, config).map_err(|_| MalformedProxyHeader)?;
    let is_sound = match block {
        Some(block) => are_fields_sound(header, V2_HEADER_LEN + length_of_addresses(block)),
        None => is_line_sound(header),
    };
    if !is_sound || length != header.len() {
        return Err(MalformedProxyHeader);
    }
    let source = parsed.proxied_address().map(|addresses| addresses.source);
    Ok(source.map(|source| SocketAddr::new(source.ip().to_canonical(), source.port())))
}

fn end_of_line(bytes: &[u8]) -> Result<Option<usize>, MalformedProxyHeader> {
    begins_as(bytes, V1_PREFIX)?;
    let line = bytes.get(..MAX_LINE_LEN).unwrap_or(bytes);
    match memchr::memchr(b'\n', line) {
        Some(at) => Ok(Some(at + 1)),
        None if line.len() < MAX_LINE_LEN => Ok(None),
        None => Err(MalformedProxyHeader),
    }
}

fn end_of_block(bytes: &[u8]) -> Result<Option<usize>, MalformedProxyHeader> {
    begins_as(bytes, SIGNATURE)?;
    let [command, _, length @ ..] = bytes.get(SIGNATURE.len()..).unwrap_or_default() else {
        return Ok(None);
    };
    if !matches!(*command, LOCAL | PROXY) {
        return Err(MalformedProxyHeader);
    }
    let Some(length) = length.first_chunk() else { return Ok(None) };
    let end = V2_HEADER_LEN + usize::from(u16::from_be_bytes(*length));
    if end > MAX_BLOCK_LEN { Err(MalformedProxyHeader) } else { Ok((end <= bytes.len()).then_some(end)) }
}

/// Checks that the bytes begin like this, as far as they go.
fn begins_as(bytes: &[u8], beginning: &[u8]) -> Result<(), MalformedProxyHeader> {
    let is_so = bytes.iter().zip(beginning).all(|(byte, wanted)| byte == wanted);
    if is_so { Ok(()) } else { Err(MalformedProxyHeader) }
}

/// Rejects what the crate accepts: numbers with a plus sign, and words that only begin with `UNKNOWN`.
fn is_line_sound(line: &[u8]) -> bool {
    let Some(words) = line.strip_prefix(V1_PREFIX) else { return false };
    match words.strip_prefix(b"UNKNOWN") {
        Some(rest) => matches!(rest.first(), Some(b' ' | b'\r')),
        None => !words.contains(&b'+'),
    }
}

/// Whether a block is the proxy's own, or of a family without addresses: the rest of it is ignored.
fn has_no_address(block: &[u8]) -> bool {
    matches!(block, [LOCAL, ..] | [PROXY, 0, ..])
}

/// The length of the addresses, by the family of the block. The crate has refused unknown families.
fn length_of_addresses(block: &[u8]) -> usize {
    match block.get(1).map(|family| family >> 4) {
        Some(1) => 12,
        Some(2) => 36,
        Some(3) => 216,
        _ => 0,
    }
}

/// Whether whole fields follow the addresses, with the right checksum if they have one.
fn are_fields_sound(header: &[u8], mut at: usize) -> bool {
    let mut checksum: Option<Range<usize>> = None;
    while at < header.len() {
        let Some([kind, length @ ..]) = header.get(at..).and_then(|rest| rest.first_chunk::<3>()) else {
            return false;
        };
        let value = at + 3..at + 3 + usize::from(u16::from_be_bytes(*length));
        at = value.end;
        if *kind == CHECKSUM && checksum.replace(value).is_some() {
            return false;
        }
    }
    at == header.len() && checksum.is_none_or(|range| is_checksum_right(header, range))
}

/// The checksum is that of the header with zeros in the checksum's bytes.
fn is_checksum_right(header: &[u8], range: Range<usize>) -> bool {
    let (Some(before), Some(value), Some(after)) =
        (header.get(..range.start), header.get(range.clone()), header.get(range.end..))
    else {
        return false;
    };
    let mut digest = CRC32C.digest();
    for part in [before, &[0; 4], after] {
        digest.update(part);
    }
    *value == digest.finalize().to_be_bytes()
}

const V1_PREFIX: &[u8] = b"PROXY ";
/// With the end of the line, by the protocol.
const MAX_LINE_LEN: usize = 107;
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the command, the family, and the length of the block.
const V2_HEADER_LEN: usize = 16;
/// As much as nginx takes.
const MAX_BLOCK_LEN: usize = 4096;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const CHECKSUM: u8 = 3;
/// Without a table: few headers have a checksum, and all are short.
static CRC32C: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISCSI);

#[cfg(test)]
mod tests;
