//! The report as one page: no scripts, no outside resources, plots as inline SVG, light and dark.
//!
//! Every text of the report is escaped.

use std::fmt::Write;

use super::text::{grouped, plural};
use crate::config::values::in_words;
use crate::observe::timestamp::rfc3339;
use crate::replay::{
    Comparison, CountedClient, DistinctCount, LimitReport, LogReport, OneSidedRefusals, PolicyReport,
    ReplayReport, TimeSeries,
};
use crate::time::{Span, Time};

pub(super) fn page(report: &ReplayReport) -> String {
    let mut page = head("tollgate replay");
    // Writing to memory cannot fail.
    let _ = write_body(&mut page, report);
    page
}

/// The head of a page with this title, which is no text of a log.
pub(in crate::cli) fn head(title: &str) -> String {
    HEAD.replacen("{title}", title, 1)
}

fn write_body(page: &mut String, report: &ReplayReport) -> std::fmt::Result {
    page.push_str("<main><h1>What the limits would have refused</h1>");
    write_log(page, &report.log)?;
    for policy in &report.policies {
        write_policy(page, policy)?;
    }
    if let (Some(comparison), [first, second]) = (&report.comparison, &report.policies[..]) {
        write_comparison(page, comparison, [&first.name, &second.name])?;
    }
    page.push_str("</main></body></html>\n");
    Ok(())
}

fn write_log(page: &mut String, log: &LogReport) -> std::fmt::Result {
    let time = |time: &Option<String>| escaped(time.as_deref().unwrap_or("-"));
    write!(page, "<dl><dt>Lines</dt><dd>{} ({})</dd>", grouped(log.lines), escaped(&log.formats.join(", ")))?;
    write!(page, "<dt>From</dt><dd>{}</dd><dt>To</dt><dd>{}</dd>", time(&log.from), time(&log.to))?;
    write!(page, "<dt>Attempts</dt><dd>{}</dd>", grouped(log.attempts))?;
    if log.late > 0 {
        write!(page, "<dt>Out of order by more than two minutes</dt><dd>{}</dd>", grouped(log.late))?;
    }
    if let Some(first) = &log.first_unreadable {
        write!(
            page,
            "<dt>Unreadable lines</dt><dd>{}, the first in line {} of {}: {}<br><code>{}</code></dd>",
            grouped(log.unreadable),
            first.line,
            escaped(&first.log),
            escaped(&first.reason),
            escaped(&first.text)
        )?;
    }
    page.push_str("</dl>");
    Ok(())
}

fn write_policy(page: &mut String, policy: &PolicyReport) -> std::fmt::Result {
    let PolicyReport { name, attempts, refused, refused_elsewhere, gate, notes, limits } = policy;
    write!(page, "<section><h2>{}</h2><p>", escaped(name))?;
    write!(page, "<strong>{}</strong> of {} attempts refused.", grouped(*refused), grouped(*attempts))?;
    if *refused_elsewhere > 0 {
        write!(
            page,
            " {} more were refused by limits that the log cannot judge.",
            grouped(*refused_elsewhere)
        )?;
    }
    page.push_str("</p>");
    if let Some(gate) = gate {
        write!(
            page,
            "<p>The gate itself decided {} of them: {} were refused only then, {} are only now, {} by another limit.</p>",
            grouped(gate.compared),
            grouped(gate.refused_then),
            grouped(gate.refused_now),
            grouped(gate.other_limit)
        )?;
    }
    notes.iter().try_for_each(|note| write!(page, "<p class=note>{}</p>", escaped(note)))?;
    limits.iter().try_for_each(|limit| write_limit(page, limit))?;
    page.push_str("</section>");
    Ok(())
}

fn write_limit(page: &mut String, limit: &LimitReport) -> std::fmt::Result {
    write!(page, "<article><h3>{}</h3>", escaped(&limit.limit))?;
    if let Some(reason) = limit.not_judged {
        return write!(page, "<p class=note>Not judged: {}.</p></article>", escaped(reason));
    }
    write_plot(page, &limit.limit, &limit.series)?;
    let first = limit.first_refusal.as_deref().unwrap_or("never");
    let rows = [
        ("Mode", limit.mode.to_owned()),
        ("Refused attempts", format!("{} of {}", grouped(limit.refused), grouped(limit.attempts))),
        ("Refused clients", format!("{} of {}", counted(limit.refused_clients), counted(limit.clients))),
        ("Exempt attempts", grouped(limit.exempt)),
        ("First refusal", first.to_owned()),
        ("Likely false positives", plural(limit.likely_false_positives, "client")),
    ];
    page.push_str("<dl>");
    rows.iter().try_for_each(|(name, value)| write!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(value)))?;
    if let Some(suggestion) = &limit.suggestion {
        write!(
            page,
            "<dt>Suggestion</dt><dd><code>rate = \"{}\"</code> refuses {} of {} good clients, the present rate {}</dd>",
            escaped(&suggestion.rate),
            grouped(suggestion.refused_good_clients),
            grouped(suggestion.good_clients),
            grouped(suggestion.refused_by_present)
        )?;
    }
    page.push_str("</dl>");
    write_clients(page, "Worst clients", &limit.worst)?;
    write_clients(page, "Refused, then signed in", &limit.false_positives)?;
    page.push_str("</article>");
    Ok(())
}

/// Bars of attempts with bars of refusals before them. The title has the same numbers, for screen readers.
pub(in crate::cli) fn write_plot(page: &mut String, name: &str, series: &TimeSeries) -> std::fmt::Result {
    let most = series.attempts.iter().copied().max().unwrap_or(0).max(1);
    let columns = series.attempts.len().max(1);
    let (attempts, refused): (u64, u64) = (series.attempts.iter().sum(), series.refused.iter().sum());
    write!(
        page,
        "<svg viewBox=\"0 0 {} {PLOT_HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\"><title>{}: {} attempts, {} refused, \
         in columns of {} s</title>",
        columns * COLUMN_WIDTH,
        escaped(name),
        grouped(attempts),
        grouped(refused),
        series.width
    )?;
    for (class, numbers) in [("attempts", &series.attempts), ("refused", &series.refused)] {
        for (at, &number) in numbers.iter().enumerate().filter(|(_, number)| **number > 0) {
            let height = (number * PLOT_HEIGHT).div_ceil(most);
            write!(
                page,
                "<rect class={class} x={} y={} width={} height={height} />",
                at * COLUMN_WIDTH,
                PLOT_HEIGHT - height,
                COLUMN_WIDTH - 1
            )?;
        }
    }
    page.push_str("</svg>");
    write_axis(page, series)?;
    write!(
        page,
        "<p class=legend><span class=attempts>attempts</span> <span class=refused>refused</span>, \
         one column is {}; the highest has {}</p>",
        in_words(Span::from_secs(series.width)),
        grouped(most)
    )
}

/// The times below a plot, in UTC: its begin and its end, and three between them where there is room.
fn write_axis(page: &mut String, series: &TimeSeries) -> std::fmt::Result {
    let columns = u64::try_from(series.attempts.len()).unwrap_or(u64::MAX);
    if columns == 0 {
        return Ok(());
    }
    let marks = if columns < 4 { 1 } else { 4 };
    page.push_str("<div class=axis>");
    for mark in 0..=marks {
        let seconds = series.start.saturating_add(columns.saturating_mul(series.width) * mark / marks);
        let moment = rfc3339(Time::from_nanos(seconds.saturating_mul(NANOSECONDS)));
        let (day, time) = moment.split_once('T').unwrap_or((&moment, ""));
        write!(page, "<time datetime=\"{moment}\">{day} {}</time>", &time[..time.len().min(5)])?;
    }
    page.push_str("</div>");
    Ok(())
}

fn write_comparison(page: &mut String, comparison: &Comparison, names: [&str; 2]) -> std::fmt::Result {
    write!(page, "<section><h2>Side by side</h2><p>Both refuse {} attempts.</p>", grouped(comparison.both))?;
    page.push_str("<div class=sides>");
    for (name, side) in names.iter().zip([&comparison.only_first, &comparison.only_second]) {
        let OneSidedRefusals { attempts, clients, worst } = side;
        write!(page, "<article><h3>Only {}</h3>", escaped(name))?;
        write!(page, "<p>{} attempts of {} clients</p>", grouped(*attempts), counted(*clients))?;
        write_clients(page, "Clients", worst)?;
        page.push_str("</article>");
    }
    page.push_str("</div></section>");
    Ok(())
}

pub(in crate::cli) fn write_clients(
    page: &mut String,
    title: &str,
    clients: &[CountedClient],
) -> std::fmt::Result {
    if clients.is_empty() {
        return Ok(());
    }
    write!(page, "<table><caption>{title}</caption><tr><th>Client</th><th>Refused</th></tr>")?;
    for client in clients {
        write!(page, "<tr><td>{}</td><td>{}</td></tr>", escaped(&client.client), grouped(client.refused))?;
    }
    page.push_str("</table>");
    Ok(())
}

fn counted(distinct: DistinctCount) -> String {
    format!("{}{}", if distinct.exact { "" } else { "about " }, grouped(distinct.count))
}

/// Text that HTML takes as text, also in a quoted attribute.
pub(in crate::cli) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

const HEAD: &str = include_str!("../../../assets/replay.html");

const NANOSECONDS: u64 = 1_000_000_000;

/// In units of the drawing, which is stretched to the width of the page.
const PLOT_HEIGHT: u64 = 120;
const COLUMN_WIDTH: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::UnreadableLine;

    #[test]
    fn a_plot_has_its_times_below_it() {
        let axis = |start, columns| {
            let mut page = String::new();
            let series =
                TimeSeries { start, width: 900, attempts: vec![1; columns], refused: vec![0; columns] };
            write_axis(&mut page, &series).unwrap();
            page.matches("<time").count().to_string() + &page
        };
        let day = axis(1_795_132_800, 96);
        assert!(
            day.starts_with("5<div class=axis><time datetime=\"2026-11-20T00:00:00.000Z\">2026-11-20 00:00<"),
            "{day}"
        );
        assert!(day.contains(">2026-11-20 12:00<") && day.contains(">2026-11-21 00:00<"), "{day}");
        assert!(axis(1_795_132_800, 2).starts_with('2'));
        assert_eq!(axis(0, 0), "0");
    }

    /// J3: a page that shows what clients sent takes none of it for markup.
    #[test]
    fn a_text_of_the_log_is_never_markup() {
        let evil = "<script>alert(1)</script>\"'&";
        let line = UnreadableLine { log: evil.into(), line: 1, reason: evil.into(), text: evil.into() };
        let log = LogReport { lines: 2, unreadable: 1, first_unreadable: Some(line), ..LogReport::default() };
        let page = page(&ReplayReport { log, policies: Vec::new(), comparison: None });
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;").count(), 3);
        assert!(page.contains("Content-Security-Policy"));
    }
}
