//! The attempt placement: in the upstream chain, once per physical attempt. Here a retry is admitted or stopped.
//!
//! A failing response sets a token aside before the router decides; the attempt that follows spends it, and when the
//! response is handed down instead it goes back. So no retry is charged that was not made.

use super::arrival::{self, Arrival, Known, arrive};
use super::deadlines;
use super::decision::Verb;
use super::flow::Flow;
use super::head::Head;
use super::judge::{self, Allowed, Answer, Effect, Moment, News, ask};
use super::logical::{LINK, Logical, Outcome, SeenBy};
use super::parked::Parked;
use super::reply::{self, Refusal};
use super::response;
use super::response::attempt_count;
use super::root::{Root, Unlinked};
use super::served::Served;
use super::vm::Vm;
use crate::host::ContextId;
use crate::policy::breaker::Call;
use crate::policy::bucket::Instant;
use crate::policy::deadline::{Deadline, TimeLeft};
use crate::policy::outcome::Status;
use crate::policy::retry_after::Hint;
use crate::policy::stop::{Reason, Retry};
use crate::policy::{DepositOn, Mode};
use std::rc::Rc;

pub struct Attempt {
    root: Rc<Root>,
    vm: Rc<Vm>,
    served: Rc<Served>,
    logical: Rc<Logical>,
    context: ContextId,
    number: u32,
    state: State,
    /// No placement before it had linked it.
    unlinked: bool,
    /// The proxy refused to say whether one had. Nothing is known of its request then, so it passes.
    unreadable: bool,
    /// This attempt's failing response holds the request's reservation.
    reserved: bool,
    /// When the time of the request is over, where a rule asks for it and it is known.
    ends: Option<Deadline>,
    /// When it set out, where slow calls count as failures.
    started: Option<Instant>,
    /// It counts as failed whatever its answer is to the router.
    failed: bool,
    /// Its trailers tell of a failure: no success that earns anything.
    unsuccessful: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    InFlight,
    /// Waits without having been sent.
    Parked,
    /// Answered by a local reply as it started.
    Refused,
    Failing,
    /// A response that is no failure.
    Answered,
}

impl Attempt {
    pub fn begin(
        root: &Rc<Root>,
        served: Rc<Served>,
        context: ContextId,
        link: Option<&[u8]>,
        count: Option<u32>,
        unreadable: bool,
    ) -> (Self, Flow) {
        let vm = Rc::clone(&root.vm);
        served.upstream.alone.set(false);
        let linked = link.and_then(|link| vm.registry.resume(link, &served));
        let first_sight = linked.is_none();
        let logical = linked.unwrap_or_else(|| vm.registry.begin(SeenBy::Attempt));
        let seen = logical.attempts.get();
        // The request's own count serves the first attempt; whether this is a retry Envoy has to say.
        let number = match count {
            Some(count) => count,
            None if seen == 0 => 1,
            None => attempt_count(&vm).unwrap_or_else(|| seen.saturating_add(1)),
        };
        if number == 1 && seen == 1 && logical.seen_by == SeenBy::Attempt {
            // What was taken for the first attempt of this request was its listener stream.
            root.unlinked.set(Unlinked::Mixed);
            logical.mistaken.set(true);
            logical.live.set(0);
            logical.give_back(vm.host());
        }
        logical.attempts.set(seen.saturating_add(1));
        let left = if first_sight { read_head(&vm, &served, &logical) } else { time_left(&vm, &logical) };
        read_request_id(&vm, &logical, number);
        let ends = logical.deadline.get().or_else(|| deadlines::told_by_router(vm.host(), &served));
        let (unlinked, state, root) = (first_sight, State::InFlight, Rc::clone(root));
        let (reserved, started, failed, unsuccessful) = (false, None, false, false);
        let mut attempt = Self {
            root,
            vm,
            served,
            logical,
            context,
            number,
            state,
            unlinked,
            unreadable,
            reserved,
            ends,
            started,
            failed,
            unsuccessful,
        };
        if attempt.take_up(left) == Arrival::Rejected {
            attempt.state = State::Refused;
            return (attempt, Flow::Pause);
        }
        let flow = attempt.start(left);
        (attempt, flow)
    }

    /// Where no request placement has seen this request, what that would have done is done here. A first attempt that
    /// has no time left is answered in any case.
    fn take_up(&self, left: Option<TimeLeft>) -> Arrival {
        let Self { vm, served, logical, .. } = self;
        if self.unlinked {
            let _ = vm.host.set_property(LINK, &logical.link(false));
        }
        match self.number {
            1 if self.unlinked => arrive(vm, served, logical, left),
            1 if left.is_some_and(TimeLeft::is_expired) => arrival::too_late(vm, served, logical),
            _ => Arrival::Admitted(Known::Nothing),
        }
    }

    fn start(&mut self, left: Option<TimeLeft>) -> Flow {
        // A retry without a link is one whose link the proxy refused to keep: it may be a hedge beside an attempt that a
        // refusal would kill. It passes, as after any refused call.
        if self.number > 1 && !self.unreadable && !self.unlinked {
            let admitted = self.admit();
            if self.logical.seen_by == SeenBy::Attempt {
                // What was set aside is spent: no later attempt may find it in the link.
                let _ = self.vm.host.set_property(LINK, &self.logical.link(false));
            }
            if let Effect::Stop(reason) = admitted
                && self.is_refused(reason)
            {
                return Flow::Pause;
            }
        }
        let (metrics, host, logical) = (&self.served.upstream.metrics, self.vm.host(), &self.logical);
        logical.live.set(logical.live.get().saturating_add(1));
        // A called service's own placement counts what comes from outside.
        if logical.seen_by != SeenBy::Callee || self.number > 1 {
            metrics.attempts.add(host, 1);
        }
        if self.number > 1 {
            metrics.retries.add(host, 1);
        }
        if let Some(left) = left {
            deadlines::tell_upstream(host, &self.served, logical, left);
        }
        if self.slow_call().is_some() {
            self.started = deadlines::now(host);
        }
        Flow::Continue
    }

    /// Milliseconds to the response headers from which on a call counts as failed.
    fn slow_call(&self) -> Option<u64> {
        self.served.policy.breaker.as_ref()?.slow_call
    }

    /// The upload is over. With a request placement it is that one's to say that it took too long.
    pub fn on_request_end(&mut self) -> Flow {
        if self.logical.seen_by != SeenBy::Attempt || self.state != State::InFlight || self.is_listener() {
            return Flow::Continue;
        }
        let Self { vm, served, logical, .. } = self;
        let passed = |deadline| deadlines::has_passed(vm.host(), deadline);
        if !logical.deadline.get().is_some_and(passed) || arrival::too_late(vm, served, logical) != Arrival::Rejected {
            return Flow::Continue;
        }
        logical.live.set(logical.live.get().saturating_sub(1));
        self.state = State::Refused;
        self.give_up_probe();
        Flow::Pause
    }

    /// Whether this retry may start: with the token set aside for it, or with one that it withdraws now.
    fn admit(&self) -> Effect {
        let logical = &self.logical;
        let reservation = logical.reservation.take();
        if self.is_judged_no_more() {
            return Effect::Go;
        }
        if logical.parked.get() > 0 {
            // One stop a request: its later hedges wait with the first one.
            return Effect::Stop(logical.parked_for.get().unwrap_or(Reason::Budget));
        }
        let by = if logical.live.get() > 0 { Verb::Park } else { Verb::Stop };
        let (moment, paid) = (self.moment(by), reservation.is_some());
        let retry = Retry {
            deferred: logical.deferred.get(),
            // A refused connection has carried nothing. A response let it pass already, or was not asked.
            repeatable: logical.repeatable.get() || paid || logical.last.get() == Outcome::ConnectFailure,
            not_before: logical.not_before.get(),
            ends: self.ends,
            paid,
            starts: true,
            ..Retry::default()
        };
        match ask(&self.vm, &self.served, &retry, &News::default()) {
            Answer::Allowed(Allowed { tokens, probe, .. }) => {
                logical.probe.set(logical.probe.get() || probe);
                if !paid {
                    moment.allow(tokens);
                }
                Effect::Go
            }
            Answer::Stopped(reason, tokens) => {
                if let Some(reserved) = reservation {
                    reserved.account().give_back(self.vm.host(), &reserved.policy.budget);
                }
                moment.stop(reason, tokens)
            }
        }
    }

    /// A reply ends the whole request, so a hedge is parked as long as another attempt may still answer. Whether it was
    /// kept from going on: a reply that the proxy does not take lets it pass.
    fn is_refused(&mut self, reason: Reason) -> bool {
        let (host, logical) = (self.vm.host(), &self.logical);
        let grpc = logical.grpc.get();
        if logical.live.get() == 0 && logical.parked.get() == 0 {
            let taken = reply::refuse(host, &self.served.policy, &Refusal::plain(reason, grpc));
            if taken {
                self.state = State::Refused;
            }
            return taken;
        }
        self.state = State::Parked;
        logical.parked.set(logical.parked.get().saturating_add(1));
        logical.parked_for.set(Some(reason));
        self.vm.parked.park(Parked {
            context: self.context,
            logical: logical.id,
            reason,
            grpc,
            policy: Rc::clone(&self.served.policy),
            tries: 0,
        });
        true
    }

    pub fn on_response_headers(&mut self) {
        if self.state != State::InFlight || self.is_listener() {
            return;
        }
        let Some((headers, status)) = response::read(&self.vm) else { return };
        self.failed = status.is_upstream_failure() || self.is_slow();
        if !self.served.policy.retriable.is_failing(status) {
            self.state = State::Answered;
            self.logical.decided.set(true);
            return;
        }
        self.state = State::Failing;
        let logical = &self.logical;
        logical.last.set(Outcome::Response(status));
        if self.is_judged_no_more() {
            return;
        }
        let hint = response::hint(&self.vm, &self.served, &headers, status);
        let call = Some(if self.failed { Call::Failed } else { Call::Good });
        let news = News { hint: Some((status, hint)), call, probe: logical.probe.take() };
        let in_flight = logical.live.get() > 1;
        if in_flight || logical.parked.get() > 0 {
            judge::tell(&self.vm, &self.served, &news);
        }
        if in_flight {
            // A mark would end the request with this failure; the other one may do better.
            return;
        }
        let stopped_below = headers.get(reply::RETRY_STOP).is_some();
        if !self.served.policy.honor.0 && self.served.policy.mode == Mode::Enforce {
            reply::unmark(self.vm.host());
        }
        let stop = if logical.parked.get() > 0 {
            // The stop is counted; what is left to do is to keep the router from going on.
            Effect::Stop(logical.parked_for.get().unwrap_or(Reason::Budget))
        } else {
            let (deferred, repeatable, ends) = (logical.deferred.get(), logical.repeatable.get(), self.ends);
            self.judge(&Retry { deferred, stopped_below, repeatable, hint, ends, ..Retry::default() }, &news)
        };
        if let Effect::Stop(reason) = stop {
            self.logical.marked.set(true);
            reply::mark(self.vm.host(), &self.served.policy, reason.name(), &headers);
        }
    }

    /// gRPC tells at the end how it went. In the upstream chain no property says so later.
    pub fn on_response_trailers(&mut self) {
        let policy = &self.served.policy;
        let asked = policy.breaker.is_some() || policy.budget.deposit_on == DepositOn::Success;
        if self.state != State::Answered || !asked || !self.logical.grpc.get() {
            return;
        }
        if let Some(grpc) = response::grpc_status_in_trailers(&self.vm) {
            let status = Status { http: 200, grpc: Some(grpc) };
            self.failed |= status.is_upstream_failure();
            self.unsuccessful = policy.retriable.is_failing(status);
        }
    }

    /// The response headers are there: did they take too long?
    fn is_slow(&self) -> bool {
        let (Some(started), Some(limit)) = (self.started, self.slow_call()) else { return false };
        deadlines::now(self.vm.host()).is_some_and(|now| now > started.plus_millis(limit))
    }

    /// The router may be about to retry: a token is set aside, or it must not.
    fn judge(&mut self, retry: &Retry, news: &News) -> Effect {
        let moment = self.moment(Verb::Stop);
        match ask(&self.vm, &self.served, retry, news) {
            Answer::Allowed(Allowed { paid, tokens, wait, .. }) => {
                moment.allow(tokens);
                if paid {
                    self.logical.reservation.set(Some(Rc::clone(&self.served)));
                    self.reserved = true;
                }
                if let (Some((seconds, now)), Hint::Delay(ms)) = (wait, retry.hint)
                    && self.served.policy.mode == Mode::Enforce
                {
                    reply::ask_to_wait(self.vm.host(), seconds);
                    self.logical.not_before.set(Some(now.plus_millis(ms)));
                }
                Effect::Go
            }
            Answer::Stopped(reason, tokens) => moment.stop(reason, tokens),
        }
    }

    pub fn on_done(self, complete: bool) {
        let Self { vm, logical, .. } = &self;
        if self.is_listener() {
            logical.ended.set(true);
            logical.give_back(vm.host());
            return;
        }
        match self.state {
            State::Parked => {
                logical.parked.set(logical.parked.get().saturating_sub(1));
                vm.parked.gone(self.context);
                return;
            }
            State::Refused => return,
            State::InFlight | State::Failing | State::Answered => {
                logical.live.set(logical.live.get().saturating_sub(1));
            }
        }
        match self.state {
            State::Answered => {
                self.conclude_answered(complete);
                return;
            }
            State::InFlight => {
                self.conclude_unanswered();
                if logical.live.get() == 0 && logical.parked.get() > 0 && vm.parked.release(logical.id) {
                    self.root.hasten();
                }
            }
            _ => {}
        }
        let handed_down = self.state == State::Failing && response::was_handed_down(vm);
        if self.reserved && (handed_down || logical.ended.get()) {
            logical.give_back(vm.host());
        }
        if logical.seen_by == SeenBy::Attempt && logical.live.get() == 0 && !handed_down {
            // Nothing of this request stays here until the next attempt: the link remembers it. If it cannot, a token
            // that was set aside goes back, and the next attempt withdraws its own.
            let link = logical.link(logical.has_reservation());
            if vm.host.set_property(LINK, &link).is_err() {
                logical.give_back(vm.host());
            }
        }
    }

    /// The end of a response that is no failure by its headers.
    fn conclude_answered(&self, complete: bool) {
        let Self { vm, served, logical, .. } = self;
        if complete && logical.seen_by == SeenBy::Attempt && !self.unsuccessful {
            arrival::earn_by_success(vm, served);
        }
        if served.policy.breaker.is_none() {
            return;
        }
        if complete && !self.failed {
            judge::went_well(vm, served, logical);
        } else {
            let call = (complete || !response::was_cancelled(vm)).then_some(Call::Failed);
            judge::tell(vm, served, &News { call, probe: logical.probe.take(), hint: None });
        }
    }

    /// It has ended without a response: reset, refused, timed out, or nobody waits for it any more.
    fn conclude_unanswered(&self) {
        let Self { vm, served, logical, .. } = self;
        logical.last.set(ended_without_response(vm));
        if served.policy.breaker.is_none() {
            return;
        }
        let failed = !logical.decided.get() && !response::was_cancelled(vm) && !response::was_overflow(vm);
        let call = failed.then_some(Call::Failed);
        judge::tell(vm, served, &News { call, probe: logical.probe.take(), hint: None });
    }

    /// A probe that has learnt nothing.
    fn give_up_probe(&self) {
        let probe = self.logical.probe.take();
        judge::tell(&self.vm, &self.served, &News { probe, ..News::default() });
    }

    /// Whether this stream was taken for an attempt and is none.
    fn is_listener(&self) -> bool {
        self.unlinked && self.logical.mistaken.get()
    }

    fn is_judged_no_more(&self) -> bool {
        self.served.policy.mode == Mode::Observe && self.logical.would_have_ended.get()
    }

    fn moment(&self, by: Verb) -> Moment<'_> {
        let outcome = self.logical.last.get();
        Moment { vm: &self.vm, served: &self.served, logical: &self.logical, attempt: self.number, outcome, by }
    }
}

fn ended_without_response(vm: &Vm) -> Outcome {
    match vm.host.property(response::TRANSPORT_FAILURE) {
        Ok(Some(reason)) if !reason.is_empty() => Outcome::ConnectFailure,
        _ => Outcome::Reset,
    }
}

/// Reads what the request headers tell, at their first sight.
fn read_head(vm: &Vm, served: &Served, logical: &Logical) -> Option<TimeLeft> {
    let head = Head::read(vm, served);
    head.tell_owner(vm, served);
    let (left, deadline) = (head.left, head.deadline(vm));
    head.keep(logical, deadline);
    left
}

/// What is left for an attempt of a request that is known already.
fn time_left(vm: &Vm, logical: &Logical) -> Option<TimeLeft> {
    let deadline = logical.deadline.get()?;
    Some(deadline.remaining(deadlines::now(vm.host())?))
}

/// Between two attempts that no request placement has seen, nobody remembers the id.
fn read_request_id(vm: &Vm, logical: &Logical, number: u32) {
    if number > 1
        && logical.request_id.get().is_none()
        && let Some(id) = Head::request_id(vm)
    {
        let _ = logical.request_id.set(id);
    }
}
