//! The header in which a proxy in front of us says who connected to it: the PROXY protocol, versions 1 and 2.
//!
//! `proxy-header` reads the addresses; where a header ends and whether it is whole is said here, because that crate waits for
//! more bytes where there will be none, takes lines of any length, and checks no checksum. Nothing here reads a socket but
//! `receive`. The surprising thing: of a header that names nobody (`LOCAL`, `UNKNOWN`) nothing else is read.
//!
//! The protocol: <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.

mod receive;

use std::net::SocketAddr;
use std::ops::Range;

use crc::{CRC_32_ISCSI, Crc, NoTable};
use proxy_header::{ParseConfig, ProxyHeader};

pub use self::receive::{ProxyHeaderError, receive};

/// Which versions of the header are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocolVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
    /// Either.
    Any,
}

/// What is not a header, or not one of the version that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a PROXY header")]
pub struct MalformedProxyHeader;

/// Where the header ends that these bytes begin with. `None` is one that goes on behind them.
///
/// # Errors
/// [`MalformedProxyHeader`] as soon as no byte more could make a header of them.
pub fn end(bytes: &[u8], version: ProxyProtocolVersion) -> Result<Option<usize>, MalformedProxyHeader> {
    match bytes.first() {
        None => Ok(None),
        Some(b'P') if version != ProxyProtocolVersion::V2 => end_of_line(bytes),
        Some(b'\r') if version != ProxyProtocolVersion::V1 => end_of_block(bytes),
        Some(_) => Err(MalformedProxyHeader),
    }
}

/// Who connected to the proxy, by a whole header and nothing else, in canonical form; `None` is the proxy itself, as when it
/// looks whether we are well.
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

/// Whether the bytes begin in this way, or could if there were more of them.
fn begins_as(bytes: &[u8], beginning: &[u8]) -> Result<(), MalformedProxyHeader> {
    let is_so = bytes.iter().zip(beginning).all(|(byte, wanted)| byte == wanted);
    if is_so { Ok(()) } else { Err(MalformedProxyHeader) }
}

/// What the crate lets through: numbers with a plus sign, and words that only begin as `UNKNOWN` does.
fn is_line_sound(line: &[u8]) -> bool {
    let Some(words) = line.strip_prefix(V1_PREFIX) else { return false };
    match words.strip_prefix(b"UNKNOWN") {
        Some(rest) => matches!(rest.first(), Some(b' ' | b'\r')),
        None => !words.contains(&b'+'),
    }
}

/// Whether a block is a proxy's own, or of a family without addresses: whatever else stands in it is to be ignored.
fn has_no_address(block: &[u8]) -> bool {
    matches!(block, [LOCAL, ..] | [PROXY, 0, ..])
}

/// By the family of the block. The crate has refused those that there are not.
fn length_of_addresses(block: &[u8]) -> usize {
    match block.get(1).map(|family| family >> 4) {
        Some(1) => 12,
        Some(2) => 36,
        Some(3) => 216,
        _ => 0,
    }
}

/// Whether what stands behind the addresses are whole fields, and their checksum is right, if they have one.
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
    at == header.len() && checksum.is_none_or(|place| is_checksum_right(header, place))
}

/// The checksum is that of the header with zeros in its place.
fn is_checksum_right(header: &[u8], place: Range<usize>) -> bool {
    let (Some(before), Some(value), Some(after)) =
        (header.get(..place.start), header.get(place.clone()), header.get(place.end..))
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
/// With the end of the line, as the protocol has it.
const MAX_LINE_LEN: usize = 107;
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// The signature, the command, the family, and the length of the block.
const V2_HEADER_LEN: usize = 16;
/// As much as nginx takes.
const MAX_BLOCK_LEN: usize = 4096;
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const CHECKSUM: u8 = 3;
/// Without a table: few headers have a checksum, and none is long.
static CRC32C: Crc<u32, NoTable> = Crc::<u32, NoTable>::new(&CRC_32_ISCSI);

#[cfg(test)]
mod tests;
