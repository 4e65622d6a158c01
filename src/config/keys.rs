//! The keys of a configuration, described once. Parsing, error texts, guesses, the effective policy and the JSON
//! Schema all walk this table; names stand nowhere else, defaults come from `Default` of the types themselves.

use super::kind::{Key, Kind};
use super::marks::Mark;
use super::name::Name;
use crate::policy::bucket::Millitokens;

/// Ten retries per request are a storm by any measure; what is above is a mistake in the unit (10 for 10 %).
const MAX_RATIO: Millitokens = Millitokens(10_000);

/// A million retries (or retries per second) is more than one proxy makes; it keeps all sums far inside an `i64`.
const MAX_TOKENS: Millitokens = Millitokens(1_000_000_000);

/// A day: nobody remembers why an upstream is held for longer, and a larger maximum is rather a mistake in the unit.
const MAX_RETRY_AFTER_MS: u64 = 86_400_000;

/// A day: longer than any request is waited for.
const MAX_DEADLINE_MS: u64 = 86_400_000;

/// A breaker that waits for more is none.
const MAX_CALLS: u32 = 1_000_000;

/// Any more probes at once are the load that the breaker is there to keep away.
const MAX_PROBES: u32 = 1000;

/// A tenth of the window is a slot of its own: below a second slots would be shorter than requests, and what was more
/// than an hour ago says nothing about now.
const WINDOW_MS: (u64, u64) = (1000, 3_600_000);

/// A day: as for a hold.
const MAX_OPEN_MS: u64 = 86_400_000;

pub static KEYS: [Key; 12] = [
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
    Key::new(
        "idempotency",
        "Which requests may be repeated when their outcome is unknown; others are retried only where the attempt cannot \
         have reached the upstream.",
        Kind::Group(&IDEMPOTENCY),
    ),
    Key::new(
        "breaker",
        "A circuit breaker: an upstream that keeps failing is not called at all for a while. null: none. Naming \
         failure_ratio, window or min_requests switches consecutive_failures off, unless it is named, too.",
        Kind::OptionalGroup { keys: &BREAKER, on: |s| &mut s.breaks },
    ),
    Key::new("owner", "Which of several layers retries a request.", Kind::Group(&OWNER)),
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
    Key::marked(
        Mark::InitialTokens,
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

const MAX_TOKENS_KEY: Key = Key::marked(
    Mark::MaxTokens,
    "max_tokens",
    "Cap of the bucket: the largest burst of retries.",
    Kind::Tokens { max: MAX_TOKENS, cap: None, field: |s| &mut s.policy.budget.max },
);

static RETRIABLE: [Key; 3] = [
    Key::new(
        "statuses",
        "HTTP statuses and classes (5xx) of failing responses. Add what the route's retriable_status_codes adds.",
        Kind::List(|s| &mut s.policy.retriable.statuses),
    ),
    Key::new(
        "headers",
        "Response headers (the route's retriable-headers) that make a response failing, whatever its status.",
        Kind::Names { name: Name::Header, field: |s| &mut s.policy.retriable.headers },
    ),
    Key::new(
        "grpc_statuses",
        "gRPC status codes of failing responses, in response headers; Envoy retries no others and never on trailers.",
        Kind::List(|s| &mut s.policy.retriable.grpc_statuses),
    ),
];

static RETRY_AFTER: [Key; 5] = [
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
        "obey",
        "false: hints neither delay, stop nor hold anything, for routes whose retries go to another provider.",
        Kind::Flag(|s| &mut s.policy.retry_after.obey),
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
        Kind::OptionalName { name: Name::Header, field: |s| &mut s.policy.deadline.emit },
    ),
    Key::marked(
        Mark::DefaultDeadline,
        "default",
        "Deadline of a request that brings none, at most max; null: it has none.",
        Kind::OptionalDuration {
            min: 1,
            max: MAX_DEADLINE_MS,
            cap: Some(&MAX_DEADLINE_KEY),
            field: |s| &mut s.policy.deadline.default,
        },
    ),
    MAX_DEADLINE_KEY,
    Key::new(
        "min_remaining",
        "Time that a retry needs at least; with less left the failure is final.",
        Kind::Duration { min: 0, max: MAX_DEADLINE_MS, field: |s| &mut s.policy.deadline.min_remaining },
    ),
];

const MAX_DEADLINE_KEY: Key = Key::marked(
    Mark::MaxDeadline,
    "max",
    "The longest deadline that is enforced, in place of the route's timeout: keep it at that. A longer one leaves \
     the route's timeout alone, and the upstream is told what is really left.",
    Kind::Duration { min: 1, max: MAX_DEADLINE_MS, field: |s| &mut s.policy.deadline.max },
);

static IDEMPOTENCY: [Key; 4] = [
    Key::new(
        "methods",
        "Methods that may be repeated, in upper case as in the request: they are case-sensitive.",
        Kind::Names { name: Name::Method, field: |s| &mut s.policy.idempotency.methods },
    ),
    Key::new(
        "reset",
        "What an attempt without a response means for other methods: unknown: it may have been processed, so no retry. \
         unsent: it was not, because the routes retry only what never was.",
        Kind::Choice(|s| &mut s.policy.idempotency.reset),
    ),
    Key::new(
        "key_headers",
        "Headers by which the upstream knows a repetition: a request with one of them may be repeated.",
        Kind::Names { name: Name::Header, field: |s| &mut s.policy.idempotency.key_headers },
    ),
    Key::new(
        "grpc",
        "Whether gRPC calls may be repeated: the route's retry policy names the codes for which that is safe.",
        Kind::Flag(|s| &mut s.policy.idempotency.grpc),
    ),
];

static BREAKER: [Key; 7] = [
    Key::marked(
        Mark::ConsecutiveFailures,
        "consecutive_failures",
        "Opens after so many failures in a row; null: failure_ratio alone opens it.",
        Kind::OptionalCount { max: MAX_CALLS, field: |s| &mut s.breaker.consecutive_failures },
    ),
    Key::marked(
        Mark::FailureRatio,
        "failure_ratio",
        "Opens when this share of the calls in the window failed, in steps of 0.001; null: never for that. 0.5 where \
         window or min_requests is named and this is not.",
        Kind::OptionalShare(|s| &mut s.breaker.failure_ratio),
    ),
    Key::marked(
        Mark::Window,
        "window",
        "How far failure_ratio looks back, from 1s to 1h.",
        Kind::Duration { min: WINDOW_MS.0, max: WINDOW_MS.1, field: |s| &mut s.breaker.window },
    ),
    Key::marked(
        Mark::MinRequests,
        "min_requests",
        "Calls in the window before failure_ratio counts: two failures at the start are no evidence.",
        Kind::Count { max: MAX_CALLS, field: |s| &mut s.breaker.min_requests },
    ),
    Key::new(
        "slow_call",
        "A call whose response headers take longer counts as failed; null: however long they take.",
        Kind::OptionalDuration { min: 1, max: MAX_DEADLINE_MS, cap: None, field: |s| &mut s.breaker.slow_call },
    ),
    Key::new(
        "open_for",
        "How long it stays open before it lets probes through.",
        Kind::Duration { min: 1, max: MAX_OPEN_MS, field: |s| &mut s.breaker.open_for },
    ),
    Key::new(
        "half_open_probes",
        "Requests that are let through then; it closes when all of them went well, and opens again when one failed.",
        Kind::Count { max: MAX_PROBES, field: |s| &mut s.breaker.half_open_probes },
    ),
];

static OWNER: [Key; 2] = [
    Key::new(
        "name",
        "Sent to the upstream as x-retry-owner where the request names no owner; null: nothing is sent.",
        Kind::OptionalName { name: Name::Owner, field: |s| &mut s.policy.owner.name },
    ),
    Key::new(
        "defer",
        "true: a request that already names another owner is not retried here.",
        Kind::Flag(|s| &mut s.policy.owner.defer),
    ),
];

static STOP_SIGNAL: [Key; 2] = [
    Key::new(
        "emit",
        "Which final failures tell the layers above not to retry: stopped: those that this filter \
         stopped. failed: every one. none.",
        Kind::Choice(|s| &mut s.policy.emit),
    ),
    Key::new(
        "honor",
        "Whether a response with x-retry-stop, from a layer below, is not retried here.",
        Kind::Flag(|s| &mut s.policy.honor.0),
    ),
];
