//! How long an outage lasts after its cause is gone: four retrying Envoys in a row, a steady load below what the
//! origin can do, and a stall. What has queued up meanwhile is still done when nobody waits for it any more.

mod chart;
mod course;
mod files;
mod rows;
mod worker;

pub use chart::draw;
pub use course::{Course, IN_TIME, Sent, WATCHED};
pub use rows::{Kind, PER_TRY};
pub use worker::CAPACITY;

use anyhow::{Context, Result};
use lab::{Client, Envoy, Origin, Reply, Request};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use tokio::task::{JoinSet, LocalSet, spawn_local};
use worker::Worker;

/// Calls a second: 70 % of what the origin can do.
pub const RATE: u32 = 70;

/// What the origin does, in this order.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// All is well.
    pub warm_up: Duration,
    /// It does nothing.
    pub stall: Duration,
    /// It works again.
    pub watch: Duration,
}

impl Scenario {
    /// The demo's. The last recovery that can be seen begins three seconds before its end.
    pub const DEMO: Scenario =
        Scenario { warm_up: Duration::from_secs(3), stall: Duration::from_secs(5), watch: Duration::from_secs(33) };

    pub fn duration(&self) -> Duration {
        self.warm_up + self.stall + self.watch
    }
}

/// Runs these at the same time, each with an origin, Envoys and callers of its own.
pub async fn together(kinds: &[Kind], scenario: Scenario) -> Result<Vec<(Kind, Course)>> {
    let all = async {
        let running: Vec<_> = kinds.iter().map(|kind| (*kind, spawn_local(kind.run(scenario)))).collect();
        let mut courses = Vec::new();
        for (kind, course) in running {
            courses.push((kind, course.await?.with_context(|| kind.title().to_string())?));
        }
        Ok(courses)
    };
    LocalSet::new().run_until(all).await
}

impl Kind {
    async fn run(self, scenario: Scenario) -> Result<Course> {
        files::allow_many();
        let worker = Arc::new(Mutex::new(Worker::default()));
        let taking = worker.clone();
        let origin = Origin::start(move |_| Reply::new(200).after(lock(&taking).take(Instant::now()))).await;
        let envoys = self.start(&origin).await?;
        let begin = Instant::now();
        let stall = begin + scenario.warm_up;
        lock(&worker).stall(stall..stall + scenario.stall);
        let sent = self.send(&envoys[0], begin, scenario.duration()).await?;
        let end_of_stall = stall + scenario.stall;
        let offered = lock(&worker).calls.iter().map(|at| seconds(*at, end_of_stall)).collect();
        let sent = sent.iter().map(|(at, served)| Sent { at: seconds(*at, end_of_stall), served: *served }).collect();
        let span = seconds(begin, end_of_stall)..scenario.watch.as_secs_f64();
        Ok(Course { span, stall: scenario.stall.as_secs_f64(), offered, sent })
    }

    /// From the top.
    async fn start(self, origin: &Origin) -> Result<Vec<Envoy>> {
        let (mut envoys, mut next) = (Vec::new(), origin.addr());
        for config in self.layers().into_iter().chain(self.callee()).rev() {
            let envoy = Envoy::start(&config.upstream("orders", next)).await?;
            next = envoy.addr();
            envoys.insert(0, envoy);
        }
        Ok(envoys)
    }

    /// Callers that come one after the other, however those before them fare, and wait for their answers: when each
    /// sent its call, and whether it was served in time.
    async fn send(self, top: &Envoy, begin: Instant, duration: Duration) -> Result<Vec<(Instant, bool)>> {
        let (client, addr) = (Client::new(), top.addr());
        let calls = (duration.as_secs_f64() * f64::from(RATE)) as u32;
        let served: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (mut sent, mut waiting) = (Vec::new(), JoinSet::new());
        for i in 0..calls {
            tokio::time::sleep_until((begin + Duration::from_secs(1) * i / RATE).into()).await;
            let (client, request) = (client.clone(), self.request(i));
            let (number, served) = (sent.len(), served.clone());
            lock(&served).push(false); // until it is known
            sent.push(Instant::now());
            waiting.spawn(async move {
                let answer = client.send(addr, request).await?;
                lock(&served)[number] = answer.status == 200 && answer.latency <= IN_TIME;
                Ok::<_, anyhow::Error>(())
            });
            while let Some(done) = waiting.try_join_next() {
                done??;
            }
        }
        // Who is answered later is not served in time. The others leave as they are dropped.
        tokio::time::sleep(IN_TIME).await;
        let served = lock(&served).clone();
        Ok(sent.into_iter().zip(served).collect())
    }

    fn request(self, i: u32) -> Request {
        let request = Request::get(format!("/{i}"));
        if self.has_deadlines() {
            return request.header("x-request-deadline-ms", IN_TIME.as_millis().to_string());
        }
        request
    }
}

fn seconds(at: Instant, since: Instant) -> f64 {
    match at.checked_duration_since(since) {
        Some(after) => after.as_secs_f64(),
        None => -(since - at).as_secs_f64(),
    }
}

/// A panic elsewhere must not hide behind a poisoned lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
