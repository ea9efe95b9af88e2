//! Graceful binary upgrade: both sides and their protocol.

mod new;
mod old;
mod protocol;

pub use self::new::Inherited;
pub(super) use self::new::OldProcess;
pub(super) use self::old::BinaryUpgrade;
