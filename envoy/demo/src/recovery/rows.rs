//! The ways to deal with retries that are compared.

use lab::Config;
use serde_json::json;

/// How long each of the four Envoys waits for one attempt, from the top: those below give up first.
pub const PER_TRY: [&str; 4] = ["4s", "2s", "1s", "0.5s"];

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    NoRetries,
    Unlimited,
    EnvoysBudget,
    /// This filter, as shipped.
    Budget,
    /// The same, for callers that say how long they wait, and with the filter in front of the origin as well.
    Deadlines,
    /// The same without deadlines, with a breaker.
    Breaker,
}

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::NoRetries, Kind::Unlimited, Kind::EnvoysBudget, Kind::Budget, Kind::Deadlines, Kind::Breaker];

    pub fn title(self) -> &'static str {
        match self {
            Kind::NoRetries => "no retries",
            Kind::Unlimited => "3 attempts",
            Kind::EnvoysBudget => "Envoy's retry_budget, 20 %, at least 3",
            Kind::Budget => "this filter: budget",
            Kind::Deadlines => "this filter: budget, deadlines of 1 s, callee",
            Kind::Breaker => "this filter: budget and breaker",
        }
    }

    /// For where there is little room.
    pub fn short(self) -> &'static str {
        match self {
            Kind::EnvoysBudget => "Envoy's retry_budget",
            Kind::Budget => "budget",
            Kind::Deadlines => "budget, deadlines, callee",
            Kind::Breaker => "budget and breaker",
            Kind::NoRetries | Kind::Unlimited => self.title(),
        }
    }

    /// The four Envoys, from the top: a shipped file each, with its timeout.
    pub(super) fn layers(self) -> Vec<Config> {
        let config = match self {
            // The timeouts stay: without them callers would wait longer, and be served by a longer queue.
            Kind::NoRetries => Config::load("control.yaml").retry(json!({ "num_retries": 0 })),
            Kind::Unlimited => Config::load("control.yaml"),
            Kind::EnvoysBudget => Config::load("control.yaml").native_budget("orders", 20.0, 3, None),
            Kind::Budget | Kind::Deadlines => Config::load("two-placements.yaml"),
            // `open_for` is what the breaker costs at most when the origin is back, and a probe a second is no load to
            // one that gets seventy calls. The default of 30 s is for outages that last minutes.
            Kind::Breaker => Config::load("two-placements.yaml").policy(json!({
                "budget": { "ratio": 0.1, "max_tokens": 10 },
                "breaker": { "consecutive_failures": 5, "open_for": "1s" },
            })),
        };
        PER_TRY.iter().map(|timeout| config.clone().retry(json!({ "per_try_timeout": timeout }))).collect()
    }

    /// The Envoy between the last of them and the origin.
    pub(super) fn callee(self) -> Option<Config> {
        (self == Kind::Deadlines).then(|| Config::load("callee.yaml"))
    }

    /// Whether callers say how long they wait.
    pub(super) fn has_deadlines(self) -> bool {
        self == Kind::Deadlines
    }
}
