//! Fifty callers at once, of whom none is answered before all have come.

use crate::stock::Rendering;
use crate::{ATTEMPTS, CALLERS, REQUESTS, RETRIES, STOPS, request, start, storm};
use lab::{Client, Envoy, Origin, Reply, Result, Stats, chain, json, tokio};
use std::time::Duration;

/// Those that retry. The callee's are judged elsewhere.
const RETRYING: [&str; 7] =
    ["sidecar", "sidecar-oci", "sidecar-cluster", "sidecar-wait", "gateway", "gateway-oci", "waypoint"];

#[tokio::test(flavor = "multi_thread")]
async fn where_all_calls_fail_there_are_60() -> Result<()> {
    for name in RETRYING {
        let rendering = Rendering::load(name);
        let origin = Origin::holding(CALLERS, |_| Reply::new(503).body("the origin's own words")).await;
        let envoy = start(&rendering, &origin).await?;
        let answers = storm(&envoy).await;
        assert_eq!((origin.hits(), answers.count(503)), (60, CALLERS), "{name}: {answers}");
        for answer in answers.iter() {
            assert_eq!(answer.text(), "the origin's own words", "{name}");
            assert_eq!(answer.header("x-retry-stop"), Some("budget"), "{name}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_five_fail_once_there_are_55_and_all_are_served() -> Result<()> {
    for name in RETRYING {
        let origin = Origin::holding(CALLERS, |call| if call.index < 5 { 503 } else { 200 }).await;
        let envoy = start(&Rendering::load(name), &origin).await?;
        let answers = storm(&envoy).await;
        assert_eq!((origin.hits(), answers.count(200)), (55, CALLERS), "{name}: {answers}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn where_all_fail_twice_there_are_60() -> Result<()> {
    for name in RETRYING {
        let origin = Origin::holding(CALLERS, |call| if call.attempt <= 2 { 503 } else { 200 }).await;
        let envoy = start(&Rendering::load(name), &origin).await?;
        let answers = storm(&envoy).await;
        assert_eq!(origin.hits(), 60, "{name}");
        // Where a caller's second failure overtakes another's first it may get the token, and be served.
        assert!(answers.count(503) >= CALLERS - 5, "{name}: {answers}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_manifest_there_are_150_55_and_150() -> Result<()> {
    for name in ["sidecar", "gateway", "waypoint"] {
        let control = Rendering::load(name).control();
        let origin = Origin::holding(CALLERS, |_| 503).await;
        storm(&start(&control, &origin).await?).await;
        assert_eq!(origin.hits(), 150, "{name}");

        let origin = Origin::holding(CALLERS, |call| if call.index < 5 { 503 } else { 200 }).await;
        let answers = storm(&start(&control, &origin).await?).await;
        assert_eq!((origin.hits(), answers.count(200)), (55, CALLERS), "{name}");

        let origin = Origin::holding(CALLERS, |call| if call.attempt <= 2 { 503 } else { 200 }).await;
        let answers = storm(&start(&control, &origin).await?).await;
        assert_eq!((origin.hits(), answers.count(200)), (150, CALLERS), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn four_retrying_sidecars_in_a_row_do_not_multiply() -> Result<()> {
    let rendering = Rendering::load("sidecar");
    let origin = Origin::always(503).await;
    let envoys = chain(4, &rendering.config()?, &rendering.cluster(), origin.addr()).await?;
    let answers = Client::new().storm(envoys[0].addr(), 10, request).await;
    assert_eq!(answers.count(503), 10, "{answers}");
    assert!(origin.hits() <= 25, "{} calls at the bottom", origin.hits());
    Ok(())
}

/// The names of Istio's clusters have dots and bars in them.
#[tokio::test(flavor = "multi_thread")]
async fn the_series_have_labels_under_istios_statistics() -> Result<()> {
    for name in ["sidecar", "sidecar-oci", "gateway", "waypoint"] {
        let (cluster, stats) = after_a_storm(&Rendering::load(name)).await?;
        let upstream = ("upstream", cluster.as_str());
        let counts = [REQUESTS, ATTEMPTS, RETRIES].map(|series| stats.counter(series, &[upstream]));
        assert_eq!(counts, [50, 60, 10], "{name}: {:?}", stats.names());
        assert_eq!(stats.counter(STOPS, &[upstream, ("reason", "budget")]), 50, "{name}");
    }
    Ok(())
}

/// Envoy up to 1.38 counts a cluster's filter under the cluster, where Istio's pattern for the cluster's name takes
/// our labels with it.
#[tokio::test(flavor = "multi_thread")]
async fn the_series_of_a_clusters_filter_have_them_too_since_envoy_1_39() -> Result<()> {
    let (cluster, stats) = after_a_storm(&Rendering::load("sidecar-cluster")).await?;
    let labelled = stats.counter(STOPS, &[("upstream", &cluster), ("reason", "budget")]);
    let under_the_cluster = stats.counter(&format!("envoy_cluster{STOPS}"), &[]);
    assert!([(50, 0), (0, 50)].contains(&(labelled, under_the_cluster)), "{:?}", stats.names());
    Ok(())
}

/// The cluster's name, and the statistics of an Envoy whose 50 callers all failed.
async fn after_a_storm(rendering: &Rendering) -> Result<(String, Stats)> {
    let origin = Origin::holding(CALLERS, |_| 503).await;
    let envoy = start(rendering, &origin).await?;
    storm(&envoy).await;
    Ok((rendering.cluster(), envoy.stats().await?))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_glob_finds_the_service_whatever_the_proxy() -> Result<()> {
    for name in ["sidecar", "gateway-oci", "waypoint"] {
        let none = json!({"upstreams": {"*|orders.shop.svc.cluster.local": {"budget": {"max_tokens": 0}}}});
        let origin = Origin::holding(CALLERS, |_| 503).await;
        storm(&start(&Rendering::load(name).policy(none), &origin).await?).await;
        assert_eq!(origin.hits(), CALLERS, "{name}");
    }
    Ok(())
}

/// What an operator sees who has not set `extraStatTags`: the figures are there, in names that are hard to query.
#[tokio::test(flavor = "multi_thread")]
async fn without_labels_istio_exports_the_series_all_the_same() -> Result<()> {
    let (_, stats) = after_a_storm(&Rendering::load("sidecar").stats("stats-default")).await?;
    assert_eq!(stats.counter(REQUESTS, &[]), 0);
    let names: Vec<&str> = stats.names().into_iter().filter(|name| name.ends_with(REQUESTS)).collect();
    assert_eq!(names.len(), 1, "{names:?}");
    assert_eq!(stats.counter(names[0], &[]), 50, "{names:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_backoff_patched_in_envoy_waits_as_long_as_asked() -> Result<()> {
    let wait = json!({"retry_after": {"wait": true, "hold": "off"}});
    let reply = |first: bool| if first { Reply::new(503).header("retry-after", "0.3s") } else { Reply::new(200) };
    for (name, at_least) in [("sidecar-wait", Duration::from_secs(1)), ("sidecar", Duration::ZERO)] {
        let origin = Origin::start(move |call| reply(call.attempt == 1)).await;
        let envoy = start(&Rendering::load(name).policy(wait.clone()), &origin).await?;
        let answer = Client::new().send(envoy.addr(), request(0)).await?;
        assert!(answer.latency >= at_least, "{name}: {:?}", answer.latency);
        // Without it Envoy retries at once, and the filter stops what comes too early.
        assert_eq!((answer.status, origin.hits()), if at_least.is_zero() { (503, 1) } else { (200, 2) }, "{name}");
    }
    Ok(())
}

/// Two EnvoyFilters for one workload: what pilot makes of them.
#[tokio::test]
async fn applied_twice_envoy_refuses_the_listener() -> Result<()> {
    let origin = Origin::always(200).await;
    let twice = Rendering::load("sidecar-twice");
    let config = twice.config()?.upstream(&twice.cluster(), origin.addr());
    let refusal = Envoy::start_expecting_refusal(&config).await?;
    assert!(refusal.log.contains("envoy.filters.http.upstream_codec"), "{}", refusal.log);
    Ok(())
}
