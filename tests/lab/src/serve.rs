//! A listening socket on a port of its own, served by threads of the lab's own, so that a service
//! answers at full speed whatever runtime its test runs on.

use std::future::Future;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinHandle, JoinSet};

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(2).thread_name("service").enable_all().build().expect("a runtime can be started")
});

/// Accepts connections until dropped, which also ends those that are open.
pub(crate) struct Server {
    addr: SocketAddr,
    connections: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Runs `serve` for every connection, with its number (0, 1, …).
    pub fn start<F>(serve: impl Fn(TcpStream, usize) -> F + Send + 'static) -> Server
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on 127.0.0.1");
        let addr = listener.local_addr().expect("a bound socket has an address");
        listener.set_nonblocking(true).expect("a socket can be made non-blocking");
        let connections = Arc::new(AtomicUsize::new(0));
        let accepting = RUNTIME.spawn(accept(listener, connections.clone(), serve));
        Server { addr, connections, accepting }
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<F>(
    listener: std::net::TcpListener,
    connections: Arc<AtomicUsize>,
    serve: impl Fn(TcpStream, usize) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::from_std(listener).expect("the socket is non-blocking");
    let mut open = JoinSet::new(); // aborts its tasks when this future is dropped
    while let Ok((stream, _)) = listener.accept().await {
        let number = connections.fetch_add(1, Ordering::SeqCst);
        let _ = stream.set_nodelay(true);
        open.spawn(serve(stream, number));
        while open.try_join_next().is_some() {}
    }
}
