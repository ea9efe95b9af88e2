//! Where buckets live.
//!
//! A store is one atomic read-modify-write of one bucket; what the bucket does is [`bucket::step`](crate::bucket::step)
//! over every store. Built so far: the memory of this process.

pub mod memory;
