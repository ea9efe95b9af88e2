//! TLS to MariaDB: its driver makes its own configuration, so what it trusts is looked at here.

use tollgate::bucket::Key;
use tollgate::store::StoreError;

use crate::gate::Gate;
use crate::tables::record;
use support::servers::Tables as _;
use support::servers::mysql::MariaDb;

#[test]
fn tls_is_spoken_to_trusted_servers_only() {
    let server = MariaDb::with(true).unwrap();
    // The server rejects clear text, so the writes below were encrypted.
    server.sql("ALTER USER tollgate REQUIRE SSL");
    let address = |host: &str, options: &str| {
        format!("mysql://tollgate:secret@{host}:{}/tollgate?{options}", server.port())
    };
    let own = format!("sslmode=verify-full&sslrootcert={}", server.root().display());
    Gate::ready(&address("localhost", &own)).write(Key(7), None, record(b"one"));
    for (host, options) in [("localhost", "sslmode=require"), ("127.0.0.1", &own[..])] {
        let told = Gate::new(&address(host, options)).probe();
        assert!(
            matches!(&told, Err(StoreError::NotConnected(why)) if why.contains("certificate")),
            "{told:?}"
        );
    }
    let told = Gate::new(&address("localhost", "sslmode=disable")).probe();
    assert!(matches!(told, Err(StoreError::Refused(_))), "{told:?}");
}
