//! One downstream request, as its listener's filter and the filters of all its attempts see it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::headers::Headers;

/// Header maps are shared: all attempts of a request see one request map, and a listener gets an attempt's response.
pub(crate) type SharedHeaders = Arc<Mutex<Headers>>;

/// One downstream request. Clones are the same request.
#[derive(Clone)]
pub struct Stream(Arc<Mutex<StreamState>>);

pub(crate) struct StreamState {
    pub(crate) request_headers: SharedHeaders,
    pub(crate) response_headers: SharedHeaders,
    pub(crate) response_trailers: SharedHeaders,
    pub(crate) properties: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) filter_state: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Number of the latest attempt, which is what every filter of the stream reads.
    pub(crate) attempts: u64,
    pub(crate) replies: Vec<LocalReply>,
}

impl Stream {
    /// A request to `cluster`, in an outbound listener.
    pub fn new(cluster: &str, request_headers: impl Into<Headers>) -> Self {
        let shared = |headers| Arc::new(Mutex::new(headers));
        let stream = Self(Arc::new(Mutex::new(StreamState {
            request_headers: shared(request_headers.into()),
            response_headers: shared(Headers::new()),
            response_trailers: shared(Headers::new()),
            properties: BTreeMap::new(),
            filter_state: BTreeMap::new(),
            attempts: 0,
            replies: Vec::new(),
        })));
        stream.set_property(&["xds", "cluster_name"], cluster);
        stream.set_property(&["xds", "listener_direction"], OUTBOUND.to_le_bytes());
        stream
    }

    /// `GET /` to `cluster`, with a request id of its own.
    pub fn get(cluster: &str) -> Self {
        Self::request(cluster, "GET")
    }

    /// A request with a method, for `/`.
    pub fn request(cluster: &str, method: &str) -> Self {
        let fields = [(":method", method), (":path", "/"), (":scheme", "http"), (":authority", "origin.test")];
        let stream = Self::new(cluster, fields);
        stream.add_request_header("x-request-id", request_id());
        stream
    }

    /// A gRPC call.
    pub fn grpc(cluster: &str) -> Self {
        let stream = Self::request(cluster, "POST");
        stream.change_request_headers(|headers| headers.replace(":path", "/test.Service/Call"));
        stream.add_request_header("content-type", "application/grpc");
        stream.add_request_header("te", "trailers");
        stream
    }

    /// Moves the request to an inbound listener.
    pub fn inbound(self) -> Self {
        self.set_property(&["xds", "listener_direction"], INBOUND.to_le_bytes());
        self
    }

    /// Adds a request header.
    pub fn with(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.add_request_header(name, value);
        self
    }

    /// The request headers as they are now.
    pub fn request_headers(&self) -> Headers {
        let headers = self.lock().request_headers.clone();
        lock_headers(&headers).clone()
    }

    /// Adds a request header.
    pub fn add_request_header(&self, name: &str, value: impl AsRef<[u8]>) {
        self.change_request_headers(|headers| headers.add(name, value));
    }

    /// Changes the request headers, as another filter or the router would.
    pub fn change_request_headers(&self, change: impl FnOnce(&mut Headers)) {
        let headers = self.lock().request_headers.clone();
        change(&mut lock_headers(&headers));
    }

    /// Sets the response that the next `response_headers` callback of any context is about. A context that got an
    /// earlier response keeps that one.
    pub fn respond(&self, status: u32, headers: impl Into<Headers>) {
        let mut response = Headers::from([(":status", status.to_string())]);
        headers.into().iter().for_each(|(name, value)| response.add(name, value));
        self.set_response(response);
    }

    /// The same with a complete map, `:status` included.
    pub fn set_response(&self, headers: impl Into<Headers>) {
        let mut state = self.lock();
        state.response_headers = Arc::new(Mutex::new(headers.into()));
        state.response_trailers = SharedHeaders::default();
    }

    /// The latest response's headers as they are now.
    pub fn response_headers(&self) -> Headers {
        let headers = self.lock().response_headers.clone();
        lock_headers(&headers).clone()
    }

    /// The latest response's trailers as they are now.
    pub fn response_trailers(&self) -> Headers {
        let trailers = self.lock().response_trailers.clone();
        lock_headers(&trailers).clone()
    }

    /// Sets a property, by path, for every context of the stream. Numbers are 8 bytes, little endian.
    pub fn set_property(&self, path: &[&str], value: impl AsRef<[u8]>) {
        self.lock().properties.insert(join(path), value.as_ref().to_vec());
    }

    /// Takes a property away.
    pub fn remove_property(&self, path: &[&str]) {
        self.lock().properties.remove(&join(path));
    }

    /// What a module wrote with `set_property([key])`: filter state `wasm.KEY`, as access logs name it.
    pub fn filter_state(&self, key: &str) -> Option<Vec<u8>> {
        self.lock().filter_state.get(key.as_bytes()).cloned()
    }

    /// Every local reply that any filter of this stream sent, in order. Envoy can use one.
    pub fn local_replies(&self) -> Vec<LocalReply> {
        self.lock().replies.clone()
    }

    /// The first local reply.
    pub fn local_reply(&self) -> Option<LocalReply> {
        self.lock().replies.first().cloned()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, StreamState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const INBOUND: u64 = 1;
const OUTBOUND: u64 = 2;

/// A reply that the filter sent itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalReply {
    /// The context that sent it.
    pub context: u32,
    /// The callback it was sent in.
    pub callback: &'static str,
    pub status: u32,
    /// Response code details, with Envoy's underscores for white space.
    pub details: String,
    pub body: Vec<u8>,
    pub headers: Headers,
    /// `None` where the module gave none, which is -1.
    pub grpc_status: Option<u32>,
}

impl LocalReply {
    /// The response that Envoy makes of it, `:status` included; for a gRPC request that is a trailers-only one.
    pub fn as_response(&self, grpc: bool) -> Headers {
        let mut response = Headers::from([(":status", self.status.to_string())]);
        self.headers.iter().for_each(|(name, value)| response.add(name, value));
        if grpc {
            response.replace(":status", "200");
            response.replace("content-type", "application/grpc");
            if response.get("grpc-status").is_none() {
                let code = self.grpc_status.unwrap_or_else(|| grpc_status_of(self.status));
                response.add("grpc-status", code.to_string());
            }
            if !self.body.is_empty() && response.get("grpc-message").is_none() {
                response.add("grpc-message", &self.body);
            }
        } else if !self.body.is_empty() {
            response.replace("content-length", self.body.len().to_string());
            if response.get("content-type").is_none() {
                response.add("content-type", "text/plain");
            }
        }
        response
    }
}

/// The gRPC status that Envoy makes of an HTTP status.
fn grpc_status_of(status: u32) -> u32 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}

pub(crate) fn lock_headers(headers: &SharedHeaders) -> MutexGuard<'_, Headers> {
    headers.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A property's path as the ABI spells it.
pub(crate) fn join(path: &[&str]) -> Vec<u8> {
    path.join("\0").into_bytes()
}

fn request_id() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("00000000-0000-4000-8000-{:012}", NEXT.fetch_add(1, Relaxed))
}
