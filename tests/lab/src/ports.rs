//! Services that cannot be reached, or only just.

use crate::serve::Server;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::net::{TcpSocket, TcpStream};

/// A port where nobody listens: connections are refused, and nobody else can take the port.
pub struct ClosedPort {
    addr: SocketAddr,
    _bound: TcpSocket,
}

impl ClosedPort {
    pub fn new() -> ClosedPort {
        let bound = TcpSocket::new_v4().expect("a socket");
        bound.bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port on 127.0.0.1");
        let addr = bound.local_addr().expect("a bound socket has an address");
        ClosedPort { addr, _bound: bound }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Default for ClosedPort {
    fn default() -> ClosedPort {
        ClosedPort::new()
    }
}

/// A port that accepts every connection and resets it at once, and counts them.
pub struct Resets(Server);

impl Resets {
    pub fn start() -> Resets {
        Resets(Server::start(|stream, _| async move { reset_on_close(&stream) }))
    }

    pub fn addr(&self) -> SocketAddr {
        self.0.addr()
    }

    pub fn connections(&self) -> usize {
        self.0.connections()
    }
}

/// The connection will end with a TCP reset.
pub(crate) fn reset_on_close(stream: &TcpStream) {
    // It fails only where the peer was faster.
    let _ = stream.set_zero_linger();
}
