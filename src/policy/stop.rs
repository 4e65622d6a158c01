//! The one place that decides whether a retry may happen, and the names of the reasons why not.

use super::Policy;
use crate::upstream::Record;

/// Why a retry was stopped. The order is that of the decision: the first reason that holds is the one that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The upstream's bucket holds no whole token.
    Budget,
}

impl Reason {
    pub const ALL: [Self; 1] = [Self::Budget];

    /// As in headers, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Budget => "budget",
        }
    }

    /// For people who read a refusal; says nothing about the inside of the proxy.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::Budget => "The retry budget of the upstream is exhausted; the request was not retried.",
        }
    }

    /// HTTP status of a local reply.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Budget => 503,
        }
    }

    /// gRPC status of a local reply (gRPC status codes: 14 UNAVAILABLE).
    pub const fn grpc_status(self) -> u8 {
        match self {
            Self::Budget => 14,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The retry may happen; the record as it is then, with the retry paid.
    Allow(Record),
    Stop(Reason),
}

/// Whether one more attempt may be made on an upstream in this state, brought up to the present by `Record::touch`.
pub fn decide(_policy: &Policy, upstream: Record) -> Verdict {
    match upstream.bucket.withdraw() {
        Some(bucket) => Verdict::Allow(Record { bucket }),
        None => Verdict::Stop(Reason::Budget),
    }
}
