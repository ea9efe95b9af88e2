//! A reader of recorded requests that refuses whatever two servers could read differently.
//!
//! Deliberately stricter than RFC 9112, and written without any HTTP library: this is the second opinion on what
//! the gate sends to an upstream. A request that is cut off is not ambiguous, as long as what is there is clean.

/// What one connection carried.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    pub requests: Vec<Request>,
    /// Whether a last request was cut off.
    pub disconnected: bool,
}

/// One complete request.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub target: String,
    /// Names as sent, values without the blanks around them.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Why two servers could read the bytes differently.
pub type Ambiguity = String;

impl Request {
    /// The values of all headers whose name is this one, in any case.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let lines = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.as_str()).collect()
    }

    /// The value of the only header of this name; empty if there is none.
    pub fn only(&self, name: &str) -> &str {
        let all = self.all(name);
        assert!(all.len() <= 1, "{name} was sent {} times: {all:?}", all.len());
        all.first().copied().unwrap_or_default()
    }

    /// Names as CGI and PHP know them: in upper case, with everything but letters and digits an underscore.
    pub fn names_as_cgi(&self) -> Vec<String> {
        let fold = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.headers.iter().map(|(name, _)| name.chars().map(fold).collect()).collect()
    }
}

/// All requests of a connection.
pub fn parse(mut bytes: &[u8]) -> Result<Recorded, Ambiguity> {
    let mut found = Recorded::default();
    while !bytes.is_empty() {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            check_lines(bytes)?;
            found.disconnected = true;
            break;
        };
        let mut request = parse_head(&bytes[..end])?;
        bytes = &bytes[end + 4..];
        let Some((body, rest)) = take_body(&request, bytes)? else {
            found.disconnected = true;
            break;
        };
        request.body = body;
        found.requests.push(request);
        bytes = rest;
    }
    Ok(found)
}

fn parse_head(head: &[u8]) -> Result<Request, Ambiguity> {
    check_lines(head)?;
    let text: String = head.iter().copied().map(char::from).collect();
    let mut lines = text.split("\r\n");
    let line = lines.next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return Err(format!("request line {line:?}")) };
    let origin_form = target.starts_with('/') || (target == "*" && method == "OPTIONS");
    if !method.bytes().all(is_token) || method.is_empty() || !origin_form || version != "HTTP/1.1" {
        return Err(format!("request line {line:?}"));
    }
    if target.chars().any(|byte| byte <= ' ' || byte == '\u{7F}') || target.contains('#') {
        return Err(format!("target {target:?}"));
    }
    let headers = lines.map(parse_field).collect::<Result<Vec<_>, _>>()?;
    let request = Request { method: method.into(), target: target.into(), headers, body: Vec::new() };
    check_host(&request)?;
    check_framing(&request)?;
    Ok(request)
}

/// No bare CR or LF, no control byte but the tab.
fn check_lines(bytes: &[u8]) -> Result<(), Ambiguity> {
    for (at, &byte) in bytes.iter().enumerate() {
        let fine = match byte {
            b'\r' => bytes.get(at + 1).is_none_or(|&next| next == b'\n'),
            b'\n' => at > 0 && bytes[at - 1] == b'\r',
            b'\t' => true,
            0..0x20 | 0x7F => false,
            _ => true,
        };
        if !fine {
            return Err(format!("byte {byte:#04x} at {at}"));
        }
    }
    Ok(())
}

fn parse_field(line: &str) -> Result<(String, String), Ambiguity> {
    let Some((name, value)) = line.split_once(':') else { return Err(format!("header line {line:?}")) };
    // A blank before the colon and a folded line are both names that are not tokens.
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("header name {name:?}"));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn check_host(request: &Request) -> Result<(), Ambiguity> {
    let hosts = request.all("host");
    let is_plain =
        |host: &str| host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~!$&'()*+;=:[]%".contains(&b));
    match hosts[..] {
        [host] if !host.is_empty() && is_plain(host) => Ok(()),
        _ => Err(format!("Host {hosts:?}")),
    }
}

fn check_framing(request: &Request) -> Result<(), Ambiguity> {
    for folded in ["TRANSFER_ENCODING", "CONTENT_LENGTH", "HOST"] {
        let aliases = request.names_as_cgi().iter().filter(|name| *name == folded).count();
        if aliases > request.all(&folded.replace('_', "-")).len() {
            return Err(format!("an alias of {folded}"));
        }
    }
    let (codings, lengths) = (request.all("transfer-encoding"), request.all("content-length"));
    match (&codings[..], &lengths[..]) {
        ([], []) => Ok(()),
        (["chunked"], []) => Ok(()),
        ([], [length]) if is_canonical(length, 10) => Ok(()),
        _ => Err(format!("Transfer-Encoding {codings:?}, Content-Length {lengths:?}")),
    }
}

/// The body and what follows it; `None` if it is cut off.
type Body<'a> = Option<(Vec<u8>, &'a [u8])>;

fn take_body<'a>(request: &Request, bytes: &'a [u8]) -> Result<Body<'a>, Ambiguity> {
    if !request.all("transfer-encoding").is_empty() {
        return take_chunks(bytes);
    }
    let length = match request.only("content-length") {
        "" => 0,
        digits => digits.parse().map_err(|_| format!("Content-Length {digits}"))?,
    };
    Ok(bytes.get(..length).map(|body| (body.to_vec(), &bytes[length..])))
}

fn take_chunks(mut bytes: &[u8]) -> Result<Body<'_>, Ambiguity> {
    let mut body = Vec::new();
    loop {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line = String::from_utf8_lossy(&bytes[..=end]).into_owned();
        let digits = line.strip_suffix("\r\n").unwrap_or("-");
        if !is_canonical(&digits.to_ascii_lowercase(), 16) || digits.len() > 8 {
            return Err(format!("chunk size {line:?}"));
        }
        let length = usize::from_str_radix(digits, 16).map_err(|_| format!("chunk size {line:?}"))?;
        bytes = &bytes[end + 1..];
        if length == 0 {
            return Ok(take_trailers(bytes)?.map(|rest| (body, rest)));
        }
        let Some(chunk) = bytes.get(..length + 2) else {
            return if bytes.len() < length + 2 { Ok(None) } else { Err("chunk".into()) };
        };
        if !chunk.ends_with(b"\r\n") {
            return Err(format!("the end of a chunk of {length} bytes"));
        }
        body.extend_from_slice(&chunk[..length]);
        bytes = &bytes[length + 2..];
    }
}

/// What follows the trailers, which say nothing that a header would mean; `None` if they are cut off.
fn take_trailers(mut bytes: &[u8]) -> Result<Option<&[u8]>, Ambiguity> {
    loop {
        let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return Ok(None) };
        let line: String = bytes[..=end].iter().copied().map(char::from).collect();
        let line = line.strip_suffix("\r\n").ok_or_else(|| format!("trailer {line:?}"))?;
        bytes = &bytes[end + 1..];
        if line.is_empty() {
            return Ok(Some(bytes));
        }
        let (name, _) = parse_field(line)?;
        let meaning =
            ["content-", "transfer-", "x-forwarded-", "host", "cookie", "authorization", "connection"];
        if meaning.iter().any(|begin| name.to_ascii_lowercase().starts_with(begin)) {
            return Err(format!("trailer {line:?}"));
        }
    }
}

/// Digits only, and no leading zero.
fn is_canonical(digits: &str, radix: u32) -> bool {
    !digits.is_empty()
        && digits.len() <= 18
        && digits.chars().all(|c| c.is_digit(radix))
        && (digits == "0" || !digits.starts_with('0'))
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
