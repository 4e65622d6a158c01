//! The request placement: in a listener, once per logical request. It earns the tokens, keeps what the attempts share,
//! and gives back what a client that left has reserved.
//!
//! Where no attempt placement is found it is alone and cannot see attempts: with an empty bucket or during a hold it
//! switches the router's retries off, and afterwards it charges the retries that were made.

use super::arrival::{self, Arrival, Known, arrive};
use super::deadlines;
use super::decision::Verb;
use super::flow::Flow;
use super::head::Head;
use super::judge::{self, Effect, Moment, News};
use super::logical::{LINK, Logical, Outcome, SeenBy};
use super::reply;
use super::response;
use super::response::attempt_count;
use super::served::Served;
use super::vm::Vm;
use crate::host::HeaderMap;
use crate::policy::breaker::Call;
use crate::policy::bucket::Millitokens;
use crate::policy::deadline::TimeLeft;
use crate::policy::stop::{Reason, Retry, Verdict, decide};
use crate::policy::{EmitStopSignal, Hold, Mode};
use std::rc::Rc;

/// Wins over the route's retry policy; 0 switches retries off.
const MAX_RETRIES: &str = "x-envoy-max-retries";

pub struct Request {
    vm: Rc<Vm>,
    served: Rc<Served>,
    logical: Rc<Logical>,
    /// Answered here; the reply passes this filter too.
    rejected: bool,
    responded: bool,
    /// Alone, and why retries were switched off at arrival.
    suppressed: Option<Reason>,
}

impl Request {
    pub fn begin(vm: Rc<Vm>, served: Rc<Served>) -> (Self, Flow) {
        let head = Head::read(&vm, &served);
        head.tell_owner(&vm, &served);
        let left = head.left;
        let logical = vm.registry.begin(SeenBy::Request);
        let deadline = head.deadline(&vm);
        head.keep(&logical, deadline);
        let mut request = Self { vm, served, logical, rejected: false, responded: false, suppressed: None };
        let flow = request.start(left);
        (request, flow)
    }

    fn start(&mut self, left: Option<TimeLeft>) -> Flow {
        let Self { vm, served, logical, .. } = self;
        let host = vm.host();
        let alone = served.upstream.alone.get();
        if !alone {
            let _ = host.set_property(LINK, &logical.link(false));
        }
        let Arrival::Admitted(known) = arrive(vm, served, logical, left) else {
            self.rejected = true;
            return Flow::Pause;
        };
        deadlines::limit_router(host, served, left);
        if alone {
            self.suppressed = why_no_retry(vm, served, logical, known);
            if self.suppressed.is_some() && served.policy.mode == Mode::Enforce {
                let _ = host.set_header(HeaderMap::Request, MAX_RETRIES, "0");
            }
        }
        Flow::Continue
    }

    /// The upload is over. The router counts its own timeout from here; the deadline has run all the while.
    pub fn on_request_end(&mut self) -> Flow {
        let Self { vm, served, logical, .. } = self;
        if self.rejected
            || self.responded
            || !logical.deadline.get().is_some_and(|deadline| deadlines::has_passed(vm.host(), deadline))
        {
            return Flow::Continue;
        }
        self.rejected = arrival::too_late(vm, served, logical) == Arrival::Rejected;
        if self.rejected { Flow::Pause } else { Flow::Continue }
    }

    pub fn on_response_headers(&mut self) {
        self.responded = true;
        if self.rejected {
            return;
        }
        let Self { vm, served, logical, .. } = &*self;
        let (policy, host) = (&served.policy, vm.host());
        if served.upstream.alone.get() {
            self.watch_alone();
        }
        if policy.mode == Mode::Enforce {
            if logical.marked.get() && policy.emit == EmitStopSignal::None {
                reply::silence(host);
            }
            if !logical.decided.get() && !served.upstream.alone.get() {
                // No attempt was answered well: it may be Envoy's own refusal.
                reply::bulkhead(host);
            }
            if logical.not_before.get().is_some() {
                reply::forget_wait(host);
            }
        }
        if logical.grpc.get() && logical.deadline.get().is_some() && policy.mode == Mode::Enforce {
            self.name_timeout();
        }
        if let Some(reason) = self.suppressed {
            self.stop_suppressed(reason);
        } else if policy.emit == EmitStopSignal::Failed && policy.mode == Mode::Enforce {
            let Some((headers, status)) = response::read(vm) else { return };
            if policy.retriable.is_failing(status) && headers.get(reply::RETRY_STOP).is_none() {
                reply::mark(host, policy, reply::FAILED, &headers);
            }
        }
    }

    /// The router's own reply to a timeout says UNAVAILABLE; where it came because of the deadline, that is not what
    /// happened. A success has no status in its headers, so this costs one call that brings no bytes.
    fn name_timeout(&self) {
        let host = self.vm.host();
        let failed = matches!(host.header(HeaderMap::Response, reply::GRPC_STATUS), Ok(Some(_)));
        if failed && response::is_router_timeout(&self.vm) {
            let status = Reason::Deadline.grpc_status().to_string();
            let _ = host.set_header(HeaderMap::Response, reply::GRPC_STATUS, &status);
        }
    }

    /// Retries were switched off: if the response failed, that is a stop.
    fn stop_suppressed(&self, reason: Reason) {
        let Self { vm, served, logical, .. } = self;
        let Some((headers, status)) = response::read(vm) else { return };
        if !served.policy.retriable.is_failing(status) {
            return;
        }
        let outcome = Outcome::Response(status);
        let moment = Moment { vm, served, logical, attempt: 1, outcome, by: Verb::Stop };
        if let Effect::Stop(reason) = moment.stop(reason, None)
            && served.policy.emit != EmitStopSignal::None
        {
            reply::mark(vm.host(), &served.policy, reason.name(), &headers);
        }
    }

    /// Nobody else sees what the upstream answers. Without a breaker, whether a response asks for anything costs one
    /// call that brings no bytes.
    fn watch_alone(&self) {
        let Self { vm, served, logical, .. } = self;
        let policy = &served.policy;
        let asks = || matches!(vm.host.header(HeaderMap::Response, reply::RETRY_AFTER), Ok(Some(_)));
        if policy.breaker.is_none() && (policy.retry_after.hold == Hold::Off || !asks()) {
            return;
        }
        let Some((headers, status)) = response::read(vm) else { return };
        let call = response::judged_call(vm, status);
        if !policy.retriable.is_failing(status) && call == Some(Call::Good) {
            judge::went_well(vm, served, logical);
            return;
        }
        let hint = policy.retriable.is_failing(status).then(|| (status, response::hint(vm, served, &headers, status)));
        judge::tell(vm, served, &News { hint, call, probe: logical.probe.take() });
    }

    pub fn on_done(self, complete: bool) {
        let Self { vm, served, logical, .. } = &self;
        logical.ended.set(true);
        logical.give_back(vm.host());
        if logical.attempts.get() == 0 && logical.probe.take() {
            // Let through as a probe, and nobody heard of it again.
            judge::tell(vm, served, &News { probe: true, ..News::default() });
        }
        if self.rejected {
            return;
        }
        if complete {
            arrival::earn_by_success(vm, served);
        }
        if logical.attempts.get() > 0 {
            served.upstream.alone.set(false);
        } else if let Some(attempts) = attempt_count(vm).filter(|n| *n > 0)
            && (served.upstream.alone.get() || response::is_the_upstreams(vm))
        {
            // The upstream has answered, and no attempt placement saw it. (What the router answered itself, its limits
            // being reached, no attempt placement would have seen either.)
            served.upstream.alone.set(true);
            self.charge(attempts);
        }
    }

    fn charge(&self, attempts: u32) {
        let (metrics, host) = (&self.served.upstream.metrics, self.vm.host());
        let retries = attempts.saturating_sub(1);
        metrics.attempts.add(host, attempts);
        metrics.retries.add(host, retries);
        if retries > 0 && !self.logical.would_have_ended.get() {
            self.served.account().charge(host, &self.served.policy.budget, retries);
        }
    }
}

/// Why retries are to be switched off, if they are; `known` is what the arrival learnt. On a host error they are not.
fn why_no_retry(vm: &Vm, served: &Served, logical: &Logical, known: Known) -> Option<Reason> {
    let policy = &served.policy;
    let retry = Retry { deferred: logical.deferred.get(), repeatable: logical.repeatable.get(), ..Retry::default() };
    let of_itself = retry.deferred || !retry.repeatable;
    if !of_itself && known == Known::AtRest && policy.budget.max >= Millitokens::ONE {
        return None;
    }
    let asked =
        served.account().update(vm.host(), &policy.budget, |record, now| (None, decide(policy, &retry, record, now)));
    match asked {
        Ok((Verdict::Stop(reason), _)) => Some(reason),
        Ok((Verdict::Allow { .. }, _)) | Err(_) => None,
    }
}
