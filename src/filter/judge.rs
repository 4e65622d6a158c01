//! Puts the question to `policy::stop::decide` inside the store's atomic step, and tells everyone the answer.

use super::decision::{Decision, Verb, report};
use super::logical::{Logical, Outcome};
use super::root::Served;
use super::vm::Vm;
use crate::policy::Mode;
use crate::policy::bucket::Millitokens;
use crate::policy::stop::{Reason, Verdict, decide};
use crate::store::StoreError;

/// An answer with the balance after it, where it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Paid for, or let pass because the host failed.
    Allowed {
        paid: bool,
        tokens: Option<Millitokens>,
    },
    Stopped(Reason, Option<Millitokens>),
}

/// May one more attempt be made? If so, its token is withdrawn.
pub fn ask(vm: &Vm, served: &Served) -> Answer {
    let policy = &served.policy;
    let asked = served.account().update(vm.host(), &policy.budget, |record| match decide(policy, record) {
        Verdict::Allow(after) => (Some(after), None),
        Verdict::Stop(reason) => (None, Some(reason)),
    });
    match asked {
        Ok((None, record)) => Answer::Allowed { paid: true, tokens: Some(record.bucket.tokens) },
        Ok((Some(reason), record)) => Answer::Stopped(reason, Some(record.bucket.tokens)),
        Err(StoreError::Contended) => Answer::Stopped(Reason::Budget, None),
        Err(StoreError::Host(_)) => Answer::Allowed { paid: false, tokens: None },
    }
}

/// What became of an answer in this mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Go,
    Stop(Reason),
}

/// The place where a stop is carried out.
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
        let Self { vm, served, logical, .. } = *self;
        if served.policy.mode == Mode::Observe {
            logical.would_have_ended.set(true);
            served.upstream.metrics.would_stop(vm.host(), reason);
            self.tell(Verb::WouldStop, Some(reason), tokens);
            return Effect::Go;
        }
        served.upstream.metrics.stopped(vm.host(), reason);
        self.tell(self.by, Some(reason), tokens);
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
