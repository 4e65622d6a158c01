//! How a stop looks: a mark on the origin's own response, or a local reply where there is none.

use crate::{ATTEMPTS, RETRIES, STOPS, count, empty, stopped_for, wait_for_tokens};
use lab::{Client, ClosedPort, Config, Envoy, Origin, Reply, Request, json};

const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

#[tokio::test(flavor = "multi_thread")]
async fn without_a_response_a_stop_is_a_problem_document() {
    for file in FILES {
        let closed = ClosedPort::new();
        let config = Config::load(file).upstream("orders", closed.addr()).policy(empty());
        let envoy = Envoy::start(&config).await.unwrap();
        let client = Client::new();
        for n in 1..=5 {
            let answer = client.get(envoy.addr(), "/").await.unwrap();
            assert_eq!(answer.status, 503, "{file}");
            assert_eq!(answer.header("x-retry-stop"), Some("budget"), "{file}");
            assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"), "{file}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{file}");
            let problem: lab::Value = serde_json::from_str(&answer.text()).unwrap();
            assert_eq!((&problem["status"], &problem["reason"]), (&json!(503), &json!("budget")), "{file}");
            assert_eq!(problem["title"], "Service Unavailable", "{file}");
            assert!(problem["detail"].as_str().is_some_and(|d| !d.is_empty()), "{file}");
            // One attempt a request. (For the refused one Envoy's pool has begun a connection before any filter runs;
            // nothing is sent on it.)
            assert_eq!(count(&envoy, ATTEMPTS).await, n, "{file}");
            assert_eq!(envoy.stat("cluster.orders.upstream_rq_retry").await.unwrap(), n, "{file}");
        }
        let stats = envoy.stats().await.unwrap();
        assert_eq!(stats.counter(STOPS, &stopped_for("budget")), 5, "{file}");
        let decision = &envoy.decisions()[0];
        assert_eq!((&decision["outcome"], &decision["attempt"]), (&json!("connect-failure"), &json!(2)), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_are_retried_within_the_budget() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::reset()).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(json!({"budget": {"ratio": 0, "max_tokens": 1}}));
        let envoy = Envoy::start(&config).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, answer.header("x-retry-stop")), (503, Some("budget")), "{file}");
        assert_eq!((origin.hits(), count(&envoy, RETRIES).await), (2, 1), "{file}");
        assert_eq!(envoy.decisions().last().unwrap()["outcome"], "reset", "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_per_try_timeout_is_retried_within_the_budget() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::hang()).await;
        let config = Config::load(file)
            .upstream("orders", origin.addr())
            .policy(json!({"budget": {"ratio": 0, "max_tokens": 1}}))
            .retry(json!({"per_try_timeout": "0.1s"}));
        let envoy = Envoy::start(&config).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, answer.header("x-retry-stop")), (503, Some("budget")), "{file}");
        assert_eq!((origin.hits(), count(&envoy, ATTEMPTS).await), (2, 2), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statuses_that_only_the_route_retries() {
    let retried = json!({"retry_on": "retriable-status-codes", "retriable_status_codes": [404]});
    let known = json!({"budget": {"ratio": 0, "initial_tokens": 0}, "retriable": {"statuses": ["5xx", 404]}});
    for file in FILES {
        for (policy, own) in [(known.clone(), true), (empty(), false)] {
            let origin = Origin::start(|_| Reply::new(404).body("not here")).await;
            let config = Config::load(file).upstream("orders", origin.addr()).policy(policy).retry(retried.clone());
            let envoy = Envoy::start(&config).await.unwrap();
            let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
            assert_eq!(origin.hits(), 1, "{file}: not retried");
            assert_eq!(answer.header("x-retry-stop"), Some("budget"), "{file}");
            if own {
                assert_eq!((answer.status, answer.text().as_str()), (404, "not here"), "{file}");
            } else {
                assert_eq!(answer.status, 503, "{file}");
            }
        }
    }
}

/// What a client or an upstream sends moves no budget and changes no answer.
#[tokio::test(flavor = "multi_thread")]
async fn forged_and_broken_headers_change_nothing() {
    let forged = |i: usize| {
        let mut request = Request::get(format!("/{i}"))
            .header("x-envoy-attempt-count", "7")
            .header("x-retry-stop", "budget")
            .header("x-envoy-max-retries", "9")
            .header("x-envoy-ratelimited", "true")
            .header("x-request-id", b"\xff\xfe\"\x80");
        for n in 0..60 {
            request = request.header(&format!("x-many-{n}"), b"v\xc3\x28");
        }
        request
    };
    for file in ["two-placements.yaml", "attempt-only.yaml", "request-only.yaml"] {
        for counted_by_envoy in [true, false] {
            let origin =
                Origin::start(|_| Reply::new(200).header("x-weird", b"\xff\x80").header("grpc-status", "\u{b2}")).await;
            let config = Config::load(file)
                .upstream("orders", origin.addr())
                .policy(json!({"budget": {"ratio": 0, "initial_tokens": 5}}))
                .virtual_host(json!({"include_request_attempt_count": counted_by_envoy}));
            let mut envoy = Envoy::start(&config).await.unwrap();
            let client = Client::new();
            for i in 0..20 {
                let answer = client.send(envoy.addr(), forged(i)).await.unwrap();
                assert_eq!((answer.status, answer.header("x-retry-stop")), (200, None), "{file}");
            }
            let stats = envoy.stats().await.unwrap();
            assert_eq!((stats.counter(RETRIES, &[]), stats.counter(STOPS, &[])), (0, 0), "{file}");
            assert_eq!(stats.counter("retry_budget_host_errors_total", &[]), 0, "{file}");
            assert_eq!(origin.hits(), 20, "{file}");
            wait_for_tokens(&envoy, 5.0).await;

            // And where it fails, all goes by the true count.
            origin.answer(|_| 503);
            origin.forget();
            let answer = client.send(envoy.addr(), forged(99)).await.unwrap();
            assert_eq!((answer.status, origin.hits()), (503, 3), "{file}: three attempts, as the route says");
            assert!(envoy.is_running());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn which_signals_leave_the_proxy() {
    let origin = Origin::always(503).await;
    let start = async |file: &str, emit: &str, tokens: u32| {
        let config = Config::load(file).upstream("orders", origin.addr()).policy(json!({
            "budget": {"ratio": 0, "initial_tokens": tokens}, "stop_signal": {"emit": emit}
        }));
        Envoy::start(&config).await.unwrap()
    };
    let signals = async |envoy: &Envoy| {
        origin.forget();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        let header = |name| answer.header(name).map(str::to_owned);
        (origin.hits(), header("x-retry-stop"), header("x-envoy-ratelimited"))
    };
    let some = |s: &str| Some(s.to_owned());
    // Stopped by the filter; `none` still stops this proxy's own router.
    for (emit, expected) in [
        ("stopped", (1, some("budget"), some("true"))),
        ("failed", (1, some("budget"), some("true"))),
        ("none", (1, None, None)),
    ] {
        assert_eq!(signals(&start("two-placements.yaml", emit, 0).await).await, expected, "{emit}");
    }
    // The last attempt failed: nobody stopped it.
    for (emit, expected) in
        [("stopped", (3, None, None)), ("failed", (3, some("failed"), some("true"))), ("none", (3, None, None))]
    {
        assert_eq!(signals(&start("two-placements.yaml", emit, 10).await).await, expected, "{emit}");
    }
    // Alone, the attempt placement cannot take Envoy's mark off again.
    assert_eq!(signals(&start("attempt-only.yaml", "none", 0).await).await, (1, None, some("true")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_is_logged_and_shown_in_the_access_log() {
    let origin = Origin::always(503).await;
    for file in FILES {
        let config = Config::load(file).upstream("orders", origin.addr()).policy(empty());
        let envoy = Envoy::start(&config).await.unwrap();
        Client::new().get(envoy.addr(), "/").await.unwrap();
        let access = envoy.wait_for_access_log(1).await.unwrap();
        let decision = &envoy.decisions()[0];
        assert_eq!(
            decision,
            &json!({"logical_id": access[0]["id"], "upstream": "orders", "attempt": 1, "owner": null, "outcome": "503",
                    "decision": "stop", "reason": "budget", "tokens": 0, "remaining_ms": null}),
            "{file}"
        );
        let shown: lab::Value = serde_json::from_str(access[0]["retry_budget"].as_str().unwrap()).unwrap();
        assert_eq!(&shown, decision, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_logged_is_chosen() {
    let origin = Origin::always(503).await;
    for (log, decisions) in [("off", vec![]), ("stops", vec!["stop"]), ("all", vec!["allow", "stop"])] {
        let config = Config::load("two-placements.yaml")
            .upstream("orders", origin.addr())
            .policy(json!({"log": log, "budget": {"ratio": 0, "initial_tokens": 1}}));
        let envoy = Envoy::start(&config).await.unwrap();
        Client::new().get(envoy.addr(), "/").await.unwrap();
        envoy.wait_for_access_log(1).await.unwrap();
        let logged: Vec<_> = envoy.decisions().iter().map(|d| d["decision"].as_str().unwrap().to_owned()).collect();
        assert_eq!(logged, decisions, "{log}");
    }
}
