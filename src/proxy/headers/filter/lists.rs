//! The built-in header names, in lower case; `*` at the end matches any rest. A test holds them beside
//! `docs/operating.md`, which says where each comes from.
//!
//! Left out on purpose are names in which clients present what is their own: `X-Auth-Token`, `X-User-Id`, `X-Access-Token`,
//! `Cf-Access-Client-Id`. An application that takes one of them for its proxy's word names it in `proxy.strip`.

/// What gives a request its meaning: passed on as it is, and never under another spelling.
pub const ALWAYS_PASSED: &[&str] = &[
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "content-type",
    "cookie",
    "authorization",
    "x-request-id",
];

/// What the gate writes itself; a trusted proxy's words stay, and `Forwarded` comes from there alone.
pub const REWRITTEN: &[&str] = &["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"];

/// Where a request comes from, beside the one source that is configured, and what moves it to another path.
#[rustfmt::skip]
pub const NEVER: &[&str] = &[
    // Addresses.
    "x-forwarded", "forwarded-for", "x-real-ip", "x-client-ip", "client-ip", "true-client-ip", "x-true-client-ip",
    "cf-connecting-ip", "cf-connecting-ipv6", "cf-pseudo-ipv4", "fastly-client-ip", "fly-client-ip", "do-connecting-ip",
    "x-cluster-client-ip", "x-original-forwarded-for", "x-originating-ip", "x-remote-ip", "x-remote-addr", "remote-addr",
    "x-proxyuser-ip", "wl-proxy-client-ip", "http-client-ip", "x-envoy-external-address", "x-envoy-internal",
    "x-azure-clientip", "x-azure-socketip", "x-appengine-user-ip", "x-nf-client-connection-ip", "x-vercel-forwarded-for",
    "cloudfront-viewer-address", "incap-client-ip", "ali-cdn-real-ip", "cdn-src-ip", "x-sucuri-clientip",
    // The way.
    "proxy", "proxy-*", "x-forwarded-by", "x-forwarded-port", "x-forwarded-server", "x-forwarded-scheme",
    "x-forwarded-ssl", "x-host", "x-original-host", "x-http-host-override",
    // The path and the method.
    "x-original-url", "x-original-uri", "x-original-method", "x-rewrite-url", "x-request-uri", "x-forwarded-uri",
    "x-forwarded-path", "x-forwarded-method", "x-script-name", "script-name", "path-info", "x-envoy-original-path",
    "x-replaced-path", "x-waws-unencoded-url",
    // What is sent in place of the answer.
    "x-sendfile-type", "x-accel-mapping",
];

/// Who signed in, by which certificate, over which scheme: a proxy's word.
#[rustfmt::skip]
pub const UNLESS_TRUSTED: &[&str] = &[
    // Accounts.
    "remote-*", "x-remote-*", "auth-user", "x-webauth-*", "webauth-*", "x-auth-request-*", "x-forwarded-*", "gap-auth",
    "gap-signature", "x-authenticated-*", "x-authentik-*", "x-pomerium-*", "cf-access-jwt-assertion",
    "cf-access-authenticated-user-email", "x-amzn-oidc-*", "x-ms-client-principal*", "x-ms-token-*", "x-goog-iap-*",
    "x-goog-authenticated-user-*", "x-endpoint-api-userinfo", "x-apigateway-api-userinfo", "shib-*", "eppn",
    "affiliation", "unscoped-affiliation", "entitlement", "targeted-id", "persistent-id", "oidc-*", "mellon-*", "cas-user",
    "x-auth-username", "x-auth-userid", "x-auth-email", "x-auth-groups", "x-auth-roles", "x-auth-subject",
    "x-auth-audience", "x-auth-expiresin", "x-user", "teleport-*", "x-teleport-*", "tailscale-*", "x-vouch-*",
    "x-token-user-*", "x-token-subject", "x-consumer-*", "x-anonymous-consumer", "x-credential-*", "x-userinfo",
    "x-id-token", "iv-user", "iv-user-l", "iv-groups", "iv-creds", "iv-remote-address", "sm-*", "sm_*", "smuser", "oam-*",
    "osso-*", "x-sso-*", "x-proxy-user", "x-proxy-roles", "es-security-runas-user", "x-rstudio-username", "$ws*",
    // Certificates.
    "x-ssl-*", "ssl-client-*", "ssl_client_*", "x-client-cert*", "x-clientcert*", "x-client-dn", "x-client-verify",
    "x-client-verified", "x-tls-client-*", "client-cert", "client-cert-chain", "x-arr-*", "x-amzn-mtls-*",
    "cf-client-cert-*", "cf-cert-*", "wl-proxy-*",
    // Schemes.
    "x-scheme", "x-url-scheme", "front-end-https",
];
