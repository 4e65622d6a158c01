//! The demo's monitoring, to take along: the alert rules, and the dashboard's queries and metrics.
//!
//! Where Prometheus' promtool is missing some of these tests say so and pass; on CI they fail.

use demo::live::compose::{Compose, read_yaml};
use demo::live::dashboard;
use lab::{Client, Config, Envoy, Origin, Reply, Request, Result, Value, json, place, tokio, tools};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

// ---- Prometheus ----

fn promtool() -> Option<PathBuf> {
    tools::find("promtool", "envoy/demo/tests/monitoring.rs", "Debian: apt-get install prometheus")
}

#[test]
fn prometheus_accepts_its_configuration_and_the_alerts_fire_as_their_tests_say() -> Result<()> {
    let Some(promtool) = promtool() else { return Ok(()) };
    let demo = place::root().join("envoy/demo");
    tools::run(Command::new(&promtool).args(["check", "config"]).arg(demo.join("prometheus.yaml")))?;
    tools::run(Command::new(&promtool).args(["check", "rules", "--lint-fatal"]).arg(demo.join("alerts.yaml")))?;
    tools::run(Command::new(&promtool).args(["test", "rules"]).arg(demo.join("alerts_test.yaml")))?;
    Ok(())
}

#[test]
fn each_alert_is_tested_to_fire_and_to_be_silent() -> Result<()> {
    let demo = place::root().join("envoy/demo");
    let rules = read_yaml(&demo.join("alerts.yaml"))?;
    let tests = read_yaml(&demo.join("alerts_test.yaml"))?;
    let mut tested: BTreeMap<String, BTreeSet<bool>> = BTreeMap::new();
    for case in tests["tests"].as_array().expect("tests") {
        for alert in case["alert_rule_test"].as_array().expect("alerts") {
            let fires = alert["exp_alerts"].as_array().is_some_and(|alerts| !alerts.is_empty());
            tested.entry(alert["alertname"].as_str().expect("a name").into()).or_default().insert(fires);
        }
    }
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    for rule in rules {
        let name = rule["alert"].as_str().expect("an alert");
        assert_eq!(tested.get(name), Some(&BTreeSet::from([false, true])), "{name}");
    }
    assert_eq!(tested.len(), rules.len());
    Ok(())
}

// ---- Grafana ----

#[test]
fn every_query_of_the_dashboard_can_be_parsed() -> Result<()> {
    let Some(promtool) = promtool() else { return Ok(()) };
    let rules: Vec<Value> = dashboard::queries()?
        .iter()
        .enumerate()
        .map(|(i, query)| json!({"record": format!("query:{i}"), "expr": query.over("8s")}))
        .collect();
    let file = place::scratch("queries")?.join("rules.yaml");
    fs::write(&file, json!({"groups": [{"name": "dashboard", "rules": rules}]}).to_string())?;
    tools::run(Command::new(promtool).args(["check", "rules"]).arg(file))?;
    Ok(())
}

#[tokio::test]
async fn the_dashboard_and_the_alerts_name_metrics_that_a_live_envoy_has() -> Result<()> {
    // Retries, a stop, a hold, and a request that is answered here: all that the filter counts in good order.
    let origin = Origin::start(|_| Reply::new(503).header("retry-after", "30")).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(json!({
        "budget": {"max_tokens": 1},
        "retry_after": {"hold": "requests"},
        "upstreams": {"plain": {"retry_after": {"hold": "off"}}}
    }));
    let failing = Origin::always(503).await;
    let envoy = Envoy::start(&config.also("/plain", "plain", failing.addr())).await?;
    for path in ["/plain", "/", "/"] {
        Client::new().send(envoy.addr(), Request::get(path)).await?;
    }
    // Gauges are at most a second behind.
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let stats = envoy.stats().await?;
    let names: BTreeSet<&str> = stats.names().into_iter().collect();

    let alerts = read_yaml(&place::root().join("envoy/demo/alerts.yaml"))?;
    let alerts = alerts["groups"][0]["rules"].as_array().expect("rules").clone();
    let alerts = alerts.iter().map(|rule| rule["expr"].as_str().expect("an expression").to_string());
    let queries: Vec<String> = dashboard::queries()?.into_iter().map(|query| query.template).chain(alerts).collect();
    for query in queries {
        let metrics = dashboard::metrics(&query);
        assert!(!metrics.is_empty(), "{query}");
        for metric in metrics {
            // Those two programs' own are asked of them in live.rs. Host errors have no series
            // before the first of them.
            let elsewhere = metric.starts_with("origin_") || metric.starts_with("storm_");
            let never = metric == "retry_budget_host_errors_total";
            assert!(elsewhere || never || names.contains(metric.as_str()), "{metric} of {query}: {names:?}");
        }
    }
    Ok(())
}

#[test]
fn grafana_finds_its_dashboard_and_the_dashboard_its_prometheus() -> Result<()> {
    let provisioning = place::root().join("envoy/demo/grafana/provisioning");
    let source = &read_yaml(&provisioning.join("datasources/prometheus.yaml"))?["datasources"][0];
    let provider = &read_yaml(&provisioning.join("dashboards/demo.yaml"))?["providers"][0];
    let compose = Compose::load()?;
    let grafana = compose.service("grafana")?;
    let mounted = |to: &str| grafana.mounts.iter().find(|mount| mount.to == to).and_then(|mount| mount.source());
    assert_eq!(
        mounted("/etc/grafana/provisioning").map(|p| p.canonicalize()).transpose()?,
        Some(provisioning.canonicalize()?)
    );
    let path = provider["options"]["path"].as_str().expect("a path");
    let folder = mounted(path).expect("the dashboards' folder is mounted");
    let home = grafana.env["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].strip_prefix(path).expect("a dashboard there");
    assert!(folder.join(home.trim_start_matches('/')).is_file(), "{home}");

    let scrapes = read_yaml(&place::root().join("envoy/demo/prometheus.yaml"))?;
    assert_eq!(source["jsonData"]["timeInterval"], scrapes["global"]["scrape_interval"]);
    let dashboard = dashboard::file()?;
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<u64> = panels.iter().filter_map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "ids are unique");
    let mut taken = BTreeSet::new();
    for panel in panels {
        assert_eq!(panel["datasource"]["uid"], source["uid"], "{panel}");
        let at = |key: &str| panel["gridPos"][key].as_u64().expect("a number");
        for (x, y) in (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y))) {
            assert!(x < 24 && taken.insert((x, y)), "{} lies over another", panel["title"]);
        }
    }
    Ok(())
}
