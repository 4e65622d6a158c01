//! `make demo`: retry storms on a real Envoy, with and without the budget, in one table.

use anyhow::{Context, Result};
use demo::progress::{Progress, until_stopped};
use lab::storm::Figures;
use lab::{Config, Envoy, Storm};
use std::process::ExitCode;

#[tokio::main]
async fn main() -> Result<ExitCode> {
    // Before the signals are ours: what these two run or say can be interrupted as usual.
    lab::place::envoy()?;
    lab::wasm()?;
    until_stopped(demo()).await
}

async fn demo() -> Result<()> {
    let rows = rows()?;
    let mut progress = Progress::new(rows.iter().filter(|row| row.config.is_ok()).count() * Storm::ALL.len());
    let mut results = Vec::new();
    for row in rows {
        let mut figures = Vec::new();
        if let Ok(config) = &row.config {
            for storm in Storm::ALL {
                progress.step(&format!("{}: {}", row.name, storm.title()));
                figures.push(storm.run(config).await.with_context(|| row.name.to_string())?);
            }
        }
        results.push(Measured { row, figures });
    }
    progress.done();
    for (i, storm) in Storm::ALL.into_iter().enumerate() {
        print_storm(i, storm, &results);
    }
    println!("{}", conclusion(&results));
    Ok(())
}

/// One way to deal with retries: a shipped configuration, or why this Envoy has no such thing.
struct Row {
    kind: Kind,
    name: &'static str,
    config: std::result::Result<Config, &'static str>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    NoRetries,
    Unlimited,
    EnvoysBudget,
    Filter,
}

struct Measured {
    row: Row,
    /// In the order of [`Storm::ALL`]; empty where there is no configuration.
    figures: Vec<Figures>,
}

fn rows() -> Result<Vec<Row>> {
    let control = Config::load("control.yaml");
    let concurrent = control.clone().native_budget("orders", 20.0, 3, None);
    let over_time = control.clone().native_budget("orders", 10.0, 10, Some("10s"));
    let over_time = match Envoy::validate(&over_time) {
        Ok(_) => Ok(over_time),
        Err(e) if format!("{e:#}").contains("budget_interval") => {
            Err("not in this Envoy: its budget has an interval since 1.39")
        }
        Err(e) => return Err(e),
    };
    let row = |kind, name, config| Row { kind, name, config };
    Ok(vec![
        row(Kind::NoRetries, "no retries", Ok(control.clone().without_retries())),
        row(Kind::Unlimited, "3 attempts", Ok(control)),
        row(Kind::EnvoysBudget, "Envoy's retry_budget, 20 %, at least 3", Ok(concurrent)),
        row(Kind::EnvoysBudget, "Envoy's retry_budget, 10 %, at least 10, over 10 s", over_time),
        row(Kind::Filter, "this filter, 10 %, bucket of 10", Ok(Config::load("two-placements.yaml"))),
    ])
}

// ---- output ----

fn print_storm(i: usize, storm: Storm, results: &[Measured]) {
    println!("{}. {}\n", i + 1, storm.title());
    println!("   {:<52}{:>8}{:>16}{:>10}{:>10}", "", "calls at", "", "callers", "retries");
    println!("   {:<52}{:>8}{:>16}{:>10}{:>10}", "", "origin", "amplification", "served", "refused");
    for Measured { row, figures } in results {
        match (figures.get(i), &row.config) {
            (Some(f), _) => {
                let (load, served) = (format!("{:.1} x", f.amplification()), format!("{}/{}", f.served, f.callers));
                println!("   {:<52}{:>8}{load:>16}{served:>10}{:>10}", row.name, f.calls, f.refused);
            }
            (None, Err(why)) => println!("   {:<52}{why}", row.name),
            (None, Ok(_)) => {}
        }
    }
    let calls_of = |kind| results.iter().filter(move |m| m.row.kind == kind).filter_map(move |m| m.figures.get(i));
    if storm == Storm::Chain && calls_of(Kind::EnvoysBudget).any(|f| f.refused == 0) {
        println!(
            "   (The minimum of Envoy's budget counts retries at a time, in each Envoy: {} callers may never reach it.)",
            storm.callers()
        );
    }
    println!();
}

/// What the figures say, whatever they are.
fn conclusion(results: &[Measured]) -> String {
    let of = |kind: Kind, storm: Storm| {
        let at = Storm::ALL.iter().position(|s| *s == storm).expect("one of all");
        results.iter().filter(move |m| m.row.kind == kind).filter_map(move |m| m.figures.get(at))
    };
    let load = |kind, storm| range(of(kind, storm).map(Figures::amplification).collect());
    let served = |kind, storm| of(kind, storm).map(|f| f.served).sum::<usize>();
    format!(
        "In an outage 3 attempts put {} times the load on the origin, Envoy's own budgets {}, this filter {}; through \
         a chain of 4 they put {}, {} and {}. In a blip {} callers are served with the filter, {} without; where every \
         call fails twice {} and {}: that is the price.",
        load(Kind::Unlimited, Storm::Outage),
        load(Kind::EnvoysBudget, Storm::Outage),
        load(Kind::Filter, Storm::Outage),
        load(Kind::Unlimited, Storm::Chain),
        load(Kind::EnvoysBudget, Storm::Chain),
        load(Kind::Filter, Storm::Chain),
        served(Kind::Filter, Storm::Blip),
        served(Kind::Unlimited, Storm::Blip),
        served(Kind::Filter, Storm::Stutter),
        served(Kind::Unlimited, Storm::Stutter),
    )
}

/// `1.2`, or `1.2 to 1.4` where they differ.
fn range(values: Vec<f64>) -> String {
    let low = format!("{:.1}", values.iter().copied().fold(f64::INFINITY, f64::min));
    let high = format!("{:.1}", values.iter().copied().fold(0.0, f64::max));
    if low == high { low } else { format!("{low} to {high}") }
}
