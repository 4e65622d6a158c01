//! The breaker stops when the evidence is in, for all workers together.

use crate::{STOPS, count, stopped_for};
use lab::{
    Client, ClosedPort, Config, Envoy, GrpcClient, GrpcOrigin, GrpcReply, Origin, Reply, Request, chain, json, load,
};
use std::time::{Duration, Instant};

const REJECTS: &str = "retry_budget_rejects_total";
const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

fn config(file: &str, origin: &Origin, breaker: lab::Value) -> Config {
    Config::load(file).upstream("orders", origin.addr()).policy(json!({"breaker": breaker}))
}

async fn start(file: &str, origin: &Origin, breaker: lab::Value) -> Envoy {
    Envoy::start(&config(file, origin, breaker)).await.unwrap()
}

async fn state(envoy: &Envoy) -> f64 {
    envoy.stats().await.unwrap().gauge("retry_budget_breaker_state", &[("upstream", "orders")]).unwrap_or(0.0)
}

async fn get(envoy: &Envoy, path: &str) -> lab::Answer {
    Client::new().get(envoy.addr(), path).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn open_it_answers_in_the_upstreams_place() {
    for file in ["two-placements.yaml", "attempt-only.yaml", "request-only.yaml", "callee.yaml"] {
        let origin = Origin::always(503).await;
        let config = config(file, &origin, json!({"open_for": "20s"})).concurrency(1);
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::new();
        for i in 0..6 {
            client.get(envoy.addr(), &format!("/{i}")).await.unwrap();
        }
        assert_eq!(state(&envoy).await, 2.0, "{file}");
        let calls = origin.hits();
        let mut fastest = Duration::MAX;
        for _ in 0..20 {
            let answer = client.get(envoy.addr(), "/").await.unwrap();
            assert_eq!((answer.status, answer.header("x-retry-stop")), (503, Some("breaker")), "{file}");
            let seconds: u32 = answer.header("retry-after").unwrap().parse().unwrap();
            assert!((15..=22).contains(&seconds), "{file}: {seconds}");
            fastest = fastest.min(answer.latency);
        }
        assert!(fastest < Duration::from_millis(5), "{file}: {fastest:?}");
        assert_eq!(origin.hits(), calls, "{file}: nothing at the origin");
        assert!(envoy.stats().await.unwrap().counter(REJECTS, &stopped_for("breaker")) >= 20, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_failure_that_opens_it_is_not_retried() {
    for file in FILES {
        let origin = Origin::always(503).await;
        let envoy = start(file, &origin, json!({"consecutive_failures": 2})).await;
        let answer = get(&envoy, "/").await;
        assert_eq!((origin.hits(), answer.header("x-retry-stop")), (2, Some("breaker")), "{file}");
        assert_eq!(envoy.stats().await.unwrap().counter(STOPS, &stopped_for("breaker")), 1, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_success_ends_the_row() {
    for file in FILES {
        let origin = Origin::start(|call| if call.path == "/good" { 200 } else { 500 }).await;
        let config = config(file, &origin, json!({"consecutive_failures": 5})).without_retries();
        let envoy = Envoy::start(&config).await.unwrap();
        for path in ["/bad", "/bad", "/bad", "/bad", "/good", "/bad", "/bad", "/bad", "/bad"] {
            get(&envoy, path).await;
        }
        assert_eq!((origin.hits(), state(&envoy).await), (9, 0.0), "{file}");
        get(&envoy, "/bad").await;
        assert_eq!(state(&envoy).await, 2.0, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_ratio_counts_from_a_minimum_of_requests() {
    let breaker = json!({"failure_ratio": 0.5, "min_requests": 20});
    for file in FILES {
        let origin = Origin::start(|call| if call.path == "/bad" { 500 } else { 200 }).await;
        let envoy = Envoy::start(&config(file, &origin, breaker.clone()).without_retries()).await.unwrap();
        for path in ["/bad", "/bad"] {
            get(&envoy, path).await;
        }
        assert_eq!(state(&envoy).await, 0.0, "{file}: two failures at the start are no evidence");
        for _ in 0..10 {
            get(&envoy, "/good").await;
        }
        // What went well is gathered by each worker and told on its next tick.
        tokio::time::sleep(Duration::from_millis(1200)).await;
        for _ in 0..7 {
            get(&envoy, "/bad").await;
        }
        assert_eq!(state(&envoy).await, 0.0, "{file}: 9 of 19");
        get(&envoy, "/bad").await;
        assert_eq!(state(&envoy).await, 2.0, "{file}: 10 of 20");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_answers_open_it() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(200).after(Duration::from_millis(120))).await;
        let envoy = start(file, &origin, json!({"consecutive_failures": 3, "slow_call": "100ms"})).await;
        for _ in 0..3 {
            assert_eq!(get(&envoy, "/").await.status, 200, "{file}");
        }
        assert_eq!((get(&envoy, "/").await.status, origin.hits()), (503, 3), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_caller_did_wrong_is_no_failure() {
    for file in FILES {
        let origin = Origin::start(|call| call.path[1..].parse::<u16>().unwrap()).await;
        let envoy = start(file, &origin, json!({"consecutive_failures": 2})).await;
        for path in ["/400", "/404", "/409", "/429", "/422"] {
            get(&envoy, path).await;
        }
        assert_eq!(state(&envoy).await, 0.0, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_refused_connections_and_timeouts_are_failures_and_cancels_are_not() {
    for file in FILES {
        let breaker = json!({"consecutive_failures": 3});
        let closed = ClosedPort::new();
        let refused =
            Config::load(file).upstream("orders", closed.addr()).policy(json!({"breaker": breaker})).without_retries();
        let resets = Origin::start(|_| Reply::reset()).await;
        let cut = Origin::start(|_| Reply::new(200).body(vec![b'x'; 4096]).cut()).await;
        let hangs = Origin::start(|_| Reply::hang()).await;
        for (what, config) in [
            ("refused", refused),
            ("reset", config(file, &resets, breaker.clone()).without_retries()),
            ("cut", config(file, &cut, breaker.clone()).without_retries()),
            ("timeout", config(file, &hangs, breaker.clone()).without_retries().route(json!({"timeout": "0.1s"}))),
        ] {
            let envoy = Envoy::start(&config).await.unwrap();
            for _ in 0..3 {
                let _ = Client::new().get(envoy.addr(), "/").await;
            }
            let answer = get(&envoy, "/").await;
            assert_eq!(answer.header("x-retry-stop"), Some("breaker"), "{file} {what}");
        }
        // A client that leaves says nothing of the upstream.
        let envoy = Envoy::start(&config(file, &hangs, breaker).without_retries()).await.unwrap();
        hangs.forget();
        for i in 0..5 {
            let addr = envoy.addr();
            let call = tokio::spawn(async move { Client::new().get(addr, "/").await });
            hangs.wait_for_hits(i + 1).await.unwrap();
            call.abort();
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(state(&envoy).await, 0.0, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_open_one_call_a_period_over_all_workers() {
    let origin = Origin::always(503).await;
    let breaker = json!({"consecutive_failures": 5, "open_for": "1s"});
    let config = config("two-placements.yaml", &origin, breaker).without_retries().concurrency(4);
    let envoy = Envoy::start(&config).await.unwrap();
    let until = Instant::now() + Duration::from_millis(4600);
    while Instant::now() < until {
        load(envoy.addr(), 400, 8, |i| Request::get(format!("/{i}"))).await;
    }
    let calls = origin.calls();
    // The first burst opens it; a few calls may be under way as the fifth fails. After that one call a second.
    let opened = calls[4].at;
    let probes: Vec<f64> = calls.iter().map(|call| (call.at - opened).as_secs_f64()).filter(|at| *at > 0.5).collect();
    assert!((3..=4).contains(&probes.len()), "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= 0.99), "{probes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_goes_well_closes_it_and_a_cancelled_one_frees_its_place() {
    for file in FILES {
        let origin = Origin::always(503).await;
        let envoy = start(file, &origin, json!({"consecutive_failures": 1, "open_for": "0.3s"})).await;
        get(&envoy, "/").await;
        assert_eq!(state(&envoy).await, 2.0, "{file}");
        tokio::time::sleep(Duration::from_millis(350)).await;
        origin.answer(|_| Reply::hang());
        origin.forget();
        let addr = envoy.addr();
        let probe = tokio::spawn(async move { Client::new().get(addr, "/probe").await });
        origin.wait_for_hits(1).await.unwrap();
        assert_eq!(get(&envoy, "/").await.header("x-retry-stop"), Some("breaker"), "{file}: one probe at a time");
        probe.abort();
        origin.answer(|_| 200);
        let mut answer = get(&envoy, "/").await;
        for _ in 0..40 {
            if answer.status == 200 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            answer = get(&envoy, "/").await;
        }
        assert_eq!((answer.status, state(&envoy).await), (200, 0.0), "{file}");
    }
}

/// Its own refusals, and those of the bulkhead, are not the upstream's failures; and they say when to come back.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_bulkhead_leaves_it_closed() {
    let origin = Origin::start(|_| Reply::new(200).after(Duration::from_millis(100))).await;
    // The shipped file, with limits that thirty callers meet.
    let limits = json!({"max_connections": 2, "max_pending_requests": 1, "max_requests": 2, "max_retries": 100});
    let config = Config::load("bulkhead.yaml")
        .upstream("orders", origin.addr())
        .cluster("orders", json!({"circuit_breakers": {"thresholds": [limits]}}));
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    let begin = Instant::now();
    for round in 0.. {
        if begin.elapsed() > Duration::from_secs(10) {
            break;
        }
        let answers = client.storm(envoy.addr(), 30, |i| Request::get(format!("/{round}-{i}"))).await;
        assert!(answers.count(503) > 0 && answers.count(200) > 0, "{answers}");
        for refused in answers.iter().filter(|a| a.status == 503) {
            assert_eq!((refused.header("retry-after"), refused.header("x-retry-stop")), (Some("1"), None));
        }
    }
    assert_eq!(state(&envoy).await, 0.0);
    assert_eq!(count(&envoy, crate::RETRIES).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_failures_count_that_nobody_retries() {
    for file in FILES {
        let origin = GrpcOrigin::start(|_| GrpcReply::failing(lab::Code::DataLoss, "lost")).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .http2("orders")
            .policy(json!({"breaker": {"consecutive_failures": 3}}));
        let envoy = Envoy::start(&config).await.unwrap();
        let client = GrpcClient::connect(envoy.addr()).await.unwrap();
        for _ in 0..3 {
            assert_eq!(client.check("", None, &[]).await.code, lab::Code::DataLoss, "{file}");
        }
        let answer = client.check("", None, &[]).await;
        assert_eq!((answer.code, origin.hits()), (lab::Code::Unavailable, 3), "{file}");
    }
}

/// A stream that began well and ends badly says so in its trailers.
#[tokio::test(flavor = "multi_thread")]
async fn grpc_failures_count_in_trailers_too() {
    for file in FILES {
        let origin = Origin::start(|_| {
            Reply::new(200).header("content-type", "application/grpc").body("").trailer("grpc-status", "13")
        })
        .await;
        let config = config(file, &origin, json!({"consecutive_failures": 3})).http2("orders");
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::http2();
        let call = || Request::post("/a/b", "").header("content-type", "application/grpc").header("te", "trailers");
        for _ in 0..3 {
            let answer = client.send(envoy.addr(), call()).await.unwrap();
            assert_eq!(answer.trailers.get("grpc-status").unwrap(), "13", "{file}");
        }
        let answer = client.send(envoy.addr(), call()).await.unwrap();
        assert_eq!((answer.header("x-retry-stop"), origin.hits()), (Some("breaker"), 3), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn four_layers_above_a_dead_origin() {
    let breaker = json!({"consecutive_failures": 5, "open_for": "30s"});
    let generous = json!({"ratio": 10, "max_tokens": 100_000});
    for (what, policy, most) in [
        (
            "breaker alone",
            json!({"breaker": breaker, "budget": generous, "stop_signal": {"emit": "none", "honor": false}}),
            15,
        ),
        ("budget alone", json!({}), 25),
        ("both", json!({"breaker": breaker}), 14),
        ("every failure tells", json!({"stop_signal": {"emit": "failed"}}), 20),
    ] {
        let origin = Origin::always(503).await;
        let config = Config::load("two-placements.yaml").policy(policy);
        let envoys = chain(4, &config, "orders", origin.addr()).await.unwrap();
        let answers = Client::new().storm(envoys[0].addr(), 10, |i| Request::get(format!("/{i}"))).await;
        assert_eq!(answers.count(503), 10, "{what}: {answers}");
        println!("{what}: {} calls", origin.hits());
        assert!(origin.hits() <= most, "{what}: {} calls", origin.hits());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_it_refuses_nobody() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({
        "mode": "observe", "breaker": {"consecutive_failures": 2}
    }));
    let envoy = Envoy::start(&config).await.unwrap();
    for hits in [3, 6, 9] {
        assert_eq!(get(&envoy, "/").await.header("x-retry-stop"), None);
        assert_eq!(origin.hits(), hits);
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats.counter("retry_budget_would_stop_total", &stopped_for("breaker")), 1);
    assert_eq!(stats.counter("retry_budget_would_reject_total", &stopped_for("breaker")), 2);
}
