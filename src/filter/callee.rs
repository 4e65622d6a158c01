//! The callee placement: in an inbound listener, before the service that is called. It cannot see what its callers'
//! proxies are about to do, only what they did: the attempt count that they send.
//!
//! A retry withdraws its token as it arrives. A failing response is marked when no token is left, so that the caller's
//! Envoy gives up with the service's own answer and does not come back to be refused.

use super::decision::Verb;
use super::judge::{Answer, Effect, Moment, ask};
use super::logical::{LINK, Logical, Outcome, SeenBy};
use super::reply;
use super::request::deposit;
use super::response;
use super::root::Served;
use super::stream::Flow;
use super::vm::Vm;
use crate::host::HeaderMap;
use crate::policy::stop::{Verdict, decide};
use crate::policy::{DepositOn, Mode};
use std::rc::Rc;

/// Set by the caller's Envoy.
const ATTEMPT_COUNT: &str = "x-envoy-attempt-count";

pub struct Callee {
    vm: Rc<Vm>,
    served: Rc<Served>,
    logical: Rc<Logical>,
    attempt: u32,
    refused: bool,
}

impl Callee {
    pub fn begin(vm: Rc<Vm>, served: Rc<Served>) -> (Self, Flow) {
        let host = vm.host();
        let sent = host.header(HeaderMap::Request, ATTEMPT_COUNT).ok().flatten();
        // Malformed or 0 is no retry.
        let attempt = sent.as_deref().and_then(response::decimal).map_or(1, u32::from).max(1);
        let logical = vm.registry.begin(SeenBy::Callee);
        logical.read_request_id(host);
        let mut callee = Self { vm, served, logical, attempt, refused: false };
        let flow = callee.start();
        (callee, flow)
    }

    fn start(&mut self) -> Flow {
        let (host, metrics) = (self.vm.host(), &self.served.upstream.metrics);
        if self.attempt > 1 {
            if let Effect::Stop(reason) = self.admit() {
                self.refused = true;
                reply::refuse(host, &self.served.policy, reason, reply::request_is_grpc(host));
                return Flow::Pause;
            }
            metrics.retries.add(host, 1);
        } else {
            metrics.requests.add(host, 1);
            deposit(&self.vm, &self.served, DepositOn::Request);
        }
        let _ = host.set_property(LINK, &self.logical.link(false));
        metrics.attempts.add(host, 1);
        Flow::Continue
    }

    fn admit(&self) -> Effect {
        match ask(&self.vm, &self.served) {
            Answer::Allowed { tokens, .. } => {
                self.moment(Outcome::None).allow(tokens);
                Effect::Go
            }
            // What is only observed was counted at the response before; from here on it would not be there.
            Answer::Stopped(..) if self.served.policy.mode == Mode::Observe => {
                self.logical.would_have_ended.set(true);
                Effect::Go
            }
            Answer::Stopped(reason, tokens) => self.moment(Outcome::None).stop(reason, tokens),
        }
    }

    pub fn on_response_headers(&self) {
        if self.refused || self.logical.would_have_ended.get() {
            return;
        }
        let Some((headers, status)) = response::read(&self.vm) else { return };
        let Served { policy, .. } = &*self.served;
        if !policy.retriable.is_failing(status) {
            return;
        }
        let Ok(record) = self.served.account().look(self.vm.host(), &policy.budget) else { return };
        if let Verdict::Stop(reason) = decide(policy, record) {
            let moment = self.moment(Outcome::Response(status));
            if let Effect::Stop(reason) = moment.stop(reason, Some(record.bucket.tokens)) {
                reply::mark(self.vm.host(), policy, reason.name(), &headers);
            }
        }
    }

    pub fn on_done(self, complete: bool) {
        if complete
            && self.attempt == 1
            && self.served.policy.budget.deposit_on == DepositOn::Success
            && response::ended_well(&self.vm, &self.served.policy.retriable)
        {
            deposit(&self.vm, &self.served, DepositOn::Success);
        }
    }

    fn moment(&self, outcome: Outcome) -> Moment<'_> {
        Moment {
            vm: &self.vm,
            served: &self.served,
            logical: &self.logical,
            attempt: self.attempt,
            outcome,
            by: Verb::Stop,
        }
    }
}
