//! The report as text.

use std::fmt::Write;

use crate::replay::{
    Comparison, CountedClient, DECISIONS, DistinctCount, GateDifferences, LimitReport, LogReport,
    OneSidedRefusals, PolicyReport, ReplayReport, SeenPath,
};

pub(super) fn text(report: &ReplayReport) -> String {
    let mut text = String::new();
    // Writing to memory cannot fail.
    let _ = write_all(&mut text, report);
    text
}

fn write_all(text: &mut String, report: &ReplayReport) -> std::fmt::Result {
    write_log(text, &report.log)?;
    if report.log.attempts == 0 {
        return Ok(());
    }
    for policy in &report.policies {
        write_policy(text, policy)?;
    }
    if let (Some(comparison), [first, second]) = (&report.comparison, &report.policies[..]) {
        write_comparison(text, comparison, [&first.name, &second.name])?;
    }
    Ok(())
}

fn write_log(text: &mut String, log: &LogReport) -> std::fmt::Result {
    writeln!(text, "log       {}, {}", plural(log.lines, "line"), log.formats.join(" and "))?;
    if let (Some(from), Some(to)) = (&log.from, &log.to) {
        writeln!(text, "          {from} to {to}")?;
    }
    writeln!(text, "attempts  {}", grouped(log.attempts))?;
    if log.attempts == 0 {
        writeln!(text, "          no line is a request that a route of the configuration matches")?;
        let heading = match &log.formats[..] {
            [DECISIONS] => "it has decisions about these routes",
            _ if log.posts.is_empty() => "none of them is a POST",
            _ => "most POST requests went to",
        };
        writeln!(text, "          {heading}")?;
        for SeenPath { path, requests } in &log.posts {
            writeln!(text, "          {:>9}  {path}", grouped(*requests))?;
        }
    }
    if log.late > 0 {
        writeln!(text, "late      {}, more than two minutes out of order", plural(log.late, "attempt"))?;
    }
    if let Some(first) = &log.first_unreadable {
        let count = plural(log.unreadable, "line");
        writeln!(
            text,
            "unread    {count}, the first in line {} of {}: {}",
            first.line, first.log, first.reason
        )?;
        writeln!(text, "          {}", first.text)?;
    }
    Ok(())
}

fn write_policy(text: &mut String, policy: &PolicyReport) -> std::fmt::Result {
    writeln!(
        text,
        "\n{}: {} of {} attempts refused",
        policy.name,
        grouped(policy.refused),
        grouped(policy.attempts)
    )?;
    if policy.refused_elsewhere > 0 {
        let count = grouped(policy.refused_elsewhere);
        writeln!(text, "          {count} more were refused by limits that the log cannot judge")?;
    }
    if let Some(gate) = &policy.gate {
        let GateDifferences { compared, refused_then, refused_now, other_limit, uncounted_then } = gate;
        write!(
            text,
            "gate      decided {} of these: {} only then refused",
            grouped(*compared),
            grouped(*refused_then)
        )?;
        write!(text, ", {} only now, {} by another limit", grouped(*refused_now), grouped(*other_limit))?;
        writeln!(text, "; {} were no attempts then", grouped(*uncounted_then))?;
    }
    policy.notes.iter().try_for_each(|note| writeln!(text, "note      {note}"))?;
    policy.limits.iter().try_for_each(|limit| write_limit(text, limit))
}

fn write_limit(text: &mut String, limit: &LimitReport) -> std::fmt::Result {
    if let Some(reason) = limit.not_judged {
        return writeln!(text, "\nlimit     {}: not judged: {reason}", limit.limit);
    }
    let mode = if limit.mode == "enforce" { String::new() } else { format!(" ({})", limit.mode) };
    writeln!(
        text,
        "\nlimit     {}{mode}: refuses {} of {} attempts",
        limit.limit,
        grouped(limit.refused),
        grouped(limit.attempts)
    )?;
    writeln!(text, "clients   {} of {}", counted(limit.refused_clients), counted(limit.clients))?;
    if limit.exempt > 0 {
        writeln!(text, "exempt    {} attempts", grouped(limit.exempt))?;
    }
    if let Some(first) = &limit.first_refusal {
        writeln!(text, "first     {first}")?;
        writeln!(
            text,
            "people    {} then signed in within an hour: likely false positives",
            plural(limit.likely_false_positives, "refused client")
        )?;
        write_clients(text, "", &limit.false_positives)?;
    }
    write_clients(text, "worst", &limit.worst)?;
    match &limit.suggestion {
        Some(suggestion) => writeln!(
            text,
            "suggest   rate = \"{}\": refuses {} of {} good clients, the present rate {}",
            suggestion.rate,
            grouped(suggestion.refused_good_clients),
            grouped(suggestion.good_clients),
            grouped(suggestion.refused_by_present)
        ),
        None => Ok(()),
    }
}

fn write_comparison(text: &mut String, comparison: &Comparison, names: [&str; 2]) -> std::fmt::Result {
    writeln!(text, "\nboth      {} attempts refused", grouped(comparison.both))?;
    for (name, side) in names.iter().zip([&comparison.only_first, &comparison.only_second]) {
        let OneSidedRefusals { attempts, clients, worst } = side;
        writeln!(text, "only      {name}: {} attempts of {} clients", grouped(*attempts), counted(*clients))?;
        write_clients(text, "", worst)?;
    }
    Ok(())
}

pub(in crate::cli) fn write_clients(
    text: &mut String,
    title: &str,
    clients: &[CountedClient],
) -> std::fmt::Result {
    for (at, client) in clients.iter().enumerate() {
        let title = if at == 0 { title } else { "" };
        writeln!(text, "{title:<10}{:>9}  {}", grouped(client.refused), client.client)?;
    }
    Ok(())
}

fn counted(distinct: DistinctCount) -> String {
    format!("{}{}", if distinct.exact { "" } else { "about " }, grouped(distinct.count))
}

pub(in crate::cli) fn plural(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// With commas between thousands.
pub(in crate::cli) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
