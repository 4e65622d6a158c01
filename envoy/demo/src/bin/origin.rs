//! The demo's service: it fails when told to. `curl -X POST HOST:PORT/fail-all`; `GET /` says what there is.
//!
//!     origin --control=ADDRESS --listen=NAME=ADDRESS...
//!
//! It answers the same on every address; the name tells who calls there, in its metrics.

use anyhow::{Context, Result, bail, ensure};
use demo::live::panel::{self, Asked};
use lab::Reply;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Healthy,
    FailAll,
    /// This share of the calls, evenly spread.
    FailRatio(f64),
    /// Every call fails, so much later: what an overloaded service does.
    Slow(Duration),
    /// Every call fails and asks not to be called for so many seconds.
    RetryAfter(u32),
}

const HELP: &str = "\
POST /healthy                    every call is answered 200
POST /fail-all                   every call is answered 503
POST /fail-ratio?ratio=0.3       this share of them
POST /slow?ms=1000               every call is answered 503, so much later
POST /retry-after?seconds=5      every call is answered 503 with a Retry-After
GET  /metrics                    calls by who made them and how they were answered
";

struct State {
    fault: Mutex<Fault>,
    /// By who called and the answer's status.
    calls: Mutex<BTreeMap<(String, u16), u64>>,
}

#[tokio::main]
async fn main() -> Result<()> {
    let state = Arc::new(State { fault: Mutex::new(Fault::Healthy), calls: Mutex::default() });
    let mut running = JoinSet::new();
    for (option, value) in panel::options()? {
        let state = state.clone();
        match option.as_str() {
            "control" => {
                let listener = TcpListener::bind(&value).await.with_context(|| value.clone())?;
                running.spawn(panel::serve(listener, move |asked| state.control(asked)));
            }
            "listen" => {
                let (name, addr) = value.split_once('=').context("--listen=NAME=ADDRESS")?;
                let listener = TcpListener::bind(addr).await.with_context(|| value.clone())?;
                let name = name.to_string();
                // Both answers are there from the beginning, or a rate would miss the first of each.
                for status in [200, 503] {
                    lock(&state.calls).insert((name.clone(), status), 0);
                }
                running.spawn(panel::serve(listener, move |_| state.call(&name)));
            }
            other => bail!("there is no option --{other}"),
        }
    }
    panel::stopped().await
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl State {
    fn call(&self, who: &str) -> Reply {
        let fault = *lock(&self.fault);
        let mut calls = lock(&self.calls);
        let (good, bad) = (calls.get(&(who.into(), 200)), calls.get(&(who.into(), 503)));
        let number = good.copied().unwrap_or(0) + bad.copied().unwrap_or(0);
        let reply = answer(fault, number);
        let status = if fails(fault, number) { 503 } else { 200 };
        *calls.entry((who.into(), status)).or_default() += 1;
        reply
    }

    fn control(&self, asked: &Asked) -> Reply {
        match (asked.method.as_str(), asked.path.as_str()) {
            ("GET", "/ready") => panel::page(200, "ready\n".into()),
            ("GET", "/metrics") => panel::metrics(self.metrics()),
            ("GET", "/") => panel::page(200, format!("{:?}\n\n{HELP}", *lock(&self.fault))),
            ("POST", _) => match fault(asked) {
                Ok(Some(fault)) => {
                    *lock(&self.fault) = fault;
                    panel::page(200, format!("{fault:?}\n"))
                }
                Ok(None) => panel::page(404, HELP.into()),
                Err(e) => panel::page(400, format!("{e:#}\n")),
            },
            _ => panel::page(404, HELP.into()),
        }
    }

    fn metrics(&self) -> String {
        let mut page = String::from("# TYPE origin_calls_total counter\n");
        for ((who, status), count) in lock(&self.calls).iter() {
            let _ = writeln!(page, "origin_calls_total{{envoy=\"{who}\",status=\"{status}\"}} {count}");
        }
        page
    }
}

/// The fault that a POST asks for; `None` where there is no such thing.
fn fault(asked: &Asked) -> Result<Option<Fault>> {
    Ok(Some(match asked.path.as_str() {
        "/healthy" => Fault::Healthy,
        "/fail-all" => Fault::FailAll,
        "/fail-ratio" => {
            let ratio = asked.number("ratio", 0.3)?;
            ensure!((0.0..=1.0).contains(&ratio), "ratio is {ratio}; it is a share, from 0 to 1");
            Fault::FailRatio(ratio)
        }
        "/slow" => Fault::Slow(Duration::from_millis(asked.number("ms", 1000)?)),
        "/retry-after" => Fault::RetryAfter(asked.number("seconds", 5)?),
        _ => return Ok(None),
    }))
}

/// Whether call `number` (0, 1, …) fails.
fn fails(fault: Fault, number: u64) -> bool {
    match fault {
        Fault::Healthy => false,
        Fault::FailRatio(ratio) => ((number + 1) as f64 * ratio).floor() > (number as f64 * ratio).floor(),
        Fault::FailAll | Fault::Slow(_) | Fault::RetryAfter(_) => true,
    }
}

fn answer(fault: Fault, number: u64) -> Reply {
    if !fails(fault, number) {
        return Reply::new(200);
    }
    match fault {
        Fault::Slow(delay) => Reply::new(503).after(delay),
        Fault::RetryAfter(seconds) => Reply::new(503).header("retry-after", seconds.to_string()),
        _ => Reply::new(503),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_exact_and_spread() {
        let failing = |ratio| (0..1000).filter(|n| fails(Fault::FailRatio(ratio), *n)).count();
        assert_eq!([0.0, 0.25, 0.5, 1.0].map(failing), [0, 250, 500, 1000]);
        let first: Vec<bool> = (0..8).map(|n| fails(Fault::FailRatio(0.25), n)).collect();
        assert_eq!(first, [false, false, false, true, false, false, false, true]);
    }
}
