//! The storms that the demo shows and the tests assert: many callers at once, a service that fails.
//!
//! The service answers nobody before all callers have come, so the figures do not depend on the speed
//! of the machine.

use crate::client::{Client, Request};
use crate::config::Config;
use crate::envoy::{Envoy, chain};
use crate::origin::{Call, Origin};
use anyhow::{Result, ensure};

/// What happens to the service `orders`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Storm {
    /// Every call fails.
    Outage,
    /// Five of the callers see their first call fail.
    Blip,
    /// Every caller's first two calls fail.
    Stutter,
    /// Every call fails, behind four Envoys in a row that all retry.
    Chain,
}

/// What a storm did.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Requests of clients.
    pub callers: usize,
    /// Calls that the service took.
    pub calls: usize,
    /// Callers who got a 200.
    pub served: usize,
    /// Retries that were not made because something refused them: the filter or Envoy's own limits.
    pub refused: u64,
}

impl Figures {
    /// The load on the service, in units of the callers' own.
    pub fn amplification(&self) -> f64 {
        self.calls as f64 / self.callers as f64
    }
}

const CALLERS: usize = 50;
const CHAIN_CALLERS: usize = 10;
const CHAIN_LENGTH: usize = 4;
const BLIPS: usize = 5;

impl Storm {
    pub const ALL: [Storm; 4] = [Storm::Outage, Storm::Blip, Storm::Stutter, Storm::Chain];

    pub fn callers(self) -> usize {
        if self == Storm::Chain { CHAIN_CALLERS } else { CALLERS }
    }

    /// What a reader of a table needs to know.
    pub fn title(self) -> String {
        let n = self.callers();
        match self {
            Storm::Outage => format!("{n} callers at once, the origin answers 503 to every call"),
            Storm::Blip => format!("{n} callers at once, {BLIPS} of them get a 503 once"),
            Storm::Stutter => format!("{n} callers at once, each gets a 503 twice"),
            Storm::Chain => {
                format!("{n} callers above a chain of {CHAIN_LENGTH} Envoys, the origin answers 503 to every call")
            }
        }
    }

    /// Runs it against Envoys of this configuration, started for it.
    pub async fn run(self, config: &Config) -> Result<Figures> {
        let n = self.callers();
        let origin = Origin::holding(n, move |call| self.status(call)).await;
        let length = if self == Storm::Chain { CHAIN_LENGTH } else { 1 };
        let envoys = chain(length, config, "orders", origin.addr()).await?;
        let answers = Client::new().storm(envoys[0].addr(), n, |i| Request::get(format!("/{i}"))).await;
        ensure!(answers.errors.is_empty(), "a request got no answer: {answers}");
        let mut refused = 0;
        for envoy in &envoys {
            refused += refused_by(envoy).await?;
        }
        Ok(Figures { callers: n, calls: origin.hits(), served: answers.count(200), refused })
    }

    fn status(self, call: &Call) -> u16 {
        let caller: usize = call.path.trim_start_matches('/').parse().unwrap_or(usize::MAX);
        let fails = match self {
            Storm::Outage | Storm::Chain => true,
            Storm::Blip => caller < BLIPS && call.attempt == 1,
            Storm::Stutter => call.attempt <= 2,
        };
        if fails { 503 } else { 200 }
    }
}

async fn refused_by(envoy: &Envoy) -> Result<u64> {
    let stats = envoy.stats().await?;
    let by_envoy = stats.counter("envoy_cluster_upstream_rq_retry_overflow", &[]);
    Ok(stats.counter("retry_budget_stops_total", &[]) + by_envoy)
}
