//! One layer owns the retries, the others know it; and what may not be repeated is not.

use crate::{RETRIES, STOPS, WOULD_STOP, count, stopped_for};
use lab::{Client, ClosedPort, Config, Envoy, Origin, Reply, Request, json};
use std::time::Duration;

const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

async fn stops(envoy: &Envoy, reason: &str) -> u64 {
    envoy.stats().await.unwrap().counter(STOPS, &stopped_for(reason))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_is_not_repeated_blindly() {
    for file in FILES {
        for (what, reply) in [
            ("answers 503", Reply::new(503)),
            ("takes it and resets", Reply::reset()),
            ("answers after the per-try timeout", Reply::new(200).after(Duration::from_millis(400))),
        ] {
            let origin = Origin::start(move |_| reply.clone()).await;
            let config = Config::load(file).upstream("orders", origin.addr()).retry(json!({"per_try_timeout": "0.2s"}));
            let envoy = Envoy::start(&config).await.unwrap();
            for method in ["POST", "PATCH"] {
                origin.forget();
                let answer = Client::new().send(envoy.addr(), Request::new(method, "/")).await.unwrap();
                assert_eq!((answer.status, origin.hits()), (503, 1), "{file} {method} {what}");
                assert_eq!(answer.header("x-retry-stop"), Some("not-idempotent"), "{file} {what}");
            }
            assert_eq!(stops(&envoy, "not-idempotent").await, 2, "{file} {what}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_with_a_key_is_retried_and_so_is_one_that_never_left() {
    for file in FILES {
        let origin = Origin::failing(1, 503).await;
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr())).await.unwrap();
        let keyed = Request::post("/", "body").header("idempotency-key", "0815");
        assert_eq!(Client::new().send(envoy.addr(), keyed).await.unwrap().status, 200, "{file}");
        assert_eq!(origin.hits(), 2, "{file}");

        let closed = ClosedPort::new();
        let envoy = Envoy::start(&Config::load(file).upstream("orders", closed.addr())).await.unwrap();
        Client::new().send(envoy.addr(), Request::post("/", "body")).await.unwrap();
        assert_eq!((count(&envoy, RETRIES).await, count(&envoy, STOPS).await), (2, 0), "{file}: connection refused");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_counts_as_idempotent_is_configured() {
    let origin = Origin::always(503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({
        "idempotency": {"methods": ["GET", "POST"], "key_headers": ["x-once"]}
    }));
    let envoy = Envoy::start(&config).await.unwrap();
    let send = async |request: Request| {
        origin.forget();
        Client::new().send(envoy.addr(), request).await.unwrap();
        origin.hits()
    };
    assert_eq!(send(Request::post("/", "body")).await, 3);
    assert_eq!(send(Request::new("PUT", "/")).await, 1);
    assert_eq!(send(Request::new("PUT", "/").header("x-once", "1")).await, 3);
    assert_eq!(send(Request::new("PATCH", "/").header("idempotency-key", "1")).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn alone_in_the_listener_retries_are_switched_off_at_arrival() {
    let origin = Origin::always(503).await;
    let config = Config::load("request-only.yaml").upstream("orders", origin.addr()).concurrency(1);
    let envoy = Envoy::start(&config).await.unwrap();
    let client = Client::new();
    client.get(envoy.addr(), "/").await.unwrap();
    origin.forget();
    let answer = client.send(envoy.addr(), Request::post("/", "body")).await.unwrap();
    assert_eq!((origin.hits(), answer.header("x-retry-stop")), (1, Some("not-idempotent")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_from_below_is_obeyed_and_keeps_its_reason() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(503).header("x-retry-stop", "hold")).await;
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr())).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((origin.hits(), answer.header("x-retry-stop")), (1, Some("hold")), "{file}");
        assert_eq!(stops(&envoy, "upstream").await, 1, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_from_below_can_be_ignored() {
    for file in FILES {
        let origin = Origin::start(|call| match call.attempt {
            1 => Reply::new(503).header("x-retry-stop", "hold").header("x-envoy-ratelimited", "true"),
            _ => Reply::new(200),
        })
        .await;
        let config =
            Config::load(file).upstream("orders", origin.addr()).policy(json!({"stop_signal": {"honor": false}}));
        let envoy = Envoy::start(&config).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, origin.hits()), (200, 2), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_is_named_and_left_to() {
    for file in FILES {
        let origin = Origin::always(503).await;
        let owner = json!({"owner": {"name": "edge", "defer": true}});
        let envoy = Envoy::start(&Config::load(file).upstream("orders", origin.addr()).policy(owner)).await.unwrap();
        let client = Client::new();
        let send = async |request: Request| {
            origin.forget();
            let answer = client.send(envoy.addr(), request).await.unwrap();
            let named = origin.calls()[0].header("x-retry-owner").map(str::to_owned);
            (origin.hits(), named, answer.header("x-retry-stop").map(str::to_owned))
        };
        assert_eq!(send(Request::get("/")).await, (3, Some("edge".into()), None), "{file}");
        assert_eq!(envoy.decisions().len(), 0, "{file}");
        let other = Request::get("/").header("x-retry-owner", "mobile-app");
        assert_eq!(send(other).await, (1, Some("mobile-app".into()), Some("owner".into())), "{file}");
        assert_eq!(envoy.decisions()[0]["owner"], "mobile-app", "{file}");
        let own = Request::get("/").header("x-retry-owner", "edge");
        assert_eq!(send(own).await.0, 3, "{file}");
        assert_eq!(stops(&envoy, "owner").await, 1, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn observed_everything_is_repeated_as_before() {
    let origin = Origin::always(503).await;
    let config =
        Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({"mode": "observe"}));
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = Client::new().send(envoy.addr(), Request::post("/", "body")).await.unwrap();
    assert_eq!((origin.hits(), answer.header("x-retry-stop")), (3, None));
    assert_eq!(envoy.stats().await.unwrap().counter(WOULD_STOP, &stopped_for("not-idempotent")), 1);
}
