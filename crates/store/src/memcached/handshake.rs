//! The handshake of a connection: checks that this is a working memcached, and learns its epoch and its clock.
//!
//! All requests are sent in one go. The epoch is stored in the server's own memory, under a key next to the buckets,
//! because only that memory ends exactly when the server's CAS numbers do. If it was evicted, the next handshake stores
//! another: then records that were read under the old one are read once more, and nothing worse happens.

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::{
    MemcachedConnection, MemcachedProtocol, REPLY_TIMEOUT, misunderstood, read_response, unexpected,
    write_all,
};
use super::request::{Epoch, no_numbers};
use super::response::{MemcachedResponse, MetaCode, ResponseReader};
use super::servers::MemcachedServer;
use super::stats::Stats;
use crate::compare_and_swap::{Namespace, RecordVersion, StoreError};

/// Connects. The server's name is looked up each time.
pub(super) async fn handshake(
    server: &MemcachedServer,
    namespace: &Namespace,
) -> Result<MemcachedConnection, StoreError> {
    match timeout(REPLY_TIMEOUT, try_handshake(server, namespace)).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::unreachable("it has not answered for a second")),
    }
}

async fn try_handshake(
    server: &MemcachedServer,
    namespace: &Namespace,
) -> Result<MemcachedConnection, StoreError> {
    let to = (&server.host[..], server.port);
    let mut stream = TcpStream::connect(to).await.map_err(StoreError::unreachable)?;
    // Requests are small, and their callers wait.
    stream.set_nodelay(true).map_err(StoreError::unreachable)?;
    let mut reader = ResponseReader::default();
    let RecordVersion(drawn) = RecordVersion::random();
    write_all(&mut stream, requests(namespace, drawn).as_bytes()).await?;
    let refused = match read_response(&mut stream, &mut reader).await? {
        MemcachedResponse::Meta { code: MetaCode::Done | MetaCode::NotStored, .. } => None,
        // A server that stores no epoch may still be read.
        MemcachedResponse::Refused(why) => Some(why),
        MemcachedResponse::Misunderstood(why) => return Err(misunderstood(&why)),
        _ => return Err(unexpected(&"not a memcached server")),
    };
    let stored = match (read_response(&mut stream, &mut reader).await, refused) {
        // It gave the reason and closed the connection.
        (Err(StoreError::Unreachable(_)), Some(why)) => return Err(StoreError::Refused(why)),
        (answer, _) => answer?,
    };
    let epoch = epoch(stored, drawn)?;
    let mut stats = Stats::default();
    loop {
        match read_response(&mut stream, &mut reader).await? {
            line @ MemcachedResponse::Stat(..) => drop(stats.note(&line)),
            MemcachedResponse::End => break,
            _ => return Err(unexpected(&"not the lines of stats")),
        }
    }
    Ok(MemcachedConnection {
        stream,
        protocol: MemcachedProtocol::new(namespace.clone(), reader, epoch, stats.time),
    })
}

fn requests(namespace: &Namespace, drawn: u64) -> String {
    let key = format!("{namespace}:1:epoch");
    format!("ms {key} 16 T0 ME c O0\r\n{drawn:016x}\r\nmg {key} v c O1\r\nstats\r\n")
}

/// The stored epoch, or the one that was drawn for this connection alone if there is none or it is foreign.
fn epoch(answer: MemcachedResponse, drawn: u64) -> Result<Epoch, StoreError> {
    match answer {
        MemcachedResponse::Meta {
            code: MetaCode::Value,
            opaque: Some(1),
            cas: Some(1..),
            value: Some(value),
            ..
        } => {
            let stored = std::str::from_utf8(&value).ok().filter(|text| text.len() == 16);
            Ok(Epoch(stored.and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(drawn)))
        }
        MemcachedResponse::Meta { code: MetaCode::Value, .. } => Err(no_numbers()),
        MemcachedResponse::Meta { code: MetaCode::Miss, opaque: Some(1), .. } => Ok(Epoch(drawn)),
        MemcachedResponse::Refused(why) => Err(StoreError::Refused(why)),
        MemcachedResponse::Misunderstood(why) => Err(misunderstood(&why)),
        _ => Err(unexpected(&"not a memcached server")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8], cas: u64) -> Result<Epoch, StoreError> {
        let value = Some(value.to_vec());
        let (cas, opaque) = (Some(cas), Some(1));
        epoch(MemcachedResponse::Meta { code: MetaCode::Value, cas, opaque, ttl: None, value }, 7)
    }

    #[test]
    fn the_epoch_is_the_one_that_stands_there() {
        assert_eq!(read(b"00000000000000ff", 1), Ok(Epoch(255)));
    }

    #[test]
    fn an_epoch_that_is_not_ours_is_not_shared() {
        assert_eq!(read(b"not ours", 1), Ok(Epoch(7)));
        assert_eq!(read(b"\xff\xff", 1), Ok(Epoch(7)));
        assert_eq!(
            epoch(
                MemcachedResponse::Meta {
                    code: MetaCode::Miss,
                    cas: None,
                    opaque: Some(1),
                    ttl: None,
                    value: None
                },
                7
            ),
            Ok(Epoch(7))
        );
    }

    #[test]
    fn a_server_that_numbers_nothing_is_refused() {
        assert_eq!(read(b"00000000000000ff", 0), Err(no_numbers()));
    }
}
