//! The report as one page, in the style of the page of a replay: a table of the sites, and plots of each if they are few.
//!
//! Every text of the log is escaped.

use std::fmt::Write;

use super::{ShownReport, host};
use crate::cli::replay::html::{escaped, head, write_clients, write_plot};
use crate::cli::replay::text::{grouped, plural};
use crate::replay::sites::SiteReport;

pub(super) fn page(report: &ShownReport) -> String {
    let mut page = head("Sign-in attempts");
    // Writing to memory cannot fail.
    let _ = write_body(&mut page, report);
    page
}

fn write_body(page: &mut String, report: &ShownReport) -> std::fmt::Result {
    page.push_str("<main><h1>Sign-in attempts</h1>");
    write_totals(page, report)?;
    report.notes.iter().try_for_each(|note| write!(page, "<p class=note>{}</p>", escaped(note)))?;
    write_table(page, report)?;
    if report.is_detailed() {
        report.sites.iter().try_for_each(|site| write_site(page, site))?;
    }
    page.push_str(MEANING);
    page.push_str("</main></body></html>\n");
    Ok(())
}

fn write_totals(page: &mut String, report: &ShownReport) -> std::fmt::Result {
    let ShownReport { since, log, sites, totals, .. } = report;
    let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
    let mut rows = vec![
        ("Since", format!("{} ({since})", log.since)),
        ("First line", time(&log.from)),
        ("Last line", time(&log.to)),
        ("Sites with attempts", sites.len().to_string()),
        ("Attempts", grouped(totals.attempts)),
        ("Refused", grouped(totals.refused)),
        ("Signed in", grouped(totals.signed_in)),
    ];
    rows.extend(totals.owners_helped.map(|owners| ("Owners helped", grouped(owners))));
    rows.push(("Likely refused by mistake", plural(totals.likely_false_positives, "client")));
    page.push_str("<dl>");
    rows.iter().try_for_each(|(name, value)| write!(page, "<dt>{name}</dt><dd>{}</dd>", escaped(value)))?;
    page.push_str("</dl>");
    Ok(())
}

fn write_table(page: &mut String, report: &ShownReport) -> std::fmt::Result {
    if report.sites.is_empty() {
        page.push_str("<p>There was no attempt.</p>");
        return Ok(());
    }
    // On a phone it is wider than the page, and keys have to reach what is scrolled.
    page.push_str("<div class=wide role=region aria-label=Sites tabindex=0>");
    page.push_str("<table class=sites><caption>Sites, the most refusals first</caption><tr>");
    for name in ["Site", "Host", "Attempts", "Refused", "Signed in", "Owners helped"] {
        write!(page, "<th scope=col>{name}</th>")?;
    }
    page.push_str("</tr>");
    for site in &report.sites {
        let owners = site.owners_helped.map_or_else(|| "-".to_owned(), grouped);
        let counts = [site.attempts, site.refused, site.signed_in].map(grouped);
        write!(page, "<tr><td>{}</td><td>{}</td>", escaped(&site.site), escaped(&host(site)))?;
        counts.iter().try_for_each(|count| write!(page, "<td>{count}</td>"))?;
        write!(page, "<td>{owners}</td></tr>")?;
    }
    page.push_str("</table></div>");
    Ok(())
}

fn write_site(page: &mut String, site: &SiteReport) -> std::fmt::Result {
    let name = format!("{} {}", site.site, site.hosts.join(", "));
    write!(page, "<article><h2>{}</h2>", escaped(name.trim_end()))?;
    write_plot(page, &site.site, &site.series)?;
    if !site.limits.is_empty() {
        page.push_str("<table><caption>Limits</caption><tr><th>Limit</th><th>Refused</th></tr>");
        for limit in &site.limits {
            let (name, refused) = (escaped(&limit.limit), grouped(limit.refused));
            write!(page, "<tr><td>{name}</td><td>{refused}</td></tr>")?;
        }
        page.push_str("</table>");
    }
    write_clients(page, "Worst clients", &site.worst)?;
    page.push_str("</article>");
    Ok(())
}

const MEANING: &str = "<p class=note>An attempt is a request with a password or for one. Refused attempts did not reach the \
                       site. Owners helped: people who signed in from a browser or an address that is known for their account, \
                       while strangers were refused there. Likely refused by mistake: clients that were refused and signed in \
                       within an hour. Times are in UTC.</p>";
