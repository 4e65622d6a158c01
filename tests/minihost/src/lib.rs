//! A small proxy-wasm host (ABI 0.2.x) that runs the real module in an interpreter, with the test in the proxy's place.
//!
//! It shows what a real Envoy cannot: how many host calls a callback makes and which of them return bytes, what
//! happens when any of them fails, several workers at once on one shared-data store, clocks that a test moves.
//!
//! ```no_run
//! use minihost::{Action, Host, Status, Stream, Vm, When};
//!
//! # fn main() -> minihost::Result<()> {
//! let host = Host::new()?;
//! let vm = Vm::new(&host)?;
//! let root = vm.configure("retry_budget", "retry-budget", r#"{"budget":{"max_tokens":0}}"#)?;
//!
//! let stream = Stream::get("orders");
//! let listener = root.listener(&stream)?;
//! assert_eq!(listener.request_headers(true)?, Action::Continue);
//! let attempt = root.attempt(&stream, 1)?;
//! attempt.request_headers(true)?;
//! attempt.respond(503, [("server", "origin")], false)?;
//! assert!(stream.response_headers().get("x-retry-stop").is_some());
//! attempt.set_response_code(Some(503)); // handed down, not retried
//! attempt.done()?;
//! listener.response_headers(false)?;
//! listener.done()?;
//! assert_eq!(host.series("retry_budget_stops_total", &[("upstream", "orders")]), 1);
//! println!("{}", vm.take_calls());
//!
//! host.fail("proxy_get_shared_data", Status::InternalFailure, When::Always);
//! # Ok(())
//! # }
//! ```
//!
//! Statuses, readable maps, properties and metrics are as in Envoy 1.40.0. Unlike there: fields with a short cut in
//! Envoy's maps are not joined when added twice, trailers are not made by touching them at the end of a body, callouts
//! and queues are `Unimplemented`, and the order of callbacks is what the test makes of it.

#![forbid(unsafe_code)]

mod abi;
mod calls;
mod clock;
mod context;
mod ctx;
mod error;
mod faults;
mod headers;
mod host;
mod imports;
mod metrics;
mod module;
mod root;
mod shared_data;
mod stream;
mod vm;

pub use abi::{Action, LogLevel, MetricKind, Status};
pub use calls::{Call, Calls};
pub use ctx::Ctx;
pub use error::{Error, Result, Trap};
pub use faults::When;
pub use headers::Headers;
pub use host::{ALL, Host, LogLine, VM_ID};
pub use module::{MODULE_VARIABLE, module_path};
pub use root::Root;
pub use stream::{LocalReply, Stream};
pub use vm::Vm;
