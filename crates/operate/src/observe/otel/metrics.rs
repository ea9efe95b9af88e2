//! The metrics of `/metrics` as OTLP: the same names, labels and values.
//!
//! It reads the text that Prometheus would get, so that the two cannot differ. What is counted is left to
//! [`Metrics`](crate::observe::metrics::Metrics).

use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint, Sum,
};

use super::resource::text;
use crate::time::Time;

/// The metrics of a page in Prometheus' text format, counted since `started`.
pub(super) fn metrics_of(page: &str, started: Time, now: Time) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut help = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' '))
        {
            metrics.push(metric(name, help, kind));
        } else if let (Some(metric), Some(sample)) = (metrics.last_mut(), Sample::parse(line)) {
            add(metric, &sample, started, now);
        }
    }
    metrics
}

/// One line of the page.
struct Sample<'p> {
    name: &'p str,
    labels: Vec<(&'p str, String)>,
    value: f64,
}

impl<'p> Sample<'p> {
    /// `NAME{LABEL="VALUE",...} NUMBER`; the braces may be absent.
    fn parse(line: &'p str) -> Option<Self> {
        let (series, value) = line.rsplit_once(' ')?;
        let (name, labels) = series.split_once('{').unwrap_or((series, ""));
        Some(Self {
            name,
            labels: parse_labels(labels.strip_suffix('}').unwrap_or(labels)),
            value: value.parse().ok()?,
        })
    }

    fn attributes(&self) -> Vec<KeyValue> {
        self.labels.iter().filter(|(name, _)| *name != "le").map(|(name, value)| text(name, value)).collect()
    }

    /// The upper bound of a histogram's bucket.
    fn bound(&self) -> Option<f64> {
        self.labels.iter().find(|(name, _)| *name == "le").and_then(|(_, bound)| bound.parse().ok())
    }
}

/// A value may hold `\\`, `\"` and `\n`.
fn parse_labels(mut rest: &str) -> Vec<(&str, String)> {
    let mut labels = Vec::new();
    while let Some((name, quoted)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut letters = quoted.char_indices();
        let end = loop {
            match letters.next() {
                None => break quoted.len(),
                Some((at, '"')) => break at + 1,
                Some((_, '\\')) => match letters.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, letter)) => value.push(letter),
                    None => break quoted.len(),
                },
                Some((_, letter)) => value.push(letter),
            }
        };
        labels.push((name.trim_start_matches(','), value));
        rest = quoted.get(end..).unwrap_or_default();
    }
    labels
}

/// A metric without points.
fn metric(name: &str, help: &str, kind: &str) -> Metric {
    let aggregation_temporality = AggregationTemporality::Cumulative as i32;
    let data_points = Vec::new();
    let data = match kind {
        "counter" => Data::Sum(Sum { data_points, aggregation_temporality, is_monotonic: true }),
        "histogram" => Data::Histogram(Histogram { data_points: Vec::new(), aggregation_temporality }),
        _ => Data::Gauge(Gauge { data_points }),
    };
    let unit = if name.ends_with("_seconds") || name.ends_with("_seconds_total") {
        "s"
    } else if name.ends_with("_bytes") {
        "By"
    } else {
        ""
    };
    Metric {
        name: name.to_owned(),
        description: help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
        ..Metric::default()
    }
}

fn add(metric: &mut Metric, sample: &Sample<'_>, started: Time, now: Time) {
    let start = match &metric.data {
        Some(Data::Gauge(_)) => 0,
        _ => started.as_nanos(),
    };
    let point = || NumberDataPoint {
        attributes: sample.attributes(),
        start_time_unix_nano: start,
        time_unix_nano: now.as_nanos(),
        value: Some(Value::AsDouble(sample.value)),
        ..NumberDataPoint::default()
    };
    match &mut metric.data {
        Some(Data::Sum(sum)) => sum.data_points.push(point()),
        Some(Data::Gauge(gauge)) => gauge.data_points.push(point()),
        Some(Data::Histogram(histogram)) => {
            let part = sample.name.strip_prefix(&metric.name).unwrap_or_default();
            add_to_histogram(&mut histogram.data_points, part, sample, start, now);
        }
        _ => {}
    }
}

/// A series begins with its `_sum`; its buckets are cumulative there, and are not in OTLP.
fn add_to_histogram(
    points: &mut Vec<HistogramDataPoint>,
    part: &str,
    sample: &Sample<'_>,
    start: u64,
    now: Time,
) {
    if part == "_sum" {
        points.push(HistogramDataPoint {
            attributes: sample.attributes(),
            start_time_unix_nano: start,
            time_unix_nano: now.as_nanos(),
            sum: Some(sample.value),
            ..HistogramDataPoint::default()
        });
    }
    let Some(point) = points.last_mut() else { return };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of at most 2^53")]
    let count = sample.value as u64;
    match part {
        "_count" => point.count = count,
        "_bucket" => {
            let below: u64 = point.bucket_counts.iter().sum();
            point.bucket_counts.push(count.saturating_sub(below));
            point.explicit_bounds.extend(sample.bound().filter(|bound| bound.is_finite()));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# HELP a_total Things.\n# TYPE a_total counter\n\
        a_total{route=\"login\",limit=\"a \\\"b\\\\, {c}\"} 3\na_total{route=\"x\",limit=\"y\"} 0\n\
        # HELP b_seconds Time.\n# TYPE b_seconds histogram\n\
        b_seconds_sum 1.5\nb_seconds_count 4\n\
        b_seconds_bucket{le=\"0.1\"} 1\nb_seconds_bucket{le=\"1.0\"} 3\nb_seconds_bucket{le=\"+Inf\"} 4\n\
        # HELP c Now.\n# TYPE c gauge\nc -2.5\n";

    fn metrics() -> Vec<Metric> {
        metrics_of(PAGE, Time::from_nanos(5), Time::from_nanos(9))
    }

    #[test]
    fn a_counter_keeps_its_name_its_labels_and_its_start() {
        let metrics = metrics();
        assert_eq!((&*metrics[0].name, &*metrics[0].description), ("a_total", "Things."));
        let Some(Data::Sum(sum)) = &metrics[0].data else { unreachable!() };
        assert!(sum.is_monotonic && sum.data_points.len() == 2);
        let point = &sum.data_points[0];
        assert_eq!(point.attributes, [text("route", "login"), text("limit", "a \"b\\, {c}")]);
        assert_eq!(point.value, Some(Value::AsDouble(3.0)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (5, 9));
    }

    #[test]
    fn the_buckets_of_a_histogram_are_counted_each_for_itself() {
        let metrics = metrics();
        let Some(Data::Histogram(histogram)) = &metrics[1].data else { unreachable!() };
        let [point] = &histogram.data_points[..] else { unreachable!() };
        assert_eq!((&*metrics[1].unit, point.sum, point.count), ("s", Some(1.5), 4));
        assert_eq!((&point.bucket_counts[..], &point.explicit_bounds[..]), (&[1, 2, 1][..], &[0.1, 1.0][..]));
    }

    #[test]
    fn a_gauge_has_no_start() {
        let metrics = metrics();
        let Some(Data::Gauge(gauge)) = &metrics[2].data else { unreachable!() };
        assert_eq!(gauge.data_points[0].value, Some(Value::AsDouble(-2.5)));
        assert_eq!(gauge.data_points[0].start_time_unix_nano, 0);
    }
}
