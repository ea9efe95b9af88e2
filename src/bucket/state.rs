//! What is remembered of a bucket, and its bytes in a store.
//!
//! Layout: `version (1) | shape (1) | spec fingerprint (4, big endian) | fields`. The memory store keeps only the
//! fields; the bytes are for stores outside the process and for files.

use super::units::Time;

/// What is remembered of a bucket. An absent state is a full bucket (or one with its start balance).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// A continuous bucket is one number: the theoretical arrival time, at which it is full again.
    Continuous {
        /// Theoretical arrival time (ITU-T I.371, the virtual scheduling form of GCRA).
        tat: Time,
    },
}

/// Why bytes are not a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Too short or too long for what they say they are.
    Length,
    /// Written by a version that this one does not know.
    Version(u8),
    /// A shape that this version does not know.
    Shape(u8),
}

impl State {
    /// Length of the encoded form in bytes.
    pub const ENCODED: usize = 14;

    /// The bytes of this state under a spec with this fingerprint.
    #[must_use]
    pub fn encode(&self, fingerprint: u32) -> [u8; Self::ENCODED] {
        let Self::Continuous { tat } = self;
        let mut bytes = [0; Self::ENCODED];
        bytes[0] = VERSION;
        bytes[1] = CONTINUOUS;
        bytes[2..6].copy_from_slice(&fingerprint.to_be_bytes());
        bytes[6..].copy_from_slice(&tat.as_nanos().to_be_bytes());
        bytes
    }

    /// The state and the spec fingerprint that stand in these bytes.
    ///
    /// # Errors
    /// Anything that [`State::encode`] did not write.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u32), DecodeError> {
        let &[version, shape, ref rest @ ..] = bytes else { return Err(DecodeError::Length) };
        if version != VERSION {
            return Err(DecodeError::Version(version));
        }
        if shape != CONTINUOUS {
            return Err(DecodeError::Shape(shape));
        }
        let (fingerprint, rest) = rest.split_first_chunk::<4>().ok_or(DecodeError::Length)?;
        let tat = <[u8; 8]>::try_from(rest).map_err(|_| DecodeError::Length)?;
        let tat = Time::from_nanos(u64::from_be_bytes(tat));
        Ok((Self::Continuous { tat }, u32::from_be_bytes(*fingerprint)))
    }
}

const VERSION: u8 = 1;
const CONTINUOUS: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_of_a_state_are_fixed() {
        let state = State::Continuous { tat: Time::from_nanos(0x1122_3344_5566_7788) };
        let bytes = state.encode(0xAABB_CCDD);
        assert_eq!(bytes, *b"\x01\x01\xAA\xBB\xCC\xDD\x11\x22\x33\x44\x55\x66\x77\x88");
        assert_eq!(State::decode(&bytes), Ok((state, 0xAABB_CCDD)));
    }

    #[test]
    fn foreign_bytes_are_told_apart() {
        let good = State::Continuous { tat: Time::from_nanos(7) }.encode(1);
        assert_eq!(State::decode(&[]), Err(DecodeError::Length));
        assert_eq!(State::decode(&good[..13]), Err(DecodeError::Length));
        assert_eq!(State::decode(&[&good[..], &[0]].concat()), Err(DecodeError::Length));
        assert_eq!(State::decode(&[9, 1, 0, 0, 0, 0]), Err(DecodeError::Version(9)));
        assert_eq!(State::decode(&[1, 9, 0, 0, 0, 0]), Err(DecodeError::Shape(9)));
    }

    #[test]
    fn every_cut_of_good_bytes_is_refused() {
        let good = State::Continuous { tat: Time::from_nanos(7) }.encode(1);
        for cut in 0..good.len() {
            assert!(State::decode(&good[..cut]).is_err(), "{cut} bytes");
        }
    }
}
