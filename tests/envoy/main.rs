//! What a user sees: the shipped configurations in real Envoys, counted at the service, read from the statistics.

mod balances;
mod breakers;
mod callee;
mod configuration;
mod deadlines;
mod grpc;
mod hedges;
mod holds;
mod observe;
mod ownership;
mod request_alone;
mod retry_after;
mod stops;
mod storms;
mod workers;

use lab::{Envoy, Value, json};

/// A bucket that is empty and stays so.
pub fn empty() -> Value {
    json!({"budget": {"ratio": 0, "initial_tokens": 0}})
}

/// The labels of a stop of this reason.
pub fn stopped_for(reason: &str) -> [(&str, &str); 2] {
    [("upstream", "orders"), ("reason", reason)]
}

pub const REQUESTS: &str = "retry_budget_requests_total";
pub const ATTEMPTS: &str = "retry_budget_attempts_total";
pub const RETRIES: &str = "retry_budget_retries_total";
pub const STOPS: &str = "retry_budget_stops_total";
pub const WOULD_STOP: &str = "retry_budget_would_stop_total";
pub const TOKENS: &str = "retry_budget_tokens";

/// One counter of the upstream `orders`.
pub async fn count(envoy: &Envoy, name: &str) -> u64 {
    envoy.stats().await.unwrap().counter(name, &[("upstream", "orders")])
}

/// The balance that the latest decision told, in thousandths.
pub fn latest_balance(envoy: &Envoy) -> i64 {
    let decisions = envoy.decisions();
    let tokens = decisions.last().expect("a decision")["tokens"].as_f64().expect("a balance");
    (tokens * 1000.0).round() as i64
}

/// The gauge, once it shows what it should: it may be a second behind.
pub async fn wait_for_tokens(envoy: &Envoy, expected: f64) {
    let mut shown = None;
    for _ in 0..30 {
        shown = envoy.stats().await.unwrap().gauge(TOKENS, &[("upstream", "orders")]);
        if shown == Some(expected) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("the gauge shows {shown:?} instead of {expected}");
}
