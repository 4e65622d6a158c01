//! The rules, pure: no clock, no host, no SDK. Everything that a rule needs comes in as a parameter.

pub mod breaker;
pub mod bucket;
pub mod deadline;
pub mod duration;
pub mod outcome;
pub mod retry_after;
pub mod stop;
pub mod upstream;
pub mod wait;

use bucket::Millitokens;
use outcome::{Retriable, StatusSet};

/// What the filter does with its decisions (`mode`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Decide, count, log, and change nothing.
    Observe,
    /// Decide and act.
    #[default]
    Enforce,
    /// Neither decide nor count.
    Off,
}

/// Where the module sits (`placement`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// In a listener's `http_filters`: once per logical request.
    Request,
    /// In the upstream chain: once per physical attempt.
    Attempt,
    /// In an inbound listener of the called service: judges the attempts that callers' Envoys make.
    Callee,
}

/// Which decisions are logged (`log`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogDecisions {
    All,
    #[default]
    Stops,
    Off,
}

/// Which final failures tell the layers above not to retry (`stop_signal.emit`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EmitStopSignal {
    /// Those that this filter stopped.
    #[default]
    Stopped,
    /// Every final failure.
    Failed,
    /// None: no signal leaves this proxy.
    None,
}

/// When a logical request earns its share of a retry (`budget.deposit_on`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DepositOn {
    /// As it is let through.
    #[default]
    Request,
    /// When it has ended well.
    Success,
}

/// `budget.*`, in thousandths of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Earned per logical request (`budget.ratio`).
    pub ratio: Millitokens,
    /// Cap of the bucket (`budget.max_tokens`).
    pub max: Millitokens,
    /// What a new upstream starts with (`budget.initial_tokens`), at most `max`.
    pub initial: Millitokens,
    /// Earned per second (`budget.min_retries_per_second`).
    pub per_second: Millitokens,
    pub deposit_on: DepositOn,
}

impl Default for Budget {
    /// Ten percent, as Envoy's and Finagle's budgets suggest, and a burst of ten.
    fn default() -> Self {
        Self {
            ratio: Millitokens(100),
            max: Millitokens(10_000),
            initial: Millitokens(10_000),
            per_second: Millitokens(0),
            deposit_on: DepositOn::default(),
        }
    }
}

/// What a hint stops for the whole upstream, until it is over (`retry_after.hold`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Hold {
    /// Everybody's retries.
    #[default]
    Retries,
    /// New requests, too.
    Requests,
    /// Nothing: a hint is for the request that brought it.
    Off,
}

/// `retry_after.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryAfter {
    /// The longest delay that is obeyed by waiting or holding, in milliseconds (`retry_after.max`). A longer one means
    /// that there is to be no retry.
    pub max_ms: u64,
    /// Whether Envoy is handed the delay (`retry_after.wait`); if not, a response that asks for one is not retried.
    pub wait: bool,
    pub hold: Hold,
    /// Whether a hint stops, delays or holds anything at all (`retry_after.obey`).
    pub obey: bool,
    /// Statuses whose hint holds the upstream (`retry_after.hold_statuses`).
    pub hold_statuses: StatusSet,
}

impl Default for RetryAfter {
    /// Overload, a 503, is the upstream's; a 429 is one caller's. A minute is longer than a client waits, and short
    /// enough to find out soon that an upstream which promised to be away for an hour is back.
    fn default() -> Self {
        Self {
            max_ms: 60_000,
            wait: false,
            hold: Hold::default(),
            obey: true,
            hold_statuses: [503].into_iter().collect(),
        }
    }
}

/// Everything that decides about one upstream: the plugin configuration with the upstream's own keys merged over it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub mode: Mode,
    pub budget: Budget,
    pub retriable: Retriable,
    pub retry_after: RetryAfter,
    pub emit: EmitStopSignal,
    pub log: LogDecisions,
    pub deadline: deadline::DeadlinePolicy,
    pub idempotency: Idempotency,
    /// `None`: no breaker.
    pub breaker: Option<breaker::BreakerPolicy>,
    pub owner: Owner,
    /// Whether a stop signal from below is obeyed (`stop_signal.honor`).
    pub honor: Honor,
}

/// `stop_signal.honor`: a type of its own because it is on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Honor(pub bool);

impl Default for Honor {
    fn default() -> Self {
        Self(true)
    }
}

/// What an attempt that ended without a response means for a method that is not idempotent (`idempotency.reset`). A
/// refused connection is known to have sent nothing, and needs no such rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reset {
    /// It may have been processed.
    #[default]
    Unknown,
    /// It was not: the routes retry only what never was. (No attribute tells a refused stream from another reset.)
    Unsent,
}

/// `idempotency.*`: which requests may be repeated although their outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idempotency {
    /// In upper case, as on the wire.
    pub methods: Vec<String>,
    pub reset: Reset,
    /// In lower case. A request that has one of these names its own repetition.
    pub key_headers: Vec<String>,
    /// gRPC: its route policy names the codes that are safe.
    pub grpc: bool,
}

impl Default for Idempotency {
    /// The idempotent methods of RFC 9110 §9.2.2, and the header of draft-ietf-httpapi-idempotency-key-header.
    fn default() -> Self {
        Self {
            methods: ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"].map(str::to_owned).into(),
            reset: Reset::default(),
            key_headers: vec!["idempotency-key".to_owned()],
            grpc: true,
        }
    }
}

/// `owner.*`: which layer retries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// Sent to the upstream as `x-retry-owner` where the request names none.
    pub name: Option<String>,
    /// A request that names another owner is not retried here.
    pub defer: bool,
}
