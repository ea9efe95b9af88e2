//! Lists of exposed passwords: a static filter in a file, built from an ordered list of SHA-1 hashes.
//!
//! A filter finds every hash of its list, and one in 1,024 others. It is a row of binary fuse filters (Graf and Lemire,
//! "Binary Fuse Filters: Fast and Smaller Than Xor Filters", ACM JEA 27, 2022), each for up to a million hashes that
//! follow each other: so building takes little memory, however long the list is. `xorf` builds them. What happens to an
//! attempt with such a password is left to the policy.

mod builder;
mod filter;
mod format;
mod hash_list;

pub use self::builder::{BuildError, Built, build};
pub use self::filter::{FilterError, PasswordFilter};
pub use self::hash_list::HashListError;

#[cfg(test)]
mod tests;
