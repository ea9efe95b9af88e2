//! JA4, the fingerprint of a client's first message in TLS (FoxIO, technical details of JA4, the part for TLS over TCP).
//!
//! It names the program, not its user, and a program may send what it likes. rustls shows no extensions in the order in
//! which they came, so the message is read here; what it means for the handshake is left to rustls.

use std::fmt::Write;
use std::io;

use rustix::net::{RecvFlags, recv};
use sha2::{Digest, Sha256};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::acceptor::Acceptor;

/// The fingerprint of a client, before its handshake and without taking anything from it; `None` if the acceptor does not
/// ask for it, or if the first message comes in too many pieces to be a program's.
pub async fn fingerprint_of(stream: &TcpStream, acceptor: &Acceptor) -> Option<String> {
    // Boxed: it would enlarge every handshake.
    if acceptor.reads_fingerprints { ja4(&Box::pin(first_message(stream)).await?) } else { None }
}

/// The content of the first message, which stays in the socket.
async fn first_message(stream: &TcpStream) -> Option<Vec<u8>> {
    let mut sent = vec![0; MAX_FIRST_BYTES];
    for _ in 0..MAX_LOOKS {
        stream.readable().await.ok()?;
        let looked = stream.try_io(Interest::READABLE, || {
            let length = recv(stream, &mut sent[..], RecvFlags::PEEK)?.1;
            match FirstMessage::of(sent.get(..length).unwrap_or_default()) {
                // Readable again when more has come. The system may say so of a piece that was seen already, and always says so
                // of a client that has gone.
                FirstMessage::Partial => Err(io::ErrorKind::WouldBlock.into()),
                message => Ok(message),
            }
        });
        match looked {
            Ok(FirstMessage::Whole(content)) => return Some(content),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
    }
    None
}

/// The fingerprint, as in `t13d1516h2_8daaf6152771_e5627efa2ab1`.
fn ja4(hello: &[u8]) -> Option<String> {
    let hello = ClientHello::read(hello)?;
    let mut ciphers = hello.ciphers;
    let count = |list: &[u16]| list.len().min(99);
    let mut text = format!(
        "t{}{}{:02}{:02}{}",
        version(hello.versions.iter().copied().max().unwrap_or(hello.version)),
        if hello.extensions.contains(&SERVER_NAME) { 'd' } else { 'i' },
        count(&ciphers),
        count(&hello.extensions),
        ends_of(hello.protocol),
    );
    ciphers.sort_unstable();
    let mut extensions: Vec<u16> =
        hello.extensions.into_iter().filter(|&kind| kind != SERVER_NAME && kind != PROTOCOLS).collect();
    extensions.sort_unstable();
    let mut listed = in_hex(&extensions);
    if !extensions.is_empty() && !hello.schemes.is_empty() {
        listed = format!("{listed}_{}", in_hex(&hello.schemes));
    }
    for list in [in_hex(&ciphers), listed] {
        text.push('_');
        text.push_str(&hash(&list));
    }
    Some(text)
}

/// The first message of a client, as far as it has come.
#[derive(Debug, PartialEq, Eq)]
enum FirstMessage {
    /// It is not whole yet.
    Partial,
    /// It is none, or longer than a client's is.
    None,
    /// Its content.
    Whole(Vec<u8>),
}

impl FirstMessage {
    /// Reads the bytes that a client sent first: records (RFC 8446, section 5.1) with parts of one message.
    fn of(sent: &[u8]) -> Self {
        let (mut rest, mut message) = (HelloReader(sent), Vec::new());
        loop {
            let Some(header) = rest.take(5) else { return Self::partial(sent) };
            let length = usize::from(u16::from_be_bytes([header[3], header[4]]));
            if header[0] != HANDSHAKE || length == 0 {
                return Self::None;
            }
            let Some(part) = rest.take(length) else { return Self::partial(sent) };
            message.extend_from_slice(part);
            if let Some(&[kind, high, middle, low]) = message.get(..4) {
                let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                match message.get(4..4 + length) {
                    _ if kind != CLIENT_HELLO => return Self::None,
                    Some(content) => return Self::Whole(content.to_vec()),
                    None => {}
                }
            }
        }
    }

    fn partial(sent: &[u8]) -> Self {
        if sent.len() < MAX_FIRST_BYTES { Self::Partial } else { Self::None }
    }
}

/// What a fingerprint is made of; without values that are there to be ignored (RFC 8701).
#[derive(Debug, Default)]
struct ClientHello<'h> {
    version: u16,
    ciphers: Vec<u16>,
    extensions: Vec<u16>,
    versions: Vec<u16>,
    schemes: Vec<u16>,
    /// The first of ALPN.
    protocol: &'h [u8],
}

impl<'h> ClientHello<'h> {
    /// Reads the content of the message (RFC 8446, section 4.1.2; RFC 5246, section 7.4.1.2).
    fn read(content: &'h [u8]) -> Option<Self> {
        let mut rest = HelloReader(content);
        let version = rest.number()?;
        let _random = rest.take(32)?;
        let _session = rest.short_list()?;
        let ciphers = HelloReader(rest.list()?).numbers()?;
        let _compressions = rest.short_list()?;
        let mut hello = Self { version, ciphers, ..Self::default() };
        if !rest.0.is_empty() {
            let mut extensions = HelloReader(rest.list()?);
            while !extensions.0.is_empty() {
                hello.extension(extensions.number()?, HelloReader(extensions.list()?))?;
            }
        }
        Some(hello)
    }

    fn extension(&mut self, kind: u16, mut content: HelloReader<'h>) -> Option<()> {
        if !is_ignored(kind) {
            self.extensions.push(kind);
        }
        match kind {
            PROTOCOLS => self.protocol = HelloReader(content.list()?).short_list().unwrap_or_default(),
            VERSIONS => self.versions = HelloReader(content.short_list()?).numbers()?,
            SCHEMES => self.schemes = HelloReader(content.list()?).numbers()?,
            _ => {}
        }
        Some(())
    }
}

/// Bytes that are read from the front.
struct HelloReader<'h>(&'h [u8]);

impl<'h> HelloReader<'h> {
    fn take(&mut self, length: usize) -> Option<&'h [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u16> {
        self.take(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Bytes behind their length in one byte.
    fn short_list(&mut self) -> Option<&'h [u8]> {
        let length = self.take(1)?[0];
        self.take(length.into())
    }

    /// Bytes behind their length in two bytes.
    fn list(&mut self) -> Option<&'h [u8]> {
        let length = self.number()?;
        self.take(length.into())
    }

    /// All that is left, without values that are to be ignored.
    fn numbers(self) -> Option<Vec<u16>> {
        let numbers = self.0.chunks_exact(2);
        let is_even = numbers.remainder().is_empty();
        let numbers = numbers.map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        is_even.then(|| numbers.filter(|&number| !is_ignored(number)).collect())
    }
}

/// Whether a value is there to be ignored: 0x0A0A, 0x1A1A and so on (RFC 8701).
fn is_ignored(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && high & 0x0F == 0x0A
}

fn version(number: u16) -> &'static str {
    match number {
        0x0304 => "13",
        0x0303 => "12",
        0x0302 => "11",
        0x0301 => "10",
        0x0300 => "s3",
        0x0002 => "s2",
        _ => "00",
    }
}

/// The first and the last letter of a protocol, or of its bytes in hexadecimal digits if one of the two is not a
/// letter.
fn ends_of(protocol: &[u8]) -> String {
    let (Some(&first), Some(&last)) = (protocol.first(), protocol.last()) else { return "00".to_owned() };
    if first.is_ascii_alphanumeric() && last.is_ascii_alphanumeric() {
        return [first, last].map(char::from).iter().collect();
    }
    format!("{:x}{:x}", first >> 4, last & 0x0F)
}

fn in_hex(numbers: &[u16]) -> String {
    let words: Vec<String> = numbers.iter().map(|number| format!("{number:04x}")).collect();
    words.join(",")
}

/// The first twelve digits of a hash; zeros for nothing.
fn hash(text: &str) -> String {
    if text.is_empty() {
        return "0".repeat(12);
    }
    let mut digits = String::new();
    for byte in Sha256::digest(text).iter().take(6) {
        // Writing to memory cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// Clients send two kilobytes, of which more than a half is for one key exchange.
const MAX_FIRST_BYTES: usize = 16 * 1024;
/// Looks at a first message that comes in pieces: each look reads it from the beginning.
const MAX_LOOKS: usize = 16;
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0x0000;
const SCHEMES: u16 = 0x000D;
const PROTOCOLS: u16 = 0x0010;
const VERSIONS: u16 = 0x002B;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn list<const BYTES: usize>(content: &[u8]) -> Vec<u8> {
        let length = content.len().to_be_bytes();
        [&length[length.len() - BYTES..], content].concat()
    }

    fn numbers(hex: &str) -> Vec<u8> {
        let words = hex.split(',').filter(|word| !word.is_empty());
        words.flat_map(|word| u16::from_str_radix(word, 16).unwrap().to_be_bytes()).collect()
    }

    /// A message with these ciphers, extensions in this order, and contents of some.
    fn hello(ciphers: &str, extensions: &str, contents: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let kinds = numbers(extensions);
        let extensions = kinds.chunks_exact(2).map(|kind| {
            let number = u16::from_be_bytes([kind[0], kind[1]]);
            let content =
                contents.iter().find(|(known, _)| *known == number).map(|(_, content)| &content[..]);
            [kind, &list::<2>(content.unwrap_or(&[0; 3]))].concat()
        });
        let extensions: Vec<u8> = extensions.flatten().collect();
        [
            &[3, 3][..],
            &[7; 32],
            &list::<1>(&[9; 32]),
            &list::<2>(&numbers(ciphers)),
            &list::<1>(&[0]),
            &list::<2>(&extensions),
        ]
        .concat()
    }

    fn contents(versions: &str, schemes: &str, protocols: &[&[u8]]) -> Vec<(u16, Vec<u8>)> {
        let protocols: Vec<u8> = protocols.iter().flat_map(|name| list::<1>(name)).collect();
        vec![
            (VERSIONS, list::<1>(&numbers(versions))),
            (SCHEMES, list::<2>(&numbers(schemes))),
            (PROTOCOLS, list::<2>(&protocols)),
        ]
    }

    /// The records that carry a message, each with this many bytes of it.
    fn records(content: &[u8], each: usize) -> Vec<u8> {
        let message = [&[CLIENT_HELLO], &list::<3>(content)[..]].concat();
        message.chunks(each).flat_map(|part| [&[HANDSHAKE, 3, 1], &list::<2>(part)[..]].concat()).collect()
    }

    const CHROME_CIPHERS: &str =
        "1a1a,1301,1302,1303,c02b,c02f,c02c,c030,cca9,cca8,c013,c014,009c,009d,002f,0035";
    const CHROME_EXTENSIONS: &str =
        "2a2a,001b,0000,0033,0010,4469,0017,002d,000d,0005,0023,0012,002b,ff01,000b,000a,0015,fafa";
    const CHROME_SCHEMES: &str = "0403,0804,0401,0503,0805,0501,0806,0601";

    #[test]
    fn the_example_of_the_specification_has_its_fingerprint() {
        let of_chrome = |schemes, protocols: &[&[u8]]| {
            let contents = contents("3a3a,0304,0303", schemes, protocols);
            ja4(&hello(CHROME_CIPHERS, CHROME_EXTENSIONS, &contents)).unwrap()
        };
        assert_eq!(of_chrome(CHROME_SCHEMES, &[b"h2", b"http/1.1"]), "t13d1516h2_8daaf6152771_e5627efa2ab1");
        assert_eq!(of_chrome("", &[b"http/1.1"]), "t13d1516h1_8daaf6152771_6d807ffa2a79", "without schemes");
    }

    /// Firefox, and a client of TLS 1.2, as in the captures next to the specification.
    #[test]
    fn captured_clients_have_the_fingerprints_that_the_specification_gives_them() {
        let firefox = hello(
            "1301,1303,1302,c02b,c02f,cca9,cca8,c02c,c030,c00a,c009,c013,c014,009c,009d,002f,0035",
            "0000,0017,ff01,000a,000b,0023,0010,0005,0022,0033,002b,000d,002d,001c,0015",
            &contents("0304,0303", "0403,0503,0603,0804,0805,0806,0401,0501,0601,0203,0201", &[b"h2"]),
        );
        assert_eq!(ja4(&firefox).unwrap(), "t13d1715h2_5b57614c22b0_3d5424432f57");
        let old = hello(
            "0004,0005,000a,0016,002f,0033,0035,0039,003c,003d,0041,0045,0067,006b,0081,0084,0088,009c,009d,\
             009e,009f,00ba,00be,00c0,00c4,00ff,c007,c008,c009,c00a,c011,c012,c013,c014,c023,c024,c027,c028,\
             c02b,c02c,c02f,c030,cca8,cca9,ccaa,ff85",
            "0000,000b,000a,000d,0010",
            &contents("", "0601,0603,efef,0501,0503,0401,0403,eeee,eded,0301,0303,0201,0203", &[b"h2"]),
        );
        assert_eq!(ja4(&old).unwrap(), "t12d4605h2_85626a9a5f7f_aaf95bb78ec9");
    }

    #[test]
    fn what_is_missing_is_zero() {
        let without_extensions = [&[3, 1][..], &[7; 32], &[0], &list::<2>(&[]), &[1, 0]].concat();
        assert_eq!(ja4(&without_extensions).unwrap(), "t10i000000_000000000000_000000000000");
        let many = vec!["0035"; 120].join(",");
        assert!(ja4(&hello(&many, "0000", &[])).unwrap().starts_with("t12d990100_"));
    }

    #[test]
    fn protocols_without_letters_at_an_end_are_written_in_digits() {
        for (protocol, ends) in [
            (&[0xAB][..], "ab"),
            (&[0x20], "20"),
            (&[0xAB, 0xCD], "ad"),
            (&[0x20, 0x61], "21"),
            (&[0x30, 0xAB], "3b"),
            (&[0x61, 0x20], "60"),
            (&[0x30, 0x31, 0xAB, 0xCD], "3d"),
            (&[0x30, 0xAB, 0xCD, 0x31], "01"),
            (b"h", "hh"),
            (b"", "00"),
        ] {
            assert_eq!(ends_of(protocol), ends, "{protocol:?}");
        }
    }

    #[test]
    fn a_message_is_whole_when_its_last_byte_has_come_however_it_is_cut() {
        let content = hello(CHROME_CIPHERS, CHROME_EXTENSIONS, &contents("0304", CHROME_SCHEMES, &[b"h2"]));
        for each in [1, 3, 4, 100, 10_000] {
            let sent = records(&content, each);
            assert_eq!(FirstMessage::of(&sent), FirstMessage::Whole(content.clone()));
            for length in 0..sent.len() {
                assert_eq!(FirstMessage::of(&sent[..length]), FirstMessage::Partial, "{length} of {each}");
            }
        }
        let endless = records(&vec![0; 70_000], 16_000);
        assert_eq!(FirstMessage::of(&endless[..MAX_FIRST_BYTES]), FirstMessage::None);
        for other in
            [&b"GET / HTTP/1.1\r\n"[..], &[HANDSHAKE, 3, 1, 0, 0], &[HANDSHAKE, 3, 1, 0, 4, 2, 0, 0, 0]]
        {
            assert_eq!(FirstMessage::of(other), FirstMessage::None);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_not(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            at in 0_usize..300,
            each in 1_usize..300,
        ) {
            let _ = FirstMessage::of(&bytes);
            let _ = ja4(&bytes);
            let mut content = hello(CHROME_CIPHERS, CHROME_EXTENSIONS, &contents("0304", CHROME_SCHEMES, &[b"h2"]));
            let end = content.len().min(at + bytes.len());
            if at < end {
                content[at..end].copy_from_slice(&bytes[..end - at]);
            }
            prop_assert_eq!(FirstMessage::of(&records(&content, each)), FirstMessage::Whole(content.clone()));
            let is_ascii = |text: &String| text.is_ascii() && text.len() == 36;
            prop_assert!(ja4(&content).as_ref().is_none_or(is_ascii));
        }
    }
}
