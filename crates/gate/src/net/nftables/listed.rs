//! What the kernel lists of a set: its messages, read back into ranges (`linux/netlink.h`, `linux/netfilter/nf_tables.h`).

use std::time::Duration;

use super::batch::{ERROR, message_kind};
use super::{
    AddressRange, DATA_VALUE, ELEMENT_FLAGS, ELEMENT_KEY, INTERVAL_END, NEW_ELEMENTS, NftElement,
    SET_ELEMENTS,
};

/// The beginnings and ends of ranges that came so far.
#[derive(Debug, Default)]
pub(super) struct ListedSet {
    begins: Vec<(u128, Duration)>,
    ends: Vec<u128>,
}

/// How far a list has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ListProgress {
    More,
    Whole,
    /// By this error number.
    Failed(i32),
}

/// A message of netlink.
struct ListedMessage<'b> {
    kind: u16,
    number: u32,
    payload: &'b [u8],
}

impl ListedSet {
    /// Reads the messages of a datagram that answer the request of this number.
    pub(super) fn read(&mut self, mut datagram: &[u8], number: u32) -> ListProgress {
        while let Some((message, rest)) = ListedMessage::next(datagram) {
            datagram = rest;
            if message.number != number {
                continue;
            }
            match message.kind {
                DONE | ERROR => {
                    let error = message.payload.first_chunk().map_or(0, |error| i32::from_ne_bytes(*error));
                    return if error == 0 {
                        ListProgress::Whole
                    } else {
                        ListProgress::Failed(error.wrapping_neg())
                    };
                }
                kind if kind == message_kind(NEW_ELEMENTS) => self.add_all(message.payload),
                _ => {}
            }
        }
        ListProgress::More
    }

    /// The networks of a whole list. One ends before the next end, or with the last address of all.
    pub(super) fn elements(self, is_ipv4: bool) -> Vec<NftElement> {
        let Self { begins, mut ends } = self;
        ends.sort_unstable();
        let most = if is_ipv4 { u128::from(u32::MAX) } else { u128::MAX };
        let element = |(first, lasts): (u128, Duration)| {
            let end = ends.get(ends.partition_point(|end| *end <= first));
            let last = end.map_or(most, |end| end.saturating_sub(1));
            // The kernel may remove an end while it lists: what is no network would have strangers in it.
            let hosts = first ^ last;
            let is_network = hosts & hosts.wrapping_add(1) == 0 && first & hosts == 0;
            is_network.then(|| NftElement { range: AddressRange::between(is_ipv4, first, last), lasts })
        };
        begins.into_iter().filter_map(element).collect()
    }

    fn add_all(&mut self, payload: &[u8]) {
        let of_set = attributes(payload.get(FAMILY_LENGTH..).unwrap_or_default());
        let lists = of_set.filter(|(kind, _)| *kind == SET_ELEMENTS);
        lists.flat_map(|(_, list)| attributes(list)).for_each(|(_, element)| self.add(element));
    }

    fn add(&mut self, element: &[u8]) {
        let (mut key, mut is_end, mut lasts) = (None, false, Duration::ZERO);
        for (kind, value) in attributes(element) {
            match kind {
                ELEMENT_KEY => {
                    let data = attributes(value).find(|(kind, _)| *kind == DATA_VALUE);
                    key = data.and_then(|(_, key)| address(key));
                }
                ELEMENT_FLAGS => {
                    let flags = value.first_chunk().map_or(0, |flags| u32::from_be_bytes(*flags));
                    is_end = flags & INTERVAL_END != 0;
                }
                ELEMENT_EXPIRATION => {
                    let left = value.first_chunk().map_or(0, |left| u64::from_be_bytes(*left));
                    lasts = Duration::from_millis(left);
                }
                _ => {}
            }
        }
        match key {
            Some(key) if is_end => self.ends.push(key),
            Some(key) => self.begins.push((key, lasts)),
            None => {}
        }
    }
}

impl<'b> ListedMessage<'b> {
    /// The first message, and what follows it.
    fn next(bytes: &'b [u8]) -> Option<(Self, &'b [u8])> {
        let length = usize::try_from(u32::from_ne_bytes(*bytes.first_chunk()?)).ok()?;
        let kind = u16::from_ne_bytes(*bytes.get(4..)?.first_chunk()?);
        let number = u32::from_ne_bytes(*bytes.get(8..)?.first_chunk()?);
        let payload = bytes.get(HEAD_LENGTH..length)?;
        let rest = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((Self { kind, number, payload }, rest))
    }
}

/// Kind and value of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let kind = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & KIND;
        let value = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn address(key: &[u8]) -> Option<u128> {
    let v4 = || Some(u128::from(u32::from_be_bytes(key.try_into().ok()?)));
    key.try_into().ok().map(u128::from_be_bytes).or_else(v4)
}

const HEAD_LENGTH: usize = 16;
/// Before the attributes: family, version and resource.
const FAMILY_LENGTH: usize = 4;
const DONE: u16 = 3;
/// Without its two flags.
const KIND: u16 = 0x3fff;
/// Milliseconds until the kernel removes an element.
const ELEMENT_EXPIRATION: u16 = 5;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::batch::Batch;
    use super::*;

    /// As the kernel lists two ranges, of which the second ends with the last address.
    fn listed() -> Vec<u8> {
        listed_of(&[([255, 255, 255, 0], false), ([10, 0, 0, 8], true), ([10, 0, 0, 7], false)])
    }

    fn listed_of(keys: &[([u8; 4], bool)]) -> Vec<u8> {
        let mut batch = Batch::new(6);
        batch.message(NEW_ELEMENTS, 0, |message| {
            message.nested(SET_ELEMENTS, |list| {
                for &(key, is_end) in keys {
                    list.nested(1, |element| {
                        element.nested(ELEMENT_KEY, |data| data.bytes(DATA_VALUE, &key));
                        if is_end {
                            element.number(ELEMENT_FLAGS, INTERVAL_END);
                        } else {
                            element.bytes(ELEMENT_EXPIRATION, &5000_u64.to_be_bytes());
                        }
                    });
                }
            });
        });
        batch.finish().bytes
    }

    #[test]
    fn ranges_are_read_back_from_their_beginnings_and_ends() {
        let mut set = ListedSet::default();
        assert_eq!(set.read(&listed(), 8), ListProgress::More, "the answer to another request");
        assert_eq!(set.read(&listed(), 7), ListProgress::More);
        let done = [20_u32.to_ne_bytes(), [3, 0, 2, 0], 7_u32.to_ne_bytes(), [0; 4], [0; 4]].concat();
        assert_eq!(set.read(&done, 7), ListProgress::Whole);
        let found: Vec<_> = set.elements(true).iter().map(|element| (element.range, element.lasts)).collect();
        let range = |net: &str| AddressRange::from(net.parse::<ipnet::IpNet>().unwrap());
        let lasts = Duration::from_secs(5);
        assert_eq!(found, [(range("255.255.255.0/24"), lasts), (range("10.0.0.7/32"), lasts)]);
    }

    #[test]
    fn a_range_whose_end_the_kernel_left_out_is_not_taken_for_a_wider_one() {
        let mut set = ListedSet::default();
        set.read(&listed_of(&[([255, 255, 255, 0], false), ([10, 0, 0, 7], false)]), 7);
        let found: Vec<_> = set.elements(true).iter().map(|element| element.range).collect();
        assert_eq!(found, ["255.255.255.0/24".parse::<ipnet::IpNet>().unwrap().into()]);
    }

    #[test]
    fn an_error_ends_a_list() {
        for kind in [ERROR, DONE] {
            let kind = u32::from(kind).to_ne_bytes();
            let head = [20_u32.to_ne_bytes(), kind, 7_u32.to_ne_bytes(), [0; 4]].concat();
            let failed = [&head[..], &(-2_i32).to_ne_bytes()].concat();
            assert_eq!(ListedSet::default().read(&failed, 7), ListProgress::Failed(2));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(mut bytes in prop::collection::vec(any::<u8>(), 0..120), cut in 0_usize..400) {
            let mut set = ListedSet::default();
            set.read(&bytes, 7);
            let mut known = listed();
            known.truncate(cut);
            known.append(&mut bytes);
            set.read(&known, 7);
            set.elements(false);
        }
    }
}
