//! `make bench`: what the filter costs inside a real Envoy, against controls in the same run.
//!
//! Microseconds differ from machine to machine, and on one machine from hour to hour. So all setups take turns, and what
//! is worth comparing are the ratios: in multiples of an empty wasm filter, the least that a filter of this kind costs.

mod cost;
mod refusals;
mod rounds;
mod setups;

use anyhow::Result;
use lab::Origin;
use rounds::{Measured, Rounds};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main]
async fn main() -> Result<ExitCode> {
    // Before the signals are ours: what these two run or say can be interrupted as usual.
    lab::place::envoy()?;
    lab::wasm()?;
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    // Whichever comes first: the others are dropped, and with them every Envoy that is running.
    tokio::select! {
        done = bench() => done.map(|()| ExitCode::SUCCESS),
        _ = interrupt.recv() => stopped(130),
        _ = terminate.recv() => stopped(143),
    }
}

fn stopped(code: u8) -> Result<ExitCode> {
    eprintln!("\nStopped.");
    Ok(ExitCode::from(code))
}

/// No round begins after this, so that the whole takes less than three minutes on a slow machine, too.
const TIME_FOR_ROUNDS: Duration = Duration::from_secs(110);

async fn bench() -> Result<()> {
    let until = Instant::now() + TIME_FOR_ROUNDS;
    let (good, bad) = (Arc::new(Origin::always(200).await), Arc::new(Origin::always(503).await));
    let folder = tempfile::tempdir()?;
    let (success, failure) = (setups::success(good.addr(), folder.path())?, setups::failure(bad.addr()));
    let split = success.len();
    let mut rounds = Rounds::default();
    for (origin, setups) in [(good, success), (bad, failure)] {
        for setup in setups {
            rounds.add(setup, origin.clone()).await?;
        }
    }
    let measured = rounds.run(until).await?;
    let (success, failure) = measured.split_at(split);
    println!("{}", rounds.title());
    print("Every answer is a 200, the bucket is full", success, true);
    print("Every answer is a 503, the bucket is empty", failure, false);
    refusals::print().await
}

/// The first row is the control; where there is a floor, it is the second.
fn print(title: &str, rows: &[Measured], has_floor: bool) {
    let [control, others @ ..] = rows else { return };
    let floor = others.first().filter(|_| has_floor).map(|floor| floor.over(control));
    let heading = if has_floor { "x the floor" } else { "" };
    println!("\n{title}\n{:44}{:>12}{:>18}{:>14}{heading:>13}", "", "us/request", "middle half", "over control");
    for (i, row) in rows.iter().enumerate() {
        let (low, high) = row.middle();
        print!("{:44}{:>12.1}{:>18}", row.name, row.median(), format!("{low:.1} to {high:.1}"));
        if i > 0 {
            print!("{:>14}", format!("{:+.1} %", 100.0 * row.over(control)));
            print!("{:>13}", floor.map_or(String::new(), |floor| format!("{:.2}", row.over(control) / floor)));
        }
        println!();
    }
}
