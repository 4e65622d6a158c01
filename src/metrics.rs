//! Every metric's name, once, and its ids, defined when first needed and kept: defining one costs a hundred times an
//! increment, and leaks when it is done again.

use crate::host::{Host, MetricId, MetricKind};
use crate::policy::stop::Reason;
use std::cell::Cell;

pub const HOST_ERRORS: &str = "retry_budget_host_errors_total";
const REQUESTS: &str = "retry_budget_requests_total";
const ATTEMPTS: &str = "retry_budget_attempts_total";
const RETRIES: &str = "retry_budget_retries_total";
const STOPS: &str = "retry_budget_stops_total";
const WOULD_STOP: &str = "retry_budget_would_stop_total";
const TOKENS: &str = "retry_budget_tokens";
const REJECTS: &str = "retry_budget_rejects_total";
const WOULD_REJECT: &str = "retry_budget_would_reject_total";
const MALFORMED: &str = "retry_budget_malformed_total";
const DEADLINE_REMAINING: &str = "retry_budget_deadline_remaining_ms";
const BREAKER_STATE: &str = "retry_budget_breaker_state";
const HOLD_SECONDS: &str = "retry_budget_hold_seconds";
/// Not for dashboards: how the success path knows that a record needs no change (see `store`). One a record.
const AT_REST: &str = "retry_budget_at_rest";
const OBSERVED_AT_REST: &str = "retry_budget_observed_at_rest";

/// A metric of this name with these labels, embedded as Istio does it: `label=.=value;.;` before the name. The
/// shipped `stats_tags` take them out again.
pub fn raw_name(labels: &[(&str, &[u8])], metric: &str) -> Vec<u8> {
    let mut name = Vec::new();
    for (label, value) in labels {
        name.extend_from_slice(label.as_bytes());
        name.extend_from_slice(b"=.=");
        name.extend(clean(value));
        name.extend_from_slice(b";.;");
    }
    name.extend_from_slice(metric.as_bytes());
    name
}

/// What would end a label early, or break a line of the text exposition, is written as in a URL, and so is what would
/// then be ambiguous: two upstreams never share a series.
fn clean(value: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(value.len());
    for b in value {
        if matches!(b, b';' | b'%') || b.is_ascii_control() {
            clean.extend_from_slice(format!("%{b:02X}").as_bytes());
        } else {
            clean.push(*b);
        }
    }
    clean
}

/// A metric that is defined when it is first used.
pub struct Metric {
    kind: MetricKind,
    name: Vec<u8>,
    id: Cell<Option<MetricId>>,
}

impl Metric {
    pub fn counter(labels: &[(&str, &[u8])], metric: &str) -> Self {
        Self { kind: MetricKind::Counter, name: raw_name(labels, metric), id: Cell::new(None) }
    }

    pub fn gauge(labels: &[(&str, &[u8])], metric: &str) -> Self {
        Self { kind: MetricKind::Gauge, name: raw_name(labels, metric), id: Cell::new(None) }
    }

    fn id(&self, host: &dyn Host) -> Option<MetricId> {
        if self.id.get().is_none() {
            self.id.set(host.define_metric(self.kind, &self.name).ok());
        }
        self.id.get()
    }

    /// Nothing for 0, which the host would refuse.
    pub fn add(&self, host: &dyn Host, n: u32) {
        if n > 0
            && let Some(id) = self.id(host)
        {
            let _ = host.increment(id, i64::from(n));
        }
    }

    /// A gauge's new value, or one more observation of a histogram.
    pub fn set(&self, host: &dyn Host, value: u64) {
        if let Some(id) = self.id(host) {
            let _ = host.record(id, value);
        }
    }

    /// 0 where the host does not tell.
    pub fn value(&self, host: &dyn Host) -> u64 {
        self.id(host).and_then(|id| host.metric(id).ok()).unwrap_or(0)
    }
}

/// One upstream's series.
pub struct UpstreamMetrics {
    pub requests: Metric,
    pub attempts: Metric,
    pub retries: Metric,
    stops: Vec<(Reason, Metric)>,
    would_stop: Vec<(Reason, Metric)>,
    rejects: Vec<(Reason, Metric)>,
    would_reject: Vec<(Reason, Metric)>,
}

impl UpstreamMetrics {
    pub fn new(upstream: &[u8]) -> Self {
        let own = [("upstream", upstream)];
        let by_reason = |metric| {
            let series =
                |r: Reason| Metric::counter(&[("upstream", upstream), ("reason", r.name().as_bytes())], metric);
            Reason::ALL.map(|r| (r, series(r))).into()
        };
        Self {
            requests: Metric::counter(&own, REQUESTS),
            attempts: Metric::counter(&own, ATTEMPTS),
            retries: Metric::counter(&own, RETRIES),
            stops: by_reason(STOPS),
            would_stop: by_reason(WOULD_STOP),
            rejects: by_reason(REJECTS),
            would_reject: by_reason(WOULD_REJECT),
        }
    }

    pub fn stopped(&self, host: &dyn Host, reason: Reason) {
        count(&self.stops, host, reason);
    }

    pub fn would_stop(&self, host: &dyn Host, reason: Reason) {
        count(&self.would_stop, host, reason);
    }

    pub fn rejected(&self, host: &dyn Host, reason: Reason) {
        count(&self.rejects, host, reason);
    }

    pub fn would_reject(&self, host: &dyn Host, reason: Reason) {
        count(&self.would_reject, host, reason);
    }
}

fn count(series: &[(Reason, Metric)], host: &dyn Host, reason: Reason) {
    if let Some((_, metric)) = series.iter().find(|(r, _)| *r == reason) {
        metric.add(host, 1);
    }
}

/// Values of one header that could not be read.
pub fn malformed(header: &str) -> Metric {
    Metric::counter(&[("header", header.as_bytes())], MALFORMED)
}

/// Milliseconds that requests had left on arrival.
pub fn deadline_remaining() -> Metric {
    Metric { kind: MetricKind::Histogram, name: DEADLINE_REMAINING.into(), id: Cell::new(None) }
}

/// The gauges of one record.
pub struct RecordGauges {
    pub tokens: Metric,
    pub hold_seconds: Metric,
    pub breaker_state: Metric,
    pub at_rest: Metric,
}

impl RecordGauges {
    pub fn new(upstream: &[u8], observed: bool) -> Self {
        let labels = [("upstream", upstream)];
        Self {
            tokens: Metric::gauge(&labels, TOKENS),
            hold_seconds: Metric::gauge(&labels, HOLD_SECONDS),
            breaker_state: Metric::gauge(&labels, BREAKER_STATE),
            at_rest: Metric::gauge(&labels, if observed { OBSERVED_AT_REST } else { AT_REST }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::raw_name;

    #[test]
    fn labels_are_embedded_and_cannot_be_broken_out_of() {
        let name = raw_name(&[("upstream", b"a|b.c\n;.;x\xff"), ("reason", b"budget")], "n_total");
        assert_eq!(name, b"upstream=.=a|b.c%0A%3B.%3Bx\xff;.;reason=.=budget;.;n_total");
    }
}
