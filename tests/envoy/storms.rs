//! Fifty callers at once, of whom none is answered before all have come.

use crate::{ATTEMPTS, REQUESTS, RETRIES, STOPS, count, stopped_for};
use lab::{Client, Config, Envoy, Origin, Reply, Request, chain};

const CALLERS: usize = 50;

async fn storm(envoy: &Envoy) -> lab::Answers {
    Client::new().storm(envoy.addr(), CALLERS, |i| Request::get(format!("/{i}"))).await
}

fn refusal() -> Reply {
    Reply::new(503).header("x-from", "origin").body("the origin's own words")
}

#[tokio::test(flavor = "multi_thread")]
async fn all_503_makes_60_calls_and_everyone_has_the_origins_answer() {
    for file in ["two-placements.yaml", "attempt-only.yaml", "cluster-filters.yaml"] {
        let origin = Origin::holding(CALLERS, |_| refusal()).await;
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr())).await.unwrap();
        let answers = storm(&envoy).await;
        assert_eq!(origin.hits(), 60, "{file}");
        assert_eq!(answers.count(503), CALLERS, "{file}: {answers}");
        for answer in answers.iter() {
            assert_eq!(answer.text(), "the origin's own words", "{file}");
            assert_eq!(answer.header("x-from"), Some("origin"), "{file}");
            assert_eq!(answer.header("x-retry-stop"), Some("budget"), "{file}");
            assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"), "{file}");
        }
        let stats = envoy.stats().await.unwrap();
        // Envoy up to 1.38 names the series of a cluster's own filters otherwise.
        let in_cluster = |name: &str| stats.counter(&format!("envoy_cluster_wasmcustom_{name}"), &[]);
        let sum = |name| stats.counter(name, &[]) + in_cluster(name);
        assert_eq!((sum(REQUESTS), sum(ATTEMPTS), sum(RETRIES)), (50, 60, 10), "{file}");
        // 40 first attempts, and the 10 retries: no response was left to the router.
        assert_eq!(sum(STOPS), 50, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn http2_is_treated_alike() {
    let origin = Origin::holding(CALLERS, |_| refusal()).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).http2("orders");
    let envoy = Envoy::start(&config).await.unwrap();
    let answers = Client::http2().storm(envoy.addr(), CALLERS, |i| Request::get(format!("/{i}"))).await;
    assert_eq!((origin.hits(), answers.count(503)), (60, CALLERS), "{answers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn in_health_the_budget_is_invisible() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let origin = Origin::holding(CALLERS, |call| if call.index < 5 { refusal() } else { Reply::new(200) }).await;
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr())).await.unwrap();
        let answers = storm(&envoy).await;
        assert_eq!((origin.hits(), answers.count(200)), (55, CALLERS), "{file}: {answers}");
        assert_eq!(count(&envoy, STOPS).await, 0, "{file}");
        assert!(answers.iter().all(|a| a.header("x-retry-stop").is_none()), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_fail_twice_is_the_price() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let origin = Origin::holding(CALLERS, |call| if call.attempt <= 2 { 503 } else { 200 }).await;
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr())).await.unwrap();
        let answers = storm(&envoy).await;
        assert_eq!(origin.hits(), 60, "{file}: {answers}");
        // Hardly anybody is served: two of the ten tokens would have to go to one caller.
        assert!(answers.count(503) >= CALLERS - 5, "{file}: {answers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_retrying_layers_do_not_multiply() {
    let origin = Origin::always(503).await;
    let envoys = chain(4, &Config::load("two-placements.yaml"), "orders", origin.addr()).await.unwrap();
    let answers = Client::new().storm(envoys[0].addr(), 10, |i| Request::get(format!("/{i}"))).await;
    assert_eq!(answers.count(503), 10, "{answers}");
    assert!(origin.hits() <= 25, "{} calls at the bottom", origin.hits());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_does_not_eat_anothers_budget() {
    let dead = Origin::always(503).await;
    let good = Origin::failing(1, 503).await;
    let config =
        Config::load("two-placements.yaml").upstream("orders", dead.addr()).also("/payments", "payments", good.addr());
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    client.storm(envoy.addr(), 40, |i| Request::get(format!("/{i}"))).await;
    assert!(count(&envoy, STOPS).await > 0);
    // Ten failures one after the other: all ten tokens of the other upstream are there.
    for i in 0..10 {
        assert_eq!(client.get(envoy.addr(), &format!("/payments/{i}")).await.unwrap().status, 200);
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats.counter(RETRIES, &[("upstream", "payments")]), 10);
    assert_eq!(stats.counter(STOPS, &[("upstream", "payments")]), 0);
    assert!(stats.counter(STOPS, &stopped_for("budget")) > 0);
}
