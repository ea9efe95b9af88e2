//! Parser of `Forwarded` (RFC 7239): strict, a value that does not fit the grammar is an error.
//!
//! A header that does not fit the grammar is refused as a whole: two parsers that disagree on the end of a quoted
//! string read different clients. Blanks around `;` and empty elements are accepted, as in lists of HTTP (RFC 9110,
//! 5.6.1). `client_addr` and `scheme` decide which elements to trust.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// One element: what a proxy reports of the hop before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ForwardedElement<'h> {
    /// `for`.
    pub(super) node: Option<ForwardedValue<'h>>,
    /// `proto`.
    pub(super) proto: Option<ForwardedValue<'h>>,
    by: Option<ForwardedValue<'h>>,
    host: Option<ForwardedValue<'h>>,
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForwardedValue<'h> {
    /// A token.
    Token(&'h [u8]),
    /// The text between the quotes, with its backslashes.
    Quoted(&'h [u8]),
}

/// The header does not fit its grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MalformedForwarded;

/// Calls `visitor` with each element of one line, from left to right.
///
/// # Errors
/// [`MalformedForwarded`], possibly after some elements.
pub(super) fn for_each_element<'h>(
    line: &'h [u8],
    mut visitor: impl FnMut(ForwardedElement<'h>),
) -> Result<(), MalformedForwarded> {
    let mut rest = line;
    loop {
        let (element, after) = read_element(rest)?;
        element.into_iter().for_each(&mut visitor);
        match after {
            [] => return Ok(()),
            [b',', more @ ..] => rest = more,
            _ => return Err(MalformedForwarded),
        }
    }
}

/// An element, `None` if it is empty, and the rest of the line.
fn read_element(mut rest: &[u8]) -> Result<(Option<ForwardedElement<'_>>, &[u8]), MalformedForwarded> {
    let (mut element, mut has_pairs) = (ForwardedElement::default(), false);
    loop {
        rest = rest.trim_ascii_start();
        if !matches!(rest, [] | [b',' | b';', ..]) {
            rest = element.read_pair(rest)?.trim_ascii_start();
            has_pairs = true;
        }
        match rest {
            [b';', more @ ..] => rest = more,
            _ => return Ok((has_pairs.then_some(element), rest)),
        }
    }
}

impl<'h> ForwardedElement<'h> {
    /// Reads one `name=value`, and returns the rest.
    fn read_pair(&mut self, text: &'h [u8]) -> Result<&'h [u8], MalformedForwarded> {
        let (name, rest) = token(text)?;
        let (value, rest) = ForwardedValue::read(rest.strip_prefix(b"=").ok_or(MalformedForwarded)?)?;
        let slot = match name.to_ascii_lowercase().as_slice() {
            b"for" => &mut self.node,
            b"proto" => &mut self.proto,
            b"by" => &mut self.by,
            b"host" => &mut self.host,
            _ => return Ok(rest),
        };
        // RFC 7239, 4: each at most once.
        if slot.replace(value).is_some() { Err(MalformedForwarded) } else { Ok(rest) }
    }

    /// The address of the hop; `None` if it is missing, obfuscated, or not an address.
    pub(super) fn address(&self) -> Option<IpAddr> {
        let node = self.node?.unquoted();
        let node = std::str::from_utf8(&node).ok()?;
        let (ip, port) = match node.strip_prefix('[') {
            Some(rest) => {
                let (inside, rest) = rest.split_once(']')?;
                (IpAddr::V6(inside.parse::<Ipv6Addr>().ok()?), rest)
            }
            None => {
                let end = node.find(':').unwrap_or(node.len());
                (IpAddr::V4(node[..end].parse::<Ipv4Addr>().ok()?), &node[end..])
            }
        };
        (port.is_empty() || port.strip_prefix(':').is_some_and(is_port)).then_some(ip)
    }
}

impl<'h> ForwardedValue<'h> {
    fn read(text: &'h [u8]) -> Result<(Self, &'h [u8]), MalformedForwarded> {
        let Some(inside) = text.strip_prefix(b"\"") else {
            return token(text).map(|(token, rest)| (Self::Token(token), rest));
        };
        let mut is_escaped = false;
        for (at, byte) in inside.iter().enumerate() {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => return Ok((Self::Quoted(&inside[..at]), &inside[at + 1..])),
                _ => {}
            }
        }
        Err(MalformedForwarded)
    }

    /// The value without the backslashes of quoted pairs (RFC 9110, 5.6.4).
    pub(super) fn unquoted(self) -> Cow<'h, [u8]> {
        let text = match self {
            Self::Quoted(text) if text.contains(&b'\\') => text,
            Self::Quoted(text) | Self::Token(text) => return Cow::Borrowed(text),
        };
        let mut is_escaped = false;
        let unescaped = text.iter().copied().filter(|&byte| {
            is_escaped = byte == b'\\' && !is_escaped;
            !is_escaped
        });
        Cow::Owned(unescaped.collect())
    }
}

/// The leading token (RFC 9110, 5.6.2), and the rest.
fn token(text: &[u8]) -> Result<(&[u8], &[u8]), MalformedForwarded> {
    let is_of_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let end = text.iter().position(|byte| !is_of_token(byte)).unwrap_or(text.len());
    if end == 0 { Err(MalformedForwarded) } else { Ok(text.split_at(end)) }
}

/// One to five digits, or an obfuscated port (RFC 7239, 6).
fn is_port(text: &str) -> bool {
    match text.strip_prefix('_') {
        Some(rest) => {
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        }
        None => (1..=5).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

#[cfg(test)]
mod tests;
