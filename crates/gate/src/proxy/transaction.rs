//! The life of a request: from its head to its access record. `downstream` drives the connections.

pub(super) mod access_record;
pub(super) mod admitted;
mod attempt_slots;
mod auth_policy;
mod authorization_service;
mod body_search;
mod calls;
pub(super) mod context;
pub(super) mod discard_body;
pub(super) mod endpoint;
mod external_processor;
pub(super) mod forward;
mod head_check;
pub(super) mod inspect;
mod rate_limit_service;
pub(super) mod redact;
mod refusal;
pub mod refusal_rate;
pub(super) mod refused_again;
pub mod refused_heads;
mod relay;
mod request_summary;
pub mod response_future;
pub mod server;
pub mod service;
pub(super) mod voucher;
