//! The request placement alone cannot see attempts: an approximation, that it says so of.

use crate::{ATTEMPTS, REQUESTS, RETRIES, STOPS, WOULD_STOP, count, wait_for_tokens};
use lab::{Client, Config, Envoy, Origin, json};

fn config(origin: &Origin, mode: &str) -> Config {
    Config::load("request-only.yaml")
        .upstream("orders", origin.addr())
        .policy(json!({"mode": mode, "budget": {"ratio": 0, "max_tokens": 4}}))
        .concurrency(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn retries_are_charged_afterwards_and_switched_off_when_nothing_is_left() {
    let origin = Origin::always(503).await;
    let envoy = Envoy::start(&config(&origin, "enforce")).await.unwrap();
    let client = Client::new();
    // Two requests with two retries each use up the four tokens.
    for hits in [3, 6] {
        let answer = client.get(envoy.addr(), "/").await.unwrap();
        assert_eq!((origin.hits(), answer.header("x-retry-stop")), (hits, None));
    }
    wait_for_tokens(&envoy, 0.0).await;
    for hits in [7, 8] {
        let answer = client.get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, origin.hits()), (503, hits));
        assert_eq!(answer.header("x-retry-stop"), Some("budget"));
        assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"));
    }
    let counters = [REQUESTS, ATTEMPTS, RETRIES, STOPS];
    let mut counted = Vec::new();
    for name in counters {
        counted.push(count(&envoy, name).await);
    }
    assert_eq!(counted, [4, 8, 4, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_under_an_empty_bucket_is_no_stop() {
    let origin = Origin::always(503).await;
    let envoy = Envoy::start(&config(&origin, "enforce")).await.unwrap();
    let client = Client::new();
    for _ in 0..3 {
        client.get(envoy.addr(), "/").await.unwrap();
    }
    let stops = count(&envoy, STOPS).await;
    origin.answer(|_| 200);
    let answer = client.get(envoy.addr(), "/").await.unwrap();
    assert_eq!((answer.status, answer.header("x-retry-stop")), (200, None));
    assert_eq!(count(&envoy, STOPS).await, stops);
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_it_switches_nothing_off() {
    let origin = Origin::always(503).await;
    let envoy = Envoy::start(&config(&origin, "observe")).await.unwrap();
    let client = Client::new();
    for hits in [3, 6, 9, 12] {
        let answer = client.get(envoy.addr(), "/").await.unwrap();
        assert_eq!((origin.hits(), answer.header("x-retry-stop")), (hits, None));
    }
    assert_eq!((count(&envoy, WOULD_STOP).await, count(&envoy, STOPS).await), (2, 0));
}

/// The debt is bounded: at most one more cap's worth.
#[tokio::test(flavor = "multi_thread")]
async fn a_burst_owes_no_more_than_the_cap() {
    let origin = Origin::holding(50, |_| 503).await;
    let config = Config::load("request-only.yaml")
        .upstream("orders", origin.addr())
        .policy(json!({"budget": {"ratio": 1, "max_tokens": 4}}))
        .concurrency(1);
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    client.storm(envoy.addr(), 50, |i| lab::Request::get(format!("/{i}"))).await;
    assert_eq!(origin.hits(), 150, "all had set out with a full bucket");
    origin.answer(|_| 200);
    // From −4 five deposits lead to 1.
    for _ in 0..5 {
        client.get(envoy.addr(), "/").await.unwrap();
    }
    wait_for_tokens(&envoy, 1.0).await;
}
