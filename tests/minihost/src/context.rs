//! What a VM knows while it runs: its contexts, the callback it is in, the calls it made.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use wasmi::{Memory, TypedFunc};

use crate::abi::{MapType, Status};
use crate::calls::{Call, Calls};
use crate::host::Host;
use crate::metrics::MetricIds;
use crate::stream::{SharedHeaders, Stream, lock_headers};

/// The state of one VM, which host calls see and change.
pub(crate) struct VmState {
    pub(crate) host: Host,
    pub(crate) vm_id: String,
    /// Number of the VM in its process.
    pub(crate) number: u32,
    pub(crate) memory: Option<Memory>,
    pub(crate) allocate: Option<TypedFunc<u32, u32>>,
    pub(crate) contexts: HashMap<u32, Context>,
    pub(crate) metrics: MetricIds,
    pub(crate) current: Current,
    pub(crate) calls: Calls,
    pub(crate) list_calls: bool,
}

/// The callback that is running, or ran last.
#[derive(Default)]
pub(crate) struct Current {
    pub(crate) callback: &'static str,
    pub(crate) context: u32,
    /// Set by `proxy_set_effective_context`, for this callback only.
    pub(crate) effective: Option<u32>,
    /// Whether a local reply was sent, which stops the stream whatever the callback returns.
    pub(crate) replied: bool,
    /// What would have brought the real proxy down.
    pub(crate) crash: Option<String>,
    pub(crate) calls: Calls,
    pub(crate) log: Vec<String>,
}

pub(crate) enum Context {
    Root(RootContext),
    Http(Box<HttpContext>),
}

pub(crate) struct RootContext {
    pub(crate) root_id: String,
    pub(crate) plugin_name: String,
    pub(crate) configuration: Vec<u8>,
    pub(crate) tick_period: Duration,
    pub(crate) next_tick_ns: Option<u64>,
    /// Whether `proxy_done` was called.
    pub(crate) done: bool,
}

pub(crate) struct HttpContext {
    pub(crate) root: u32,
    pub(crate) stream: Stream,
    /// The maps that may be used now, by [`MapType`]. A map opens with its callback and closes when the callback
    /// lets the stream go on; in a stream that waits it stays open.
    pub(crate) open: [Option<SharedHeaders>; 4],
    /// In `proxy_on_log`, where maps can be read but not changed.
    pub(crate) logging: bool,
    pub(crate) request_body: Vec<u8>,
    pub(crate) response_body: Vec<u8>,
    pub(crate) properties: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) request_paused: bool,
    pub(crate) response_paused: bool,
    pub(crate) reset: bool,
}

impl VmState {
    /// The context that host calls are about: the effective one while it exists, else the callback's own.
    pub(crate) fn active_id(&self) -> u32 {
        self.current.effective.filter(|id| self.contexts.contains_key(id)).unwrap_or(self.current.context)
    }

    pub(crate) fn active_http(&mut self) -> Option<&mut HttpContext> {
        match self.contexts.get_mut(&self.active_id())? {
            Context::Http(http) => Some(http),
            Context::Root(_) => None,
        }
    }

    /// The active context's root, or itself.
    pub(crate) fn active_root(&mut self) -> Option<&mut RootContext> {
        let root = match self.contexts.get(&self.active_id())? {
            Context::Http(http) => http.root,
            Context::Root(_) => self.active_id(),
        };
        self.root(root)
    }

    pub(crate) fn root(&mut self, id: u32) -> Option<&mut RootContext> {
        match self.contexts.get_mut(&id)? {
            Context::Root(root) => Some(root),
            Context::Http(_) => None,
        }
    }

    /// Envoy's answer to `proxy_get_property`.
    pub(crate) fn property(&mut self, path: &[u8]) -> Option<Vec<u8>> {
        let vm_id = self.vm_id.clone();
        if let Some(value) = self.active_http().and_then(|http| http.property(path)) {
            return Some(value);
        }
        let root = self.active_root()?;
        match path {
            b"plugin_name" => Some(root.plugin_name.clone().into_bytes()),
            b"plugin_root_id" => Some(root.root_id.clone().into_bytes()),
            b"plugin_vm_id" => Some(vm_id.into_bytes()),
            _ => None,
        }
    }

    /// A map to read, or why not.
    pub(crate) fn map_to_read(&mut self, map: MapType) -> Result<SharedHeaders, Status> {
        let Some(http) = self.active_http() else { return Err(Status::BadArgument) };
        if http.logging {
            return http.logged_map(map).ok_or(Status::NotFound);
        }
        http.open_map(map).ok_or(Status::BadArgument)
    }

    /// A map to change; in `proxy_on_log` there is none.
    pub(crate) fn map_to_change(&mut self, map: MapType) -> Result<SharedHeaders, Status> {
        self.active_http().and_then(|http| http.open_map(map)).ok_or(Status::BadArgument)
    }

    pub(crate) fn record(&mut self, call: Call) {
        self.current.calls.push(call.clone(), true);
        self.calls.push(call, self.list_calls);
    }
}

impl HttpContext {
    pub(crate) fn new(root: u32, stream: Stream) -> Self {
        Self {
            root,
            stream,
            open: Default::default(),
            logging: false,
            request_body: Vec::new(),
            response_body: Vec::new(),
            properties: BTreeMap::new(),
            request_paused: false,
            response_paused: false,
            reset: false,
        }
    }

    fn open_map(&self, map: MapType) -> Option<SharedHeaders> {
        self.open.get(map as usize)?.clone()
    }

    fn logged_map(&self, map: MapType) -> Option<SharedHeaders> {
        let stream = self.stream.lock();
        let map = match map {
            MapType::RequestHeaders => &stream.request_headers,
            MapType::ResponseHeaders => &stream.response_headers,
            MapType::ResponseTrailers => &stream.response_trailers,
            MapType::RequestTrailers | MapType::Callout => return None,
        };
        Some(map.clone()).filter(|map| !lock_headers(map).is_empty())
    }

    fn readable_map(&self, map: MapType) -> Option<SharedHeaders> {
        if self.logging { self.logged_map(map) } else { self.open_map(map) }
    }

    /// A property of this context, its stream or the headers that can be read now, or filter state.
    fn property(&self, path: &[u8]) -> Option<Vec<u8>> {
        let stream = self.stream.lock();
        if let Some(value) = self.properties.get(path).or_else(|| stream.properties.get(path)) {
            return Some(value.clone());
        }
        if path == b"upstream\0request_attempt_count" {
            return Some(stream.attempts.to_le_bytes().to_vec());
        }
        if let Some(key) = path.strip_prefix(b"filter_state\0wasm.") {
            return stream.filter_state.get(key).cloned();
        }
        let top = path.split(|byte| *byte == 0).next().unwrap_or_default();
        // Names that Envoy knows are never looked up in filter state.
        const KNOWN: [&[u8]; 11] = [
            b"connection",
            b"destination",
            b"filter_state",
            b"metadata",
            b"node",
            b"request",
            b"response",
            b"source",
            b"upstream",
            b"upstream_filter_state",
            b"xds",
        ];
        if !KNOWN.contains(&top) {
            return stream.filter_state.get(path).filter(|_| top == path).cloned();
        }
        drop(stream);
        self.header_property(path)
    }

    fn header_property(&self, path: &[u8]) -> Option<Vec<u8>> {
        let (map, name): (_, &[u8]) = match path {
            b"request\0method" => (MapType::RequestHeaders, b":method"),
            b"request\0path" => (MapType::RequestHeaders, b":path"),
            b"request\0host" => (MapType::RequestHeaders, b":authority"),
            b"request\0scheme" => (MapType::RequestHeaders, b":scheme"),
            b"request\0id" => (MapType::RequestHeaders, b"x-request-id"),
            _ => {
                let maps: [(&[u8], _); 3] = [
                    (b"request\0headers\0", MapType::RequestHeaders),
                    (b"response\0headers\0", MapType::ResponseHeaders),
                    (b"response\0trailers\0", MapType::ResponseTrailers),
                ];
                maps.iter().find_map(|(prefix, map)| Some((*map, path.strip_prefix(*prefix)?)))?
            }
        };
        let map = self.readable_map(map)?;
        lock_headers(&map).get(name).map(<[u8]>::to_vec)
    }
}
