//! What happens to an attempt while the store of its buckets does not answer.
//!
//! It only names the rules; the module that holds the buckets applies them.

/// What happens to an attempt while the store does not answer, from the mildest to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnError {
    /// It is admitted.
    Allow,
    /// The mirror decides, as if this gate were alone.
    Local,
    /// It is answered with 503.
    Deny,
}
