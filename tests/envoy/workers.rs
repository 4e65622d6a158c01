//! Several worker threads, one bucket.

use crate::{ATTEMPTS, REQUESTS, RETRIES, STOPS, latest_balance};
use lab::{Client, Config, Envoy, Origin, Request, json, load};

#[tokio::test(flavor = "multi_thread")]
async fn four_workers_together_keep_to_the_budget() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).concurrency(4);
    let envoy = Envoy::start(&config).await.unwrap();
    let answers = load(envoy.addr(), 2000, 64, |i| Request::get(format!("/{i}"))).await;
    assert_eq!(answers.count(503), 2000, "{answers}");
    let stats = envoy.stats().await.unwrap();
    let sum = |name| stats.counter(name, &[("upstream", "orders")]);
    let retries = sum(RETRIES);
    assert!((190..=210).contains(&retries), "{retries} retries");
    assert_eq!(sum(REQUESTS), 2000);
    assert_eq!(sum(ATTEMPTS), origin.hits() as u64);
    assert_eq!(sum(REQUESTS) + retries, origin.hits() as u64);
    assert_eq!(stats.counter("retry_budget_host_errors_total", &[]), 0);
}

/// Every request earns a token and spends one on its retry, from a bucket that is almost empty: 20,000 deposits and
/// 20,000 withdrawals, from four threads at once. No cap is met, so nothing may be lost or won, to the thousandth.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_conserved_to_the_thousandth() {
    let origin = Origin::failing(1, 503).await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .policy(json!({"budget": {"ratio": 1.001, "max_tokens": 1000, "initial_tokens": 0.5}}))
        .concurrency(4);
    let envoy = Envoy::start(&config).await.unwrap();
    load(envoy.addr(), 20_000, 64, |i| Request::get(format!("/{i}"))).await;

    // What is left is drained by a failing request at a time, until a stop tells the balance.
    origin.answer(|_| 503);
    let before = envoy.stats().await.unwrap().counter(RETRIES, &[]);
    let client = Client::new();
    let mut drained = 0;
    while envoy.stats().await.unwrap().counter(STOPS, &[]) == 0 {
        client.get(envoy.addr(), "/drain").await.unwrap();
        drained += 1;
        assert!(drained < 200, "the bucket does not empty");
    }
    let retries = envoy.stats().await.unwrap().counter(RETRIES, &[]);
    assert!(before >= 19_900, "the load was retried: {before}");
    let earned = 500 + 1001 * (20_000 + drained);
    assert_eq!(latest_balance(&envoy), earned - 1000 * retries as i64);
}
