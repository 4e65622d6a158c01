//! The HTTP face of the demo's programs `origin` and `storm`: their switches, their metrics, their service.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use lab::Reply;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::str::FromStr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// What somebody asked for.
pub struct Asked {
    pub method: Method,
    pub path: String,
    query: BTreeMap<String, String>,
}

impl Asked {
    /// A number in the query, or what holds where it is not there; an error that names it where it is no number.
    pub fn number<T: FromStr>(&self, key: &str, default: T) -> Result<T> {
        match self.query.get(key) {
            None => Ok(default),
            Some(text) => match text.parse() {
                Ok(number) => Ok(number),
                Err(_) => bail!("{key} is {text:?}, which is no such number"),
            },
        }
    }
}

/// Takes the program's options, all of the form `--name=value`, in their order.
pub fn options() -> Result<Vec<(String, String)>> {
    let option = |arg: String| {
        let (name, value) = arg.strip_prefix("--")?.split_once('=')?;
        Some((name.to_string(), value.to_string()))
    };
    std::env::args()
        .skip(1)
        .map(|arg| option(arg.clone()).with_context(|| format!("not --name=value: {arg}")))
        .collect()
}

/// Answers all requests, for ever. A reply's way to end is not supported, only whole ones.
pub async fn serve(listener: TcpListener, answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Result<()> {
    let answer = Arc::new(answer);
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors: those who are here will leave.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let answer = answer.clone();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| {
            let reply = answer(&asked(&request));
            async move {
                tokio::time::sleep(reply.delay).await;
                Ok::<_, Infallible>(response(reply))
            }
        });
        tokio::spawn(async move {
            // An error is a peer that went away.
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn asked(request: &Request<Incoming>) -> Asked {
    let pairs = request.uri().query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let query = pairs.map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Asked { method: request.method().clone(), path: request.uri().path().to_string(), query }
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = reply.status;
    *response.headers_mut() = reply.headers;
    response
}

/// A page of metrics as Prometheus reads them.
pub fn metrics(page: String) -> Reply {
    // Prometheus 3 refuses what does not say what it is.
    Reply::new(200).header("content-type", "text/plain; version=0.0.4").body(page)
}

/// A page for people.
pub fn page(status: u16, text: String) -> Reply {
    Reply::new(status).header("content-type", "text/plain; charset=utf-8").body(text)
}

/// Ends the program at SIGINT and SIGTERM, also where it is a container's first process, which the kernel does
/// not end by itself.
pub async fn stopped() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::select! {
        _ = interrupt.recv() => {},
        _ = terminate.recv() => {},
    }
    Ok(())
}
