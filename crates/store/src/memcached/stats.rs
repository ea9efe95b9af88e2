//! The `stats` of a server: its clock, and whether it evicts what it is given.
//!
//! A server that is full reports no error. It evicts the values that were not used for longest, drained buckets
//! included, and counts them.

use super::response::MemcachedResponse;
use tollgate_bucket::Time;

/// A few lines of `stats`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stats {
    /// Seconds since 1970.
    pub(super) time: u64,
    /// Values that were evicted.
    evictions: u64,
    /// Bytes that it may use; zero if unknown.
    limit_maxbytes: u64,
}

impl Stats {
    /// Reads one line; false if it is not a line of `stats`.
    pub(super) fn note(&mut self, answer: &MemcachedResponse) -> bool {
        let MemcachedResponse::Stat(name, value) = answer else { return false };
        let field = match &name[..] {
            "time" => &mut self.time,
            "evictions" => &mut self.evictions,
            "limit_maxbytes" => &mut self.limit_maxbytes,
            _ => return true,
        };
        *field = value.parse().unwrap_or_default();
        true
    }

    /// The server's clock, if known.
    pub(super) fn clock(&self) -> Option<Time> {
        (self.time > 0).then(|| Time::from_nanos(self.time.saturating_mul(1_000_000_000)))
    }

    /// Warnings for the operator about this server.
    pub(super) fn warnings(&self, server: &str) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.evictions > 0 {
            let dropped = self.evictions;
            warnings.push(format!(
                "memcached at {server} has dropped {dropped} values before their time because its memory was full \
                 (evictions): a bucket that is dropped is full again; give it more memory (-m)"
            ));
        }
        if (1..LITTLE).contains(&self.limit_maxbytes) {
            let megabytes = self.limit_maxbytes / MEGABYTE;
            warnings.push(format!(
                "memcached at {server} may use only {megabytes} MB (limit_maxbytes): it will drop buckets that are \
                 still needed; give it more memory (-m)"
            ));
        }
        warnings
    }
}

const MEGABYTE: u64 = 1024 * 1024;

/// The default is 64 MB. Less was a deliberate choice, and the first megabytes go to one page for each size of values.
const LITTLE: u64 = 32 * MEGABYTE;

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(lines: &[(&str, &str)]) -> Stats {
        let mut stats = Stats::default();
        for (name, value) in lines {
            assert!(stats.note(&MemcachedResponse::Stat((*name).to_owned(), (*value).to_owned())));
        }
        stats
    }

    #[test]
    fn the_clock_is_in_whole_seconds() {
        assert_eq!(
            stats(&[("pid", "7"), ("time", "1763716292")]).clock(),
            Some(Time::from_nanos(1_763_716_292_000_000_000))
        );
        assert_eq!(stats(&[("time", "soon")]).clock(), None);
    }

    #[test]
    fn a_server_that_drops_what_is_needed_is_warned_about() {
        let quiet = stats(&[("evictions", "0"), ("limit_maxbytes", "67108864")]);
        assert_eq!(quiet.warnings("a:1"), [""; 0]);
        let full = stats(&[("evictions", "12"), ("limit_maxbytes", "67108864")]).warnings("a:1");
        assert!(full.len() == 1 && full[0].contains("a:1 has dropped 12 values"), "{full:?}");
        let small = stats(&[("limit_maxbytes", "8388608")]).warnings("a:1");
        assert!(small.len() == 1 && small[0].contains("only 8 MB"), "{small:?}");
    }

    #[test]
    fn other_answers_are_no_line_of_it() {
        assert!(!Stats::default().note(&MemcachedResponse::End));
    }
}
