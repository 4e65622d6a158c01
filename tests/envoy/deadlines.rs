//! A request that says how long it may take is cut on time, and each attempt carries what is really left.

use crate::{REQUESTS, RETRIES, STOPS, count, stopped_for, wait_for_tokens};
use lab::{Answer, Client, Code, Config, Envoy, GrpcClient, GrpcOrigin, GrpcReply, Origin, Reply, Request, json};
use std::time::Duration;

const HEADER: &str = "x-request-deadline-ms";
const REJECTS: &str = "retry_budget_rejects_total";
const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

async fn start(file: &str, origin: &Origin, policy: lab::Value) -> Envoy {
    Envoy::start(&Config::load(file).upstream("orders", origin.addr()).policy(policy)).await.unwrap()
}

async fn with_deadline(envoy: &Envoy, value: &str) -> Answer {
    Client::new().send(envoy.addr(), Request::get("/").header(HEADER, value)).await.unwrap()
}

/// What the calls at the origin carried, in milliseconds.
fn told(origin: &Origin) -> Vec<f64> {
    origin.calls().iter().map(|call| call.header(HEADER).expect("a deadline").parse().unwrap()).collect()
}

/// Not earlier, and not much later: a busy machine adds to it, every timeout that is not the deadline adds far more.
fn assert_near(answer: &Answer, seconds: f64, what: &str) {
    let took = answer.latency.as_secs_f64();
    assert!((seconds - 0.02..seconds + 0.9).contains(&took), "{what}: {took} s instead of {seconds}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hanging_origin_is_cut_on_time() {
    let origin = Origin::start(|_| Reply::hang()).await;
    let envoy = start("two-placements.yaml", &origin, json!({"deadline": {"max": "2s"}})).await;
    for (value, seconds) in [("500", 0.5), ("60000", 2.0), ("999999999999999999999999999999", 2.0)] {
        let answer = with_deadline(&envoy, value).await;
        assert_eq!(answer.status, 504, "{value}");
        assert_near(&answer, seconds, value);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smallest_valid_value_counts_and_what_cannot_be_read_is_ignored() {
    let origin = Origin::always(200).await;
    let envoy = start("two-placements.yaml", &origin, json!({})).await;
    for value in ["abc", "1e3", "", "+5", "5ms"] {
        origin.forget();
        assert_eq!(with_deadline(&envoy, value).await.status, 200, "{value:?}");
        assert_eq!(origin.calls()[0].header(HEADER), Some(value), "{value:?}: left as it is");
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats.counter("retry_budget_malformed_total", &[("header", HEADER)]), 5);
    origin.forget();
    let two = Request::get("/").header(HEADER, "800").header(HEADER, "300");
    Client::new().send(envoy.addr(), two).await.unwrap();
    let told = told(&origin)[0];
    assert!((150.0..=300.0).contains(&told), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_request_is_answered_at_once_and_earns_nothing() {
    for file in ["two-placements.yaml", "attempt-only.yaml", "request-only.yaml", "callee.yaml"] {
        let origin = Origin::always(200).await;
        let envoy = start(file, &origin, json!({"budget": {"ratio": 1, "initial_tokens": 0}})).await;
        let client = Client::new();
        for value in ["0", "-5"] {
            let mut fastest = Duration::MAX;
            for _ in 0..10 {
                let answer = client.send(envoy.addr(), Request::get("/").header(HEADER, value)).await.unwrap();
                assert_eq!((answer.status, answer.header("x-retry-stop")), (504, Some("deadline")), "{file} {value}");
                fastest = fastest.min(answer.latency);
            }
            assert!(fastest < Duration::from_millis(20), "{file}: {fastest:?}");
        }
        assert_eq!(origin.hits(), 0, "{file}");
        let stats = envoy.stats().await.unwrap();
        assert_eq!(stats.counter(REJECTS, &stopped_for("deadline")), 20, "{file}");
        assert_eq!(count(&envoy, REQUESTS).await, 20, "{file}");
        wait_for_tokens(&envoy, 0.0).await;
    }
}

/// Each Envoy takes 100 ms of its own, between the arrival of a request and its first attempt. (Ten more, because its
/// timers count from the beginning of the event loop's round, not from the moment when they are set.)
fn slow_hop() -> Config {
    Config::load("two-placements.yaml")
        .connection_manager(json!({
            "access_log": [{"name": "envoy.access_loggers.stdout", "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                "log_format": {"json_format": {"told": "%REQ(X-REQUEST-DEADLINE-MS)%"}}
            }}]
        }))
        .edit(|bootstrap| {
            let chain = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0];
            let filters = chain["filters"][0]["typed_config"]["http_filters"].as_array_mut().unwrap();
            filters.insert(
                1,
                json!({"name": "envoy.filters.http.fault", "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
                    "delay": {"fixed_delay": "0.11s", "percentage": {"numerator": 100}}
                }}),
            );
        })
}

#[tokio::test(flavor = "multi_thread")]
async fn three_hops_pass_on_what_is_left() {
    let origin = Origin::start(|_| Reply::new(200).after(Duration::from_secs(5))).await;
    let envoys = lab::chain(3, &slow_hop(), "orders", origin.addr()).await.unwrap();
    let answer = with_deadline(&envoys[0], "1000").await;
    assert_eq!(answer.status, 504);
    assert_near(&answer, 1.0, "every route says 15 s");
    let mut seen = vec![1000.0];
    for envoy in &envoys {
        let access = envoy.wait_for_access_log(1).await.unwrap();
        seen.push(access[0]["told"].as_str().unwrap().parse().unwrap());
    }
    assert_eq!(seen[3], told(&origin)[0]);
    assert!(seen.windows(2).all(|hop| hop[0] - hop[1] >= 100.0), "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_carries_less_than_the_one_before() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(503).after(Duration::from_millis(200))).await;
        let envoy = start(file, &origin, json!({})).await;
        with_deadline(&envoy, "5000").await;
        let (told, calls) = (told(&origin), origin.calls());
        assert_eq!(told.len(), 3, "{file}");
        for i in 1..3 {
            let passed = (calls[i].at - calls[i - 1].at).as_secs_f64() * 1000.0;
            let lost = told[i - 1] - told[i];
            assert!(lost >= 200.0 && (lost - passed).abs() < 150.0, "{file}: {lost} of {passed} ms");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_cannot_finish_is_not_tried() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(503).body("own words").after(Duration::from_millis(800))).await;
        let envoy = start(file, &origin, json!({"deadline": {"min_remaining": "300ms"}})).await;
        let answer = with_deadline(&envoy, "1000").await;
        assert_eq!((answer.status, answer.text().as_str(), origin.hits()), (503, "own words", 1), "{file}");
        assert_eq!(answer.header("x-retry-stop"), Some("deadline"), "{file}");
        let stats = envoy.stats().await.unwrap();
        assert_eq!(stats.counter(STOPS, &stopped_for("deadline")), 1, "{file}");
    }
}

/// No header: the route's own timeout serves, and a default is taken where there is one.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_header_the_default_or_the_routes_timeout_serves() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(503).after(Duration::from_millis(800))).await;
        for (policy, timeout) in [
            (json!({"deadline": {"min_remaining": "300ms"}}), "1s"),
            (json!({"deadline": {"min_remaining": "300ms", "default": "1s"}}), "15s"),
        ] {
            origin.forget();
            let config =
                Config::load(file).upstream("orders", origin.addr()).policy(policy).route(json!({"timeout": timeout}));
            let envoy = Envoy::start(&config).await.unwrap();
            let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
            assert_eq!((answer.header("x-retry-stop"), origin.hits()), (Some("deadline"), 1), "{file} {timeout}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_may_not_outlast_the_deadline() {
    for file in FILES {
        let origin = Origin::always(200).await;
        let envoy = start(file, &origin, json!({})).await;
        let slow = Request::post("/", "all of it").header(HEADER, "500").trickle(Duration::from_millis(600));
        let answer = Client::new().send(envoy.addr(), slow).await.unwrap();
        assert_eq!((answer.status, answer.header("x-retry-stop")), (504, Some("deadline")), "{file}");
        assert!((0.59..2.0).contains(&answer.latency.as_secs_f64()), "{file}: {:?}", answer.latency);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_far_away_is_a_wrong_clock() {
    let origin = Origin::always(200).await;
    let policy = json!({"deadline": {"accept": [{"header": "x-deadline", "format": "epoch-ms"}]}});
    let envoy = start("two-placements.yaml", &origin, policy).await;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    for (moment, expected) in [(now - 3_600_000, None), (now + 3_600_000, None), (now + 5000, Some(5000.0))] {
        origin.forget();
        let request = Request::get("/").header("x-deadline", moment.to_string());
        assert_eq!(Client::new().send(envoy.addr(), request).await.unwrap().status, 200);
        let told: Option<f64> = origin.calls()[0].header(HEADER).map(|v| v.parse().unwrap());
        assert_eq!(told.is_some(), expected.is_some(), "{moment}");
        if let (Some(told), Some(expected)) = (told, expected) {
            assert!((expected - 1000.0..=expected).contains(&told), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_holds_for_all_tries_together() {
    let origin = Origin::start(|_| Reply::hang()).await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .retry(json!({"per_try_timeout": "0.3s", "num_retries": 10}));
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = with_deadline(&envoy, "1000").await;
    assert_eq!(answer.status, 504);
    assert_near(&answer, 1.0, "all tries");
    assert!(count(&envoy, RETRIES).await >= 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_is_cut_as_deadline_exceeded() {
    for file in FILES {
        let origin = GrpcOrigin::start(|_| GrpcReply::serving().after(Duration::from_secs(2))).await;
        let config = Config::load(file).upstream("orders", origin.addr()).http2("orders");
        let envoy = Envoy::start(&config).await.unwrap();
        let client = GrpcClient::connect(envoy.addr()).await.unwrap();
        let answer = client.check("", Some(Duration::from_millis(500)), &[]).await;
        // A client that gives up by itself calls it cancelled.
        assert!(matches!(answer.code, Code::DeadlineExceeded | Code::Cancelled), "{file}: {:?}", answer.code);
        if file == "two-placements.yaml" {
            // A caller that waits longer than it says sees what the proxy answers.
            let answer = client.check("", None, &[(HEADER, "300")]).await;
            assert_eq!(answer.code, Code::DeadlineExceeded, "{file}");
            assert!((0.28..1.2).contains(&answer.latency.as_secs_f64()), "{:?}", answer.latency);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_attempts_grpc_timeout_is_smaller() {
    for file in FILES {
        let origin = GrpcOrigin::start(|call| match call.attempt {
            1 => GrpcReply::failing(Code::Unavailable, "").after(Duration::from_millis(300)),
            _ => GrpcReply::serving(),
        })
        .await;
        let config = Config::load(file).upstream("orders", origin.addr()).http2("orders");
        let envoy = Envoy::start(&config).await.unwrap();
        let client = GrpcClient::connect(envoy.addr()).await.unwrap();
        let answer = client.check("", Some(Duration::from_millis(2000)), &[]).await;
        assert_eq!((answer.code, origin.hits()), (Code::Ok, 2), "{file}");
        let micros = |i: usize| {
            let value = origin.calls()[i].timeout.clone().expect("grpc-timeout");
            let (digits, unit) = value.split_at(value.len() - 1);
            let unit = match unit {
                "u" => 1,
                "m" => 1000,
                "S" => 1_000_000,
                other => panic!("{other}"),
            };
            digits.parse::<u64>().unwrap() * unit
        };
        let lost = micros(0) - micros(1);
        assert!((300_000..1_000_000).contains(&lost), "{file}: {lost} µs");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_grpc_call_is_answered_in_grpc() {
    let origin = GrpcOrigin::start(|_| GrpcReply::serving()).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).http2("orders");
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = GrpcClient::connect(envoy.addr()).await.unwrap().check("", None, &[(HEADER, "0")]).await;
    assert_eq!((answer.code, origin.hits()), (Code::DeadlineExceeded, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_nothing_is_cut_and_no_header_changes() {
    let origin = Origin::start(|_| Reply::new(200).after(Duration::from_millis(300))).await;
    let envoy = start("two-placements.yaml", &origin, json!({"mode": "observe"})).await;
    for value in ["0", "100"] {
        assert_eq!(with_deadline(&envoy, value).await.status, 200);
    }
    assert_eq!(told(&origin), [0.0, 100.0]);
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats.counter("retry_budget_would_reject_total", &stopped_for("deadline")), 1);
    assert_eq!(stats.counter(REJECTS, &[]), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_deadline_no_header() {
    for file in FILES {
        let origin = Origin::always(200).await;
        let envoy = start(file, &origin, json!({})).await;
        assert_eq!(Client::new().get(envoy.addr(), "/").await.unwrap().status, 200);
        assert_eq!(origin.calls()[0].header(HEADER), None, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_left_is_seen_in_a_histogram() {
    let origin = Origin::always(200).await;
    let envoy = start("two-placements.yaml", &origin, json!({})).await;
    for _ in 0..10 {
        with_deadline(&envoy, "1000").await;
    }
    let mut seen = None;
    for _ in 0..150 {
        seen = envoy.stats().await.unwrap().gauge("retry_budget_deadline_remaining_ms_count", &[]);
        if seen == Some(10.0) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{seen:?} observations");
}
