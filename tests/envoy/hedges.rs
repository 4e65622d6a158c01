//! A hedge starts while another attempt is in flight. Refused by a reply it would kill that attempt, so it is parked.

use crate::{ATTEMPTS, STOPS, count, empty, stopped_for};
use lab::{Client, Config, Envoy, Origin, Reply, json};
use std::time::Duration;

const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

fn hedged(file: &str, origin: &Origin, policy: lab::Value) -> Config {
    Config::load(file).upstream("orders", origin.addr()).policy(policy).hedging("0.2s").concurrency(1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hedge_without_a_token_does_not_disturb_the_attempt_in_flight() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(200).body("slow but good").after(Duration::from_secs(1))).await;
        let mut envoy = Envoy::start(&hedged(file, &origin, empty())).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, answer.text().as_str()), (200, "slow but good"), "{file}");
        assert!((0.95..2.5).contains(&answer.latency.as_secs_f64()), "{file}: {:?}", answer.latency);
        assert_eq!((origin.hits(), count(&envoy, ATTEMPTS).await), (1, 1), "{file}");
        let stats = envoy.stats().await.unwrap();
        assert_eq!(stats.counter(STOPS, &stopped_for("budget")), 1, "{file}: one stop a request");
        assert_eq!(envoy.decisions()[0]["decision"], "park", "{file}");
        assert!(envoy.is_running());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_hedge_is_answered_when_the_last_attempt_in_flight_is_lost() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::reset().after(Duration::from_secs(1))).await;
        let mut envoy = Envoy::start(&hedged(file, &origin, empty())).await.unwrap();
        for round in 1..=3 {
            let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
            assert_eq!(answer.status, 503, "{file}");
            assert_eq!(answer.header("x-retry-stop"), Some("budget"), "{file}");
            assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{file}");
            assert!((0.95..2.5).contains(&answer.latency.as_secs_f64()), "{file}: {:?}", answer.latency);
            assert_eq!(origin.hits(), round, "{file}");
            assert!(envoy.is_running());
        }
        assert_eq!(count(&envoy, STOPS).await, 3, "{file}: one stop a request");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_hedge_leaves_the_request_to_the_attempt_in_flight() {
    for file in FILES {
        let origin = Origin::start(|call| match call.attempt {
            1 => Reply::new(200).after(Duration::from_secs(1)),
            _ => Reply::new(503),
        })
        .await;
        let one = json!({"budget": {"ratio": 0, "initial_tokens": 1}});
        let envoy = Envoy::start(&hedged(file, &origin, one)).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, origin.hits()), (200, 2), "{file}");
        assert!((0.95..2.5).contains(&answer.latency.as_secs_f64()), "{file}: {:?}", answer.latency);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_attempt_ends_the_request_where_its_hedge_is_parked() {
    for file in FILES {
        let origin = Origin::start(|_| Reply::new(503).body("own words").after(Duration::from_millis(500))).await;
        let envoy = Envoy::start(&hedged(file, &origin, empty())).await.unwrap();
        let answer = Client::new().get(envoy.addr(), "/").await.unwrap();
        assert_eq!((answer.status, answer.text().as_str(), origin.hits()), (503, "own words", 1), "{file}");
        assert_eq!(answer.header("x-retry-stop"), Some("budget"), "{file}");
        assert!(answer.latency < Duration::from_secs(2), "{file}: {:?}", answer.latency);
        assert_eq!(count(&envoy, STOPS).await, 1, "{file}");
    }
}
