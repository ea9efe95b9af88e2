//! What a request says: its validation, its target, the client address and the scheme.

pub mod client_addr;
pub(super) mod forwarded;
pub mod redirect;
pub mod scheme;
pub mod target;
pub mod validator;
