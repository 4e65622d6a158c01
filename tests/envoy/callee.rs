//! On the side of the service that is called, behind callers whose Envoys retry.

use crate::{ATTEMPTS, REQUESTS, RETRIES, STOPS, count, empty, stopped_for};
use lab::{Client, Config, Envoy, Origin, Reply, Request, json};

async fn behind_a_caller(origin: &Origin, policy: lab::Value) -> (Envoy, Envoy) {
    let callee = Envoy::start(&Config::load("callee.yaml").upstream("orders", origin.addr()).policy(policy)).await;
    let callee = callee.unwrap();
    let caller = Envoy::start(&Config::load("control.yaml").upstream("orders", callee.addr())).await.unwrap();
    (caller, callee)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_bucket_lets_only_first_attempts_in() {
    let origin = Origin::start(|_| Reply::new(503).body("own words")).await;
    let (caller, callee) = behind_a_caller(&origin, empty()).await;
    let client = Client::new();
    for i in 0..20 {
        let answer = client.get(caller.addr(), &format!("/{i}")).await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (503, "own words"));
        assert_eq!(answer.header("x-retry-stop"), Some("budget"));
    }
    assert_eq!(origin.hits(), 20);
    // The caller's Envoy gave up at once: it did not come back to be refused.
    assert_eq!(caller.stat("cluster.orders.upstream_rq_total").await.unwrap(), 20);
    let stats = callee.stats().await.unwrap();
    assert_eq!(stats.counter(STOPS, &stopped_for("budget")), 20);
    assert_eq!((stats.counter(REQUESTS, &[]), stats.counter(RETRIES, &[])), (20, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_callers_is_held_to_the_budget() {
    let origin = Origin::holding(50, |_| 503).await;
    let (caller, callee) = behind_a_caller(&origin, json!({})).await;
    let answers = Client::new().storm(caller.addr(), 50, |i| Request::get(format!("/{i}"))).await;
    assert_eq!((origin.hits(), answers.count(503)), (60, 50), "{answers}");
    assert_eq!((count(&callee, ATTEMPTS).await, count(&callee, RETRIES).await), (60, 10));
    // Those that came in vain were told so by the callee's Envoy.
    let refused = answers.iter().filter(|a| a.header("content-type") == Some("application/problem+json"));
    assert!(refused.clone().count() > 0);
    assert!(refused.clone().all(|a| a.header("x-retry-stop") == Some("budget")));
}

#[tokio::test(flavor = "multi_thread")]
async fn in_health_retries_come_through() {
    let origin = Origin::failing(1, 503).await;
    let (caller, callee) = behind_a_caller(&origin, json!({})).await;
    for i in 0..5 {
        assert_eq!(Client::new().get(caller.addr(), &format!("/{i}")).await.unwrap().status, 200);
    }
    assert_eq!((count(&callee, RETRIES).await, count(&callee, STOPS).await), (5, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_count_is_no_retry() {
    let origin = Origin::always(200).await;
    let config = Config::load("callee.yaml").upstream("orders", origin.addr()).policy(empty());
    let envoy = Envoy::start(&config).await.unwrap();
    for value in [&b"x"[..], b"", b"-1", b"0", b"99999999999999999999", b"\xff", b"1"] {
        let request = Request::get("/").header("x-envoy-attempt-count", value);
        assert_eq!(Client::new().send(envoy.addr(), request).await.unwrap().status, 200, "{value:?}");
    }
    let retry = Request::get("/").header("x-envoy-attempt-count", "2");
    assert_eq!(Client::new().send(envoy.addr(), retry).await.unwrap().status, 503);
    assert_eq!(origin.hits(), 7);
}
