//! Reads a request: validation, target, client address and scheme. It decides nothing about limits.

pub(super) mod auth_policy;
pub(super) mod authorization;
pub mod client_addr;
pub mod client_cert;
pub mod decoder;
pub(super) mod described;
pub(super) mod descriptor;
pub(super) mod forwarded;
pub(super) mod processing;
pub(super) mod question;
pub mod redirect;
pub(super) mod report;
pub mod response_terms;
pub mod scheme;
pub mod shown;
pub mod signature;
pub mod target;
pub(super) mod translate;
pub mod validation;
pub(super) mod voucher;
