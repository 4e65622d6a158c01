//! Nothing is charged that was not made, nothing is forgotten, nothing is refilled.

use crate::{RETRIES, STOPS, count, empty, latest_balance, wait_for_tokens};
use lab::{Client, Config, Envoy, Origin, Reply, Request, json};
use std::time::Duration;

const ONE_AFTER_THE_OTHER: usize = 1000;

/// No deposit can hide a loss: the ratio is 0.
fn frozen(max: u32) -> lab::Value {
    json!({"budget": {"ratio": 0, "max_tokens": max}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_that_is_not_retried_costs_nothing() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let origin = Origin::always(503).await;
        let config = Config::load(file).upstream("orders", origin.addr()).policy(frozen(10)).without_retries();
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::new();
        for _ in 0..ONE_AFTER_THE_OTHER {
            client.get(envoy.addr(), "/").await.unwrap();
        }
        assert_eq!((origin.hits(), count(&envoy, STOPS).await), (ONE_AFTER_THE_OTHER, 0), "{file}");
        wait_for_tokens(&envoy, 10.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_attempt_costs_nothing() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let origin = Origin::always(503).await;
        // Room for every retry and not one more: each request makes exactly one.
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(frozen(1001))
            .retry(json!({"num_retries": 1, "retry_back_off": {"base_interval": "0.001s", "max_interval": "0.001s"}}));
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::new();
        for _ in 0..ONE_AFTER_THE_OTHER {
            client.get(envoy.addr(), "/").await.unwrap();
        }
        assert_eq!((origin.hits(), count(&envoy, STOPS).await), (2 * ONE_AFTER_THE_OTHER, 0), "{file}");
        wait_for_tokens(&envoy, 1.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_during_the_backoff_leaves_its_token() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .policy(frozen(10))
        .retry(json!({"retry_back_off": {"base_interval": "5s", "max_interval": "5s"}}));
    let envoy = Envoy::start(&config).await.unwrap();
    let addr = envoy.addr();
    let mut calls = Vec::new();
    for i in 0..5 {
        let call = tokio::spawn(async move { Client::new().get(addr, &format!("/{i}")).await });
        origin.wait_for_hits(i + 1).await.unwrap();
        calls.push(call);
    }
    wait_for_tokens(&envoy, 5.0).await;
    calls.iter().for_each(tokio::task::JoinHandle::abort);
    wait_for_tokens(&envoy, 10.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_balance_survives_an_update_and_a_lower_cap_cuts_it() {
    let origin = Origin::failing(1, 503).await;
    let config = |ratio: f64, max: u32| {
        Config::load("two-placements.yaml")
            .upstream("orders", origin.addr())
            .policy(json!({"budget": {"ratio": ratio, "max_tokens": max}, "log": "all"}))
    };
    let mut envoy = Envoy::start_updatable(&config(0.1, 10)).await.unwrap();
    let get = async |envoy: &Envoy, path: &str| Client::new().get(envoy.addr(), path).await.unwrap().status;
    // 7 retries; the first deposit does not fit, the six after it do: 10 − 7 + 6 × 0.1 = 3.6.
    for i in 0..7 {
        assert_eq!(get(&envoy, &format!("/{i}")).await, 200);
    }
    assert_eq!(latest_balance(&envoy), 3600);

    envoy.update(&config(0.0, 100)).await.unwrap();
    wait_for_tokens(&envoy, 3.0).await;
    assert_eq!(get(&envoy, "/after").await, 200);
    assert_eq!(latest_balance(&envoy), 2600, "3.6 less this retry, and no refill");

    envoy.update(&config(0.0, 2)).await.unwrap();
    wait_for_tokens(&envoy, 2.0).await;
    assert_eq!(get(&envoy, "/cut").await, 200);
    assert_eq!(latest_balance(&envoy), 1000, "2 less this retry");
    envoy.update(&config(0.0, 10)).await.unwrap();
    wait_for_tokens(&envoy, 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn time_fills_an_idle_bucket_and_the_gauge_shows_it() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({
        "budget": {"ratio": 0, "max_tokens": 3, "initial_tokens": 0, "min_retries_per_second": 5}
    }));
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().get(envoy.addr(), "/").await.unwrap();
    assert_eq!(count(&envoy, RETRIES).await, 0);
    tokio::time::sleep(Duration::from_millis(800)).await;
    wait_for_tokens(&envoy, 3.0).await;
    // The cap holds: three retries at once, and no fourth (two of three attempts each).
    let answers = Client::new().storm(envoy.addr(), 10, |i| Request::get(format!("/{i}"))).await;
    assert_eq!(answers.count(503), 10);
    let retries = count(&envoy, RETRIES).await;
    assert!((3..=4).contains(&retries), "{retries}: three, and one more if the storm took a fifth of a second");
}

#[tokio::test(flavor = "multi_thread")]
async fn deposits_on_success_are_earned_by_good_answers_alone() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let origin = Origin::always(200).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(json!({"budget": {"ratio": 1, "initial_tokens": 0, "deposit_on": "success"}}))
            .without_retries();
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::new();
        let bad = |status: u16| Reply::new(status);
        for (path, earns) in [("/200", true), ("/404", true), ("/503", false), ("/501", false), ("/cut", false)] {
            let before = envoy.stats().await.unwrap().gauge("retry_budget_tokens", &[]).unwrap_or(0.0);
            origin.answer(move |call| match call.path.as_str() {
                "/cut" => Reply::new(200).body(vec![b'x'; 4096]).cut(),
                path => bad(path[1..].parse().unwrap()),
            });
            let _ = client.get(envoy.addr(), path).await;
            wait_for_tokens(&envoy, if earns { before + 1.0 } else { before }).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_bucket_lets_first_attempts_flow() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(empty());
    let envoy = Envoy::start(&config).await.unwrap();
    let answers = Client::new().storm(envoy.addr(), 30, |i| Request::get(format!("/{i}"))).await;
    assert_eq!((origin.hits(), answers.count(503), count(&envoy, STOPS).await), (30, 30, 30));
}
