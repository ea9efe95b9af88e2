//! The handshake of a connection: checks that this is a working memcached, and learns its epoch and its clock.
//!
//! All is asked in one go. The surprising thing: the epoch stands in the server's own memory, under a key beside the
//! buckets, because nothing else ends exactly when its numbers do. If it was dropped, somebody draws another: then
//! whatever was read under the old one is read once more, and nothing worse happens.

use tokio::net::TcpStream;
use tokio::time::timeout;

use super::connection::{
    MemcachedConnection, MemcachedProtocol, REPLY_TIMEOUT, misunderstood, read_response, unexpected,
    unreachable, write_all,
};
use super::request::{Epoch, no_numbers};
use super::response::{MemcachedResponse, MetaCode, ResponseReader};
use super::servers::MemcachedServer;
use super::stats::Stats;
use crate::store::compare_and_swap::{Namespace, RecordVersion, StoreError};

/// Connects, asking for the server's address anew.
pub(super) async fn handshake(
    server: &MemcachedServer,
    names: &Namespace,
) -> Result<MemcachedConnection, StoreError> {
    match timeout(REPLY_TIMEOUT, try_handshake(server, names)).await {
        Ok(met) => met,
        Err(_) => Err(unreachable(&"it has not answered for a second")),
    }
}

async fn try_handshake(
    server: &MemcachedServer,
    names: &Namespace,
) -> Result<MemcachedConnection, StoreError> {
    let to = (&server.host[..], server.port);
    let mut stream = TcpStream::connect(to).await.map_err(|error| unreachable(&error))?;
    // Questions are small, and each is waited for.
    stream.set_nodelay(true).map_err(|error| unreachable(&error))?;
    let mut answers = ResponseReader::default();
    let RecordVersion(drawn) = RecordVersion::random();
    write_all(&mut stream, requests(names, drawn).as_bytes()).await?;
    let refused = match read_response(&mut stream, &mut answers).await? {
        MemcachedResponse::Meta { code: MetaCode::Done | MetaCode::NotStored, .. } => None,
        // A memory that takes no epoch may still be read.
        MemcachedResponse::Refused(why) => Some(why),
        MemcachedResponse::Misunderstood(why) => return Err(misunderstood(&why)),
        _ => return Err(unexpected(&"not a memcached server")),
    };
    let stands = match (read_response(&mut stream, &mut answers).await, refused) {
        // It said why, and went.
        (Err(StoreError::Unreachable(_)), Some(why)) => return Err(StoreError::Refused(why)),
        (answer, _) => answer?,
    };
    let epoch = epoch(stands, drawn)?;
    let mut stats = Stats::default();
    loop {
        match read_response(&mut stream, &mut answers).await? {
            line @ MemcachedResponse::Stat(..) => drop(stats.note(&line)),
            MemcachedResponse::End => break,
            _ => return Err(unexpected(&"not the lines of stats")),
        }
    }
    Ok(MemcachedConnection {
        stream,
        protocol: MemcachedProtocol::new(names.clone(), answers, epoch, stats.time),
    })
}

fn requests(names: &Namespace, drawn: u64) -> String {
    let key = format!("{names}:1:epoch");
    format!("ms {key} 16 T0 ME c O0\r\n{drawn:016x}\r\nmg {key} v c O1\r\nstats\r\n")
}

/// What stands there, or what was drawn for this connection alone if that is nothing or not ours.
fn epoch(answer: MemcachedResponse, drawn: u64) -> Result<Epoch, StoreError> {
    match answer {
        MemcachedResponse::Meta {
            code: MetaCode::Value,
            opaque: Some(1),
            cas: Some(1..),
            value: Some(value),
        } => {
            let stands = std::str::from_utf8(&value).ok().filter(|text| text.len() == 16);
            Ok(Epoch(stands.and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(drawn)))
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
        epoch(MemcachedResponse::Meta { code: MetaCode::Value, cas: Some(cas), opaque: Some(1), value }, 7)
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
                MemcachedResponse::Meta { code: MetaCode::Miss, cas: None, opaque: Some(1), value: None },
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
