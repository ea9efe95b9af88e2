//! Formats that people wrote themselves: nginx' `log_format`, Apache's `LogFormat`, and the columns of IIS and of load balancers
//! of AWS.
//!
//! A pattern is a row of columns with fixed text between them. A column is the text until the next fixed text; a quote
//! that is escaped ends none. What a column means is left to `json`, which knows the variables of nginx by name.

use std::borrow::Cow;

use memchr::memmem;

use super::common::{quote, unescape};
use super::json::JsonFields;
use super::{LineError, LoggedRequest};

/// How a line is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPattern {
    columns: Vec<Column>,
    /// The text behind the last column; more may follow.
    end: Vec<u8>,
}

/// A column, and the text before it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    before: Vec<u8>,
    meaning: Meaning,
}

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meaning {
    /// What nginx' variable of this name holds.
    Variable(String),
    /// A list of addresses, of which the first one is the client where no other column names it.
    Forwarded,
    /// The day of a time.
    Date,
    /// The query of a target.
    Query,
    /// Milliseconds until the end.
    TookMillis,
    Unused,
}

/// Why a format cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogPatternError {
    /// It has no column.
    #[error(
        "a format has variables, as in '$remote_addr - - [$time_local] \"$request\" $status' or '%h - - %t \"%r\" %>s'"
    )]
    NoColumns,
    /// Nothing says where a column ends.
    #[error("nothing stands between `{0}` and what follows, so a line cannot be taken apart")]
    Adjacent(String),
    /// It lacks what a replay needs.
    #[error("the format has no {0}")]
    Missing(&'static str),
    /// A line `#Fields:` is missing.
    #[error("a log of IIS has a line that begins with #Fields:")]
    NoFields,
}

impl LogPattern {
    /// Reads `log_format` of nginx or `LogFormat` of Apache.
    ///
    /// # Errors
    /// See [`LogPatternError`].
    pub fn of(format: &str) -> Result<Self, LogPatternError> {
        let format = format.replace("\\\"", "\"").replace("\\t", "\t");
        let is_nginx = format.contains('$');
        let mut columns = Columns::default();
        let mut rest = &format[..];
        while let Some(at) = rest.find(if is_nginx { '$' } else { '%' }) {
            columns.text(&rest[..at]);
            rest = &rest[at + 1..];
            rest = if is_nginx { columns.nginx(rest)? } else { columns.apache(rest)? };
        }
        columns.text(rest.trim_end());
        columns.finish()
    }

    /// The access log of an Application Load Balancer.
    ///
    /// # Errors
    /// None in practice: the format is fixed.
    pub fn of_load_balancer() -> Result<Self, LogPatternError> {
        Self::of(LOAD_BALANCER)
    }

    /// The columns that a line `#Fields:` of IIS names (W3C Extended Log File Format).
    ///
    /// # Errors
    /// See [`LogPatternError`].
    pub fn of_fields(line: &str) -> Result<Self, LogPatternError> {
        let names = line.strip_prefix("#Fields:").ok_or(LogPatternError::NoFields)?;
        let mut columns = Columns::default();
        for (at, name) in names.split_whitespace().enumerate() {
            columns.text(if at > 0 { " " } else { "" });
            let variable = |name: &str| Meaning::Variable(name.to_owned());
            columns.column(
                name,
                match name {
                    "date" => Meaning::Date,
                    "time" => variable("time"),
                    "c-ip" => variable("remote_addr"),
                    "cs-method" => variable("request_method"),
                    "cs-uri-stem" => variable("request_uri"),
                    "cs-uri-query" => Meaning::Query,
                    "cs-username" => variable("remote_user"),
                    "cs-host" => variable("host"),
                    "sc-status" => variable("status"),
                    "time-taken" => Meaning::TookMillis,
                    _ => Meaning::Unused,
                },
            )?;
        }
        columns.finish()
    }

    /// Whether it reads this line.
    pub(in crate::replay) fn reads(&self, line: &[u8]) -> bool {
        self.parse(line).is_ok()
    }

    pub(super) fn parse<'l>(&self, line: &'l [u8]) -> Result<LoggedRequest<'l>, LineError> {
        let (mut fields, mut rest) = (JsonFields::default(), line);
        for (at, column) in self.columns.iter().enumerate() {
            rest = rest.strip_prefix(&column.before[..]).ok_or(LineError::OtherFormat)?;
            let next = self.columns.get(at + 1).map_or(&self.end, |next| &next.before);
            let end = find_end(rest, next).ok_or(LineError::OtherFormat)?;
            fields.put(&column.meaning, unescape(&rest[..end]));
            rest = &rest[end..];
        }
        fields.into_request()
    }
}

/// Where the text that ends a column begins; no text ends it with the line.
fn find_end(rest: &[u8], next: &[u8]) -> Option<usize> {
    if next.is_empty() {
        return Some(rest.len());
    }
    if !next.starts_with(b"\"") {
        return memmem::find(rest, next);
    }
    let mut from = 0;
    loop {
        let at = from + quote(&rest[from..])?;
        if rest[at..].starts_with(next) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// A pattern in the making.
#[derive(Default)]
struct Columns {
    columns: Vec<Column>,
    text: Vec<u8>,
    latest: String,
}

impl Columns {
    fn text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    fn column(&mut self, name: &str, meaning: Meaning) -> Result<(), LogPatternError> {
        if self.text.is_empty() && !self.columns.is_empty() {
            return Err(LogPatternError::Adjacent(self.latest.clone()));
        }
        name.clone_into(&mut self.latest);
        self.columns.push(Column { before: std::mem::take(&mut self.text), meaning });
        Ok(())
    }

    /// Takes a variable behind `$`. Returns what follows.
    fn nginx<'f>(&mut self, rest: &'f str) -> Result<&'f str, LogPatternError> {
        let (name, rest) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some(braced) => braced,
            None => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        let meaning = match name {
            "http_x_forwarded_for" => Meaning::Forwarded,
            _ => Meaning::Variable(name.to_owned()),
        };
        self.column(name, meaning).map(|()| rest)
    }

    /// Takes a directive behind `%` (Apache, mod_log_config). Returns what follows.
    fn apache<'f>(&mut self, rest: &'f str) -> Result<&'f str, LogPatternError> {
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || "!,<>".contains(c));
        let (name, rest) = match rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            Some((name, rest)) => (name.to_ascii_lowercase(), rest),
            None => (String::new(), rest),
        };
        let mut letters = rest.chars();
        let letter = letters.next().unwrap_or('%');
        let rest = letters.as_str();
        let variable = |name: &str| Meaning::Variable(name.to_owned());
        let meaning = match (letter, &*name) {
            ('%', _) => {
                self.text("%");
                return Ok(rest);
            }
            ('t', "") => {
                self.text("[");
                self.column("%t", variable("time_local"))?;
                self.text("]");
                return Ok(rest);
            }
            ('U', _) if rest.starts_with("%q") => {
                return self.column("%U%q", variable("request_uri")).map(|()| &rest[2..]);
            }
            ('h' | 'a', "") => variable("remote_addr"),
            ('u', _) => variable("remote_user"),
            ('t', "sec" | "msec" | "usec") => variable("msec"),
            ('r', _) => variable("request"),
            ('s', _) => variable("status"),
            ('m', _) => variable("request_method"),
            ('U', _) => variable("request_uri"),
            ('q', _) => Meaning::Query,
            ('v' | 'V', _) | ('i', "host") => variable("host"),
            ('i', "x-forwarded-for") => Meaning::Forwarded,
            ('o', "location") => variable("sent_http_location"),
            _ => Meaning::Unused,
        };
        self.column(&format!("%{letter}"), meaning).map(|()| rest)
    }

    fn finish(self) -> Result<LogPattern, LogPatternError> {
        if self.columns.is_empty() {
            return Err(LogPatternError::NoColumns);
        }
        let has = |names: &[&str]| {
            self.columns.iter().any(|column| match &column.meaning {
                Meaning::Variable(name) => names.contains(&&**name),
                Meaning::Forwarded => names.contains(&"remote_addr"),
                _ => false,
            })
        };
        let needed: [(&'static str, &[&str]); 4] = [
            ("address of the client: $remote_addr or %h", &["remote_addr"]),
            ("time: $time_local or %t", &["time_local", "time_iso8601", "msec", "time"]),
            ("request: $request or %r", &["request", "request_uri"]),
            ("status: $status or %>s", &["status"]),
        ];
        match needed.into_iter().find(|(_, names)| !has(names)) {
            Some((what, _)) => Err(LogPatternError::Missing(what)),
            None => Ok(LogPattern { columns: self.columns, end: self.text }),
        }
    }
}

impl<'a> JsonFields<'a> {
    fn put(&mut self, meaning: &Meaning, value: Cow<'a, str>) {
        let is_absent = matches!(&*value, "" | "-");
        match meaning {
            Meaning::Variable(name) if name == "request" => self.request = value.into(),
            Meaning::Variable(name) if name == "time" && !self.time.is_absent() => {
                let date = self.time.text().unwrap_or_default();
                self.time = Cow::<str>::Owned(format!("{date}T{value}Z")).into();
            }
            Meaning::Variable(_) if is_absent => {}
            Meaning::Variable(name) => {
                if let Some(slot) = self.slot(name) {
                    *slot = value.into();
                }
            }
            Meaning::Forwarded if !is_absent && self.client.is_absent() => {
                let first = value.split(',').next().unwrap_or_default().trim().to_owned();
                self.client = Cow::<str>::Owned(first).into();
            }
            Meaning::Date => self.time = value.into(),
            Meaning::Query if !is_absent => {
                let path = self.target.text().unwrap_or_default();
                let query = value.strip_prefix('?').unwrap_or(&value);
                self.target = Cow::<str>::Owned(format!("{path}?{query}")).into();
            }
            Meaning::TookMillis => {
                self.took =
                    value.parse::<f64>().map_or_else(|_| value.into(), |millis| (millis / 1e3).into());
            }
            Meaning::Forwarded | Meaning::Query | Meaning::Unused => {}
        }
    }
}

/// Elastic Load Balancing, "Access logs for your Application Load Balancer"; later fields are not read.
const LOAD_BALANCER: &str =
    "$type $time_iso8601 $elb $remote_addr $target $a $b $c $status $d $e $f \"$request\"";

#[cfg(test)]
mod tests {
    use super::*;

    fn read(format: &str, line: &str) -> String {
        shown(&LogPattern::of(format).unwrap(), line)
    }

    fn shown(pattern: &LogPattern, line: &str) -> String {
        match pattern.parse(line.as_bytes()) {
            Ok(request) => format!(
                "{} {} {} {} {:?} {:?} {}",
                request.client.ip().map_or_else(String::new, |ip| ip.to_string()),
                request.method,
                request.target,
                request.status,
                request.host,
                request.user,
                request.arrived.as_nanos() / 1_000_000
            ),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn formats_of_nginx_are_read_by_their_variables() {
        let upstreams =
            r#"$http_x_real_ip|$remote_addr|$status|"$request"|$request_time|$msec|$upstream_addr"#;
        let line = r#"-|203.0.113.9|401|"POST /login?a=\x22 HTTP/1.1"|0.500|1795000000.250|10.0.0.1:80"#;
        assert_eq!(read(upstreams, line), r#"203.0.113.9 POST /login?a=" 401 None None 1794999999750"#);
        let behind = r#"$host "$http_x_forwarded_for" [$time_local] "${request_method} $request_uri $server_protocol" $status"#;
        let line =
            r#"app.test "2001:db8::7, 10.0.0.2" [20/Nov/2026:23:21:52 +0000] "POST /login HTTP/2.0" 200"#;
        assert_eq!(read(behind, line), r#"2001:db8::7 POST /login 200 Some("app.test") None 1795216912000"#);
    }

    #[test]
    fn formats_of_apache_are_read_by_their_directives() {
        let combined = r#"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""#;
        let line = r#"app.test:443 203.0.113.9 - anna [20/Nov/2026:23:21:52 +0100] "POST /login HTTP/1.1" 401 10 "-" "a \"b\"""#;
        assert_eq!(
            read(combined, line),
            r#"203.0.113.9 POST /login 401 Some("app.test") Some("anna") 1795213312000"#
        );
        let parts = "%{X-Forwarded-For}i %t %m %U%q %s %D";
        let line = "203.0.113.9 [20/Nov/2026:23:21:52 +0000] GET /a?b=c 200 17";
        assert_eq!(read(parts, line), "203.0.113.9 GET /a?b=c 200 None None 1795216912000");
    }

    #[test]
    fn columns_of_iis_and_of_a_load_balancer_are_read() {
        let fields = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken";
        let pattern = LogPattern::of_fields(fields).unwrap();
        let line = "2026-11-20 23:21:52 10.0.0.1 POST /owa/auth.owa replaceCurrent=1 443 - 203.0.113.9 Mozilla/5.0+(x) 302 250";
        assert_eq!(
            shown(&pattern, line),
            "203.0.113.9 POST /owa/auth.owa?replaceCurrent=1 302 None None 1795216911750"
        );
        let pattern = LogPattern::of_load_balancer().unwrap();
        let line = r#"https 2026-11-20T23:21:52.000000Z app/a/5 203.0.113.9:2817 10.0.0.1:80 0.0 0.1 0.0 401 401 34 366 "POST https://app.test:443/login HTTP/2.0" "curl" - -"#;
        assert_eq!(
            shown(&pattern, line),
            "203.0.113.9 POST https://app.test:443/login 401 None None 1795216912000"
        );
    }

    #[test]
    fn a_format_that_takes_no_line_apart_is_refused() {
        let error = |format: &str| LogPattern::of(format).unwrap_err().to_string();
        assert!(error("combined").starts_with("a format has variables"));
        assert_eq!(
            error("$remote_addr$status"),
            "nothing stands between `remote_addr` and what follows, so a line cannot be taken apart"
        );
        assert_eq!(error("$remote_addr [$time_local] $status"), "the format has no request: $request or %r");
        let other = LogPattern::of("$remote_addr [$time_local] \"$request\" $status").unwrap();
        assert_eq!(other.parse(b"203.0.113.9 - -"), Err(LineError::OtherFormat));
    }
}
