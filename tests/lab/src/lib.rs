//! The lab: real Envoys, scripted services and clients, for the integration tests, the demo and the benchmark.
//!
//! ```no_run
//! # async fn example() -> lab::Result<()> {
//! use lab::{Client, Config, Envoy, Origin, Reply, Request, json};
//!
//! // A service that fails every request, after holding the first 50 until all have come.
//! let origin = Origin::holding(50, |_call| Reply::new(503).header("x-from", "origin").body("no")).await;
//!
//! // A shipped configuration, as it is but for ports and paths; then what this test wants changed.
//! let config = Config::load("two-placements.yaml")
//!     .upstream("orders", origin.addr())
//!     .policy(json!({"budget": {"ratio": 0.1, "max_tokens": 10}}))
//!     .retry(json!({"num_retries": 2}))
//!     .concurrency(4);
//! let envoy = Envoy::start(&config).await?;
//!
//! let answers = Client::new().storm(envoy.addr(), 50, |i| Request::get(format!("/{i}"))).await;
//! assert_eq!(origin.hits(), 60);
//! assert_eq!(answers.count(503), 50, "{answers}");
//!
//! let stats = envoy.stats().await?;
//! assert_eq!(stats.counter("retry_budget_stops_total", &[("upstream", "orders"), ("reason", "budget")]), 50);
//! let first = &envoy.decisions()[0]; // the filter's JSON lines out of Envoy's log
//! assert_eq!(first["decision"], "stop");
//! # Ok(()) }
//! ```
//!
//! | to find | look in |
//! |---|---|
//! | the Envoy binary, the wasm module, the checkout | [`place`] |
//! | a shipped configuration and changes to it | [`Config`] |
//! | a running Envoy: its port, logs, decisions, statistics, updates | [`Envoy`], [`Stats`] |
//! | an HTTP service that does as it is told | [`Origin`], [`Reply`], [`Call`] |
//! | a service that cannot be reached, or only just | [`ClosedPort`], [`Resets`] |
//! | a gRPC service and client | [`GrpcOrigin`], [`GrpcClient`] |
//! | HTTP clients: one request, a storm, a load | [`Client`], [`Request`], [`Answers`] |
//! | the storms that the demo and the tests share | [`storm`] |
//! | commands that a machine may lack | [`tools`] |
//! | processes that end with this one | [`Process`] |
//!
//! Tests are `#[tokio::test]` functions under `use lab::tokio;` that return [`Result`].
//!
//! Nothing uses a fixed port, nothing outlives its owner: dropping an [`Envoy`] kills it, and where the
//! kernel can tell it to (Linux) it dies with this process, however that ends.

mod client;
mod config;
mod envoy;
mod grpc;
mod origin;
pub mod place;
mod ports;
mod process;
mod reply;
mod serve;
mod stats;
pub mod storm;
pub mod tools;
mod wait;

pub use anyhow::{Error, Result};
pub use client::{Answer, Answers, Client, Request, load};
pub use config::{Config, Placement};
pub use envoy::{Envoy, Refusal, chain};
pub use grpc::{GrpcAnswer, GrpcCall, GrpcClient, GrpcOrigin, GrpcReply};
pub use hyper::header::{HeaderMap, HeaderName, HeaderValue};
pub use origin::{Call, Origin};
pub use place::{shipped, wasm};
pub use ports::{ClosedPort, Resets};
pub use process::Process;
pub use reply::Reply;
pub use serde_json::{Value, json};
pub use stats::Stats;
pub use storm::Storm;
pub use tokio;
pub use tonic::Code;
pub use wait::{DEADLINE, eventually};
