//! Puts the question to `policy::stop::decide` inside the store's atomic step, and tells everyone the answer.

use super::decision::{Decision, Verb, report};
use super::logical::{Logical, Outcome};
use super::root::Served;
use super::vm::Vm;
use crate::policy::bucket::{Instant, Millitokens};
use crate::policy::stop::{Reason, Retry, Verdict, decide};
use crate::policy::{Mode, wait};
use crate::store::StoreError;
use crate::upstream::Hold;

/// An answer with the balance after it, where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Allowed(Allowed),
    Stopped(Reason, Option<Millitokens>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// A token was withdrawn. Not when it was paid before, nor when the host failed and let it pass.
    pub paid: bool,
    pub tokens: Option<Millitokens>,
    /// So many seconds later, counted from this moment.
    pub wait: Option<(u64, Instant)>,
}

/// May one more attempt be made? If so, its token is withdrawn. What the response at hand asks of everybody is written
/// into the record in the same step.
pub fn ask(vm: &Vm, served: &Served, retry: &Retry, outcome: Outcome) -> Answer {
    let policy = &served.policy;
    let asked = served.account().update(vm.host(), &policy.budget, |record, now| {
        let held = match hold_of(served, retry, outcome) {
            Some((ms, status)) => record.hold(Hold { until: now.plus_millis(ms), status }),
            None => record,
        };
        match decide(policy, retry, held, now) {
            Verdict::Allow { record: after, wait_seconds } => {
                ((after != record).then_some(after), Ok(wait_seconds.map(|seconds| (seconds, now))))
            }
            Verdict::Stop(reason) => ((held != record).then_some(held), Err(reason)),
        }
    });
    match asked {
        Ok((Ok(wait), record)) => {
            Answer::Allowed(Allowed { paid: !retry.paid, tokens: Some(record.bucket.tokens), wait })
        }
        Ok((Err(reason), record)) => Answer::Stopped(reason, Some(record.bucket.tokens)),
        Err(StoreError::Contended) => Answer::Stopped(Reason::Budget, None),
        Err(StoreError::Host(_)) => Answer::Allowed(Allowed::default()),
    }
}

/// Writes what a response asks of everybody, without a question.
pub fn hold(vm: &Vm, served: &Served, retry: &Retry, outcome: Outcome) {
    if let Some((ms, status)) = hold_of(served, retry, outcome) {
        // A host that refuses is counted; the request goes on.
        let _ = served.account().update(vm.host(), &served.policy.budget, |record, now| {
            (Some(record.hold(Hold { until: now.plus_millis(ms), status })), ())
        });
    }
}

fn hold_of(served: &Served, retry: &Retry, outcome: Outcome) -> Option<(u64, u16)> {
    match outcome {
        Outcome::Response(status) => wait::hold(&served.policy.retry_after, status, retry.hint),
        _ => None,
    }
}

/// What became of an answer in this mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Go,
    Stop(Reason),
}

/// The place where a stop or a rejection is carried out.
pub struct Moment<'a> {
    pub vm: &'a Vm,
    pub served: &'a Served,
    pub logical: &'a Logical,
    pub attempt: u32,
    pub outcome: Outcome,
    /// How a stop would be made here: by a mark or a reply (`Stop`), or by parking.
    pub by: Verb,
}

impl Moment<'_> {
    /// Counts and reports a stop. In `observe` nothing happens to the request, but for being judged no more.
    pub fn stop(&self, reason: Reason, tokens: Option<Millitokens>) -> Effect {
        let (metrics, host) = (&self.served.upstream.metrics, self.vm.host());
        if self.served.policy.mode == Mode::Observe {
            self.logical.would_have_ended.set(true);
            metrics.would_stop(host, reason);
            self.tell(Verb::WouldStop, Some(reason), tokens);
            return Effect::Go;
        }
        metrics.stopped(host, reason);
        self.tell(self.by, Some(reason), tokens);
        Effect::Stop(reason)
    }

    /// The same for a request that is not to be sent at all.
    pub fn reject(&self, reason: Reason, tokens: Option<Millitokens>) -> Effect {
        let (metrics, host) = (&self.served.upstream.metrics, self.vm.host());
        if self.served.policy.mode == Mode::Observe {
            self.logical.would_have_ended.set(true);
            metrics.would_reject(host, reason);
            self.tell(Verb::WouldReject, Some(reason), tokens);
            return Effect::Go;
        }
        metrics.rejected(host, reason);
        self.tell(Verb::Reject, Some(reason), tokens);
        Effect::Stop(reason)
    }

    pub fn allow(&self, tokens: Option<Millitokens>) {
        self.tell(Verb::Allow, None, tokens);
    }

    fn tell(&self, verb: Verb, reason: Option<Reason>, tokens: Option<Millitokens>) {
        let Self { vm, served, logical, attempt, outcome, .. } = *self;
        report(vm, served, logical, &Decision { verb, reason, attempt, outcome, tokens });
    }
}
