//! A Retry-After is waited for or ends the request, and no retry starts earlier than it asks.

use crate::{STOPS, stopped_for};
use lab::{Answer, Client, Config, Envoy, GrpcClient, GrpcOrigin, GrpcReply, Origin, Reply, json};
use std::time::{Duration, SystemTime};

const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

async fn start(file: &str, origin: &Origin, retry_after: lab::Value) -> Envoy {
    let config = Config::load(file).upstream("orders", origin.addr()).policy(json!({"retry_after": retry_after}));
    Envoy::start(&config).await.unwrap()
}

/// Fails the first call of each request with these headers, and answers the next one.
async fn asking(status: u16, headers: &'static [(&'static str, &'static str)]) -> Origin {
    Origin::start(move |call| match call.attempt {
        1 => {
            headers.iter().fold(Reply::new(status).body("own words"), |reply, (name, value)| reply.header(name, value))
        }
        _ => Reply::new(200),
    })
    .await
}

fn gap(origin: &Origin) -> f64 {
    let calls = origin.calls();
    (calls[1].at - calls[0].at).as_secs_f64()
}

/// Ten times: how fast it can be is what the filter is asked about, not how busy the machine is.
async fn assert_own_503_at_once(envoy: &Envoy, stop: &str, file: &str) -> Answer {
    let client = Client::new();
    let mut all = Vec::new();
    for i in 0..10 {
        let answer = client.get(envoy.addr(), &format!("/{i}")).await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (503, "own words"), "{file}");
        assert_eq!(answer.header("x-retry-stop"), Some(stop), "{file}");
        all.push(answer);
    }
    let fastest = all.into_iter().min_by_key(|answer| answer.latency).unwrap();
    assert!(fastest.latency < Duration::from_millis(50), "{file}: {:?}", fastest.latency);
    fastest
}

#[tokio::test(flavor = "multi_thread")]
async fn without_wait_the_original_response_comes_up_at_once() {
    for file in FILES {
        let origin = asking(503, &[("retry-after", "2")]).await;
        let envoy = start(file, &origin, json!({})).await;
        let answer = assert_own_503_at_once(&envoy, "retry-after", file).await;
        assert_eq!((origin.hits(), answer.header("retry-after")), (10, Some("2")), "{file}");
        assert_eq!(envoy.stats().await.unwrap().counter(STOPS, &stopped_for("retry-after")), 10, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_wait_the_next_call_comes_no_earlier_than_asked() {
    for (headers, least) in [
        (&[("retry-after", "2")][..], 2.0),
        (&[("retry-after", "1.5")][..], 1.5),
        (&[("retry-after-ms", "1500")][..], 1.5),
        (&[("retry-after", "1500ms")][..], 1.5),
    ] {
        let origin = asking(503, headers).await;
        let envoy = start("two-placements.yaml", &origin, json!({"wait": true})).await;
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, origin.hits()), (200, 2), "{headers:?}");
        assert_eq!(answer.header("x-retry-after-seconds"), None, "{headers:?}");
        assert!((least..6.0).contains(&gap(&origin)), "{headers:?}: {} s", gap(&origin));
    }
}

/// The date counts from the response's own `Date`, however wrong that clock is.
#[tokio::test(flavor = "multi_thread")]
async fn a_date_is_waited_for_by_the_origins_own_clock() {
    let origin = Origin::start(|call| {
        let wrong = SystemTime::now() + Duration::from_secs(600);
        let date = |time| httpdate::fmt_http_date(time);
        match call.attempt {
            1 => {
                Reply::new(503).header("date", date(wrong)).header("retry-after", date(wrong + Duration::from_secs(2)))
            }
            _ => Reply::new(200),
        }
    })
    .await;
    let envoy = start("attempt-only.yaml", &origin, json!({"wait": true})).await;
    let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
    assert_eq!((answer.status, origin.hits()), (200, 2));
    assert!((2.0..6.0).contains(&gap(&origin)), "{} s", gap(&origin));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_past_the_routes_timeout_is_not_begun() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(503).body("own words").header("retry-after", "5")).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(json!({"retry_after": {"wait": true, "hold": "off"}}))
            .route(json!({"timeout": "1s"}));
        let envoy = Envoy::start(&config).await.unwrap();
        assert_own_503_at_once(&envoy, "deadline", file).await;
        assert_eq!(origin.hits(), 10, "{file}");
    }
}

/// Envoy's jitter makes 2 s up to 3 s: what is left of 2.5 s is not enough, even if it would be half the time.
#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_may_end_too_late_never_costs_the_answer() {
    let origin = Origin::start(|_| Reply::new(503).header("retry-after", "2")).await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .policy(json!({"retry_after": {"wait": true, "hold": "off"}}))
        .route(json!({"timeout": "2.5s"}));
    let envoy = Envoy::start(&config).await.unwrap();
    let answers = Client::new().storm(envoy.addr(), 40, |i| lab::Request::get(format!("/{i}"))).await;
    assert_eq!((answers.count(503), origin.hits()), (40, 40), "{answers}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_that_does_not_wait_is_stopped_as_it_retries() {
    for file in FILES {
        let origin = asking(503, &[("retry-after", "2")]).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(json!({"retry_after": {"wait": true}}))
            .retry(json!({"rate_limited_retry_back_off": null}));
        let envoy = Envoy::start(&config).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, answer.header("x-retry-stop")), (503, Some("retry-after")), "{file}");
        assert_eq!(origin.hits(), 1, "{file}");
        assert!(answer.latency < Duration::from_secs(1), "{file}");
        crate::wait_for_tokens(&envoy, 10.0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_429_is_one_callers_own() {
    let origin = Origin::start(|call| match (call.path.as_str(), call.attempt) {
        ("/limited", _) => Reply::new(429).header("retry-after", "3"),
        (_, 1) => Reply::new(503),
        _ => Reply::new(200),
    })
    .await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .retry(json!({"retry_on": "5xx,retriable-status-codes", "retriable_status_codes": [429]}));
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    let limited = client.get(envoy.addr(), "/limited").await.unwrap();
    assert_eq!((limited.status, limited.header("x-retry-stop"), origin.hits()), (429, Some("retry-after"), 1));
    assert_eq!(client.get(envoy.addr(), "/others").await.unwrap().status, 200, "others are retried");
    assert_eq!(origin.hits(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_other_statuses_a_hint_is_no_hint() {
    for status in [200, 302] {
        let origin = Origin::start(move |_| Reply::new(status).header("retry-after", "30")).await;
        let envoy = start("two-placements.yaml", &origin, json!({"hold": "requests"})).await;
        for _ in 0..3 {
            let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
            assert_eq!((answer.status, answer.header("x-retry-stop")), (status, None));
        }
        assert_eq!(origin.hits(), 3);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_hint_is_ignored_and_counted() {
    let origin = asking(503, &[("retry-after", "-1"), ("retry-after-ms", "soon")]).await;
    let envoy = start("two-placements.yaml", &origin, json!({})).await;
    let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
    assert_eq!((answer.status, origin.hits()), (200, 2));
    let stats = envoy.stats().await.unwrap();
    for header in ["retry-after", "retry-after-ms"] {
        assert_eq!(stats.counter("retry_budget_malformed_total", &[("header", header)]), 1, "{header}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_pushback_stops_or_is_waited_for() {
    for (value, wait, calls) in [("250", false, 1), ("250", true, 2), ("-1", true, 1), ("abc", true, 1)] {
        let origin = GrpcOrigin::start(move |call| match call.attempt {
            1 => GrpcReply::failing(lab::Code::Unavailable, "busy").metadata("grpc-retry-pushback-ms", value),
            _ => GrpcReply::serving(),
        })
        .await;
        let config = Config::load("two-placements.yaml")
            .upstream("orders", origin.addr())
            .http2("orders")
            .policy(json!({"retry_after": {"wait": wait}}));
        let envoy = Envoy::start(&config).await.unwrap();
        let answer = GrpcClient::connect(envoy.addr()).await.unwrap().check("", None, &[]).await;
        assert_eq!(origin.hits(), calls, "{value} {wait}");
        if calls == 1 {
            assert_eq!(answer.code, lab::Code::Unavailable, "{value} {wait}");
            let all: Vec<_> = answer.metadata.get_all("grpc-retry-pushback-ms").iter().collect();
            assert_eq!(all, [value], "a client's own policy sees what the server said");
        } else {
            assert_eq!(answer.code, lab::Code::Ok, "{value} {wait}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_nothing_is_changed() {
    let origin = asking(503, &[("retry-after", "2")]).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({
        "mode": "observe", "retry_after": {"wait": false, "hold": "requests"}
    }));
    let envoy = Envoy::start(&config).await.unwrap();
    for path in ["/a", "/b"] {
        let answer = Client::new().get(envoy.addr(), path).await.unwrap();
        assert_eq!((answer.status, answer.header("x-retry-stop")), (200, None));
    }
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats.counter("retry_budget_would_stop_total", &stopped_for("retry-after")), 1);
    assert_eq!(stats.counter("retry_budget_would_reject_total", &stopped_for("hold")), 1);
    assert_eq!(stats.counter(STOPS, &[]) + stats.counter("retry_budget_rejects_total", &[]), 0);
}
