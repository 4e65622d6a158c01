//! The filter's context for one stream: a listener's, or one attempt's.

use std::sync::{Arc, Mutex};

use crate::abi::{Action, MapType};
use crate::context::{Context, HttpContext};
use crate::error::Result;
use crate::headers::Headers;
use crate::stream::{LocalReply, SharedHeaders, Stream, join, lock_headers};
use crate::vm::{Instanced, Vm};

/// One filter instance of one stream. The test is the proxy: it calls the callbacks in the proxy's order.
pub struct Ctx {
    pub(crate) vm: Vm,
    pub(crate) id: u32,
    pub(crate) stream: Stream,
    /// A listener's, not an attempt's.
    pub(crate) listener: bool,
}

/// The two directions of a stream, which wait and go on apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

impl Ctx {
    /// `proxy_on_request_headers`, with the stream's request headers.
    pub fn request_headers(&self, end_of_stream: bool) -> Result<Action> {
        let headers = self.stream.lock().request_headers.clone();
        let count = lock_headers(&headers).len();
        let args = [count as u32, u32::from(end_of_stream)];
        self.with_map("proxy_on_request_headers", MapType::RequestHeaders, headers, &args)
    }

    /// `proxy_on_request_body` with a piece of the body.
    pub fn request_body(&self, data: &[u8], end_of_stream: bool) -> Result<Action> {
        self.with_body("proxy_on_request_body", Side::Request, data, end_of_stream)
    }

    /// `proxy_on_request_trailers`.
    pub fn request_trailers(&self, trailers: impl Into<Headers>) -> Result<Action> {
        let trailers = trailers.into();
        let count = trailers.len() as u32;
        let trailers = Arc::new(Mutex::new(trailers));
        self.with_map("proxy_on_request_trailers", MapType::RequestTrailers, trailers, &[count])
    }

    /// `proxy_on_response_headers`, with the stream's latest response. A listener's properties `response.code` and
    /// `response.code_details` (`via_upstream`, unless it is a local reply) tell of it from now on, as in Envoy.
    pub fn response_headers(&self, end_of_stream: bool) -> Result<Action> {
        let headers = self.stream.lock().response_headers.clone();
        let count = lock_headers(&headers).len();
        let status = lock_headers(&headers).text(":status").and_then(|status| status.parse().ok());
        if let Some(status) = status.filter(|_| self.listener) {
            self.set_response_code(Some(status));
            let local = self.stream.local_replies().pop().map(|reply| reply.details);
            self.set_property(&["response", "code_details"], local.unwrap_or_else(|| "via_upstream".to_owned()));
        }
        let args = [count as u32, u32::from(end_of_stream)];
        self.with_map("proxy_on_response_headers", MapType::ResponseHeaders, headers, &args)
    }

    /// A whole response comes: [`Stream::respond`], then [`response_headers`](Self::response_headers).
    pub fn respond(&self, status: u32, headers: impl Into<Headers>, end_of_stream: bool) -> Result<Action> {
        self.stream.respond(status, headers);
        self.response_headers(end_of_stream)
    }

    /// `proxy_on_response_body` with a piece of the body.
    pub fn response_body(&self, data: &[u8], end_of_stream: bool) -> Result<Action> {
        self.with_body("proxy_on_response_body", Side::Response, data, end_of_stream)
    }

    /// `proxy_on_response_trailers`.
    pub fn response_trailers(&self, trailers: impl Into<Headers>) -> Result<Action> {
        let trailers = trailers.into();
        let count = trailers.len() as u32;
        let shared = self.stream.lock().response_trailers.clone();
        *lock_headers(&shared) = trailers;
        self.with_map("proxy_on_response_trailers", MapType::ResponseTrailers, shared, &[count])
    }

    /// The end: for a listener `proxy_on_log` first, then for both `proxy_on_done` and `proxy_on_delete`. Whether an
    /// attempt's response was handed down is for the test to say before, with
    /// [`set_response_code`](Self::set_response_code).
    pub fn done(&self) -> Result<()> {
        let mut vm = self.vm.lock();
        if self.listener {
            self.http(&mut vm, |http| http.logging = true);
            vm.call("proxy_on_log", self.id, &[self.id])?;
            self.http(&mut vm, |http| http.logging = false);
        }
        vm.call("proxy_on_done", self.id, &[self.id])?;
        vm.call("proxy_on_delete", self.id, &[self.id])?;
        vm.state().contexts.remove(&self.id);
        Ok(())
    }

    /// Sets or takes away the property `response.code` of this context. For an attempt it is there in `done` when the
    /// response was handed down, and absent when the proxy retries.
    pub fn set_response_code(&self, code: Option<u64>) {
        let path = ["response", "code"];
        match code {
            Some(code) => self.set_property(&path, code.to_le_bytes()),
            None => self.remove_property(&path),
        }
    }

    /// Sets a property, by path, for this context alone; it hides the stream's.
    pub fn set_property(&self, path: &[&str], value: impl AsRef<[u8]>) {
        let (path, value) = (join(path), value.as_ref().to_vec());
        self.http(&mut self.vm.lock(), |http| http.properties.insert(path, value));
    }

    /// Takes such a property away.
    pub fn remove_property(&self, path: &[&str]) {
        let path = join(path);
        self.http(&mut self.vm.lock(), |http| http.properties.remove(&path));
    }

    /// The first local reply that this context sent.
    pub fn local_reply(&self) -> Option<LocalReply> {
        self.stream.local_replies().into_iter().find(|reply| reply.context == self.id)
    }

    /// Whether its request waits, because of `Action::Pause` without a `proxy_continue_stream` since.
    pub fn request_is_paused(&self) -> bool {
        self.http(&mut self.vm.lock(), |http| http.request_paused).unwrap_or(false)
    }

    /// The same for its response.
    pub fn response_is_paused(&self) -> bool {
        self.http(&mut self.vm.lock(), |http| http.response_paused).unwrap_or(false)
    }

    /// Whether the module closed the stream with `proxy_close_stream`.
    pub fn is_reset(&self) -> bool {
        self.http(&mut self.vm.lock(), |http| http.reset).unwrap_or(false)
    }

    /// Its context id.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Its stream.
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    fn http<T>(&self, vm: &mut Instanced, use_it: impl FnOnce(&mut HttpContext) -> T) -> Option<T> {
        match vm.state().contexts.get_mut(&self.id) {
            Some(Context::Http(http)) => Some(use_it(http)),
            _ => None,
        }
    }

    fn with_map(&self, callback: &'static str, map: MapType, headers: SharedHeaders, args: &[u32]) -> Result<Action> {
        let mut vm = self.vm.lock();
        self.http(&mut vm, |http| http.open[map as usize] = Some(headers));
        let side = match map {
            MapType::RequestHeaders | MapType::RequestTrailers => Side::Request,
            _ => Side::Response,
        };
        let action = self.enter(&mut vm, callback, side, args)?;
        if action == Action::Continue {
            self.http(&mut vm, |http| http.open[map as usize] = None);
        }
        Ok(action)
    }

    fn with_body(&self, callback: &'static str, side: Side, data: &[u8], end_of_stream: bool) -> Result<Action> {
        let mut vm = self.vm.lock();
        let set = |http: &mut HttpContext, data: Vec<u8>| match side {
            Side::Request => http.request_body = data,
            Side::Response => http.response_body = data,
        };
        self.http(&mut vm, |http| set(http, data.to_vec()));
        let args = [data.len() as u32, u32::from(end_of_stream)];
        let action = self.enter(&mut vm, callback, side, &args)?;
        self.http(&mut vm, |http| set(http, Vec::new()));
        Ok(action)
    }

    fn enter(&self, vm: &mut Instanced, callback: &'static str, side: Side, args: &[u32]) -> Result<Action> {
        let args: Vec<u32> = std::iter::once(self.id).chain(args.iter().copied()).collect();
        let result = vm.call(callback, self.id, &args)?;
        let paused = result.unwrap_or(0) != 0 || vm.state().current.replied;
        self.http(vm, |http| match side {
            Side::Request => http.request_paused = paused,
            Side::Response => http.response_paused = paused,
        });
        Ok(if paused { Action::Pause } else { Action::Continue })
    }
}
