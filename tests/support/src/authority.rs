//! An authority of the tests' own, and clients that trust it.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, date_time_ymd,
};
use rustls::client::WantsClientCert;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, ClientConnection, ConfigBuilder, DigitallySignedStruct, RootCertStore, SignatureScheme,
    StreamOwned, SupportedProtocolVersion, version,
};

use crate::{Client, Encrypted, Gate, Launch};

/// Signs certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub pem: String,
}

/// A certificate and its key in PEM.
#[derive(Clone)]
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose subject is its issuer's for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "An authority of the tests");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A certificate for these names and addresses.
    pub fn issue(&self, names: &[&str]) -> Pair {
        self.issue_until(names, 2100)
    }

    /// The same, good until the beginning of this year.
    pub fn issue_until(&self, names: &[&str], year: i32) -> Pair {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(year, 1, 1));
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }

    /// A client's certificate with these common names, at most two.
    pub fn issue_to(&self, common_names: &[&str]) -> Pair {
        self.issue_to_until(common_names, 2100)
    }

    /// The same, good until the beginning of this year.
    pub fn issue_to_until(&self, common_names: &[&str], year: i32) -> Pair {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(year, 1, 1));
        params.distinguished_name = DistinguishedName::new();
        // `rcgen` keeps one name of each type: the second one is the common name by its number (X.520).
        let types = [DnType::CommonName, DnType::CustomDnType(vec![2, 5, 4, 3])];
        for (kind, name) in types.into_iter().zip(common_names) {
            params.distinguished_name.push(kind, *name);
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { cert, key: key.serialize_pem() }
    }

    /// Trusts this authority alone.
    pub fn client_config(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        self.client_builder(versions).with_no_client_auth()
    }

    /// The same for a client that shows this certificate.
    pub fn client_config_with(&self, pair: &Pair) -> ClientConfig {
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap();
        self.client_builder(BOTH).with_client_auth_cert(vec![pair.der()], key).unwrap()
    }

    fn client_builder(
        &self,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ConfigBuilder<ClientConfig, WantsClientCert> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
        builder.with_protocol_versions(versions).unwrap().with_root_certificates(roots)
    }

    /// A client that asks for this name; the handshake is made when it sends something.
    pub fn connect(&self, address: SocketAddr, name: &str) -> Client {
        connect_by(&Arc::new(self.client_config(BOTH)), address, name)
    }

    /// A gate with this certificate at its `https://` listener.
    pub fn gate(&self, names: &[&str], config: &str) -> Gate {
        let pair = self.issue(names);
        Launch::new(&format!("{config}{TABLE}")).on_tls_too().with(&pair, "server").start()
    }
}

impl Launch {
    /// Puts a certificate and its key beside the gate's file, as `NAME.pem` and `NAME.key`.
    pub fn with(self, pair: &Pair, name: &str) -> Self {
        self.beside(&format!("{name}.pem"), &pair.cert).beside(&format!("{name}.key"), &pair.key)
    }
}

impl Pair {
    /// In the place of a certificate that runs, the key first.
    pub fn put(&self, gate: &Gate, name: &str) {
        std::fs::write(gate.directory.join(format!("{name}.key")), &self.key).unwrap();
        std::fs::write(gate.directory.join(format!("{name}.pem")), &self.cert).unwrap();
    }
}

/// A client with settings of its own.
pub fn connect_by(config: &Arc<ClientConfig>, address: SocketAddr, name: &str) -> Client {
    Client::over_tls(encrypted(config, address, name))
}

/// The same, before any test client is made of it.
pub fn encrypted(config: &Arc<ClientConfig>, address: SocketAddr, name: &str) -> Encrypted {
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    StreamOwned::new(connection, TcpStream::connect(address).unwrap())
}

pub const BOTH: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
/// The one certificate of most gates here.
pub const TABLE: &str = "\n[tls]\ncertificates = [{ cert = \"server.pem\", key = \"server.key\" }]\n";

/// Takes any certificate, to see which it is.
#[derive(Debug)]
struct Careless;

impl ServerCertVerifier for Careless {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Takes any certificate.
pub fn careless() -> ClientConfig {
    let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()));
    let builder = builder.with_protocol_versions(BOTH).unwrap().dangerous();
    builder.with_custom_certificate_verifier(Arc::new(Careless)).with_no_client_auth()
}

/// What the gate shows to a client that asks for this name.
pub fn seen(gate: &Gate, name: &str) -> CertificateDer<'static> {
    let mut stream = encrypted(&Arc::new(careless()), gate.tls, name);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).expect("a handshake");
    }
    stream.conn.peer_certificates().unwrap()[0].clone().into_owned()
}

impl Pair {
    pub fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()
    }
}
