//! How soon a caller has its answer when its retry is stopped.

use crate::setups::{empty, shipped};
use anyhow::{Result, ensure};
use lab::{Client, ClosedPort, Config, Envoy, Origin, json};
use std::time::Duration;

const REQUESTS: usize = 2000;

pub async fn print() -> Result<()> {
    let (bad, closed) = (Origin::always(503).await, ClosedPort::new());
    // Envoy waits before a retry that the filter then refuses: as short as it can.
    let at_once = json!({"retry_back_off": {"base_interval": "0.001s"}});
    let filter = |origin| shipped("two-placements.yaml", origin).policy(empty()).retry(at_once.clone());
    let control = |origin| shipped("control.yaml", origin).without_retries();
    println!("\nLatency of a stopped request, one at a time, in ms\n{:60}{:>8}{:>8}", "", "p50", "p99");
    row("a 503 handed down, no filter, no retries (control)", control(bad.addr()), None).await?;
    row("a 503 handed down, its retry stopped", filter(bad.addr()), Some("budget")).await?;
    row("connection refused, no filter, no retries (control)", control(closed.addr()), None).await?;
    row("connection refused, its retry refused as it starts *", filter(closed.addr()), Some("budget")).await?;
    println!("* after Envoy's own pause before a retry, here 1 ms at most");
    Ok(())
}

async fn row(name: &str, config: Config, stop: Option<&str>) -> Result<()> {
    eprintln!("latency: {name}");
    let envoy = Envoy::start(&config).await?;
    let client = Client::new();
    let mut latencies: Vec<Duration> = Vec::new();
    for _ in 0..REQUESTS {
        let answer = client.get(envoy.addr(), "/").await?;
        ensure!(answer.status == 503 && answer.header("x-retry-stop") == stop, "{name}: {answer:?}");
        latencies.push(answer.latency);
    }
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    println!("{name:60}{:>8.2}{:>8.2}", at(50), at(99));
    Ok(())
}
