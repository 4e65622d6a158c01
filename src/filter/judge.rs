//! Puts the question to `policy::stop::decide` inside the store's atomic step, and tells everyone the answer.

use super::decision::{Decision, Verb, report};
use super::logical::{Logical, Outcome};
use super::served::Served;
use super::vm::Vm;
use crate::policy::breaker::Call;
use crate::policy::bucket::{Instant, Millitokens};
use crate::policy::outcome::Status;
use crate::policy::retry_after::Hint;
use crate::policy::stop::{Reason, Retry, Verdict, decide};
use crate::policy::upstream::{Hold, Record};
use crate::policy::{Mode, Policy, wait};
use crate::store::StoreError;

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
    /// It is a probe of the half-open breaker.
    pub probe: bool,
}

/// What an attempt has told of the upstream, for everybody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// The status of a failing response and what it asks for.
    pub hint: Option<(Status, Hint)>,
    pub call: Option<Call>,
    /// The attempt was a probe, and gives its place back.
    pub probe: bool,
}

impl News {
    /// The record with the news in it.
    fn write(&self, policy: &Policy, good: u32, record: Record, now: Instant) -> Record {
        let mut record = record;
        if let Some((ms, status)) = self.hint.and_then(|(status, hint)| wait::hold(&policy.retry_after, status, hint)) {
            record = record.hold(Hold { until: now.plus_millis(ms), status });
        }
        if let Some(breaker) = &policy.breaker {
            record.breaker = record.breaker.note(breaker, good, 0, now);
            record.breaker = match (self.probe, self.call) {
                (true, call) => record.breaker.conclude(breaker, call, now),
                (false, Some(Call::Failed)) => record.breaker.note(breaker, 0, 1, now),
                (false, Some(Call::Good)) => record.breaker.note(breaker, 1, 0, now),
                (false, None) => record.breaker,
            };
        }
        record
    }
}

/// May one more attempt be made? If so, its token is withdrawn. The news are written in the same step.
pub fn ask(vm: &Vm, served: &Served, retry: &Retry, news: &News) -> Answer {
    let (policy, account) = (&served.policy, served.account());
    let good = account.take_good();
    let asked = account.update(vm.host(), &policy.budget, |record, now| {
        let told = news.write(policy, good, record, now);
        match decide(policy, retry, told, now) {
            Verdict::Allow { record: after, wait_seconds, probe } => {
                ((after != record).then_some(after), Ok((wait_seconds.map(|seconds| (seconds, now)), probe)))
            }
            Verdict::Stop(reason) => ((told != record).then_some(told), Err(reason)),
        }
    });
    match asked {
        Ok((Ok((wait, probe)), record)) => {
            Answer::Allowed(Allowed { paid: !retry.paid, tokens: Some(record.bucket.tokens), wait, probe })
        }
        Ok((Err(reason), record)) => Answer::Stopped(reason, Some(record.bucket.tokens)),
        Err(StoreError::Contended) => Answer::Stopped(Reason::Budget, None),
        Err(StoreError::Host(_)) => Answer::Allowed(Allowed::default()),
    }
}

/// Writes the news, without a question.
pub fn tell(vm: &Vm, served: &Served, news: &News) {
    let (policy, account) = (&served.policy, served.account());
    let holds = news.hint.is_some_and(|(status, hint)| wait::hold(&policy.retry_after, status, hint).is_some());
    let counts = policy.breaker.is_some() && (news.call.is_some() || news.probe);
    if !holds && !counts {
        return;
    }
    let good = account.take_good();
    // A host that refuses is counted; the request goes on.
    let _ = account.update(vm.host(), &policy.budget, |record, now| {
        let told = news.write(policy, good, record, now);
        ((told != record).then_some(told), ())
    });
}

/// A call went well. In health this touches nothing that is shared.
pub fn went_well(vm: &Vm, served: &Served, logical: &Logical) {
    let Some(breaker) = &served.policy.breaker else { return };
    let account = served.account();
    let probe = logical.probe.take();
    if probe || (breaker.consecutive_failures.is_some() && !account.is_known_at_rest(vm.host(), &served.policy.budget))
    {
        tell(vm, served, &News { call: Some(Call::Good), probe, ..News::default() });
    } else if breaker.failure_ratio.is_some() {
        account.gather_good();
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
