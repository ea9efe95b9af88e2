//! Warnings about the settings of a server.
//!
//! `INFO` is used instead of `CONFIG GET`, because hosted servers forbid the latter. Every `volatile-*` policy evicts
//! buckets as well, because each of them has an expiry.

/// One sentence for each problem in the reply to `INFO`.
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

/// The warning about a password in clear text.
pub(super) fn warn_of_plain_text(is_unencrypted: bool) -> Vec<String> {
    let warning = "the password goes to Redis in clear text: write `rediss://`, `rediss-cluster://` or `rediss+sentinel://`";
    is_unencrypted.then(|| warning.to_owned()).into_iter().collect()
}
