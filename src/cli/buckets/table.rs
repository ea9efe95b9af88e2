//! Buckets as a table for people, and the columns of such tables.
//!
//! It reads the gate's response alone.

use std::fmt::Write;

use crate::config::values::in_words;
use crate::observe::admin::{
    AddressesPart, BucketPart, BucketsPage, FailuresPart, FilledPart, OwnRatePart, WaitsPart,
};
use crate::time::Span;

/// The table, with notes below it.
pub(super) fn text(page: &BucketsPage, key: &str) -> String {
    let mut rows = vec![["LIMIT", "TOKENS", "NEXT", "FULL AT", "NOTES"].map(str::to_owned)];
    rows.extend(page.buckets.iter().map(row));
    let mut text = page.filled.as_ref().map(|filled| filled_line(filled)).unwrap_or_default();
    if let Some(account) = &*page.account {
        // Writing to memory cannot fail.
        let _ = writeln!(text, "{key} is user:#{account} in lists and logs");
    }
    text += &if rows.len() > 1 { aligned(&rows) } else { format!("no limit has a bucket for {key}\n") };
    for (names, words) in [
        (&page.exempt, "do not see this client"),
        (&page.not_shown, "have other parts in their keys, so their buckets are not shown"),
    ] {
        if !names.is_empty() {
            // Writing to memory cannot fail.
            let _ = writeln!(text, "{} {words}", names.join(", "));
        }
    }
    for AddressesPart { application, known, until } in page.addresses.iter().flatten() {
        let addresses = if *known == 1 { "address" } else { "addresses" };
        let _ = writeln!(text, "known from {known} {addresses} at {application}, the last until {until}");
    }
    text
}

/// As in `filled: address (203.0.113.9/32), subnet (203.0.113.0/24)`.
fn filled_line(filled: &[FilledPart]) -> String {
    let one = |FilledPart { limit, network }: &FilledPart| match &**network {
        Some(network) => format!("{limit} ({network})"),
        None => limit.clone(),
    };
    let all: Vec<_> = filled.iter().map(one).collect();
    if all.is_empty() { "filled: nothing\n".to_owned() } else { format!("filled: {}\n", all.join(", ")) }
}

fn row(bucket: &BucketPart) -> [String; 5] {
    let class = bucket.class.as_ref().map(|class| format!(" ({class})")).unwrap_or_default();
    let (next, is_full) = (bucket.next, bucket.next == 0.0);
    [
        format!("{}{class}", bucket.limit),
        format!("{} of {}", bucket.tokens, bucket.burst),
        if next > 0.0 { format!("in {}", seconds(next)) } else { "-".to_owned() },
        if is_full { "full".to_owned() } else { bucket.full_at.clone() },
        notes(bucket),
    ]
}

fn notes(bucket: &BucketPart) -> String {
    let mut notes: Vec<String> = bucket.network.iter().cloned().collect();
    if let Some(until) = &*bucket.banned_until {
        notes.push(format!("banned until {until}"));
    } else if let Some(until) = &*bucket.exempt_until {
        notes.push(format!("exempt until {until}"));
    } else if let Some(OwnRatePart { seconds_per_token, until, .. }) = &*bucket.own {
        notes.push(format!("own rate: one every {}, until {until}", seconds(*seconds_per_token)));
    }
    if let Some(FailuresPart { left, most }) = &*bucket.max_failures {
        notes.push(format!("{left} of {most} failures left"));
    }
    if let Some(WaitsPart { left, after, wait, .. }) = &*bucket.escalate {
        match *wait > 0.0 {
            true => notes.push(format!("waits for {}", seconds(*wait))),
            false => notes.push(format!("{left} of {after} strikes until a wait")),
        }
    }
    if bucket.mode != "enforce" {
        notes.push(format!("mode {}", bucket.mode));
    }
    notes.join("; ")
}

/// Columns of equal width.
pub(in crate::cli) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// The gate has rounded it up to a millisecond.
pub(super) fn seconds(seconds: f64) -> String {
    let span = std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default();
    in_words(Span::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::admin_api::page;

    #[test]
    fn a_table_says_what_there_is_and_what_is_not_shown() {
        let response = json!({
            "buckets": [
                {"limit": "address", "mode": "enforce", "tokens": 3, "burst": 10, "next": 12.5,
                 "full_at": "2026-11-21T00:00:00.000Z", "network": "192.0.2.1/32",
                 "escalate": {"left": 2, "after": 5, "wait": 0.0}},
                {"limit": "wide\u{1b}[31m", "mode": "observe", "tokens": 9, "burst": 9, "next": 0.0,
                 "full_at": "x", "class": "office",
                 "own": {"burst": 9, "seconds_per_token": 60.0, "until": "then"},
                 "max_failures": {"left": 0, "most": 100}, "escalate": {"left": 0, "after": 5, "wait": 90.0}},
            ],
            "exempt": ["subnet"],
            "not_shown": ["pair", "device"],
            "addresses": [{"application": "blog", "known": 3, "until": "2026-12-21T00:00:00.000Z"}],
        });
        let expected = "\
LIMIT              TOKENS   NEXT      FULL AT                   NOTES
address            3 of 10  in 12s500ms  2026-11-21T00:00:00.000Z  192.0.2.1/32; 2 of 5 strikes until a wait
";
        let text = text(&page(&response).unwrap(), "ip:192.0.2.1");
        let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = text.lines().map(squeeze).collect();
        assert_eq!(lines[..2], expected.lines().map(squeeze).collect::<Vec<_>>()[..]);
        assert_eq!(
            lines[2..],
            [
                "wide[31m (office) 9 of 9 - full own rate: one every 1m, until then; 0 of 100 failures left; \
                 waits for 1m30s; mode observe",
                "subnet do not see this client",
                "pair, device have other parts in their keys, so their buckets are not shown",
                "known from 3 addresses at blog, the last until 2026-12-21T00:00:00.000Z",
            ]
        );
    }

    #[test]
    fn a_reset_says_what_it_filled_and_an_account_how_logs_write_it() {
        let response = json!({
            "buckets": [], "exempt": [], "not_shown": [], "account": "123456789abc",
            "filled": [{"limit": "address", "network": "192.0.2.1/32"}, {"limit": "account"}],
        });
        let text = text(&page(&response).unwrap(), "user:alice");
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "filled: address (192.0.2.1/32), account",
                "user:alice is user:#123456789abc in lists and logs",
                "no limit has a bucket for user:alice",
            ]
        );
    }

    #[test]
    fn no_bucket_at_all_is_said() {
        assert_eq!(text(&BucketsPage::default(), "user:a"), "no limit has a bucket for user:a\n");
    }
}
