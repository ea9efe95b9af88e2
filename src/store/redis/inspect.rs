//! What an operator should know of the way a server is set up.
//!
//! `INFO` is asked instead of `CONFIG GET`, because hosted servers forbid the latter. The surprising thing: every
//! `volatile-*` policy drops buckets as well, since each of them has an end.

/// One sentence for each trouble that the answer to `INFO` tells of.
pub(super) fn sentences(info: &str) -> Vec<String> {
    let field = |name: &str| {
        info.lines()
            .find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
            .unwrap_or_default()
    };
    let mut sentences = Vec::new();
    let policy = field("maxmemory_policy");
    if !matches!(field("maxmemory"), "" | "0") && !matches!(policy, "" | "noeviction") {
        sentences.push(format!(
            "Redis has maxmemory-policy {policy}: when its memory is full it drops buckets that are still needed; \
             noeviction keeps them"
        ));
    }
    if field("role") == "slave" && field("slave_read_only") != "0" {
        sentences.push("Redis is a read-only replica: nothing can be written to it".to_owned());
    }
    sentences
}
