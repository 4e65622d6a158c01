//! The compose demo's topology, live: what its dashboard shows of a storm, as the real Prometheus has it.
//!
//! Where Prometheus or func-e are missing these tests say so and pass; on CI they fail.

#![cfg(target_os = "linux")]

use demo::live::dashboard;
use demo::{Live, func_e};
use lab::{Result, eventually};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// What rates reach over: four scrapes.
const INTERVAL: &str = "8s";

const WITH: &str = "with-filter";
const WITHOUT: &str = "without-filter";

fn programs() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_origin")).parent().expect("a program lies in a folder")
}

/// The value of the one series of this Envoy, if there is one.
async fn one(live: &Live, query: &str, envoy: &str) -> Result<Option<f64>> {
    let samples = live.ask(query).await?;
    let mut of_it = samples.iter().filter(|sample| sample.labels.get("envoy").is_some_and(|name| name == envoy));
    let (first, second) = (of_it.next(), of_it.next());
    assert!(second.is_none(), "{query} has more than one series of {envoy}: {samples:?}");
    Ok(first.map(|sample| sample.value))
}

/// Waits until a query's value for this Envoy is as it must be.
async fn until(live: &Live, query: &str, envoy: &str, is: impl Fn(f64) -> bool) -> Result<f64> {
    let mut last = None;
    let what = format!("{query} of {envoy}");
    let found = eventually(&what, async || {
        last = one(live, query, envoy).await?;
        tokio::time::sleep(Duration::from_millis(200)).await;
        Ok(last.filter(|value| is(*value)))
    });
    let found = found.await;
    found.map_err(|e| e.context(format!("it is {last:?}")))
}

/// The dashboard's query whose panel has this title and whose legend has this end.
fn query(title: &str, legend: &str) -> Result<String> {
    let queries = dashboard::queries()?;
    let found = queries.iter().find(|query| query.title == title && query.legend.ends_with(legend));
    Ok(found.unwrap_or_else(|| panic!("no panel {title:?} with {legend:?}")).over(INTERVAL))
}

/// Requests and attempts of an Envoy so far, by its own counters.
async fn counted(live: &Live, envoy: &str) -> Result<(f64, f64)> {
    let requests = r#"sum by (envoy) (envoy_http_downstream_rq_total{envoy_http_conn_manager_prefix="ingress"})"#;
    let attempts = r#"sum by (envoy) (envoy_cluster_upstream_rq_total{envoy_cluster_name="orders"})"#;
    Ok((one(live, requests, envoy).await?.unwrap_or(0.0), one(live, attempts, envoy).await?.unwrap_or(0.0)))
}

#[tokio::test]
async fn the_dashboard_shows_a_storm_and_what_the_filter_makes_of_it() -> Result<()> {
    let Some(live) = Live::start(programs(), "envoy/demo/tests/live.rs").await? else { return Ok(()) };
    let share = query("Share of retries", "{{envoy}}")?;
    let served = query("Callers served", "{{envoy}}")?;

    // In health both look the same: nothing is retried, everybody is served.
    for envoy in [WITH, WITHOUT] {
        until(&live, &served, envoy, |served| served == 1.0).await?;
        assert!(until(&live, &share, envoy, |share| share < 0.05).await? < 0.05);
    }
    assert_eq!(live.ask("up == 1").await?.len(), 4, "{:?}", live.ask("up").await?);

    // The storm. 15 s of 220 requests a second to each Envoy, of which every call fails.
    let before = [counted(&live, WITH).await?, counted(&live, WITHOUT).await?];
    live.fault("fail-all").await?;
    live.start_storm(200, 60).await?;
    tokio::time::sleep(Duration::from_secs(15)).await;
    let after = [counted(&live, WITH).await?, counted(&live, WITHOUT).await?];
    let grown = |i: usize| (after[i].0 - before[i].0, after[i].1 - before[i].1);
    let [(requests, attempts), (requests_without, attempts_without)] = [grown(0), grown(1)];
    assert!(requests > 1000.0 && requests_without > 1000.0, "{requests} and {requests_without} requests");
    let (with, without) = (attempts / requests, attempts_without / requests_without);
    assert!((1.0..1.2).contains(&with), "with the filter {with} attempts a request");
    assert!((2.8..3.05).contains(&without), "without it {without}");

    // The panels say the same, and the service and its callers confirm it.
    until(&live, &share, WITH, |share| (0.05..0.15).contains(&share)).await?;
    until(&live, &share, WITHOUT, |share| (1.8..2.1).contains(&share)).await?;
    let calls = query("Calls at the origin", "{{envoy}}")?;
    let (calls_with, calls_without) = (one(&live, &calls, WITH).await?, one(&live, &calls, WITHOUT).await?);
    assert!(calls_with.is_some_and(|calls| calls > 100.0), "{calls_with:?}");
    assert!(calls_without > calls_with.map(|calls| 2.4 * calls), "{calls_with:?} and {calls_without:?} calls");
    until(&live, &served, WITH, |served| served == 0.0).await?;
    until(&live, &query("Tokens", "{{upstream}}")?, WITH, |tokens| tokens <= 1.0).await?;
    let by_the_filter = query("Share of retries, as the filter counts", "{{upstream}}")?;
    until(&live, &by_the_filter, WITH, |share| (0.05..0.15).contains(&share)).await?;
    let refusals = live.ask(&query("Refusals by reason", "retries to {{upstream}}, {{reason}}")?).await?;
    assert!(
        refusals.iter().any(|s| s.labels["reason"] == "budget" && s.labels["upstream"] == "orders"),
        "{refusals:?}"
    );

    // The alerts' rules are loaded and can be evaluated; the right ones wait for their minutes.
    let rules = live.api("rules").await?;
    let rules = rules["groups"][0]["rules"].as_array().cloned().unwrap_or_default();
    assert!(rules.len() >= 4 && rules.iter().all(|rule| rule["health"] == "ok"), "{rules:?}");
    let pending = live.ask("ALERTS").await?;
    let pending: BTreeSet<&str> = pending.iter().map(|sample| sample.labels["alertname"].as_str()).collect();
    assert_eq!(pending, BTreeSet::from(["RetryBudgetExhausted", "RetryShareHighInEnvoy"]));

    // A Retry-After holds everybody's retries: its panel shows that too.
    live.fault("retry-after?seconds=30").await?;
    until(&live, &query("Hold", "{{upstream}}")?, WITH, |seconds| seconds > 20.0).await?;
    // All panels have something to show now, but for the rejects, which this policy never makes.
    for query in dashboard::queries()? {
        let samples = live.ask(&query.over(INTERVAL)).await?;
        let rejects = query.template.contains("rejects");
        assert_eq!(samples.is_empty(), rejects, "{}: {samples:?}", query.template);
    }

    // The storm is over: callers are served again and nothing is retried.
    live.stop_storm().await?;
    live.fault("healthy").await?;
    for envoy in [WITH, WITHOUT] {
        until(&live, &served, envoy, |served| served == 1.0).await?;
        until(&live, &share, envoy, |share| share < 0.05).await?;
    }
    let rate = query("Logical requests and attempts", "requests")?;
    until(&live, &rate, WITH, |rate| rate < 40.0).await?;

    // func-e ran what was started, and it wrote down whom it ran.
    assert!(live.output(WITH, "stdout").contains("starting: "), "{}", live.output(WITH, "stdout"));
    let pids: Vec<u32> = live.pids().into_iter().flat_map(|(_, pid)| family(pid)).collect();
    assert!(pids.len() >= 7, "two func-e with an Envoy each, and three more: {pids:?}");
    drop(live);
    assert_eq!(running(&pids), [0; 0]);
    Ok(())
}

// ---- its end ----

#[tokio::test]
async fn ctrl_c_and_a_kill_end_everything() -> Result<()> {
    // Before the clock runs: this may build it. Where that fails the other test says so.
    let Ok(Some(func_e)) = func_e::find() else { return Ok(()) };
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        let folder = TempDir::new()?;
        let mut demo = Command::new(env!("CARGO_BIN_EXE_demo-live"))
            .arg("--stay")
            .env("TMPDIR", folder.path())
            .env("FUNC_E", &func_e)
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.path().join("said"))?)
            .spawn()?;
        let said = || fs::read_to_string(folder.path().join("said")).unwrap_or_default();
        let up = eventually("the demo to be up", async || {
            let ended = demo.try_wait()?.is_some();
            Ok((ended || said().contains("Ctrl-C")).then_some(ended))
        });
        let ended = up.await?;
        if ended && said().contains("SKIPPED") {
            return Ok(());
        }
        assert!(!ended, "{}", said());
        let pids = family(demo.id());
        assert!(pids.len() >= 8, "{pids:?}");
        // SAFETY: a plain system call; the child is ours and not yet waited for.
        assert_eq!(unsafe { libc::kill(demo.id() as i32, signal) }, 0);
        let status = demo.wait()?;
        let code = (signal != libc::SIGKILL).then_some(128 + signal);
        assert_eq!(status.code(), code, "{}", said());
        let gone = eventually("the end of all", async || Ok(running(&pids).is_empty().then_some(())));
        gone.await.map_err(|e| e.context(format!("signal {signal} leaves {:?}", running(&pids))))?;
        // A kill leaves no time to clean up.
        if signal != libc::SIGKILL {
            assert_eq!(fs::read_dir(folder.path())?.count(), 1, "files are left beside `said`");
        }
    }
    Ok(())
}

/// A process and all that descend from it.
fn family(pid: u32) -> Vec<u32> {
    let mut family = vec![pid];
    let processes: Vec<(u32, u32)> = fs::read_dir("/proc").expect("/proc").flatten().filter_map(parent_of).collect();
    let mut i = 0;
    while i < family.len() {
        let of = family[i];
        family.extend(processes.iter().filter(|(_, parent)| *parent == of).map(|(pid, _)| *pid));
        i += 1;
    }
    family
}

/// A process and its parent.
fn parent_of(entry: fs::DirEntry) -> Option<(u32, u32)> {
    let pid = entry.file_name().to_str()?.parse().ok()?;
    Some((pid, stat(pid)?.1))
}

/// A process' state and its parent. Its name, which comes before them in brackets, may have any character.
fn stat(pid: u32) -> Option<(char, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut after = stat.rsplit_once(") ")?.1.split(' ');
    Some((after.next()?.chars().next()?, after.next()?.parse().ok()?))
}

/// Those that still run. A zombie does not: its parent has yet to look.
fn running(pids: &[u32]) -> Vec<u32> {
    pids.iter().copied().filter(|pid| stat(*pid).is_some_and(|(state, _)| state != 'Z')).collect()
}
