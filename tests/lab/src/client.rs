//! HTTP clients: one request, many at once, many one after the other.

use crate::reply::field;
use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::HeaderMap;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt;
use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    path: String,
    headers: HeaderMap,
    body: Bytes,
    /// The second half of the body leaves so much later.
    pause: Option<Duration>,
}

impl Request {
    pub fn new(method: &str, path: impl Into<String>) -> Request {
        Request { method: method.into(), path: path.into(), headers: HeaderMap::new(), body: Bytes::new(), pause: None }
    }

    pub fn get(path: impl Into<String>) -> Request {
        Request::new("GET", path)
    }

    pub fn post(path: impl Into<String>, body: impl Into<Bytes>) -> Request {
        Request { body: body.into(), ..Request::new("POST", path) }
    }

    /// One more header field, any bytes that HTTP allows, UTF-8 or not.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Request {
        let (name, value) = field(name, value);
        self.headers.append(name, value);
        self
    }

    /// Sends the second half of the body so much later: a slow upload.
    pub fn trickle(self, pause: Duration) -> Request {
        Request { pause: Some(pause), ..self }
    }

    fn at(self, addr: SocketAddr) -> Result<hyper::Request<Body>> {
        let body = match self.pause {
            None => Full::new(self.body).boxed_unsync(),
            Some(pause) => trickling(self.body, pause),
        };
        let mut request = hyper::Request::builder()
            .method(self.method.as_str())
            .uri(format!("http://{addr}{}", self.path))
            .body(body)
            .context("a malformed request")?;
        request.headers_mut().extend(self.headers);
        Ok(request)
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

fn trickling(mut body: Bytes, pause: Duration) -> Body {
    let first = body.split_to(body.len().div_ceil(2));
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    tokio::spawn(async move {
        let _ = sender.send(Ok(Frame::data(first))).await;
        tokio::time::sleep(pause).await;
        let _ = sender.send(Ok(Frame::data(body))).await;
    });
    StreamBody::new(ReceiverStream::new(receiver)).boxed_unsync()
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub trailers: HeaderMap,
    pub body: Bytes,
    /// From sending to the last byte.
    pub latency: Duration,
}

impl Answer {
    /// The first field of this name, as text; `None` where it is absent or not ASCII.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// The answers to many requests, in no particular order, and the errors of those that got none.
#[derive(Default)]
pub struct Answers {
    answers: Vec<Answer>,
    pub errors: Vec<String>,
}

impl Answers {
    /// How many have this status.
    pub fn count(&self, status: u16) -> usize {
        self.answers.iter().filter(|answer| answer.status == status).count()
    }

    /// How many have each status.
    pub fn statuses(&self) -> BTreeMap<u16, usize> {
        let mut statuses = BTreeMap::new();
        for answer in &self.answers {
            *statuses.entry(answer.status).or_default() += 1;
        }
        statuses
    }

    fn add(&mut self, answer: Result<Answer>) {
        match answer {
            Ok(answer) => self.answers.push(answer),
            Err(error) => self.errors.push(format!("{error:#}")),
        }
    }
}

impl Deref for Answers {
    type Target = [Answer];

    fn deref(&self) -> &[Answer] {
        &self.answers
    }
}

impl fmt::Display for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "answers by status: {:?}; without an answer: {}", self.statuses(), self.errors.len())?;
        match self.errors.first() {
            Some(error) => write!(f, ", the first because {error}"),
            None => Ok(()),
        }
    }
}

/// Longer than any timeout of the shipped configurations: a request that hangs fails its test.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that keeps its connections open.
#[derive(Clone)]
pub struct Client(hyper_util::client::legacy::Client<HttpConnector, Body>);

impl Default for Client {
    fn default() -> Client {
        Client::new()
    }
}

impl Client {
    /// HTTP/1.1: as many connections as requests at a time.
    pub fn new() -> Client {
        Client(builder().build(connector()))
    }

    /// HTTP/2 without TLS: one connection.
    pub fn http2() -> Client {
        Client(builder().http2_only(true).build(connector()))
    }

    pub async fn get(&self, addr: SocketAddr, path: &str) -> Result<Answer> {
        self.send(addr, Request::get(path)).await
    }

    pub async fn send(&self, addr: SocketAddr, request: Request) -> Result<Answer> {
        let begin = Instant::now();
        let request = request.at(addr)?;
        let exchange = async {
            let response = self.0.request(request).await.context("no answer")?;
            let (head, body) = response.into_parts();
            let body = body.collect().await.context("the body broke off")?;
            let trailers = body.trailers().cloned().unwrap_or_default();
            Ok(Answer {
                status: head.status.as_u16(),
                headers: head.headers,
                trailers,
                body: body.to_bytes(),
                latency: begin.elapsed(),
            })
        };
        tokio::time::timeout(PATIENCE, exchange).await.with_context(|| format!("no answer within {PATIENCE:?}"))?
    }

    /// Sends `n` requests at once: `request` makes the i-th.
    pub async fn storm(&self, addr: SocketAddr, n: usize, request: impl Fn(usize) -> Request) -> Answers {
        let mut running = JoinSet::new();
        for i in 0..n {
            let (client, request) = (self.clone(), request(i));
            running.spawn(async move { client.send(addr, request).await });
        }
        let mut answers = Answers::default();
        while let Some(done) = running.join_next().await {
            answers.add(done.unwrap_or_else(|e| Err(e.into())));
        }
        answers
    }
}

/// Sends `total` requests over `connections` connections that stay open, each one request at a time.
pub async fn load(
    addr: SocketAddr,
    total: usize,
    connections: usize,
    request: impl Fn(usize) -> Request + Send + Sync + 'static,
) -> Answers {
    let (next, request) = (Arc::new(AtomicUsize::new(0)), Arc::new(request));
    let mut running = JoinSet::new();
    for _ in 0..connections {
        let (next, request, client) = (next.clone(), request.clone(), Client::new());
        running.spawn(async move {
            let mut answers = Vec::new();
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= total {
                    return answers;
                }
                answers.push(client.send(addr, request(i)).await);
            }
        });
    }
    let mut all = Answers::default();
    while let Some(done) = running.join_next().await {
        match done {
            Ok(answers) => answers.into_iter().for_each(|answer| all.add(answer)),
            Err(e) => all.add(Err(e.into())),
        }
    }
    all
}

fn builder() -> hyper_util::client::legacy::Builder {
    hyper_util::client::legacy::Client::builder(TokioExecutor::new())
}

fn connector() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector
}
