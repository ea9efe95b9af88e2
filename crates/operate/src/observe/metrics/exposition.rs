//! Renders the metrics: OpenMetrics 1.0 for a scraper that asks for it, for others Prometheus' text format 0.0.4.
//!
//! Counting is left to the metrics. The library writes OpenMetrics, where a counter's family lacks the `_total` of its
//! samples; the older format wants the same name in both places, or the type is lost. Samples are alike in both.

use http::HeaderMap;
use http::header::ACCEPT;
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::registry::Registry;

/// The `Content-Type` of Prometheus' text format.
pub(in crate::observe) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The `Content-Type` of OpenMetrics.
pub(in crate::observe) const OPEN_CONTENT_TYPE: &str =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) fn render(registry: &Registry) -> String {
    name_counters(&render_families(registry))
}

pub(super) fn render_open(registry: &Registry) -> String {
    let mut text = render_families(registry);
    let _ = encode_eof(&mut text);
    text
}

fn render_families(registry: &Registry) -> String {
    let mut text = String::with_capacity(16 * 1024);
    // Writing to memory cannot fail, and a failed collector leaves whole lines.
    let _ = encode_registry(&mut text, registry);
    text
}

/// Whether a request names OpenMetrics in `Accept`, with a weight other than zero (RFC 9110, 12.4.2). A range such as
/// `*/*` does not name it.
pub(in crate::observe) fn accepts_open_metrics(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter();
    lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).any(|range| {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let is_named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(OPEN_METRICS));
        is_named && !parts.any(is_zero_weight)
    })
}

fn is_zero_weight(parameter: &[u8]) -> bool {
    matches!(parameter, [b'q' | b'Q', b'=', weight @ ..] if weight.iter().all(|digit| b"0.".contains(digit)))
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

const OPEN_METRICS: &[u8] = b"application/openmetrics-text";

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_a_scraper_that_names_open_metrics_gets_it() {
        let accepts =
            |line| accepts_open_metrics(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(line))]));
        for line in [
            // Prometheus 3 and 2.
            "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.1",
            "application/openmetrics-text; version=0.0.1,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "text/plain , Application/OpenMetrics-Text;q=0.01",
        ] {
            assert!(accepts(line), "{line}");
        }
        for line in [
            "",
            "*/*",
            "application/*",
            "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text; Q=0.000",
            "application/openmetrics-text2",
            "text/html;application/openmetrics-text",
        ] {
            assert!(!accepts(line), "{line}");
        }
        assert!(!accepts_open_metrics(&HeaderMap::new()));
    }

    #[test]
    fn a_counter_is_called_total_in_every_line_and_a_gauge_keeps_its_name() {
        let open = "# HELP a_b Help it.\n# TYPE a_b counter\na_b_total{x=\"y\"} 1\n\
                    # HELP c Now.\n# TYPE c gauge\nc 2\n";
        let plain = "# HELP a_b_total Help it.\n# TYPE a_b_total counter\na_b_total{x=\"y\"} 1\n\
                     # HELP c Now.\n# TYPE c gauge\nc 2\n";
        assert_eq!(name_counters(open), plain);
    }
}
