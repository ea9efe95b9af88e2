//! Counts how many attempts one body makes: batched guesses cost as much as single ones.
//!
//! It only counts: it builds no tree, keeps nothing, and decodes only what could hide a name. A body that could be read
//! in two ways is [`UnreadableBody`], because its author wants the application to find more attempts in it than the
//! gate does.

mod graphql;
mod items;
mod xmlrpc;

use http::HeaderMap;

pub use super::legibility::UnreadableBody;

use super::legibility::check_headers;

/// The unit that is counted in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Count {
    /// Calls of an XML-RPC body: elements of this name, or members of this name in the calls of a batch.
    Element(String),
    /// Items of a JSON array.
    Items,
    /// Fields of these names in GraphQL documents, wherever a request has them. Without any it is not an attempt.
    Fields(Vec<String>),
}

impl Count {
    /// The number of attempts in a request; 0 for one of this format without any.
    ///
    /// # Errors
    /// [`UnreadableBody`].
    pub fn of_request(
        &self,
        headers: &HeaderMap,
        query: Option<&str>,
        body: &[u8],
    ) -> Result<u32, UnreadableBody> {
        check_headers(headers)?;
        match self {
            Self::Fields(_) if body.contains(&0) => Err(UnreadableBody),
            Self::Fields(fields) => graphql::count(fields, headers, query, body),
            Self::Element(_) | Self::Items => self.of(body),
        }
    }

    /// What is counted, as a text that no other has.
    pub(super) fn name(&self) -> String {
        format!("{self:?}")
    }

    /// Whether a request is an attempt only if something is counted in it.
    pub(super) fn tells_attempts(&self) -> bool {
        matches!(self, Self::Fields(_))
    }

    /// The number of attempts in this body; 0 for a body of this format without any. A body in another format is one
    /// attempt.
    ///
    /// # Errors
    /// [`UnreadableBody`].
    pub fn of(&self, body: &[u8]) -> Result<u32, UnreadableBody> {
        // UTF-16 and UTF-32 without a byte order mark; and some readers skip a zero byte, others stop at it.
        if body.contains(&0) {
            return Err(UnreadableBody);
        }
        // Byte order marks, blanks of any kind and other bytes that a reader may skip.
        let Some(start) = body.iter().position(u8::is_ascii_graphic) else { return Ok(1) };
        match self {
            Self::Element(name) => xmlrpc::count(&body[start..], name),
            Self::Items => items::count(&body[start..]),
            Self::Fields(fields) => graphql::count(fields, &HeaderMap::new(), None, body),
        }
    }
}
