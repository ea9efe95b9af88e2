//! TLS to other servers: whom to trust. The system's roots, or a file of the operator's.
//!
//! Roots are read when they are needed, not once per process, so a new root needs no restart. A build without the feature
//! `tls` has the same names from `absent`.

#[cfg(not(feature = "tls"))]
mod absent;
#[cfg(feature = "tls")]
mod with_rustls;

#[cfg(not(feature = "tls"))]
pub use self::absent::*;
#[cfg(feature = "tls")]
pub use self::with_rustls::*;
