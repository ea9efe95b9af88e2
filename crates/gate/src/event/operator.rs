//! Operators: who gave a command or made a change.

use std::net::IpAddr;
use std::str::FromStr;

/// An operator: the peer of a Unix socket as the kernel reports it, or a caller over TCP who has a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Operator {
    /// The user id, if the kernel reports it.
    pub uid: Option<u32>,
    /// The process id, if the kernel reports it.
    pub pid: Option<i32>,
    /// The address of a caller over TCP.
    pub address: Option<IpAddr>,
    /// The name of the caller's token.
    pub name: Option<OperatorName>,
}

impl std::fmt::Display for Operator {
    /// As in `uid 1000` or `desk at 192.0.2.7`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.uid, self.name, self.address) {
            (Some(uid), ..) => write!(f, "uid {uid}"),
            (None, Some(name), Some(address)) => write!(f, "{name} at {address}"),
            (None, Some(name), None) => name.fmt(f),
            (None, None, Some(address)) => address.fmt(f),
            (None, None, None) => f.write_str("unknown"),
        }
    }
}

/// The name of a token: letters, digits, `-`, `_` and `.`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OperatorName {
    bytes: [u8; Self::MAX_LEN],
    len: usize,
}

/// A text that names no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {} of: letters, digits, `-`, `_`, `.`", OperatorName::MAX_LEN)]
pub struct OperatorNameError;

impl OperatorName {
    /// Bytes of a name.
    pub const MAX_LEN: usize = 32;

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.bytes.get(..self.len).and_then(|name| std::str::from_utf8(name).ok()).unwrap_or_default()
    }
}

impl FromStr for OperatorName {
    type Err = OperatorNameError;

    fn from_str(text: &str) -> Result<Self, OperatorNameError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let mut bytes = [0; Self::MAX_LEN];
        let room = bytes.get_mut(..text.len()).filter(|room| !room.is_empty()).ok_or(OperatorNameError)?;
        room.copy_from_slice(text.as_bytes());
        match text.bytes().all(plain) {
            true => Ok(Self { bytes, len: text.len() }),
            false => Err(OperatorNameError),
        }
    }
}

impl std::fmt::Display for OperatorName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::fmt::Debug for OperatorName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_short_plain_word() {
        let most = "a".repeat(OperatorName::MAX_LEN);
        for name in ["a", "desk", "Help-desk_2.b", &most] {
            assert_eq!(name.parse::<OperatorName>().unwrap().as_str(), name);
        }
        for other in ["", " ", "a b", "é", "a\n", "a\"", &format!("{most}a")] {
            assert_eq!(other.parse::<OperatorName>(), Err(OperatorNameError), "{other:?}");
        }
    }

    #[test]
    fn an_operator_is_written_by_what_is_known() {
        let (name, address) = ("desk".parse().ok(), "192.0.2.7".parse().ok());
        let of = |operator: Operator| operator.to_string();
        assert_eq!(of(Operator { uid: Some(1000), pid: Some(1), ..Operator::default() }), "uid 1000");
        assert_eq!(of(Operator { name, address, ..Operator::default() }), "desk at 192.0.2.7");
        assert_eq!(of(Operator { address, ..Operator::default() }), "192.0.2.7");
        assert_eq!(of(Operator::default()), "unknown");
    }
}
