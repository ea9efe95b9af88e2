//! Renders Prometheus' text format 0.0.4, which every scraper reads without negotiation.
//!
//! Counting is left to the metrics. The library writes OpenMetrics, where a counter's family lacks the `_total` of its
//! samples; the older format wants the same name in both places, or the type is lost.

use prometheus_client::encoding::text::encode_registry;
use prometheus_client::registry::Registry;

/// The `Content-Type` of the response.
pub(in crate::observe) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn render(registry: &Registry) -> String {
    let mut text = String::with_capacity(16 * 1024);
    // Writing to memory cannot fail, and a failed collector leaves whole lines.
    let _ = encode_registry(&mut text, registry);
    name_counters(&text)
}

/// Renames `# HELP x …` and `# TYPE x counter` to `x_total`.
fn name_counters(open: &str) -> String {
    let mut plain = String::with_capacity(open.len() + 256);
    let mut help = None;
    for line in open.lines() {
        if let Some(text) = line.strip_prefix("# HELP ") {
            help = text.split_once(' ');
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            let text = help.take().map_or("", |(_, text)| text);
            for part in ["# HELP ", name, suffix, " ", text, "\n# TYPE ", name, suffix, " ", kind, "\n"] {
                plain.push_str(part);
            }
        } else {
            plain.push_str(line);
            plain.push('\n');
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_called_total_in_every_line_and_a_gauge_keeps_its_name() {
        let open = "# HELP a_b Help it.\n# TYPE a_b counter\na_b_total{x=\"y\"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 2\n";
        let plain = "# HELP a_b_total Help it.\n# TYPE a_b_total counter\na_b_total{x=\"y\"} 1\n\
                     # HELP c Now.\n# TYPE c gauge\nc 2\n";
        assert_eq!(name_counters(open), plain);
    }
}
