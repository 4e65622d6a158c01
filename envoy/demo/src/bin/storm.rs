//! The demo's callers: a little traffic to every target all the time, much more while the storm is on.
//! `curl -X POST HOST:PORT/start` and `/stop`; `GET /` says what there is.
//!
//!     storm --control=ADDRESS --target=NAME=ADDRESS... [--base=20] [--rate=200]

use anyhow::{Context, Result, bail, ensure};
use demo::live::panel::{self, Asked};
use lab::{Client, Reply, Request};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;

const HELP: &str = "\
POST /start[?rate=200][&seconds=600]   the storm: so many more requests a second to each target, for so long
POST /stop                             its end
GET  /metrics                          requests by target and status
";

/// A storm ends by itself: nobody wants to find it on the next morning.
const LONGEST: u64 = 600;

/// As many requests a second as one machine can do without measuring itself.
const FASTEST: u64 = 2_000;

/// Requests to one target at a time. Further ones are not sent but counted: callers wait for nobody.
const AT_A_TIME: usize = 1_000;

/// How long a name's address is trusted.
const NAMES: Duration = Duration::from_secs(5);

struct State {
    base: u64,
    rate: u64,
    storm: Mutex<Option<Storm>>,
    /// By target and status; `none` where there was no answer, `unsent` beyond [`AT_A_TIME`].
    requests: Mutex<BTreeMap<(String, String), u64>>,
}

#[derive(Clone, Copy)]
struct Storm {
    rate: u64,
    until: Instant,
}

#[tokio::main]
async fn main() -> Result<()> {
    let (mut base, mut rate, mut control, mut targets) = (20, 200, None, Vec::new());
    for (option, value) in panel::options()? {
        match option.as_str() {
            "base" => base = value.parse().with_context(|| format!("--base={value}"))?,
            "rate" => rate = value.parse().with_context(|| format!("--rate={value}"))?,
            "control" => control = Some(value),
            "target" => {
                let (name, addr) = value.split_once('=').context("--target=NAME=ADDRESS")?;
                targets.push((name.to_string(), addr.to_string()));
            }
            other => bail!("there is no option --{other}"),
        }
    }
    ensure!(base <= FASTEST && rate <= FASTEST, "--base and --rate are at most {FASTEST}");
    let listener = TcpListener::bind(control.context("--control=ADDRESS is missing")?).await?;
    let state = Arc::new(State { base, rate, storm: Mutex::default(), requests: Mutex::default() });
    let mut running = JoinSet::new();
    for (name, addr) in targets {
        // These are there from the beginning, or a rate would miss the first of each.
        for status in ["200", "503"] {
            lock(&state.requests).insert((name.clone(), status.into()), 0);
        }
        running.spawn(call(state.clone(), name, addr));
    }
    let switches = state.clone();
    tokio::spawn(panel::serve(listener, move |asked| switches.control(asked)));
    panel::stopped().await
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Sends requests to one target, as many a second as are due, however it fares.
async fn call(state: Arc<State>, name: String, target: String) {
    let (client, slots) = (Client::new(), Arc::new(Semaphore::new(AT_A_TIME)));
    let (mut addr, mut looked_up) = (None, Instant::now() - NAMES);
    let mut due = Instant::now();
    loop {
        let rate = state.rate();
        if rate == 0 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        }
        // What was missed is not made up for: that would be a storm of its own.
        due = (due + Duration::from_secs(1) / rate as u32).max(Instant::now() - Duration::from_millis(100));
        tokio::time::sleep_until(due).await;
        if addr.is_none() || looked_up.elapsed() >= NAMES {
            (addr, looked_up) = (look_up(&target).await, Instant::now());
        }
        let (Some(addr), Ok(slot)) = (addr, slots.clone().try_acquire_owned()) else {
            state.count(&name, "unsent");
            continue;
        };
        let (state, name, client) = (state.clone(), name.clone(), client.clone());
        tokio::spawn(async move {
            match client.send(addr, Request::get("/orders")).await {
                Ok(answer) => state.count(&name, &answer.status.to_string()),
                Err(_) => state.count(&name, "none"),
            }
            drop(slot);
        });
    }
}

async fn look_up(target: &str) -> Option<SocketAddr> {
    tokio::net::lookup_host(target).await.ok()?.next()
}

impl State {
    /// Requests a second to each target, now.
    fn rate(&self) -> u64 {
        let storm = lock(&self.storm).filter(|storm| storm.until > Instant::now());
        self.base + storm.map_or(0, |storm| storm.rate)
    }

    fn count(&self, name: &str, status: &str) {
        *lock(&self.requests).entry((name.into(), status.into())).or_default() += 1;
    }

    fn control(&self, asked: &Asked) -> Reply {
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/ready") => panel::page(200, "ready\n".into()),
            ("GET", "/metrics") => panel::metrics(self.metrics()),
            ("GET", "/") => panel::page(200, format!("{} requests/s to each target\n\n{HELP}", self.rate())),
            ("POST", "/start") => match self.asked_for(asked) {
                Ok(storm) => {
                    *lock(&self.storm) = Some(storm);
                    panel::page(200, format!("{} requests/s to each target\n", self.rate()))
                }
                Err(e) => panel::page(400, format!("{e:#}\n")),
            },
            ("POST", "/stop") => {
                *lock(&self.storm) = None;
                panel::page(200, format!("{} requests/s to each target\n", self.rate()))
            }
            _ => panel::page(404, HELP.into()),
        }
    }

    fn asked_for(&self, asked: &Asked) -> Result<Storm> {
        let (rate, seconds) = (asked.number("rate", self.rate)?, asked.number("seconds", LONGEST)?);
        ensure!(rate <= FASTEST, "rate is {rate}; at most {FASTEST}");
        ensure!(seconds <= LONGEST, "seconds is {seconds}; at most {LONGEST}");
        Ok(Storm { rate, until: Instant::now() + Duration::from_secs(seconds) })
    }

    fn metrics(&self) -> String {
        let mut page = String::from("# TYPE storm_requests_total counter\n");
        for ((name, status), count) in lock(&self.requests).iter() {
            let _ = writeln!(page, "storm_requests_total{{envoy=\"{name}\",status=\"{status}\"}} {count}");
        }
        page
    }
}
