//! One response with a Retry-After protects the upstream from everybody's retries.

use crate::{ATTEMPTS, REQUESTS, RETRIES, STOPS, count, stopped_for};
use lab::{Client, Config, Envoy, Origin, Reply, Request, json, load};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const REJECTS: &str = "retry_budget_rejects_total";

async fn held_seconds(envoy: &Envoy) -> f64 {
    envoy.stats().await.unwrap().gauge("retry_budget_hold_seconds", &[("upstream", "orders")]).unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hint_holds_the_retries_of_all_workers_and_lets_first_attempts_flow() {
    let firsts = AtomicUsize::new(0);
    let origin = Origin::start(move |call| {
        if call.path == "/hint" {
            return Reply::new(503).header("retry-after", "2");
        }
        // Every second first attempt fails; a retry is answered.
        let fails = call.attempt == 1 && firsts.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        Reply::new(if fails { 503 } else { 200 })
    })
    .await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .policy(json!({"budget": {"max_tokens": 1000}}))
        .concurrency(4);
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().get(envoy.addr(), "/hint").await.unwrap();
    let hinted = Instant::now();
    let mut sent = 1;
    while hinted.elapsed() < Duration::from_millis(1800) {
        let answers = load(envoy.addr(), 64, 16, move |i| Request::get(format!("/{sent}-{i}"))).await;
        assert_eq!(answers.count(503) + answers.count(200), 64);
        sent += 64;
    }
    assert_eq!(count(&envoy, RETRIES).await, 0, "no retry while it holds");
    assert_eq!(origin.hits(), sent, "first attempts flow");
    let stats = envoy.stats().await.unwrap();
    assert!(stats.counter(STOPS, &stopped_for("hold")) > 0);
    tokio::time::sleep(Duration::from_millis(2050).saturating_sub(hinted.elapsed())).await;
    let answers = load(envoy.addr(), 64, 16, move |i| Request::get(format!("/{sent}-{i}"))).await;
    assert_eq!(answers.count(200), 64, "{answers}");
    let stats = envoy.stats().await.unwrap();
    let sum = |name| stats.counter(name, &[("upstream", "orders")]);
    assert!(sum(RETRIES) > 0);
    assert_eq!(sum(REQUESTS) + sum(RETRIES), origin.hits() as u64);
    assert_eq!(sum(ATTEMPTS), origin.hits() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_can_be_held_too() {
    for file in ["two-placements.yaml", "attempt-only.yaml", "request-only.yaml", "callee.yaml"] {
        let origin = Origin::start(|_| Reply::new(503).header("retry-after", "3")).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(json!({"retry_after": {"hold": "requests"}}))
            .concurrency(4);
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::new();
        if file == "request-only.yaml" {
            // It has to find out first that it is alone.
            origin.answer(|_| 200);
            client.storm(envoy.addr(), 40, |i| Request::get(format!("/{i}"))).await;
            origin.answer(|_| Reply::new(503).header("retry-after", "3"));
            origin.forget();
        }
        client.get(envoy.addr(), "/").await.unwrap();
        let called = origin.hits();
        let answers = client.storm(envoy.addr(), 30, |i| Request::get(format!("/{i}"))).await;
        assert_eq!((origin.hits(), answers.count(503)), (called, 30), "{file}: the origin sees nothing");
        for answer in answers.iter() {
            assert_eq!(answer.header("x-retry-stop"), Some("hold"), "{file}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{file}");
            let seconds: f64 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((2.0..=4.0).contains(&seconds), "{file}: {seconds}");
        }
        let stats = envoy.stats().await.unwrap();
        assert_eq!(stats.counter(REJECTS, &stopped_for("hold")), 30, "{file}");
        tokio::time::sleep(Duration::from_millis(3100)).await;
        origin.answer(|_| 200);
        assert_eq!(client.get(envoy.addr(), "/").await.unwrap().status, 200, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejections_carry_the_status_of_the_hint_and_earn_nothing() {
    let origin = Origin::start(|_| Reply::new(429).header("retry-after", "100")).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({
        "budget": {"ratio": 1, "initial_tokens": 0},
        "retry_after": {"hold": "requests", "hold_statuses": [429, 503]}
    }));
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    client.get(envoy.addr(), "/").await.unwrap();
    for _ in 0..5 {
        let answer = client.get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, answer.header("x-retry-stop")), (429, Some("hold")));
        // 100 s are asked for, 60 are obeyed: what is left of these, and up to a tenth more.
        let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
        assert!((59..=66).contains(&seconds), "{seconds}");
    }
    assert_eq!((origin.hits(), count(&envoy, REQUESTS).await), (1, 6));
    crate::wait_for_tokens(&envoy, 1.0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delay_over_the_limit_holds_for_the_limit() {
    let origin = Origin::start(|_| Reply::new(503).header("retry-after", "3600")).await;
    for wait in [false, true] {
        let config = Config::load("two-placements.yaml")
            .upstream("orders", origin.addr())
            .policy(json!({"retry_after": {"wait": wait}}));
        let envoy = Envoy::start(&config).await.unwrap();
        origin.forget();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((origin.hits(), answer.header("retry-after")), (1, Some("3600")));
        assert_eq!(answer.header("x-retry-stop"), Some("retry-after"));
        let held = held_seconds(&envoy).await;
        assert!((59.0..=60.0).contains(&held), "{held}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_hint_does_not_shorten_a_hold_and_a_success_does_not_end_it() {
    let origin = Origin::start(|call| match call.path.as_str() {
        "/long" => Reply::new(503).header("retry-after", "30"),
        "/short" => Reply::new(503).header("retry-after", "1"),
        _ => Reply::new(200),
    })
    .await;
    let envoy = Envoy::start(&Config::load("two-placements.yaml").upstream("orders", origin.addr())).await.unwrap();
    let client = Client::new();
    for path in ["/long", "/short", "/good"] {
        client.get(envoy.addr(), path).await.unwrap();
        let held = held_seconds(&envoy).await;
        assert!((28.0..=30.0).contains(&held), "{path}: {held}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hold_stops_retries_after_refused_connections_too() {
    for file in ["two-placements.yaml", "attempt-only.yaml"] {
        let origin = Origin::start(|_| Reply::new(503).header("retry-after", "30")).await;
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr())).await.unwrap();
        let client = Client::new();
        client.get(envoy.addr(), "/").await.unwrap();
        drop(origin);
        for i in 0..5 {
            let answer = client.get(envoy.addr(), &format!("/{i}")).await.unwrap();
            assert_eq!((answer.status, answer.header("x-retry-stop")), (503, Some("hold")), "{file}");
        }
        assert_eq!(count(&envoy, RETRIES).await, 0, "{file}");
        crate::wait_for_tokens(&envoy, 10.0).await;
    }
}
