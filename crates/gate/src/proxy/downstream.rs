//! The client side: workers, handshakes, HTTP/1 and HTTP/2. `transaction` serves the requests.

pub(super) mod budget;
pub(super) mod handshake;
pub mod heartbeat;
pub(super) mod http1;
pub(super) mod http2;
pub(super) mod linger;
pub mod worker;
