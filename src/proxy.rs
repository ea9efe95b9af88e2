//! HTTP in and out: who is asking, what the engine says, the answer.
//!
//! Six hops, one file each; nothing here decides how often anybody may ask.

pub mod client_addr;
pub mod respond;
pub mod settings;
pub mod upstream;
