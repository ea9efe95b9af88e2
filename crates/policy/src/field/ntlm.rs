//! The account in NTLM messages ([MS-NLMP], 2.2.1), alone or within SPNEGO (RFC 4178).
//!
//! It checks no proof. A Kerberos ticket names no account that could be read here.

use memchr::memmem;

use super::basic::decode_leniently;

/// What a message says of the account.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ntlm {
    /// It asks for a challenge and guesses nothing.
    Opening,
    /// It proves a password of this account.
    User(String),
    /// Anything else, such as a Kerberos ticket.
    Unreadable,
}

/// Reads the credentials of `NTLM` or `Negotiate`.
pub(super) fn read(credentials: &[u8]) -> Ntlm {
    let decoded = decode_leniently(credentials).unwrap_or_default();
    let start = memmem::find(&decoded, SIGNATURE);
    start.and_then(|start| read_message(&decoded[start..])).unwrap_or(Ntlm::Unreadable)
}

fn read_message(message: &[u8]) -> Option<Ntlm> {
    match u32_at(message, 8)? {
        NEGOTIATE => Some(Ntlm::Opening),
        AUTHENTICATE => {
            // Servers of old send no flags: their text is of single bytes.
            let is_unicode = u32_at(message, 60).is_some_and(|flags| flags & UNICODE != 0);
            let user = text(payload(message, USER)?, is_unicode);
            (!user.is_empty()).then_some(Ntlm::User(user))
        }
        _ => None,
    }
}

/// The bytes of a field: its length, the room for it, and its offset.
fn payload(message: &[u8], at: usize) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes(message.get(at..at + 2)?.try_into().ok()?));
    let offset = usize::try_from(u32_at(message, at + 4)?).ok()?;
    message.get(offset..offset.checked_add(length)?)
}

fn u32_at(message: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(message.get(at..at + 4)?.try_into().ok()?))
}

fn text(bytes: &[u8], is_unicode: bool) -> String {
    if !is_unicode {
        return bytes.iter().map(|&byte| char::from(byte)).collect();
    }
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

const SIGNATURE: &[u8] = b"NTLMSSP\0";
const NEGOTIATE: u32 = 1;
const AUTHENTICATE: u32 = 3;
/// The offset of the field of the user.
const USER: usize = 36;
/// `NTLMSSP_NEGOTIATE_UNICODE`.
const UNICODE: u32 = 1;

#[cfg(test)]
pub(super) mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A message of this type in Base64, with the texts that a client sends.
    pub(in super::super) fn message(kind: u32, domain: &str, user: &str) -> String {
        STANDARD.encode(bytes(kind, domain, user))
    }

    fn bytes(kind: u32, domain: &str, user: &str) -> Vec<u8> {
        let utf16 = |text: &str| text.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>();
        let (domain, user) = (utf16(domain), utf16(user));
        let field = |bytes: &[u8], offset: usize| {
            let length = u16::try_from(bytes.len()).unwrap().to_le_bytes();
            [&length[..], &length, &u32::try_from(offset).unwrap().to_le_bytes()].concat()
        };
        let head = [SIGNATURE, &kind.to_le_bytes()].concat();
        let (of_domain, of_user) = (field(&domain, 64), field(&user, 64 + domain.len()));
        [&head[..], &[0; 16], &of_domain, &of_user, &[0; 16], &UNICODE.to_le_bytes(), &domain, &user].concat()
    }

    #[test]
    fn the_user_of_the_last_message_is_read_alone_and_within_spnego() {
        assert_eq!(read(message(3, "CORP", "J\u{f6}rg").as_bytes()), Ntlm::User("J\u{f6}rg".to_owned()));
        assert_eq!(read(message(1, "", "").as_bytes()), Ntlm::Opening);
        let wrapped = [&[0xa1, 0x82, 1, 0, 0x30][..], &bytes(3, "", "anna")].concat();
        assert_eq!(read(STANDARD.encode(wrapped).as_bytes()), Ntlm::User("anna".to_owned()));
        let mut oem = bytes(3, "", "");
        oem[60] = 0;
        oem[36] = 4;
        oem.extend(b"anna");
        assert_eq!(read(STANDARD.encode(oem).as_bytes()), Ntlm::User("anna".to_owned()));
    }

    #[test]
    fn what_names_no_user_is_unreadable() {
        let cut = bytes(3, "", "anna");
        for bytes in
            [&b"`\x82\x05"[..], SIGNATURE, &cut[..40], &cut[..66], &bytes(2, "", ""), &bytes(3, "a", "")]
        {
            assert_eq!(read(STANDARD.encode(bytes).as_bytes()), Ntlm::Unreadable, "{bytes:?}");
        }
    }
}
