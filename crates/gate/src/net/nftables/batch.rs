//! Messages of nf_tables as bytes: headers and attributes (`linux/netlink.h`, `linux/netfilter/nf_tables.h`).
//!
//! A batch is one datagram, of which the kernel carries out all messages or none.

/// A batch that is being written.
pub(super) struct Batch {
    bytes: Vec<u8>,
    first: u32,
    /// Where the last message begins.
    last_at: usize,
    count: u32,
}

/// A batch to send.
pub(super) struct FinishedBatch {
    pub(super) bytes: Vec<u8>,
    /// The sequence number of its beginning, to which the kernel answers if it refuses the batch as a whole.
    pub(super) first: u32,
    /// The sequence number of the last message, which the kernel always answers.
    pub(super) last: u32,
}

/// Writes attributes, one after the other.
pub(super) struct Attributes<'b>(&'b mut Vec<u8>);

impl Batch {
    /// Begins with this sequence number.
    pub(super) fn new(first: u32) -> Self {
        let mut batch = Self { bytes: Vec::new(), first, last_at: 0, count: 0 };
        batch.begin_message(BATCH_BEGIN, 0, 0, SUBSYSTEM);
        batch.end_message(0);
        batch
    }

    /// Adds a message about a table of both families.
    pub(super) fn message(&mut self, kind: u8, flags: u16, write: impl FnOnce(&mut Attributes<'_>)) {
        self.last_at = self.bytes.len();
        self.count = self.count.wrapping_add(1);
        self.begin_message(message_kind(kind), flags, FAMILY_INET, 0);
        write(&mut Attributes(&mut self.bytes));
        self.end_message(self.last_at);
    }

    /// Ends it, and asks for an answer to its last message.
    pub(super) fn finish(mut self) -> FinishedBatch {
        let last = self.first.wrapping_add(self.count);
        let flags_at = self.last_at + FLAGS_OFFSET;
        if let Some(flags) = self.bytes.get_mut(flags_at..flags_at + 2).filter(|_| self.count > 0) {
            let asked = u16::from_ne_bytes([flags[0], flags[1]]) | ACK;
            flags.copy_from_slice(&asked.to_ne_bytes());
        }
        let at = self.bytes.len();
        self.count = self.count.wrapping_add(1);
        self.begin_message(BATCH_END, 0, 0, SUBSYSTEM);
        self.end_message(at);
        FinishedBatch { bytes: self.bytes, first: self.first, last }
    }

    fn begin_message(&mut self, kind: u16, flags: u16, family: u8, resource: u16) {
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend((REQUEST | flags).to_ne_bytes());
        self.bytes.extend(self.first.wrapping_add(self.count).to_ne_bytes());
        self.bytes.extend(0_u32.to_ne_bytes());
        self.bytes.extend([family, 0]);
        self.bytes.extend(resource.to_be_bytes());
    }

    /// Writes the length of the message that begins there.
    fn end_message(&mut self, at: usize) {
        let length = u32::try_from(self.bytes.len() - at).unwrap_or(u32::MAX);
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
    }
}

/// A single message with this number that asks for a list, as bytes.
pub(super) fn list_request(number: u32, kind: u8, write: impl FnOnce(&mut Attributes<'_>)) -> Vec<u8> {
    let mut message = Batch { bytes: Vec::new(), first: number, last_at: 0, count: 0 };
    message.begin_message(message_kind(kind), DUMP, FAMILY_INET, 0);
    write(&mut Attributes(&mut message.bytes));
    message.end_message(0);
    message.bytes
}

/// The kind of a message of nf_tables among those of all of netlink.
pub(super) fn message_kind(kind: u8) -> u16 {
    SUBSYSTEM << 8 | u16::from(kind)
}

impl Attributes<'_> {
    /// Adds bytes.
    pub(super) fn bytes(&mut self, kind: u16, value: &[u8]) {
        let at = self.begin(kind);
        self.0.extend(value);
        self.end(at);
    }

    /// Adds a text, ended by a zero byte.
    pub(super) fn text(&mut self, kind: u16, value: &str) {
        let at = self.begin(kind);
        self.0.extend(value.bytes().chain([0]));
        self.end(at);
    }

    /// Adds a number, as the kernel wants numbers here: the high byte first.
    pub(super) fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_be_bytes());
    }

    /// Adds attributes within one. They take less than 64 KiB.
    pub(super) fn nested(&mut self, kind: u16, write: impl FnOnce(&mut Attributes<'_>)) {
        let at = self.begin(kind | NESTED);
        write(&mut Attributes(self.0));
        self.end(at);
    }

    fn begin(&mut self, kind: u16) -> usize {
        let at = self.0.len();
        self.0.extend(0_u16.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        at
    }

    fn end(&mut self, at: usize) {
        // One that is too long becomes one that the kernel refuses.
        let length = u16::try_from(self.0.len() - at).unwrap_or(u16::MAX);
        if let Some(place) = self.0.get_mut(at..at + 2) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// What the kernel says to a message: its sequence number, and an error number, zero for none. `None` for anything else.
pub(super) fn answer(datagram: &[u8]) -> Option<(u32, i32)> {
    let number = |at: usize| Some(u32::from_ne_bytes(*datagram.get(at..)?.first_chunk()?));
    let kind = u16::from_ne_bytes(*datagram.get(4..)?.first_chunk()?);
    (kind == ERROR).then_some(())?;
    let error = i32::from_ne_bytes(*datagram.get(16..)?.first_chunk()?);
    Some((number(8)?, error.wrapping_neg()))
}

const SUBSYSTEM: u16 = 10;
const FAMILY_INET: u8 = 1;
const BATCH_BEGIN: u16 = 16;
const BATCH_END: u16 = 17;
pub(super) const ERROR: u16 = 2;
const REQUEST: u16 = 1;
const ACK: u16 = 4;
const DUMP: u16 = 0x300;
const NESTED: u16 = 0x8000;
/// In the head of a message.
const FLAGS_OFFSET: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    /// As `nft --debug=mnl add table inet x "{ flags owner; }"` prints it.
    #[test]
    fn a_message_has_the_bytes_that_nft_sends() {
        let mut batch = Batch::new(0);
        batch.message(0, 0, |table| {
            table.text(1, "x");
            table.number(2, 2);
        });
        let FinishedBatch { bytes, first, last } = batch.finish();
        assert_eq!((first, last, bytes.len()), (0, 1, 20 + 36 + 20));
        let head = [36_u32.to_ne_bytes(), [0; 4], 1_u32.to_ne_bytes(), [0; 4]].concat();
        assert_eq!((&bytes[20..24], &bytes[28..36]), (&head[..4], &head[8..]));
        assert_eq!(&bytes[24..28], [2560_u16.to_ne_bytes(), 5_u16.to_ne_bytes()].concat());
        let name = [6_u16.to_ne_bytes(), 1_u16.to_ne_bytes(), *b"x\0", [0; 2]].concat();
        let flags = [8_u16.to_ne_bytes(), 2_u16.to_ne_bytes(), [0; 2], [0, 2]].concat();
        assert_eq!(&bytes[36..56], [&[1, 0, 0, 0][..], &name, &flags].concat());
    }

    #[test]
    fn an_answer_is_read_whatever_bytes_come() {
        let mut refused = [36_u32.to_ne_bytes(), 2_u32.to_ne_bytes(), 7_u32.to_ne_bytes(), [0; 4]].concat();
        assert_eq!(answer(&refused), None);
        refused.extend((-17_i32).to_ne_bytes());
        assert_eq!(answer(&refused), Some((7, 17)));
        (0..refused.len()).for_each(|length| assert_eq!(answer(&refused[..length]), None));
        refused[4] = 3;
        assert_eq!(answer(&refused), None);
    }
}
