//! Random bytes that no client can guess: for what owners of accounts carry, and for receipts of attempts.

use std::cell::RefCell;

use rustix::rand::{GetRandomFlags, getrandom};

/// Random bytes, at most 256; `None` if the system gives no randomness.
#[must_use]
pub fn random_bytes<const N: usize>() -> Option<[u8; N]> {
    POOL.with_borrow_mut(RandomPool::take)
}

/// What a thread has drawn and not given yet: a system call for each few bytes would cost more than they do.
struct RandomPool {
    bytes: [u8; 256],
    left: usize,
}

impl RandomPool {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        if self.left < N {
            self.left = 0;
            let given = getrandom(&mut self.bytes, GetRandomFlags::empty()).ok()?;
            self.left = if given == self.bytes.len() { given } else { 0 };
        }
        self.left = self.left.checked_sub(N)?;
        let given = self.bytes.get_mut(self.left..)?.first_chunk_mut()?;
        Some(std::mem::replace(given, [0; N]))
    }
}

thread_local! {
    static POOL: RefCell<RandomPool> = const { RefCell::new(RandomPool { bytes: [0; 256], left: 0 }) };
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_bytes_are_given_twice_and_no_more_than_there_are() {
        let given: HashSet<[u8; 16]> = (0..100).map(|_| random_bytes().unwrap()).collect();
        assert_eq!(given.len(), 100);
        assert!(random_bytes::<256>().is_some() && random_bytes::<257>().is_none());
        assert_ne!(random_bytes::<24>(), random_bytes());
    }
}
