//! The second part of `make demo`: how long an outage lasts after its cause is gone, as a table and as curves.
//!
//!     recovery [--renew]
//!
//! The curves are drawn to `target/recovery.svg`; `--renew` also replaces those that the README shows.

use anyhow::{Result, bail};
use demo::progress::{Progress, until_stopped};
use demo::recovery::{CAPACITY, Course, Kind, PER_TRY, RATE, Scenario, WATCHED, draw, together};
use lab::place;
use std::path::PathBuf;
use std::process::ExitCode;

const SCENARIO: Scenario = Scenario::DEMO;

/// What runs at the same time. Unlimited retries keep two processors busy: beside them everybody else would be slow,
/// and be measured so. The others hardly notice each other.
const ROUNDS: [&[Kind]; 3] =
    [&[Kind::NoRetries, Kind::EnvoysBudget, Kind::Budget], &[Kind::Unlimited], &[Kind::Deadlines, Kind::Breaker]];

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let renew = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [option] if option == "--renew" => true,
        others => bail!("recovery [--renew], not {others:?}"),
    };
    // Before the signals are ours: what these two run or say can be interrupted as usual.
    place::envoy()?;
    lab::wasm()?;
    until_stopped(demo(renew)).await
}

async fn demo(renew: bool) -> Result<()> {
    let mut progress = Progress::new(ROUNDS.len());
    let mut courses = Vec::new();
    for kinds in ROUNDS {
        let names: Vec<_> = kinds.iter().map(|kind| kind.short()).collect();
        progress.step(&format!("{} s of {}", SCENARIO.duration().as_secs(), names.join("; ")));
        courses.extend(together(kinds, SCENARIO).await?);
    }
    progress.done();
    courses.sort_by_key(|(kind, _)| Kind::ALL.iter().position(|other| other == kind));
    print_table(&courses);
    let mut files = vec![place::target().join("recovery.svg")];
    if renew {
        files.push(place::root().join("envoy/recovery.svg"));
    }
    for file in files {
        draw(&courses, &file)?;
        println!("The curves: {}", shown(file));
    }
    Ok(())
}

/// From the top of the checkout, where it lies there.
fn shown(file: PathBuf) -> String {
    file.strip_prefix(place::root()).unwrap_or(&file).display().to_string()
}

fn print_table(courses: &[(Kind, Course)]) {
    println!("A stall of {} s under a chain of {} Envoys, {RATE} calls/s.", SCENARIO.stall.as_secs(), PER_TRY.len());
    println!("The origin can do {CAPACITY:.0}, one after the other, and also does what nobody waits for any more.\n");
    println!("   {:<42}{:>21}{:>14}{:>15}", "", "calls/s at the origin", "served", "served again");
    println!("   {:<42}{:>12}{:>9}{:>14}{:>15}", "", "in the stall", "after", "in time after", "after");
    for (kind, course) in courses {
        let (stall, after) = (course.load_in_stall(), course.load(0.0..WATCHED));
        let served = format!("{:.0} %", 100.0 * course.share_served(0.0..WATCHED));
        println!("   {:<42}{stall:>12.0}{after:>9.0}{served:>14}{:>15}", kind.title(), course.verdict());
    }
    println!(
        "\n   (In time: within a second. After: in the {WATCHED:.0} s after the stall. Served again: 95 % of 3 s.)\n"
    );
    let disturbed: Vec<_> = courses.iter().filter(|(_, c)| !c.is_undisturbed()).map(|(kind, _)| kind.short()).collect();
    if !disturbed.is_empty() {
        println!("This machine was too busy for: {}. Calls failed before the stall.\n", disturbed.join("; "));
    }
    println!("{}\n", conclusion(courses));
}

/// What the figures say, whatever they are.
fn conclusion(courses: &[(Kind, Course)]) -> String {
    let of = |kind: Kind| &courses.iter().find(|(other, _)| *other == kind).expect("all kinds were run").1;
    let verdict = |kind| of(kind).verdict();
    format!(
        "After the stall callers are served again: without retries {}, with 3 attempts {}, with Envoy's own budget {}, \
         with this one {}, with deadlines as well {}, with budget and breaker {}. The breaker leaves nothing to catch up \
         with: {:.0} calls/s reach the origin in the stall, {:.0} with 3 attempts.",
        verdict(Kind::NoRetries),
        verdict(Kind::Unlimited),
        verdict(Kind::EnvoysBudget),
        verdict(Kind::Budget),
        verdict(Kind::Deadlines),
        verdict(Kind::Breaker),
        of(Kind::Breaker).load_in_stall(),
        of(Kind::Unlimited).load_in_stall(),
    )
}
