//! `mode: observe` changes nothing and counts what enforcing would stop.

use crate::{ATTEMPTS, REQUESTS, RETRIES, STOPS, WOULD_STOP, count};
use lab::{Client, ClosedPort, Config, Envoy, Origin, Request, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_is_as_without_the_filter_and_counted_as_with_it() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let mut stops = Vec::new();
        for (mode, calls, counter) in [("enforce", 60, STOPS), ("observe", 150, WOULD_STOP)] {
            let origin = Origin::holding(50, |_| 503).await;
            let config = Config::load(file).upstream("orders", origin.addr()).policy(json!({"mode": mode}));
            let envoy = Envoy::start(&config).await.unwrap();
            let answers = Client::new().storm(envoy.addr(), 50, |i| Request::get(format!("/{i}"))).await;
            assert_eq!((origin.hits(), answers.count(503)), (calls, 50), "{file} {mode}");
            stops.push(count(&envoy, counter).await);
            if mode == "observe" {
                assert_eq!(count(&envoy, STOPS).await, 0, "{file}");
                assert!(answers.iter().all(|a| a.header("x-retry-stop").is_none()), "{file}");
                assert!(answers.iter().all(|a| a.header("x-envoy-ratelimited").is_none()), "{file}");
                assert!(envoy.decisions().iter().all(|d| d["decision"] == "would_stop"), "{file}");
            }
        }
        assert_eq!(stops, [50, 50], "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_retried_and_counted_once() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let closed = ClosedPort::new();
        let config = Config::load(file)
            .upstream("orders", closed.addr())
            .policy(json!({"mode": "observe", "budget": {"ratio": 0, "initial_tokens": 0}}));
        let envoy = Envoy::start(&config).await.unwrap();
        assert_eq!(Client::new().get(envoy.addr(), "/").await.unwrap().status, 503);
        assert_eq!(envoy.stat("cluster.orders.upstream_cx_connect_fail").await.unwrap(), 3, "{file}");
        assert_eq!((count(&envoy, WOULD_STOP).await, count(&envoy, ATTEMPTS).await), (1, 3), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn off_is_off() {
    let origin = Origin::holding(50, |_| 503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({"mode": "off"}));
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().storm(envoy.addr(), 50, |i| Request::get(format!("/{i}"))).await;
    assert_eq!(origin.hits(), 150);
    for name in [REQUESTS, ATTEMPTS, RETRIES, STOPS, WOULD_STOP] {
        assert_eq!(count(&envoy, name).await, 0, "{name}");
    }
}

/// One upstream is enforced, the other one only watched.
#[tokio::test(flavor = "multi_thread")]
async fn the_mode_is_the_upstreams_own() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .also("/new", "new-service", origin.addr())
        .policy(json!({
            "budget": {"ratio": 0, "initial_tokens": 0},
            "upstreams": {"new-*": {"mode": "observe"}}
        }));
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    client.get(envoy.addr(), "/").await.unwrap();
    assert_eq!(origin.hits(), 1);
    client.get(envoy.addr(), "/new").await.unwrap();
    assert_eq!(origin.hits(), 4);
}
