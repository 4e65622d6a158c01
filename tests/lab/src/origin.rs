//! An HTTP service that does as it is told and remembers what it was asked.

use crate::reply::{End, Reply};
use crate::serve::Server;
use crate::wait::eventually;
use anyhow::Result;
use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::header::HeaderMap;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Barrier;

/// A service on a port of its own: HTTP/1.1, and HTTP/2 without TLS for those who begin with it.
pub struct Origin {
    server: Server,
    shared: Arc<Shared>,
}

/// One call that the service took.
#[derive(Clone, Debug)]
pub struct Call {
    /// 0 for the first call since the service started (or since [`Origin::forget`]).
    pub index: usize,
    /// 1 for the first call of its logical request, which is told by `x-request-id`, else by the path.
    pub attempt: usize,
    pub method: Method,
    /// Path and query.
    pub path: String,
    pub headers: HeaderMap,
    /// All of it: the script runs when the body is in.
    pub body: Bytes,
    /// When its headers came.
    pub at: Instant,
    /// The number of its connection (0, 1, …).
    pub connection: usize,
}

impl Call {
    /// The first field of this name, as text; `None` where it is absent or not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

type Script = Arc<dyn Fn(&Call) -> Reply + Send + Sync>;

struct Shared {
    script: Mutex<Script>,
    hold: Option<(usize, Barrier)>,
    book: Mutex<Book>,
}

/// The calls so far.
#[derive(Default)]
struct Book {
    calls: Vec<Call>,
    attempts: HashMap<String, usize>,
}

impl Origin {
    /// A service that answers each call as `script` says: a [`Reply`] or just a status.
    pub async fn start<R: Into<Reply>>(script: impl Fn(&Call) -> R + Send + Sync + 'static) -> Origin {
        Origin::build(None, script)
    }

    /// The storm's service: nobody gets an answer before the first `n` calls have come.
    pub async fn holding<R: Into<Reply>>(n: usize, script: impl Fn(&Call) -> R + Send + Sync + 'static) -> Origin {
        Origin::build(Some((n, Barrier::new(n))), script)
    }

    /// A service that answers every call with this status.
    pub async fn always(status: u16) -> Origin {
        Origin::start(move |_| status).await
    }

    /// A service where each logical request fails with `status` this many times, then gets a 200.
    pub async fn failing(times: usize, status: u16) -> Origin {
        Origin::start(move |call| if call.attempt <= times { status } else { 200 }).await
    }

    fn build<R: Into<Reply>>(
        hold: Option<(usize, Barrier)>,
        script: impl Fn(&Call) -> R + Send + Sync + 'static,
    ) -> Origin {
        let script: Script = Arc::new(move |call| script(call).into());
        let shared = Arc::new(Shared { script: Mutex::new(script), hold, book: Mutex::default() });
        let served = shared.clone();
        let server = Server::start(move |stream, number| connection(served.clone(), stream, number));
        Origin { server, shared }
    }

    /// From now on calls are answered so. A hold stays what it was.
    pub fn answer<R: Into<Reply>>(&self, script: impl Fn(&Call) -> R + Send + Sync + 'static) {
        *lock(&self.shared.script) = Arc::new(move |call| script(call).into());
    }

    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    /// How many calls have come.
    pub fn hits(&self) -> usize {
        lock(&self.shared.book).calls.len()
    }

    /// How many connections have been made.
    pub fn connections(&self) -> usize {
        self.server.connections()
    }

    /// The calls so far, in the order of their arrival.
    pub fn calls(&self) -> Vec<Call> {
        lock(&self.shared.book).calls.clone()
    }

    /// Forgets all calls: counting, attempts and a hold begin anew.
    pub fn forget(&self) {
        *lock(&self.shared.book) = Book::default();
    }

    /// Waits until at least `n` calls have come.
    pub async fn wait_for_hits(&self, n: usize) -> Result<()> {
        eventually(&format!("{n} calls at the origin"), async || Ok((self.hits() >= n).then_some(()))).await
    }
}

/// A panic of another test's script must not hide behind a poisoned lock.
fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

async fn connection(shared: Arc<Shared>, stream: TcpStream, number: usize) {
    let reset = Arc::new(AtomicBool::new(false));
    let socket = Socket { stream, reset: reset.clone() };
    let service = hyper::service::service_fn(move |request| handle(shared.clone(), request, number, reset.clone()));
    // An error is a peer that went away or a reset that the script asked for.
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket), service).await;
}

type Body = BoxBody<Bytes, io::Error>;

async fn handle(
    shared: Arc<Shared>,
    request: Request<Incoming>,
    connection: usize,
    reset: Arc<AtomicBool>,
) -> io::Result<Response<Body>> {
    let call = shared.take(request, connection).await?;
    if let Some((n, barrier)) = &shared.hold
        && call.index < *n
    {
        barrier.wait().await;
    }
    let script = lock(&shared.script).clone();
    let reply = script(&call);
    if !reply.delay.is_zero() {
        tokio::time::sleep(reply.delay).await;
    }
    match reply.end {
        End::Whole => Ok(response(reply, None)),
        End::Cut => Ok(response(reply, Some(reset))),
        End::Reset => {
            reset.store(true, Ordering::SeqCst);
            Err(io::Error::other("reset, as the script says"))
        }
        End::Hang => std::future::pending().await,
    }
}

impl Shared {
    /// Writes the call down when its headers are in, completes it when its body is.
    async fn take(&self, request: Request<Incoming>, connection: usize) -> io::Result<Call> {
        let (head, body) = request.into_parts();
        let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_string();
        let id = head.headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or(&path);
        let mut call = {
            let mut book = lock(&self.book);
            let attempt = book.attempts.entry(id.to_string()).or_default();
            *attempt += 1;
            let attempt = *attempt;
            let call = Call {
                index: book.calls.len(),
                attempt,
                method: head.method,
                path,
                headers: head.headers,
                body: Bytes::new(),
                at: Instant::now(),
                connection,
            };
            book.calls.push(call.clone());
            call
        };
        call.body = body.collect().await.map_err(io::Error::other)?.to_bytes();
        if let Some(written) = lock(&self.book).calls.get_mut(call.index) {
            written.body = call.body.clone();
        }
        Ok(call)
    }
}

/// The answer; with `cut`, only up to the middle of its body.
fn response(reply: Reply, cut: Option<Arc<AtomicBool>>) -> Response<Body> {
    let mut response = Response::new(match cut {
        Some(reset) => half(reply.body, reset),
        None if reply.trailers.is_empty() => whole(reply.body),
        None => {
            let trailers = std::future::ready(Some(Ok(reply.trailers)));
            whole(reply.body).with_trailers(trailers).boxed()
        }
    });
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

fn whole(body: Bytes) -> Body {
    http_body_util::Full::new(body).map_err(|never| match never {}).boxed()
}

/// Time for the first half to leave before the reset, which overtakes what is still unsent.
const BEFORE_THE_CUT: Duration = Duration::from_millis(50);

fn half(body: Bytes, reset: Arc<AtomicBool>) -> Body {
    let first = body.slice(..body.len().div_ceil(2));
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let _ = sender.send(Ok(Frame::data(first))).await;
        tokio::time::sleep(BEFORE_THE_CUT).await;
        reset.store(true, Ordering::SeqCst);
        let _ = sender.send(Err(io::Error::other("cut, as the script says"))).await;
    });
    BodyExt::boxed(StreamBody::new(Frames(receiver)))
}

struct Frames(tokio::sync::mpsc::Receiver<io::Result<Frame<Bytes>>>);

impl tokio_stream::Stream for Frames {
    type Item = io::Result<Frame<Bytes>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(cx)
    }
}

/// A TCP connection that can end with a reset instead of an orderly close.
struct Socket {
    stream: TcpStream,
    reset: Arc<AtomicBool>,
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.reset.load(Ordering::SeqCst) {
            crate::ports::reset_on_close(&self.stream);
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reset.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(())); // no orderly end before the reset
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
