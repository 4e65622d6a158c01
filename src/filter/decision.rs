//! What was decided, as one JSON object: a log line, and the filter state that access logs show.

use super::deadlines;
use super::logical::{Logical, Outcome};
use super::served::Served;
use super::vm::Vm;
use crate::host::LogLevel;
use crate::policy::LogDecisions;
use crate::policy::bucket::Millitokens;
use crate::policy::stop::Reason;
use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Allow,
    Stop,
    WouldStop,
    Park,
    Reject,
    WouldReject,
}

impl Verb {
    const fn name(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Stop => "stop",
            Self::WouldStop => "would_stop",
            Self::Park => "park",
            Self::Reject => "reject",
            Self::WouldReject => "would_reject",
        }
    }
}

pub struct Decision {
    pub verb: Verb,
    pub reason: Option<Reason>,
    /// The attempt that is judged, or that would start.
    pub attempt: u32,
    pub outcome: Outcome,
    /// The balance afterwards, where it was read.
    pub tokens: Option<Millitokens>,
}

/// Shown by `%FILTER_STATE(wasm.retry_budget:PLAIN)%`.
const FILTER_STATE: &str = "retry_budget";

pub fn report(vm: &Vm, served: &Served, logical: &Logical, decision: &Decision) {
    let json = render(
        &served.upstream.name,
        logical.request_id.get(),
        logical.owner.get(),
        remaining_ms(vm, logical),
        decision,
    );
    let _ = vm.host.set_property(FILTER_STATE, json.as_bytes());
    let log = match served.policy.log {
        LogDecisions::All => true,
        LogDecisions::Stops => decision.verb != Verb::Allow,
        LogDecisions::Off => false,
    };
    if log {
        vm.host.log(LogLevel::Info, &json);
    }
}

/// Read only where something was decided.
fn remaining_ms(vm: &Vm, logical: &Logical) -> Option<u64> {
    let deadline = logical.deadline.get()?;
    Some(deadline.remaining(deadlines::now(vm.host())?).millis())
}

fn render(
    upstream: &[u8],
    id: Option<&Vec<u8>>,
    owner: Option<&Vec<u8>>,
    remaining_ms: Option<u64>,
    d: &Decision,
) -> String {
    let text = |bytes: Option<&[u8]>| {
        bytes.map_or_else(|| "null".to_owned(), |b| crate::config::json_string(&String::from_utf8_lossy(b)))
    };
    let outcome = match d.outcome {
        Outcome::None => "null".to_owned(),
        known => format!("\"{known}\""),
    };
    let reason = d.reason.map_or_else(|| "null".to_owned(), |r| format!("\"{}\"", r.name()));
    let tokens = d.tokens.map_or_else(|| "null".to_owned(), |t| t.to_string());
    let mut json = String::with_capacity(224);
    // Writing to a String cannot fail.
    let _ = write!(
        json,
        r#"{{"logical_id":{},"upstream":{},"attempt":{},"owner":{},"outcome":{outcome},"decision":"{}","reason":{reason},"tokens":{tokens},"remaining_ms":{}}}"#,
        text(id.map(Vec::as_slice)),
        text(Some(upstream)),
        d.attempt,
        text(owner.map(Vec::as_slice)),
        d.verb.name(),
        remaining_ms.map_or_else(|| "null".to_owned(), |ms| ms.to_string()),
    );
    json
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::outcome::Status;

    #[test]
    fn is_json_whatever_the_names_hold() {
        let decision = Decision {
            verb: Verb::Stop,
            reason: Some(Reason::Budget),
            attempt: 2,
            outcome: Outcome::Response(Status { http: 200, grpc: Some(14) }),
            tokens: Some(Millitokens(-250)),
        };
        let json: serde_json::Value =
            serde_json::from_str(&render(b"a\"b\n\xff", Some(&b"\x00id".to_vec()), None, Some(7), &decision))
                .expect("JSON");
        assert_eq!(json["upstream"], "a\"b\n\u{fffd}");
        assert_eq!(json["outcome"], "grpc-14");
        assert_eq!(json["tokens"], -0.25);
        assert_eq!((&json["remaining_ms"], &json["owner"]), (&7.into(), &serde_json::Value::Null));
    }
}
