"""The words of the grammar: what methods, paths, names, headers and bodies may be; `edits.py` says where they go."""

# Methods.
METHODS = [
    "GET", "HEAD", "OPTIONS", "PUT", "PATCH", "DELETE", "TRACE", "PROPFIND", "SEARCH", "REPORT", "QUERY", "FOO",
    "post", "Post", "get", "M-SEARCH", "POSTS", "LOCK",
]
# Ways to write a field's name.
DRESSES = [
    "{}[]", "{}[0]", "{}[a]", "{}[", " {}", "+{}", "%20{}", "%00{}", "{}%00", "{}%00x", "{}%20", "{}.", "\ufeff{}",
    "&{}", "?{}", "{}%5b%5d", "{}[][]", "{};x", "x&{}", "%{}", "{}\t", "amp;{}", "\"{}\"", "{}\"; x=\"y", "{}\r\n",
    "{}\"; filename=\"x", "x\"; name=\"{}", "x\"; name*=\"utf-8''{}", "{}\\", "{}\u0000", "session[{}]", "x[{}",
]
# Content types.
TYPES = [
    "application/x-www-form-urlencoded; charset=utf-8", "APPLICATION/X-WWW-FORM-URLENCODED", None, "",
    "application/x-www-form-urlencoded;", "application/x-www-form-urlencoded, text/plain", "text/plain",
    "application/json", "application/json; charset=utf-16", "application/vnd.api+json", "text/json", "text/xml",
    "application/xml", "multipart/form-data", "multipart/form-data; boundary=\"part-of-a-form\"",
    "multipart/form-data; boundary=other; boundary=part-of-a-form", "multipart/mixed; boundary=part-of-a-form",
    "multipart/form-data; BOUNDARY=part-of-a-form", "multipart/form-data, boundary=part-of-a-form",
    "multipart/form-data; boundary=part-of-a-form; charset=utf-8", "multipart/form-data;boundary=part-of-a-form ",
    "application/x-url-encoded", "application/octet-stream", "x", "application/x-www-form-urlencoded\t",
    " multipart/form-data; x=y; boundary=part-of-a-form", "application/csp-report", "application/graphql",
    "multipart/form-data; boundary=part-of-a-form; boundary=x", "application/x-www-form-urlencoded; boundary=x",
    "multipart/x; boundary=part-of-a-form", "multipart/form-data; boundary*=utf-8''part-of-a-form",
]
# Character sets of a body.
CHARSETS = [
    "utf-16", "utf-16le", "utf-7", "cp037", "cp500", "utf-32", "utf-8-sig", "shift_jis",
]
# Headers of a part of a form.
PARTS = [
    "Content-Type: text/plain\r\n", "Content-Transfer-Encoding: base64\r\n",
    "Content-Type: text/plain; charset=utf-16\r\n", "Content-Type: application/json\r\n",
    "Content-Disposition: form-data; name=x\r\n", " folded\r\n", "X: y\r\n",
]
# Ways to say how long a body is.
FRAMINGS = [
    "chunked", "small", "extension", "CHUNKED", "quoted", "both", "none", "zero", "plus", "close", "trailer",
    "identity", "gzip-chunked", "comma", "half-close",
]
# Forms of a target.
TARGETS = [
    "http://app.example{path}", "HTTP://APP.EXAMPLE{path}", "https://app.example{path}", "http://other.example{path}",
    "http://user@app.example{path}", "//app.example{path}", "http://app.example:80{path}", "{path}#x", "{path}?", "*",
    "{path}?#", "http:{path}", "app.example{path}",
]
# What a path may go on with.
SUFFIXES = [
    ".json", ".html", ".xml", ".js", ".php", "/", "//", "/x", "/x.php", "/.", "/..", "/./", "/index.php", "/login",
    "%20", "+", ".", "..", ";x", ";x=1", ";jsessionid=1", "%3bx", "%00", "%00.html", "%0a", "%3f", "%23", "%2e",
    "%2ejson", "%2f", "%5c", "~", "::$DATA", ".php.", "/%2e", "%c0%ae", "\\", "%09", "%252f", ".css", "/x/..", "/*",
    "%ff", "/index.php/", ".json?", "|", ":", "@", "%80", "\xe9", ".%6ason",
]
# What may stand before a path.
PREFIXES = [
    "/", "/.", "/..", "/x/..", "/index.php", "/;x", "/%2e", "/foo", "/%2f", "/x%2f..", "/.;", "/..;", "/x/..;",
    "/%5c..", "/x/%2e%2e", "\\", "/%20", "/en", "/admin", "/api", "/public", "/./.", "//x/../..", "/%c0%ae",
    "/index.php?", "/home.php",
]
# What may stand in a path.
INSERTS = [
    "/", "./", "x/../", "%2e/", ";a=b/", "%2f", "..;/", ";/", "%5c", "\\", "%00", "%20", "%09", "\t", "%e2%80%8b",
    ".;/", "%0d%0a", "+", "%c0%af", "%ef%bc%8f", "x/..;/", "//x/..//", "%2e%2e/", "~", "%u002f", "%25",
]
# Parameters of a query.
QUERIES = [
    "a=b", "_method=POST", "_method=GET", "_method=PUT", "format=json", "_format=json", "x[]=1", "%00", "a;b", "=",
    "&", "?", "rest_route=/", "debug=1", "XDEBUG_SESSION=1", "wsdl", "callback=x", "a=%", "jsessionid=1",
    "HTTP_HOST=x", "PATH_INFO=/", "_route=/", "route=/", "a=b;c=d", "__proto__[x]=1",
]
QUERIES += ["next=" + "n" * 60_000, "note=" + "n" * 60_000]
# Lengths around the bounds of servers and of the gate.
LONG = [
    3000, 8000, 20000, 30000, 66000, 72000, 200000,
]
# Values that come back in an answer.
ODD = [
    "", "/home", "/home.php", "http://other.example/home", "\r\nSet-Cookie: SESSION=1", "//home", "\u0000", "?error",
    "/home?error=1", "../home", "/admin/", "/wp-admin/", "\xff", "\xc3\xa9\xc3\xa8", "javascript:1", "https://[",
    "\\home", "0", "%",
]
# Headers that say another method.
OVERRIDES = [
    "X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override", "X_HTTP_Method_Override", "X-HTTP_METHOD_OVERRIDE",
    "X.Http.Method.Override", "_method", "X-HTTP-METHOD-override", "X-Original-Method", "X-Forwarded-Method",
]
# Headers that say another path; an empty value is the path itself.
SCRIPTS = [
    ["SCRIPT_NAME", "/foo"], ["Script-Name", "/foo"], ["X-Script-Name", "/foo"], ["X-Forwarded-Prefix", "/foo"],
    ["SCRIPT.NAME", "/foo"], ["X-Original-URL", ""], ["X-Rewrite-URL", ""], ["X-Original-URI", ""],
    ["X-Forwarded-Uri", ""], ["X-Accel-Redirect", ""], ["PATH_INFO", ""], ["Path-Info", ""], ["X-Forwarded-Path", ""],
    ["X-Sendfile", ""], ["Request-Uri", ""], ["REQUEST_URI", ""],
]
# Headers that say who the client is.
FORWARDED = [
    ["X-Forwarded-For", "10.0.0.1"], ["X-Forwarded-For", "127.1.0.1"], ["X-Forwarded-For", "127.1.0.1, 127.1.0.1"],
    ["X-Forwarded-For", "unknown"], ["X-Forwarded-For", ","], ["X-Forwarded-For", "[::ffff:127.1.0.1]:80"],
    ["Forwarded", "for=203.0.113.7;host=\"a\\\", for=8.8.8.8;x=\\\"b\""], ["Forwarded", "for=127.1.0.1"],
    ["Forwarded", "for=8.8.8.8;host=\"x"], ["Forwarded", "for=\"8.8.8.8\\"], ["Forwarded", "for=\"[::1]"], ["Forwarded", "for=_x;"],
    ["Forwarded", "by=x;for=\"127.1.0.1:80\""], ["Forwarded", ", , for=10.0.0.1"],
    ["X-Real-IP", "127.1.0.1"], ["Client-IP", "127.1.0.1"], ["CF-Connecting-IP", "127.1.0.1"],
    ["True-Client-IP", "127.1.0.1"], ["X_Forwarded_For", "127.1.0.1"], ["X-Forwarded-For", "10.0.0.1\t"],
    ["X-Forwarded-For", ""], ["X-Forwarded-Proto", "https"], ["X-Forwarded-Host", "other.example"],
    ["X-Forwarded-Port", "443"], ["X-Forwarded-Scheme", "https"], ["X-Forwarded-Ssl", "on"], ["Via", "1.1 x"],
]
FORWARDED += [["X-Forwarded-For", ", ".join(f"10.0.0.{n}" for n in range(1, 41))]]
FORWARDED += [["X-Forwarded-For", ", ".join(["127.1.0.1"] * 33)]]
# All other headers.
HEADERS = [
    ["Range", "bytes=0-0"], ["Range", "bytes=99999-"], ["Range", "bytes=0-10,20-30"], ["Range", "bytes=-1"],
    ["If-Range", "\"x\""], ["If-None-Match", "*"], ["If-Match", "\"x\""],
    ["If-Modified-Since", "Fri, 31 Dec 2100 23:59:59 GMT"], ["If-None-Match", "\"\""],
    ["If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT"], ["Expect", "100-continue"],
    ["Expect", "100-Continue, x"], ["Expect", "x"], ["Accept-Encoding", "gzip"],
    ["Accept-Encoding", "br, zstd, deflate"], ["Accept-Encoding", "identity;q=0"], ["Accept", "application/json"],
    ["Accept", "x"], ["Accept", ""], ["Accept", "text/html;level=1"], ["Accept-Charset", "utf-16"],
    ["Connection", "close"], ["Connection", "Authorization"], ["Connection", "Cookie"], ["Connection", "Content-Type"],
    ["Connection", "Content-Length"], ["Connection", "X-Forwarded-For"], ["Connection", "Host"],
    ["Connection", "Transfer-Encoding"], ["Upgrade", "websocket"], ["Upgrade", "h2c"], ["TE", "trailers"],
    ["Max-Forwards", "0"], ["Keep-Alive", "timeout=0"], ["Origin", "http://other.example"], ["Origin", "null"],
    ["Referer", "http://other.example/"], ["X-Requested-With", "XMLHttpRequest"],
    ["Access-Control-Request-Method", "POST"], ["Cache-Control", "only-if-cached"], ["Pragma", "no-cache"],
    ["Authorization", "Bearer x"], ["Authorization", "Basic"], ["Authorization", "Basic ="],
    ["Proxy-Authorization", "Basic eDp5"], ["Content-Disposition", "form-data"], ["Content-Range", "bytes 0-9/10"],
    ["Content-Location", "/x"], ["Content-MD5", "x"], ["Prefer", "respond-async"], ["X-Forwarded-User", "margaret"],
    ["Remote-User", "margaret"], ["REMOTE_USER", "margaret"], ["User-Agent", ""],
    ["Content-Length", "0"], ["Content_Length", "0"], ["Content_Type", "text/plain"], ["Transfer_Encoding", "chunked"],
    ["X-CSRF-Token", "x"], ["Proxy", "http://127.0.0.1"], ["Depth", "0"], ["Destination", "/x"],
    ["Sec-Fetch-Mode", "navigate"], ["Early-Data", "1"], ["HTTP2-Settings", "AAMAAABkAAQAAP__"],
    ["Trailer", "Authorization"], ["Alt-Used", "x"],

]
HEADERS += [
    ["Accept-Language", "x" * 2_000], ["Cookie", "a" * 6_000], ["User-Agent", "x" * 7_000], ["X-Request-Id", "x" * 300],
]
# Ways to write an Authorization header.
SCHEMES = [
    "basic {}", "BASIC {}", "Basic  {}", "Basic\t{}", "Basic {}=", " Basic {}", "Basic {} x", "Basic {},",
    "Basic\xa0{}", "Basic: {}", "Basic {}\xff", "Basic realm=x, {}", "Digest {}", "\"Basic\" {}", "Basic={}",
    "Basic {}\t", "Bearer x, Basic {}", "Basic \\{}",
]
# Cookies.
COOKIES = [
    "session=x", "JSESSIONID=x", "PHPSESSID=a", "a", "=b", "__Host-x=y", "a=\"b", "tollgate_device=x",
    "wordpress_test_cookie=1", "$Version=1", "a=b; a=c", "_method=POST", "pw=", "login=margaret", "lang=x",
    "sessionid=x", "csrftoken=x",
]
# Ways to write a line of the head.
LINES = [
    "{name} : {value}", "{name}:{value}", " {name}: {value}", "X: y\r\n {name}: {value}", "{name}\t: {value}",
    "{name}:\u000b{value}", "{name}: \r\n {value}", "X: y\n{name}: {value}", "X: y\r{name}: {value}",
    "\xa0{name}: {value}", "{name}\u0000: {value}", "X-{name}: {value}", "Proxy-{name}: {value}",
]
# What is replaced in an XML document, and by what.
DOCUMENTS = [
    ["methodName", "methodName "], ["methodName", "x:methodName"],
    ["<methodCall>", "<!DOCTYPE x [<!ENTITY e 'e'>]><methodCall>"], ["methodName", "methodname"],
    ["<methodCall>", "<?xml version='1.0' encoding='utf-16'?><methodCall>"],
    ["<methodCall>", "<?xml version='1.0' encoding='iso-8859-1'?><methodCall>"], ["wp.", "<![CDATA[wp.]]>"],
    ["<methodName>", "<methodName><!-- x -->"], ["system.", "system&#46;"], ["methodName>wp", "methodName>&#119;p"],
    ["<", "\n<"], ["<methodCall>", "\ufeff<methodCall>"], ["<methodCall>", "<methodCall xmlns='x'>"],
    ["string>", "base64>"], ["</methodCall>", "</methodCall><methodCall/>"],
]
