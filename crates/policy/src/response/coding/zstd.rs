//! Zstandard (RFC 8878), with the window that HTTP allows (RFC 9659).
//!
//! It does not verify the checksum. The decoder holds back a window of text until a frame ends, so this module ends the
//! frame for it, with an empty block after the last whole one.

use std::io::Read;

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError as HeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::super::BodyPrefix;
use super::{Decoded, End, Undecodable, begins};

/// Decodes all frames; ignores bytes after them.
pub(super) fn decode(mut rest: &[u8]) -> Decoded {
    let mut text = Vec::new();
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(MAX_WINDOW);
    loop {
        let end = match start(&mut decoder, &mut rest)? {
            Start::Frame { has_checksum } => decode_frame(&mut decoder, &mut rest, has_checksum, &mut text)?,
            Start::Skipped => End::Reached,
            Start::Missing => End::Missing,
        };
        if end != End::Reached || text.len() > BodyPrefix::MAX || !begins_a_frame(rest) {
            return Ok((text, end));
        }
    }
}

enum Start {
    Frame { has_checksum: bool },
    Skipped,
    Missing,
}

/// Reads the header of a frame.
fn start(decoder: &mut FrameDecoder, rest: &mut &[u8]) -> Result<Start, Undecodable> {
    let has_checksum = rest.get(4).is_some_and(|descriptor| descriptor & 4 != 0);
    let error = match decoder.init(&mut *rest) {
        Ok(()) => return Ok(Start::Frame { has_checksum }),
        Err(FrameDecoderError::ReadFrameHeaderError(error)) => error,
        Err(_) => return Err(Undecodable),
    };
    match error {
        HeaderError::SkipFrame { length, .. } => {
            let frame = usize::try_from(length).ok().and_then(|length| rest.get(length..));
            *rest = frame.unwrap_or_default();
            Ok(if frame.is_some() { Start::Skipped } else { Start::Missing })
        }
        HeaderError::BadMagicNumber(_) | HeaderError::InvalidFrameDescriptor(_) => Err(Undecodable),
        _ => Ok(Start::Missing),
    }
}

fn decode_frame(
    decoder: &mut FrameDecoder,
    rest: &mut &[u8],
    has_checksum: bool,
    text: &mut Vec<u8>,
) -> Result<End, Undecodable> {
    let (length, is_last) = whole_blocks(rest);
    let (blocks, behind) = rest.split_at_checked(length).unwrap_or((rest, &[]));
    let ending: &[u8] = if is_last { &CHECKSUM } else { &LAST_BLOCK };
    let mut source = blocks.chain(ending);
    let enough = BlockDecodingStrategy::UptoBytes(BodyPrefix::MAX + 1);
    let finished = decoder.decode_blocks(&mut source, enough).map_err(|_| Undecodable)?;
    if !finished {
        decoder.decode_blocks(&LAST_BLOCK[..], BlockDecodingStrategy::All).map_err(|_| Undecodable)?;
    }
    text.append(&mut decoder.collect().unwrap_or_default());
    let checksum = if has_checksum { CHECKSUM.len() } else { 0 };
    *rest = behind.get(checksum..).unwrap_or_default();
    let is_over = is_last && finished && behind.len() >= checksum;
    Ok(if is_over { End::Reached } else { End::Missing })
}

/// The length of the whole blocks at the beginning, and whether the last of them ends the frame.
fn whole_blocks(bytes: &[u8]) -> (usize, bool) {
    let mut length: usize = 0;
    loop {
        let Some(&[low, middle, high]) =
            bytes.get(length..).and_then(|rest| rest.first_chunk::<BLOCK_HEADER>())
        else {
            return (length, false);
        };
        let header = u32::from_le_bytes([low, middle, high, 0]);
        // An RLE block is one byte long, whatever its decoded size.
        let size = if (header >> 1) & 3 == 1 { 1 } else { header >> 3 };
        let next =
            length.saturating_add(BLOCK_HEADER).saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        if next > bytes.len() {
            return (length, false);
        }
        length = next;
        if header & 1 == 1 {
            return (length, true);
        }
    }
}

fn begins_a_frame(bytes: &[u8]) -> bool {
    let skippable = bytes.first().is_some_and(|byte| byte & 0xF0 == 0x50);
    begins(bytes, &MAGIC)
        || skippable && bytes.get(1..).is_some_and(|rest| rest.is_empty() || begins(rest, &SKIPPABLE))
}

/// The largest window of a frame, in bytes.
const MAX_WINDOW: u64 = 8 * 1024 * 1024;

const BLOCK_HEADER: usize = 3;

/// An empty raw block with the last-block flag, and a checksum, which is read only if the frame has one.
const LAST_BLOCK: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];
const CHECKSUM: [u8; 4] = [0; 4];

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
/// After a first byte of 0x50 to 0x5F.
const SKIPPABLE: [u8; 3] = [0x2A, 0x4D, 0x18];
