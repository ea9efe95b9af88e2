#![cfg(feature = "tls")]

use http::HeaderValue;
use proptest::prelude::*;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;

/// RFC 9440, Appendix A: the certificate of `BC`.
const RFC_9440: &str = ":MIIBqDCCAU6gAwIBAgIBBzAKBggqhkjOPQQDAjA6MRswGQYDVQQKDBJMZXQncyBBdXRoZW50aWNhdGUxGzAZBgNVBAMMEkxBIEludGVybWVkaWF0ZSBDQTAeFw0yMDAxMTQyMjU1MzNaFw0yMTAxMjMyMjU1MzNaMA0xCzAJBgNVBAMMAkJDMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE8YnXXfaUgmnMtOXU/IncWalRhebrXmckC8vdgJ1p5Be5F/3YC8OthxM4+k1M6aEAEFcGzkJiNy6J84y7uzo9M6NyMHAwCQYDVR0TBAIwADAfBgNVHSMEGDAWgBRm3WjLa38lbEYCuiCPct0ZaSED2DAOBgNVHQ8BAf8EBAMCBsAwEwYDVR0lBAwwCgYIKwYBBQUHAwIwHQYDVR0RAQH/BBMwEYEPYmRjQGV4YW1wbGUuY29tMAoGCCqGSM49BAMCA0gAMEUCIBHda/r1vaL6G3VliL4/Di6YK0Q6bMjeSkC3dFCOOB8TAiEAx/kHSB4urmiZ0NX5r5XarmPk0wmuydBVoU4hBVZ1yhk=:";

/// `Ok` with a name or without one, or that the request is refused.
fn read(header: CertificateHeader, lines: &[(&'static str, &str)]) -> Result<Option<String>, ()> {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    header.name_in(&headers).map_err(drop)
}

fn client_cert(value: &str) -> Result<Option<String>, ()> {
    read(CertificateHeader::ClientCert, &[("client-cert", value)])
}

fn xfcc(value: &str) -> Result<Option<String>, ()> {
    read(CertificateHeader::Xfcc, &[("x-forwarded-client-cert", value)])
}

fn named(name: &str) -> Result<Option<String>, ()> {
    Ok(Some(name.to_owned()))
}

/// A certificate for this name: in DER, and in PEM as proxies encode it.
fn certificate(name: &str) -> (Vec<u8>, String) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "Example");
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let pem = certificate.pem();
    let encoded = percent_encoding::utf8_percent_encode(&pem, percent_encoding::NON_ALPHANUMERIC).to_string();
    (certificate.der().to_vec(), encoded)
}

fn wrapped(der: &[u8]) -> String {
    format!(":{}:", BASE64_STANDARD.encode(der))
}

#[test]
fn the_certificate_of_rfc_9440_has_its_name() {
    assert_eq!(client_cert(RFC_9440), named("BC"));
    let chain = [("client-cert", RFC_9440), ("client-cert-chain", ":AA==:"), ("client-cert-chain", ":AA==:")];
    assert_eq!(read(CertificateHeader::ClientCert, &chain), named("BC"), "a chain may have several lines");
    assert_eq!(read(CertificateHeader::ClientCert, &[]), Ok(None));
    assert_eq!(read(CertificateHeader::Off, &[("client-cert", "junk"), ("client-cert", "junk")]), Ok(None));
}

#[test]
fn a_client_cert_that_is_malformed_or_there_twice_is_refused() {
    let twice = [("client-cert", RFC_9440), ("client-cert", RFC_9440)];
    assert_eq!(read(CertificateHeader::ClientCert, &twice), Err(()));
    let alone = [("client-cert-chain", ":AA==:")];
    assert_eq!(read(CertificateHeader::ClientCert, &alone), Err(()), "a chain alone");
    let listed = format!("{RFC_9440}, {RFC_9440}");
    let cut = RFC_9440.replacen(":MII", ":MIJ", 1);
    let inside = RFC_9440.trim_matches(':');
    for broken in ["", ":", "::", ":AA==:", "AA==", inside, &listed, &cut, &RFC_9440[..RFC_9440.len() - 2]] {
        assert_eq!(client_cert(broken), Err(()), "{broken}");
    }
}

/// L5: what a client writes into the beginning of the list names nobody.
#[test]
fn the_last_element_of_a_list_names_the_client() {
    let (_, pem) = certificate("backup");
    let element = format!(
        "By=spiffe://a/b;Hash=00;Cert=\"{pem}\";Subject=\"CN=other\";URI=spiffe://c;DNS=a.test;DNS=b.test"
    );
    assert_eq!(xfcc(&element), named("backup"), "the certificate comes before its subject");
    assert_eq!(xfcc(&format!("Subject=\"CN=evil\",{element}")), named("backup"));
    assert_eq!(xfcc(&format!("{element},Hash=00;Subject=\"CN=mirror,O=Example\"")), named("mirror"));
    assert_eq!(xfcc(&format!("{element},Hash=00;URI=spiffe://c")), Ok(None), "the last has no name");
    assert_eq!(xfcc("cert=\"\""), Ok(None), "nginx without a certificate");
    assert_eq!(xfcc(""), Ok(None));
    let twice = [("x-forwarded-client-cert", element.as_str()); 2];
    assert_eq!(read(CertificateHeader::Xfcc, &twice), Err(()));
}

#[test]
fn a_subject_is_read_as_rfc_2253_writes_it() {
    for (subject, name) in [
        ("CN=backup", Some("backup")),
        ("emailAddress=a@b.test,CN=Test Client,OU=Lyft,L=San Francisco", Some("Test Client")),
        ("O=Example+CN=backup", Some("backup")),
        ("2.5.4.3=backup", Some("backup")),
        (r"CN=mail\, relay", Some("mail, relay")),
        (r"CN=a\,CN=backup", Some("a,CN=backup")),
        (r#"CN=\"quoted\""#, Some("\"quoted\"")),
        (r"CN=caf\C3\A9", Some("café")),
        (r"CN=\#1", Some("#1")),
        ("O=#1E0041,CN=backup", Some("backup")),
        ("CN=#1E0041", None),
        (r"CN=\FF", None),
        ("CN=a,CN=b", None),
        ("CN=", None),
        ("O=Example", None),
    ] {
        assert_eq!(xfcc(&format!("Subject=\"{subject}\"")), Ok(name.map(ToOwned::to_owned)), "{subject}");
    }
    let long = "x".repeat(257);
    assert_eq!(xfcc(&format!("Subject=\"CN={long}\"")), Ok(None), "as in a handshake");
}

#[test]
fn an_element_that_does_not_fit_its_grammar_is_refused() {
    for broken in [
        ",",
        ";",
        "=",
        "Subject",
        "Subject=\"CN=a",
        "Subject=\"CN=a\"x",
        "=\"CN=a\"",
        "Hash=0;;Subject=\"CN=a\"",
        "Subject=\"CN=a\";",
        "Subject=\"CN=a\",",
        ",Subject=\"CN=a\"",
        "Subject=\"CN=a\";Subject=\"CN=b\"",
        "Subject=\"/C=US/CN=backup\"",
        "Subject=\"backup\"",
        "Subject=\"CN=a;O=b\"",
        "Subject=\"CN=a\\\"",
        "Cert=\"junk\"",
        "Cert=\"-----BEGIN%20CERTIFICATE-----\"",
        "Hash=a\"b",
        "By=\",Subject=\"CN=backup\"",
    ] {
        assert_eq!(xfcc(broken), Err(()), "{broken}");
    }
    let (_, pem) = certificate("backup");
    assert_eq!(xfcc(&format!("Cert=\"{pem}{pem}\"")), Err(()), "two certificates");
}

proptest! {
    /// The same name by every way, whatever is in it.
    #[test]
    fn a_certificate_has_the_same_name_by_every_way(name in "[ -~]{1,40}|[ä-ü,=+\"\\\\;#<>]{1,20}") {
        let (der, pem) = certificate(&name);
        prop_assert_eq!(client_cert(&wrapped(&der)), named(&name));
        prop_assert_eq!(xfcc(&format!("Cert=\"{pem}\"")), named(&name));
        // As OpenSSL does for RFC 2253: special letters and what is not ASCII are escaped.
        let escaped: String = name.bytes().map(|byte| match byte {
            b',' | b'+' | b'"' | b'\\' | b'<' | b'>' | b';' | b'#' | b' ' => format!("\\{}", char::from(byte)),
            0x20..0x7F => char::from(byte).to_string(),
            _ => format!("\\{byte:02X}"),
        }).collect();
        prop_assert_eq!(xfcc(&format!("Subject=\"O=x,CN={escaped}\"")), named(&name));
    }

    #[test]
    fn any_header_is_read_without_a_panic(value in "[ -~]{0,80}|((Cert|Subject|By|CN)[=\",;\\\\:]{1,3}){0,12}") {
        let _ = (client_cert(&value), xfcc(&value));
    }
}
