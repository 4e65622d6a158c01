//! The keys of a configuration, described once. Parsing, error texts, guesses, the effective policy and the JSON
//! Schema all walk this table; names stand nowhere else, defaults come from `Default` of the types themselves.

use super::values::{Choice, List};
use crate::policy::bucket::Millitokens;
use crate::policy::{Placement, Policy};

/// What the keys of one level are read into. Every leaf knows the field that it fills.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub placement: Option<Placement>,
    pub policy: Policy,
}

pub struct Key {
    pub name: &'static str,
    /// For the JSON Schema: what an editor shows.
    pub doc: &'static str,
    pub kind: Kind,
    /// Not in the entries of `upstreams`: one module has one placement, and upstreams hold no upstreams.
    pub top_only: bool,
}

/// What stands at a key. The functions lead to the field: one for reading, writing and showing it.
pub enum Kind {
    Group(&'static [Key]),
    /// Names and globs, each with the keys that are not `top_only`.
    Upstreams,
    /// One of several words.
    Choice(fn(&mut Settings) -> &mut dyn Choice),
    /// A number from 0 to `max` in thousandths. With a `cap`, a key beside it, the value may not exceed the
    /// other's, and is the other's where nobody names it.
    Tokens {
        max: Millitokens,
        cap: Option<&'static Key>,
        field: fn(&mut Settings) -> &mut Millitokens,
    },
    /// A string such as `"1.5s"`, from `min` to `max`; all three in milliseconds.
    Duration {
        min: u64,
        max: u64,
        field: fn(&mut Settings) -> &mut u64,
    },
    /// The same, or `null` for none.
    OptionalDuration {
        min: u64,
        max: u64,
        field: fn(&mut Settings) -> &mut Option<u64>,
    },
    /// The name of a header field, or `null` for none.
    OptionalHeader(fn(&mut Settings) -> &mut Option<String>),
    /// `true` or `false`.
    Flag(fn(&mut Settings) -> &mut bool),
    /// An array, which replaces the one that stood there.
    List(fn(&mut Settings) -> &mut dyn List),
}

impl Key {
    const fn new(name: &'static str, doc: &'static str, kind: Kind) -> Self {
        Self { name, doc, kind, top_only: false }
    }

    const fn top(name: &'static str, doc: &'static str, kind: Kind) -> Self {
        Self { name, doc, kind, top_only: true }
    }
}

/// Ten retries per request are a storm by any measure; what is above is a mistake in the unit (10 for 10 %).
const MAX_RATIO: Millitokens = Millitokens(10_000);

/// A million retries (or retries per second) is more than one proxy makes; it keeps all sums far inside an `i64`.
const MAX_TOKENS: Millitokens = Millitokens(1_000_000_000);

/// A day: nobody remembers why an upstream is held for longer, and a larger maximum is rather a mistake in the unit.
const MAX_RETRY_AFTER_MS: u64 = 86_400_000;

/// A day: longer than any request is waited for.
const MAX_DEADLINE_MS: u64 = 86_400_000;

pub static KEYS: [Key; 9] = [
    Key::new(
        "mode",
        "enforce: decide and act. observe: decide, count and log what would be stopped, but change \
         nothing. off: do nothing.",
        Kind::Choice(|s| &mut s.policy.mode),
    ),
    Key::top(
        "placement",
        "Where this module sits; auto finds out by itself. request: in a listener's http_filters, once per \
         logical request. attempt: in the upstream chain, once per attempt. callee: in an \
         inbound listener of the called service.",
        Kind::Choice(|s| &mut s.placement),
    ),
    Key::new(
        "budget",
        "How many retries an upstream may get: a token bucket, one token per retry.",
        Kind::Group(&BUDGET),
    ),
    Key::new(
        "retriable",
        "Which responses Envoy may be about to retry: the failing ones, the only ones that are judged.",
        Kind::Group(&RETRIABLE),
    ),
    Key::new(
        "retry_after",
        "How a response's hint is obeyed: its Retry-After, or another header that says when to come back.",
        Kind::Group(&RETRY_AFTER),
    ),
    Key::new(
        "deadline",
        "How long a request may take in all: where that is read, and what the upstream is told.",
        Kind::Group(&DEADLINE),
    ),
    Key::new("stop_signal", "How the layers above learn that they should not retry either.", Kind::Group(&STOP_SIGNAL)),
    Key::new(
        "log",
        "Which decisions are logged, one JSON line each: all, stops (those against a retry or request), off.",
        Kind::Choice(|s| &mut s.policy.log),
    ),
    Key::top(
        "upstreams",
        "Upstreams with a policy of their own: a cluster name, or a glob with *, to the keys that differ. They are \
         merged over the top level, lists replaced. The exact name wins, then the longest glob.",
        Kind::Upstreams,
    ),
];

static BUDGET: [Key; 5] = [
    Key::new(
        "ratio",
        "Tokens earned per logical request, in steps of 0.001: 0.1 allows one retry for ten requests.",
        Kind::Tokens { max: MAX_RATIO, cap: None, field: |s| &mut s.policy.budget.ratio },
    ),
    MAX_TOKENS_KEY,
    Key::new(
        "initial_tokens",
        "Tokens that a new upstream starts with, at most max_tokens; as many as that by default.",
        Kind::Tokens { max: MAX_TOKENS, cap: Some(&MAX_TOKENS_KEY), field: |s| &mut s.policy.budget.initial },
    ),
    Key::new(
        "min_retries_per_second",
        "Tokens earned per second without any request, so that quiet upstreams may still retry.",
        Kind::Tokens { max: MAX_TOKENS, cap: None, field: |s| &mut s.policy.budget.per_second },
    ),
    Key::new(
        "deposit_on",
        "When a logical request earns its ratio: request: as it is let through. success: only when it ends well.",
        Kind::Choice(|s| &mut s.policy.budget.deposit_on),
    ),
];

const MAX_TOKENS_KEY: Key = Key::new(
    "max_tokens",
    "Cap of the bucket: the largest burst of retries.",
    Kind::Tokens { max: MAX_TOKENS, cap: None, field: |s| &mut s.policy.budget.max },
);

static RETRIABLE: [Key; 2] = [
    Key::new(
        "statuses",
        "HTTP statuses and classes (5xx) of failing responses. Add what the route's retriable_status_codes adds.",
        Kind::List(|s| &mut s.policy.retriable.statuses),
    ),
    Key::new(
        "grpc_statuses",
        "gRPC status codes of failing responses, in response headers; Envoy retries no others and never on trailers.",
        Kind::List(|s| &mut s.policy.retriable.grpc_statuses),
    ),
];

static RETRY_AFTER: [Key; 4] = [
    Key::new(
        "max",
        "Longest delay that is obeyed by waiting or holding, such as 250ms, 1.5s or 2m. A longer one means: do not \
         retry.",
        Kind::Duration { min: 0, max: MAX_RETRY_AFTER_MS, field: |s| &mut s.policy.retry_after.max_ms },
    ),
    Key::new(
        "wait",
        "true: Envoy is handed the delay in x-retry-after-seconds, whole seconds, rounded up; the route has to name \
         that header in rate_limited_retry_back_off. false: a response that asks for a delay is not retried.",
        Kind::Flag(|s| &mut s.policy.retry_after.wait),
    ),
    Key::new(
        "hold",
        "What a hint stops for the whole upstream until it is over: retries: everybody's retries. requests: new \
         requests, too. off: nothing.",
        Kind::Choice(|s| &mut s.policy.retry_after.hold),
    ),
    Key::new(
        "hold_statuses",
        "Statuses whose hint holds the upstream. Hints are read on 429 and 503; gRPC 8 counts as 429, 14 as 503.",
        Kind::List(|s| &mut s.policy.retry_after.hold_statuses),
    ),
];

static DEADLINE: [Key; 5] = [
    Key::new(
        "accept",
        "Headers that may bring a deadline, each with its format: ms and s (what is left), grpc (as grpc-timeout), \
         epoch-ms (a moment; ignored when it is further away than max). The smallest valid value counts.",
        Kind::List(|s| &mut s.policy.deadline.accept),
    ),
    Key::new(
        "emit",
        "Header that tells the upstream the milliseconds left, on every attempt of a request with a deadline; null: none.",
        Kind::OptionalHeader(|s| &mut s.policy.deadline.emit),
    ),
    Key::new(
        "default",
        "Deadline of a request that brings none; null: it has none.",
        Kind::OptionalDuration { min: 1, max: MAX_DEADLINE_MS, field: |s| &mut s.policy.deadline.default },
    ),
    Key::new(
        "max",
        "A longer deadline is cut to this. Envoy's timeout then replaces the route's: keep it at that.",
        Kind::Duration { min: 1, max: MAX_DEADLINE_MS, field: |s| &mut s.policy.deadline.max },
    ),
    Key::new(
        "min_remaining",
        "Time that a retry needs at least; with less left the failure is final.",
        Kind::Duration { min: 0, max: MAX_DEADLINE_MS, field: |s| &mut s.policy.deadline.min_remaining },
    ),
];

static STOP_SIGNAL: [Key; 1] = [Key::new(
    "emit",
    "Which final failures tell the layers above not to retry: stopped: those that this filter \
     stopped. failed: every one. none.",
    Kind::Choice(|s| &mut s.policy.emit),
)];
