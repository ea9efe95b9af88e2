//! How many attempts one body makes: batched guesses are worth what they cost.

/// What is counted in a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Count {
    /// Calls of an XML-RPC body: elements of this name, or members of this name in the calls of a batch.
    Element(String),
    /// Items of a JSON array.
    Items,
}

/// Nobody can say how many attempts a body makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the body cannot be read")]
pub struct Unreadable;

impl Count {
    /// Attempts in this body.
    ///
    /// # Errors
    /// [`Unreadable`].
    pub fn of(&self, _body: &[u8]) -> Result<u32, Unreadable> {
        Err(Unreadable)
    }
}
