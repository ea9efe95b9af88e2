//! The TLS handshake of one connection, on either side.
//!
//! The deadline is left to the caller. The handshake is never part of accepting, because a client that stops in the
//! middle of it would hold up all clients behind it.

use std::io;
use std::sync::Arc;

use rustix::net::{RecvFlags, recv};
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::acceptor::Acceptor;
use super::ja4::{FirstMessage, MAX_FIRST_BYTES, ja4};
use super::trust::Trust;
use crate::net::stream::NetStream;

/// Makes the handshake with a client.
///
/// # Errors
/// The client broke the protocol, or has gone.
pub async fn accept(stream: TcpStream, acceptor: &Acceptor) -> io::Result<NetStream> {
    let stream = TlsAcceptor::from(Arc::clone(&acceptor.config)).accept(stream).await?;
    Ok(NetStream::Tls(Box::new(stream.into())))
}

/// The fingerprint of a client, before its handshake and without taking anything from it; `None` if the acceptor does not
/// ask for it, or if the first message comes in too many pieces to be a program's.
pub async fn ja4_of(stream: &TcpStream, acceptor: &Acceptor) -> Option<String> {
    // Boxed: it would enlarge every handshake.
    if acceptor.has_ja4 { ja4(&Box::pin(first_message(stream)).await?) } else { None }
}

/// The content of the first message, which stays in the socket.
async fn first_message(stream: &TcpStream) -> Option<Vec<u8>> {
    let mut sent = vec![0; MAX_FIRST_BYTES];
    for _ in 0..MAX_LOOKS {
        stream.readable().await.ok()?;
        let looked = stream.try_io(Interest::READABLE, || {
            let length = recv(stream, &mut sent[..], RecvFlags::PEEK)?.1;
            match FirstMessage::of(sent.get(..length).unwrap_or_default()) {
                // Readable again when more has come. The system may say so of a piece that was seen already, and always says so
                // of a client that has gone.
                FirstMessage::Partial => Err(io::ErrorKind::WouldBlock.into()),
                message => Ok(message),
            }
        });
        match looked {
            Ok(FirstMessage::Whole(content)) => return Some(content),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
    }
    None
}

/// Makes the handshake with a server that has to be `host`: a name, or an address without brackets.
///
/// # Errors
/// The server cannot prove that, speaks no TLS, or has gone.
pub async fn connect(stream: TcpStream, host: &str, trust: &Trust) -> io::Result<NetStream> {
    Ok(NetStream::Tls(Box::new(trust.connect(stream, host).await?.into())))
}

/// Looks at a first message that comes in pieces: each look reads it from the beginning.
const MAX_LOOKS: usize = 16;
