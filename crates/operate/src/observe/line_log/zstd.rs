//! Zstandard files (RFC 8878), read and written as a row of frames.

use std::io::{self, BufRead, BufReader, Read, Write};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

/// Whether a file that begins with these bytes is one: with a frame, or with one to skip.
#[must_use]
pub fn is_zstd(magic: [u8; 4]) -> bool {
    matches!(magic, [0x28, 0xB5, 0x2F, 0xFD] | [0x50..=0x5F, 0x2A, 0x4D, 0x18])
}

/// The text of all frames (RFC 8878, section 3.1): the decoder reads a single one.
pub struct ZstdFrames<R> {
    source: BufReader<R>,
    decoder: FrameDecoder,
    is_in_frame: bool,
}

/// Writes text as frames of some megabytes.
pub(super) struct ZstdWriter<W> {
    to: W,
    text: Vec<u8>,
}

impl<R: Read> ZstdFrames<R> {
    /// Reads from here.
    pub fn new(source: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(MAX_WINDOW);
        Self { source: BufReader::with_capacity(READ_AT_ONCE, source), decoder, is_in_frame: false }
    }

    /// Begins the next frame; `false` if there is none.
    fn begin(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(invalid(&error)),
            }
        }
        Ok(false)
    }
}

impl<R: Read> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.is_in_frame {
                self.is_in_frame = self.begin()?;
                if !self.is_in_frame {
                    return Ok(0);
                }
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                let step = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, step).map_err(|error| invalid(&error))?;
            }
            let length = self.decoder.read(buffer)?;
            if length > 0 || buffer.is_empty() {
                return Ok(length);
            }
            // The decoder reads the checksum and leaves the comparison to its caller.
            let told = self.decoder.get_checksum_from_data();
            if told.is_some() && told != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame has another checksum"));
            }
            self.is_in_frame = false;
        }
    }
}

impl<W: Write> ZstdWriter<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, text: Vec::new() }
    }

    /// Writes what is left.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.write_frame()?;
        Ok(self.to)
    }

    /// Only a frame that reads back as it was may take the place of one that nobody has any more.
    fn write_frame(&mut self) -> io::Result<()> {
        let frame = compress_to_vec(&*self.text, CompressionLevel::Fastest);
        let mut read = Vec::with_capacity(self.text.len());
        ZstdFrames::new(&*frame).read_to_end(&mut read)?;
        if read != self.text {
            return Err(io::Error::other("it cannot be packed again: unpack it, and run the same again"));
        }
        self.text.clear();
        self.to.write_all(&frame)
    }
}

impl<W: Write> Write for ZstdWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(FRAME.saturating_sub(self.text.len()));
        self.text.extend_from_slice(bytes.get(..taken).unwrap_or_default());
        if self.text.len() >= FRAME {
            self.write_frame()?;
        }
        Ok(taken)
    }

    /// A frame is not ended early.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn invalid(error: &FrameDecoderError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

/// Bytes of a frame's window: what `zstd` itself accepts without `--long`.
const MAX_WINDOW: u64 = 128 << 20;
/// Bytes of a file that are read at once.
const READ_AT_ONCE: usize = 1 << 20;
/// Bytes of text in a frame.
const FRAME: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_from_however_many_frames() {
        for length in [0, 1, FRAME - 1, FRAME, FRAME + 1, 2 * FRAME + 7] {
            let text: Vec<u8> = (0..length).map(|at| u8::try_from(at * 31 % 251).unwrap()).collect();
            let mut writer = ZstdWriter::new(Vec::new());
            text.chunks(70_001).for_each(|part| writer.write_all(part).unwrap());
            let packed = writer.finish().unwrap();
            assert!(is_zstd(*packed.first_chunk().unwrap()));
            let mut read = Vec::new();
            ZstdFrames::new(packed.as_slice()).read_to_end(&mut read).unwrap();
            assert!(read == text, "{length}");
        }
    }
}
