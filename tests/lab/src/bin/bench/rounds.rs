//! All setups take turns, round after round, so that a slow minute of the machine meets all of them.

use crate::cost::cpu_time;
use crate::setups::Setup;
use anyhow::{Context, Result, ensure};
use lab::{Answer, Envoy, Origin, Request, load};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Requests of one setup in one round: few, so that a round is over before the machine has other things to do.
const REQUESTS: usize = 2000;
const CONNECTIONS: usize = 16;
const ROUNDS: usize = 75;
/// A median of fewer says nothing.
const FEWEST: usize = 5;

#[derive(Default)]
pub struct Rounds {
    running: Vec<Running>,
    done: usize,
    by_latency: bool,
}

struct Running {
    name: &'static str,
    envoy: Envoy,
    origin: Arc<Origin>,
    costs: Vec<f64>,
}

/// Microseconds per request, one figure a round.
pub struct Measured {
    pub name: &'static str,
    costs: Vec<f64>,
}

impl Measured {
    pub fn median(&self) -> f64 {
        median(self.costs.clone())
    }

    /// Where the middle half of the rounds lies.
    pub fn middle(&self) -> (f64, f64) {
        let quarter = |nth: usize| sorted(self.costs.clone())[nth * (self.costs.len() - 1) / 4];
        (quarter(1), quarter(3))
    }

    /// What it costs over another, as a share of that. Each round is compared with the same round of the other, which
    /// had the same machine.
    pub fn over(&self, control: &Measured) -> f64 {
        median(self.costs.iter().zip(&control.costs).map(|(own, theirs)| own / theirs).collect()) - 1.0
    }
}

fn median(values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    sorted(values)[middle]
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

impl Rounds {
    /// Starts an Envoy and brings it to its pace.
    pub async fn add(&mut self, setup: Setup, origin: Arc<Origin>) -> Result<()> {
        let Setup { name, config } = setup;
        eprintln!("starting: {name}");
        let envoy = Envoy::start(&config).await.context(name)?;
        let mut running = Running { name, envoy, origin, costs: Vec::new() };
        running.requests(REQUESTS).await?;
        self.running.push(running);
        Ok(())
    }

    pub async fn run(&mut self, until: Instant) -> Result<Vec<Measured>> {
        while self.done < ROUNDS && (self.done < FEWEST || Instant::now() < until) {
            if self.done.is_multiple_of(10) {
                eprintln!("{} of {ROUNDS} rounds", self.done);
            }
            let n = self.running.len();
            for i in 0..n {
                // Nobody is always behind the same neighbour's back.
                let running = &mut self.running[(i + self.done) % n];
                let (cost, by_latency) = running.round().await?;
                running.costs.push(cost);
                self.by_latency = by_latency;
            }
            self.done += 1;
        }
        let measured = |running: &Running| Measured { name: running.name, costs: running.costs.clone() };
        Ok(self.running.iter().map(measured).collect())
    }

    pub fn title(&self) -> String {
        let what = if self.by_latency { "latency (there is no /proc)" } else { "CPU time of the Envoy process" };
        format!(
            "{what} per request: {REQUESTS} requests over {CONNECTIONS} connections, 1 worker, median of {} rounds",
            self.done
        )
    }
}

impl Running {
    /// Microseconds per request, and whether of latency instead of CPU time.
    async fn round(&mut self) -> Result<(f64, bool)> {
        let before = cpu_time(self.envoy.pid())?;
        let latency = self.requests(REQUESTS).await?;
        let after = cpu_time(self.envoy.pid())?;
        let used = before.zip(after).map(|(before, after)| after - before);
        Ok((used.unwrap_or(latency).as_secs_f64() * 1e6 / REQUESTS as f64, used.is_none()))
    }

    /// Sends so many, all of which must be answered, and returns the sum of their latencies.
    async fn requests(&mut self, n: usize) -> Result<Duration> {
        self.origin.forget();
        let answers = load(self.envoy.addr(), n, CONNECTIONS, |_| Request::get("/")).await;
        ensure!(answers.len() == n && self.origin.hits() == n, "{}: {answers}", self.name);
        Ok(answers.iter().map(|answer: &Answer| answer.latency).sum())
    }
}
