//! Where the proxy calls in: the SDK's traits, handed on to `filter`.

use crate::filter::fail_open::FailOpen;
use crate::filter::flow::Flow;
use crate::filter::root::Root;
use crate::filter::stream::Stream;
use crate::filter::vm::Vm;
use crate::host::{ContextId, ProxyWasm};
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType, LogLevel};
use std::cell::OnceCell;
use std::rc::Rc;

thread_local! {
    static VM: OnceCell<Rc<Vm>> = const { OnceCell::new() };
}

fn vm() -> Rc<Vm> {
    VM.with(|vm| Rc::clone(vm.get_or_init(|| Rc::new(Vm::new(Box::new(FailOpen::new(ProxyWasm)))))))
}

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|_| Box::new(RootShell { root: None }));
}}

/// `None` until it is configured.
struct RootShell {
    root: Option<Rc<Root>>,
}

impl Context for RootShell {}

impl RootContext for RootShell {
    fn on_configure(&mut self, size: usize) -> bool {
        self.root = Root::configure(&vm(), size);
        self.root.is_some()
    }

    fn on_tick(&mut self) {
        if let Some(root) = &self.root {
            root.tick();
        }
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        // The SDK panics on `None`: a stream of a root that was never configured passes untouched.
        Some(Box::new(StreamShell(self.root.as_ref().map(|root| Stream::new(Rc::clone(root), ContextId(id))))))
    }
}

struct StreamShell(Option<Stream>);

impl Context for StreamShell {
    fn on_done(&mut self) -> bool {
        if let Some(stream) = &mut self.0 {
            stream.on_done();
        }
        true
    }
}

impl HttpContext for StreamShell {
    fn on_http_request_headers(&mut self, _count: usize, _end: bool) -> Action {
        action(self.0.as_mut().map(Stream::on_request_headers))
    }

    fn on_http_request_body(&mut self, _size: usize, end: bool) -> Action {
        if !end {
            return Action::Continue;
        }
        action(self.0.as_mut().map(Stream::on_request_end))
    }

    fn on_http_request_trailers(&mut self, _count: usize) -> Action {
        action(self.0.as_mut().map(Stream::on_request_end))
    }

    fn on_http_response_headers(&mut self, _count: usize, end: bool) -> Action {
        if let Some(stream) = &mut self.0 {
            stream.on_response_headers(end);
        }
        Action::Continue
    }

    fn on_log(&mut self) {
        if let Some(stream) = &mut self.0 {
            stream.on_log();
        }
    }

    fn on_http_response_body(&mut self, _size: usize, end: bool) -> Action {
        if let Some(stream) = &mut self.0 {
            stream.on_response_end(end);
        }
        Action::Continue
    }

    fn on_http_response_trailers(&mut self, _count: usize) -> Action {
        if let Some(stream) = &mut self.0 {
            stream.on_response_trailers();
        }
        Action::Continue
    }
}

fn action(flow: Option<Flow>) -> Action {
    match flow {
        Some(Flow::Pause) => Action::Pause,
        Some(Flow::Continue) | None => Action::Continue,
    }
}
