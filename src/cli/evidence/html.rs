//! The evidence as one page, in the style of the page of a replay: no scripts, no outside resources, tables with headers.
//!
//! Every text is escaped.

use super::parts::PromisedWords;
use super::report::EvidenceReport;
use crate::cli::replay::html::{escaped, head};
use crate::cli::replay::text::grouped;
use crate::replay::evidence::{AttemptFigures, LimitFigures, PromiseFigures};

pub(super) fn page(report: &EvidenceReport) -> String {
    let mut page = head("Evidence");
    page.push_str("<main><h1>Evidence on limits for sign-ins</h1>");
    write_about(&mut page, report);
    write_controls(&mut page, report);
    write_promised(&mut page, report);
    write_shown(&mut page, report);
    write_changes(&mut page, report);
    write_exceptions(&mut page, report);
    page.push_str("<section><h2>What this does not show</h2><ul>");
    report.not_shown.iter().for_each(|note| page.push_str(&format!("<li>{}</li>", escaped(note))));
    page.push_str("</ul></section></main></body></html>\n");
    page
}

fn write_about(page: &mut String, report: &EvidenceReport) {
    let audit = &report.audit;
    let chain = match &audit.broken {
        Some(broken) => format!("broken: {broken}"),
        None => format!("{}, {} lines", audit.chain, grouped(audit.lines)),
    };
    let lines = match &report.decisions.compared {
        Some(compared) => format!(
            "the gate told of {}: {} are missing, {} expired, {} are from before the logs that are left; of {} it told nothing",
            grouped(compared.written),
            grouped(compared.missing),
            grouped(compared.expired),
            grouped(compared.older),
            grouped(compared.untold)
        ),
        None => format!(
            "{} were read; the gate did not tell how many it wrote",
            grouped(report.decisions.shown.lines)
        ),
    };
    let rows = [
        ("From", report.since.clone()),
        ("To", report.until.clone()),
        ("Made by", report.program.clone()),
        ("Configuration", format!("{} ({})", report.promised.configuration, report.promised.hash)),
        ("Decision log", report.decisions.files.join(", ")),
        ("Lines of it", lines),
        ("Audit log", chain),
        ("Hash of its last line", audit.last.clone().unwrap_or_else(|| "-".to_owned())),
    ];
    page.push_str("<dl>");
    rows.iter()
        .for_each(|(name, value)| page.push_str(&format!("<dt>{name}</dt><dd>{}</dd>", escaped(value))));
    page.push_str("</dl>");
}

fn write_controls(page: &mut String, report: &EvidenceReport) {
    let rows = report.controls.iter().map(|control| {
        let words = [control.standard, control.number, control.asks, control.state.words(), &control.figure];
        words.map(str::to_owned)
    });
    write_table(page, "Controls", ["Standard", "Number", "Asks for", "State", "Shown by"], rows);
}

fn write_promised(page: &mut String, report: &EvidenceReport) {
    let rows = |words: &[PromisedWords]| {
        words.iter().map(|promised| [promised.name.clone(), promised.worst.clone()]).collect::<Vec<_>>()
    };
    write_table(
        page,
        "What each limit lets through at worst",
        ["Limit", "Worst case"],
        rows(&report.promised.limits),
    );
    write_table(
        page,
        "What each route lets through at worst",
        ["Route", "Worst case"],
        rows(&report.promised.routes),
    );
}

fn write_shown(page: &mut String, report: &EvidenceReport) {
    let shown = &report.decisions.shown;
    let all = ("all".to_owned(), shown.attempts);
    let routes = shown.routes.iter().map(|route| (route.route.clone(), route.attempts));
    let rows = std::iter::once(all).chain(routes).map(|(name, attempts)| {
        let AttemptFigures { all, admitted, refused, would_refuse, signed_in, failed, .. } = attempts;
        let [all, admitted, refused, would_refuse, signed_in, failed] =
            [all, admitted, refused, would_refuse, signed_in, failed].map(grouped);
        [name, all, admitted, refused, would_refuse, signed_in, failed]
    });
    let heads = ["Route", "Attempts", "Admitted", "Refused", "Would be refused", "Signed in", "Failed"];
    write_table(page, "Attempts", heads, rows);
    let accounts = &shown.accounts;
    let rows = [
        (
            "Accounts attacked",
            format!("{}{}", if accounts.exact { "" } else { "at least " }, grouped(accounts.attacked)),
        ),
        ("Most failures at one account in a row", grouped(accounts.longest_row)),
        ("Most of them in 30 minutes", grouped(accounts.most_in_half_an_hour)),
    ];
    write_table(page, "Accounts", ["Figure", "Number"], rows.map(|(name, number)| [name.to_owned(), number]));
    let heads = ["Limit", "Refused", "Counted", "Window", "Promised at most", "Greatest of one", "Over"];
    write_table(
        page,
        "The greatest number that reached one account or client",
        heads,
        shown.limits.iter().map(limit_row),
    );
}

fn limit_row(limit: &LimitFigures) -> [String; 7] {
    let (name, refused) = (limit.limit.clone(), grouped(limit.refused));
    let Some(PromiseFigures { counts, window, most, greatest, broken_at, .. }) = &limit.promise else {
        let why = format!("not shown: {}", limit.not_shown.unwrap_or_default());
        return [name, refused, why, "-".into(), "-".into(), "-".into(), "-".into()];
    };
    let broken = broken_at
        .as_ref()
        .map_or_else(|| "never".to_owned(), |at| format!("line {} of {} ({})", at.line, at.log, at.time));
    [name, refused, (*counts).to_owned(), format!("{window} s"), grouped(*most), grouped(*greatest), broken]
}

fn write_changes(page: &mut String, report: &EvidenceReport) {
    let rows = report.changes.iter().map(|change| {
        let entry = &change.entry;
        let target = entry.target.clone().unwrap_or_default();
        let failed =
            entry.failed.as_ref().map_or_else(String::new, |failed| format!(" (not made: {failed})"));
        let what = format!("{} {target}{failed}", entry.what);
        let (before, after) = (entry.before.to_string(), entry.after.to_string());
        [entry.time.clone(), entry.who.clone(), what, entry.why.clone(), before, after]
    });
    write_table(page, "Changes", ["Time", "Who", "What", "Reason", "Before", "After"], rows);
    if report.changes_left_out > 0 {
        page.push_str(&format!(
            "<p class=note>{} more are in the audit log.</p>",
            grouped(report.changes_left_out)
        ));
    }
}

fn write_exceptions(page: &mut String, report: &EvidenceReport) {
    let rows = report.exceptions.iter().map(|exception| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        [
            exception.kind.to_owned(),
            exception.what.clone(),
            text(&exception.from),
            text(&exception.until),
            text(&exception.who),
            text(&exception.why),
        ]
    });
    write_table(page, "Exceptions", ["Kind", "What", "From", "Until", "Who", "Reason"], rows);
}

/// A section with a table, or with a sentence where nothing is in it. The first cell of a row is its header.
fn write_table<const N: usize>(
    page: &mut String,
    title: &str,
    heads: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let mut rows = rows.into_iter().peekable();
    page.push_str(&format!("<section><h2>{title}</h2>"));
    if rows.peek().is_none() {
        page.push_str("<p>None.</p></section>");
        return;
    }
    // On a phone it is wider than the page, and keys have to reach what is scrolled.
    page.push_str(&format!(
        "<div class=wide role=region aria-label=\"{title}\" tabindex=0><table><thead><tr>"
    ));
    heads.iter().for_each(|head| page.push_str(&format!("<th scope=col>{head}</th>")));
    page.push_str("</tr></thead><tbody>");
    for row in rows {
        page.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let cell = escaped(cell);
            page.push_str(&if at == 0 {
                format!("<th scope=row>{cell}</th>")
            } else {
                format!("<td>{cell}</td>")
            });
        }
        page.push_str("</tr>");
    }
    page.push_str("</tbody></table></div></section>");
}
