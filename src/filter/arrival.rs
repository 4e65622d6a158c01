//! A logical request arrives: it is counted, and earns its share of a retry unless it is rejected. The same for each
//! placement that sees it first.

use super::deadlines;
use super::decision::Verb;
use super::judge::{Effect, Moment};
use super::logical::{Logical, Outcome};
use super::reply::{self, Refusal};
use super::response;
use super::served::Served;
use super::vm::Vm;
use crate::policy::breaker::Admission;
use crate::policy::bucket::{Instant, Millitokens};
use crate::policy::deadline::TimeLeft;
use crate::policy::stop::Reason;
use crate::policy::upstream::Record;
use crate::policy::{DepositOn, Hold, wait};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Let through.
    Admitted(Known),
    /// Answered here.
    Rejected,
}

/// What is known of the record by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Nothing,
    /// The bucket is full, nothing is held, no failure is counted.
    AtRest,
}

/// To be called while the request headers are at hand; `left` is the time that they leave.
pub fn arrive(vm: &Vm, served: &Served, logical: &Logical, left: Option<TimeLeft>) -> Arrival {
    let (policy, account, host) = (&served.policy, served.account(), vm.host());
    let budget = &policy.budget;
    served.upstream.metrics.requests.add(host, 1);
    if let Some(left) = left {
        vm.note_remaining(left.millis());
        if left.is_expired() {
            return too_late(vm, served, logical);
        }
    }
    let earns = if budget.deposit_on == DepositOn::Request { budget.ratio } else { Millitokens::ZERO };
    let holds = policy.retry_after.hold == Hold::Requests;
    let changes = earns > Millitokens::ZERO || holds || policy.breaker.is_some();
    if account.is_known_at_rest(host, budget) {
        return Arrival::Admitted(Known::AtRest);
    }
    if !changes {
        return Arrival::Admitted(Known::Nothing);
    }
    let arrived = account.update(host, budget, |record, now| {
        if let Some(hold) = record.held_at(now).filter(|_| holds) {
            return (None, Gate::Shut { reason: Reason::Hold, status: hold.status, until: hold.until, now });
        }
        let mut after = Record { bucket: record.bucket.deposit(budget, earns), ..record };
        let hold = record.hold.map(|hold| hold.until);
        match policy.breaker.as_ref().map(|breaker| record.breaker.admit(breaker, hold, now)) {
            Some(Admission::Refuse { until }) => {
                let (reason, status) = (Reason::Breaker, Reason::Breaker.http_status());
                (None, Gate::Shut { reason, status, until, now })
            }
            Some(Admission::Probe(probing)) => {
                after.breaker = probing;
                (Some(after), Gate::Probe)
            }
            Some(Admission::Pass) | None => (Some(after), Gate::Open),
        }
    });
    let Ok((gate, record)) = arrived else { return Arrival::Admitted(Known::Nothing) };
    let Gate::Shut { reason, status, until, now } = gate else {
        logical.probe.set(gate == Gate::Probe);
        return Arrival::Admitted(Known::Nothing);
    };
    match moment(vm, served, logical).reject(reason, Some(record.bucket.tokens)) {
        Effect::Go => Arrival::Admitted(Known::Nothing),
        Effect::Stop(reason) => {
            let grpc = logical.grpc.get();
            // The clock's last digits are as good as dice here.
            let retry_after = Some(wait::retry_after_seconds(until.millis_from(now), now.0));
            rejected(logical, reply::refuse(host, policy, &Refusal { reason, grpc, status, retry_after }))
        }
    }
}

/// Whether a request may go on to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// As a probe of the half-open breaker.
    Probe,
    Shut {
        reason: Reason,
        status: u16,
        until: Instant,
        now: Instant,
    },
}

/// There is no time left, or the upload took all of it: nobody waits for an answer. Earns nothing.
pub fn too_late(vm: &Vm, served: &Served, logical: &Logical) -> Arrival {
    match moment(vm, served, logical).reject(Reason::Deadline, None) {
        Effect::Go => Arrival::Admitted(Known::Nothing),
        Effect::Stop(_) => rejected(logical, deadlines::refuse(vm, served, logical.grpc.get())),
    }
}

/// A refusal that the proxy does not take lets the request pass.
fn rejected(logical: &Logical, taken: bool) -> Arrival {
    logical.decided.set(taken);
    if taken { Arrival::Rejected } else { Arrival::Admitted(Known::Nothing) }
}

fn moment<'a>(vm: &'a Vm, served: &'a Served, logical: &'a Logical) -> Moment<'a> {
    Moment { vm, served, logical, attempt: 1, outcome: Outcome::None, by: Verb::Reject }
}

/// The deposit of a logical request whose response was seen to its end, where only a success earns one.
pub fn earn_by_success(vm: &Vm, served: &Served) {
    if response::earns_by_success(vm, served) {
        let budget = &served.policy.budget;
        served.account().deposit(vm.host(), budget, budget.ratio);
    }
}
