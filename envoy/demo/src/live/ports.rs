//! Ports for programs that must be told one.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};

/// A port on which nobody listens now, for a program that must be told one. It lies below the ports that the
/// kernel hands out itself, so that nobody gets it by chance before the program takes it.
pub fn unused() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const FIRST: u32 = 20_000;
    const MANY: u32 = 12_000;
    loop {
        // Processes that run at the same time begin at different places.
        let offset = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % MANY;
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, (FIRST + offset) as u16));
        if std::net::TcpListener::bind(addr).is_ok() {
            return addr;
        }
    }
}
