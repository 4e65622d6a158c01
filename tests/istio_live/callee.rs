//! The rendered inbound chains: a service's own side.

use crate::stock::{Rendering, scratch, walk};
use crate::{CALLERS, REQUESTS, RETRIES, STOPS, request, start, storm};
use lab::{Client, Envoy, Origin, Result, Value, json, tokio};

const RENDERINGS: [&str; 2] = ["callee-wasmplugin", "callee-trafficextension"];

const UPSTREAM: (&str, &str) = ("upstream", "inbound|8080||");

#[tokio::test(flavor = "multi_thread")]
async fn the_service_sees_all_first_attempts_and_ten_retries() -> Result<()> {
    for name in RENDERINGS {
        let origin = Origin::always(503).await;
        let envoy = start(&Rendering::load(name), &origin).await?;
        let stats = fifty_and_fifty_retries(name, &envoy, &origin).await?;
        // Those of the ten that fail when the last token is gone are told not to come again, too.
        let stops = stats.counter(STOPS, &[UPSTREAM, ("reason", "budget")]);
        assert!((40..=50).contains(&stops), "{name}: {stops}");
    }
    Ok(())
}

/// Istio sets no `vm_id`: all plugins of a proxy share one space of names.
#[tokio::test(flavor = "multi_thread")]
async fn another_plugin_in_the_same_space_of_names_does_not_collide() -> Result<()> {
    let module = scratch("neighbour", "module");
    std::fs::write(&module, wat::parse_str(include_str!("neighbour.wat"))?)?;
    let neighbour = json!({
        "name": "neighbour",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm",
            "config": {
                "name": "neighbour",
                "vm_config": { "runtime": "envoy.wasm.runtime.v8", "code": { "local": { "filename": module } } },
            },
        },
    });
    for name in RENDERINGS {
        let beside = Rendering::load(name).edit(|golden| {
            walk(golden, &mut |value| {
                if let Some(Value::Array(filters)) = value.get_mut("http_filters") {
                    filters.insert(0, neighbour.clone());
                }
            });
        });
        let origin = Origin::always(503).await;
        let envoy = start(&beside, &origin).await?;
        let stats = fifty_and_fifty_retries(name, &envoy, &origin).await?;
        assert_eq!(stats.counter("requests_total", &[UPSTREAM]), 100, "{name}: {:?}", stats.names());
    }
    Ok(())
}

async fn fifty_and_fifty_retries(name: &str, envoy: &Envoy, origin: &Origin) -> Result<lab::Stats> {
    storm(envoy).await;
    assert_eq!(origin.hits(), CALLERS, "{name}");
    let second = |i| request(i).header("x-envoy-attempt-count", "2");
    let answers = Client::new().storm(envoy.addr(), CALLERS, second).await;
    assert_eq!((origin.hits(), answers.count(503)), (CALLERS + 10, CALLERS), "{name}: {answers}");
    let by_us = answers.iter().filter(|answer| answer.header("content-type") == Some("application/problem+json"));
    assert_eq!(by_us.count(), 40, "{name}");
    let stats = envoy.stats().await?;
    assert_eq!((stats.counter(REQUESTS, &[UPSTREAM]), stats.counter(RETRIES, &[UPSTREAM])), (50, 10), "{name}");
    Ok(stats)
}
