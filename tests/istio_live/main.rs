//! Retry storms through the configurations that Istio's pilot makes of the manifests in `istio/`.
//!
//! The golden files of `tests/istio` hold what pilot rendered; here a stock Envoy runs them, on every machine. The
//! part that renders them anew and compares is Go, and runs where Go is there.

mod callee;
mod fetching;
mod go;
mod stock;
mod storms;
#[path = "../support/mod.rs"]
mod support;
mod waypoint;

use lab::{Answers, Client, Envoy, Origin, Request, Result};
use stock::Rendering;

pub const CALLERS: usize = 50;
pub const HOST: &str = "orders.shop.svc.cluster.local:8080";

pub const REQUESTS: &str = "retry_budget_requests_total";
pub const ATTEMPTS: &str = "retry_budget_attempts_total";
pub const RETRIES: &str = "retry_budget_retries_total";
pub const STOPS: &str = "retry_budget_stops_total";

/// A request to the service, as an application in the mesh sends it.
pub fn request(i: usize) -> Request {
    Request::get(format!("/{i}")).header("host", HOST)
}

pub async fn start(rendering: &Rendering, origin: &Origin) -> Result<Envoy> {
    Envoy::start(&rendering.config()?.upstream(&rendering.cluster(), origin.addr())).await
}

pub async fn storm(envoy: &Envoy) -> Answers {
    Client::new().storm(envoy.addr(), CALLERS, request).await
}
