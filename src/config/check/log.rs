//! `[log]` and `[otel]`: levels, formats, where lines go, and where spans, metrics and decisions are exported to.

use std::path::Path;

use tollgate_grammar::diagnostic::nearest;
use tollgate_grammar::kind::Checked as _;
use tollgate_grammar::{Findings, Located, Syntax as _};

use super::super::values::{CollectorUrl, SyslogTarget};
use super::super::{features, raw};
use crate::observe::settings::{DecisionLog, DecisionSchema, LogSettings, LogTarget, OtelSettings};
use crate::time::Span;

/// `[log]`.
pub(super) fn log(raw: &raw::RawLog, base: &Path, f: &mut Findings) -> LogSettings {
    let decisions = raw.decisions.as_deref().map_or(DecisionLog::Summary, |text| decisions(text, base, f));
    let access = match &raw.access {
        Some(path) => stream_or_file(&path.value, base),
        // A stream holds one log.
        None if decisions == DecisionLog::Every(LogTarget::StandardOutput) => None,
        None => Some(LogTarget::StandardOutput),
    };
    refuse_one_target(raw.decisions.as_deref(), access.as_ref(), &decisions, f);
    let schema = raw.schema.checked(f).unwrap_or_default();
    if schema != DecisionSchema::Tollgate {
        refuse_schema_without_lines(raw, f);
    }
    let retention = raw.retention.checked(f).filter(|retention| *retention != Span::ZERO);
    if retention.is_some() {
        refuse_retention_without_files(raw, access.as_ref(), &decisions, f);
    }
    LogSettings {
        level: raw.level.checked(f).unwrap_or_default(),
        format: raw.format.checked(f).unwrap_or_default(),
        access,
        decisions,
        schema,
        style: raw.style.checked(f).unwrap_or_default(),
        clients: raw.clients.checked(f).unwrap_or_default(),
        retention,
    }
}

/// `decisions`: a word, a syslog server, a stream or a file.
fn decisions(text: &Located<String>, base: &Path, f: &mut Findings) -> DecisionLog {
    let given = text.value.as_str();
    if given == "summary" {
        return DecisionLog::Summary;
    }
    if given.starts_with("syslog:") {
        let target = SyslogTarget::read(text, f).map(|SyslogTarget(address)| LogTarget::Syslog(address));
        return target.map_or(DecisionLog::Off, DecisionLog::Every);
    }
    let meant = nearest(given, ["summary", "syslog", "none", "off"].into_iter());
    if let Some(word) = meant.filter(|_| given.len() > 1 && !given.contains('/')) {
        let hint = match word {
            "summary" => "write it as \"summary\", or ./ before the name of a file",
            "syslog" => "\"syslog:\" is the local syslog server",
            _ => "\"\" writes none",
        };
        f.error(&text.spot, format!("`{given}` is not a place for decisions"), hint);
    }
    stream_or_file(given, base).map_or(DecisionLog::Off, DecisionLog::Every)
}

/// `-` for standard output, a file next to the configuration, or nothing for none.
fn stream_or_file(text: &str, base: &Path) -> Option<LogTarget> {
    match text {
        "" => None,
        "-" => Some(LogTarget::StandardOutput),
        path => Some(LogTarget::File(base.join(path))),
    }
}

/// Two logs at one place: each has its own thread, and would tear the other's lines.
fn refuse_one_target(
    text: Option<&Located<String>>,
    access: Option<&LogTarget>,
    decisions: &DecisionLog,
    f: &mut Findings,
) {
    if let (Some(text), Some(access), DecisionLog::Every(target)) = (text, access, decisions)
        && access == target
    {
        let message = format!("`{}` is where the access log goes", text.value);
        f.error(&text.spot, message, "use another file, as in decisions = \"decisions.log\"");
    }
}

/// A schema where `decisions` writes no lines.
fn refuse_schema_without_lines(raw: &raw::RawLog, f: &mut Findings) {
    let writes_none = raw.decisions.as_deref().is_none_or(|text| matches!(&*text.value, "" | "summary"));
    if let Some(schema) = raw.schema.as_deref().filter(|_| writes_none) {
        let message = "the decision log that `schema` is about is missing";
        f.error(&schema.spot, message, "decisions = \"decisions.log\"");
    }
}

/// A retention where no log is a file.
fn refuse_retention_without_files(
    raw: &raw::RawLog,
    access: Option<&LogTarget>,
    decisions: &DecisionLog,
    f: &mut Findings,
) {
    let has_files = matches!(access, Some(LogTarget::File(_)))
        || matches!(decisions, DecisionLog::Every(LogTarget::File(_)));
    if let Some(retention) = raw.retention.as_deref().filter(|_| !has_files) {
        let message = "the log file that `retention` is about is missing";
        f.error(&retention.spot, message, "access = \"access.log\"");
    }
}

/// `[otel]`: `None` exports nothing; an empty endpoint means the same.
pub(super) fn otel(raw: &raw::RawOtel, f: &mut Findings) -> Option<OtelSettings> {
    let sample_ppm = raw.sample.checked(f).unwrap_or(DEFAULT_SAMPLE_PPM);
    let logs = raw.logs.checked(f).unwrap_or(false);
    let Some(endpoint) = raw.endpoint.as_ref().filter(|endpoint| !endpoint.value.is_empty()) else {
        let logs = raw.logs.as_ref().filter(|_| logs);
        let spots = [raw.sample.as_ref().map(|given| &given.spot), logs.map(|given| &given.spot)];
        for spot in spots.into_iter().flatten() {
            f.error(spot, "`otel.endpoint` is missing", "endpoint = \"http://127.0.0.1:4318\"");
        }
        return None;
    };
    if let Some(missing) = features::OTEL.missing() {
        f.error(&endpoint.spot, missing, features::HINT);
    }
    let CollectorUrl { host, port } = endpoint.checked(f)?;
    Some(OtelSettings { host, port, sample_ppm, logs })
}

/// One request of a hundred.
const DEFAULT_SAMPLE_PPM: u32 = 10_000;
