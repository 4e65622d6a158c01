//! `make demo-live`: the compose demo without containers, on real Envoys run by func-e and a real Prometheus, from
//! the same files; then the dashboard's figures before, during and after a storm, as that Prometheus has them.

use anyhow::{Context, Result};
use demo::Live;
use demo::live::dashboard::{self, Query};
use demo::progress::until_stopped;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// What rates reach over: Prometheus scrapes every 2 s.
const INTERVAL: &str = "8s";

/// How long each part lasts: what is seen at its end is of this part alone.
const PART: Duration = Duration::from_secs(14);

const ENVOYS: [&str; 2] = ["with-filter", "without-filter"];

#[tokio::main]
async fn main() -> Result<ExitCode> {
    until_stopped(demo(std::env::args().any(|arg| arg == "--stay"))).await
}

async fn demo(stay: bool) -> Result<()> {
    let programs = std::env::current_exe()?;
    let programs = programs.parent().context("this program lies in a folder")?;
    let live = Live::start(programs, "make demo-live").await?.context("something is missing, see above")?;
    eprintln!(
        "Prometheus is http://{}, the origin's switches http://{}, the storm's http://{};\n\
         the Envoys' admin pages are http://{} (with the filter) and http://{} (without).",
        live.prometheus, live.origin, live.storm, live.with_filter, live.without_filter
    );
    if stay {
        eprintln!("Ctrl-C ends everything. Meanwhile the service is well and the storm is off: they are yours.");
        std::future::pending::<()>().await;
    }
    let queries = dashboard::queries()?;
    let mut moments = Vec::new();
    for (name, fault, storm) in [("health", "healthy", false), ("storm", "fail-all", true), ("after", "healthy", false)]
    {
        eprintln!("{name}: {PART:?} ...");
        live.fault(fault).await?;
        if storm {
            live.start_storm(200, 60).await?;
        } else {
            live.stop_storm().await?;
        }
        tokio::time::sleep(PART).await;
        moments.push((name, look(&live, &queries).await?));
    }
    print(&queries, &moments);
    Ok(())
}

/// What each query says of each Envoy; other labels add up.
type Figures = Vec<BTreeMap<String, f64>>;

async fn look(live: &Live, queries: &[Query]) -> Result<Figures> {
    let mut figures = Vec::new();
    for query in queries {
        let mut by_envoy = BTreeMap::new();
        for sample in live.ask(&query.over(INTERVAL)).await? {
            let envoy = sample.labels.get("envoy").context("every query is by Envoy")?;
            *by_envoy.entry(envoy.clone()).or_default() += sample.value;
        }
        figures.push(by_envoy);
    }
    Ok(figures)
}

fn print(queries: &[Query], moments: &[(&str, Figures)]) {
    println!(
        "\nThe dashboard's figures by the live Prometheus: 20 callers a second to each Envoy; in the storm 220, and every\n\
         call fails. Rates are per second.\n"
    );
    let (mut above, mut below) = (String::new(), String::new());
    for (name, _) in moments {
        above += &format!("{:>26}", format!("{name:^22}"));
        below += &ENVOYS.map(|envoy| format!("{:>13}", envoy.trim_end_matches("-filter"))).concat();
    }
    println!("{:<46}{}\n{:<46}{below}", "", above.trim_end(), "");
    for (i, query) in queries.iter().enumerate() {
        // This policy never answers a request itself, for one.
        if moments.iter().all(|(_, figures)| figures[i].is_empty()) {
            continue;
        }
        let figures = moments.iter().map(|(_, figures)| ENVOYS.map(|envoy| cell(figures[i].get(envoy))).concat());
        println!("{:<46}{}", name(query), figures.collect::<String>());
    }
}

fn cell(value: Option<&f64>) -> String {
    match value {
        Some(value) if !value.is_nan() => format!("{value:>13.2}"),
        _ => format!("{:>13}", "-"),
    }
}

/// The panel, and what its legend says beyond labels.
fn name(query: &Query) -> String {
    let words = ["requests", "attempts", "retries"];
    match words.iter().find(|word| query.legend.contains(&format!(": {word}"))) {
        Some(word) => format!("{}: {word}", query.title),
        None => query.title.clone(),
    }
}
