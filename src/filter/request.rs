//! The request placement: in a listener, once per logical request. It earns the tokens, keeps what the attempts share,
//! and gives back what a client that left has reserved.
//!
//! Where no attempt placement is found it is alone and cannot see attempts: with an empty bucket it switches the
//! router's retries off, and afterwards it charges the retries that were made.

use super::decision::Verb;
use super::judge::{Effect, Moment};
use super::logical::{LINK, Logical, Outcome, SeenBy};
use super::reply;
use super::response;
use super::root::Served;
use super::stream::attempt_count;
use super::vm::Vm;
use crate::host::HeaderMap;
use crate::policy::bucket::Millitokens;
use crate::policy::stop::Reason;
use crate::policy::{DepositOn, EmitStopSignal, Mode};
use std::rc::Rc;

/// Wins over the route's retry policy; 0 switches retries off.
const MAX_RETRIES: &str = "x-envoy-max-retries";

pub struct Request {
    vm: Rc<Vm>,
    served: Rc<Served>,
    logical: Rc<Logical>,
    /// Alone, and the bucket was empty at arrival: retries were switched off.
    suppressed: bool,
}

impl Request {
    pub fn begin(vm: Rc<Vm>, served: Rc<Served>) -> Self {
        let host = vm.host();
        let logical = vm.registry.begin(SeenBy::Request);
        logical.read_request_id(host);
        let _ = host.set_property(LINK, &logical.link(false));
        served.upstream.metrics.requests.add(host, 1);
        let balance = deposit(&vm, &served, DepositOn::Request);
        let suppressed = served.upstream.alone.get() && is_empty(&vm, &served, balance);
        if suppressed && served.policy.mode == Mode::Enforce {
            let _ = host.set_header(HeaderMap::Request, MAX_RETRIES, "0");
        }
        Self { vm, served, logical, suppressed }
    }

    pub fn on_response_headers(&self) {
        let (policy, host) = (&self.served.policy, self.vm.host());
        if policy.mode == Mode::Observe && !self.suppressed {
            return;
        }
        if self.logical.marked.get() && policy.emit == EmitStopSignal::None {
            reply::unmark(host);
        }
        if !self.suppressed && policy.emit != EmitStopSignal::Failed {
            return;
        }
        let Some((headers, status)) = response::read(&self.vm) else { return };
        if !policy.retriable.is_failing(status) || headers.get(reply::RETRY_STOP).is_some() {
            return;
        }
        if self.suppressed {
            let moment = Moment {
                vm: &self.vm,
                served: &self.served,
                logical: &self.logical,
                attempt: 1,
                outcome: Outcome::Response(status),
                by: Verb::Stop,
            };
            if let Effect::Stop(reason) = moment.stop(Reason::Budget, None)
                && policy.emit != EmitStopSignal::None
            {
                reply::mark(host, policy, reason.name(), &headers);
            }
        } else {
            reply::mark(host, policy, reply::FAILED, &headers);
        }
    }

    pub fn on_done(self, complete: bool) {
        let Self { vm, served, logical, .. } = &self;
        logical.ended.set(true);
        logical.give_back(vm.host());
        if complete
            && served.policy.budget.deposit_on == DepositOn::Success
            && response::ended_well(vm, &served.policy.retriable)
        {
            deposit(vm, served, DepositOn::Success);
        }
        if logical.attempts.get() > 0 {
            served.upstream.alone.set(false);
        } else if let Some(attempts) = attempt_count(vm).filter(|n| *n > 0) {
            // The router called the upstream, and no attempt placement saw it.
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

/// The deposit of a logical request, if this is the moment for it. Returns the balance where it was read.
pub fn deposit(vm: &Vm, served: &Served, moment: DepositOn) -> Option<Millitokens> {
    let budget = &served.policy.budget;
    if budget.deposit_on != moment {
        return None;
    }
    served.account().deposit(vm.host(), budget, budget.ratio)
}

/// Whether there is no whole token; `balance` where it was just read. On a host error there is one.
fn is_empty(vm: &Vm, served: &Served, balance: Option<Millitokens>) -> bool {
    let (budget, account) = (&served.policy.budget, served.account());
    let balance = balance.or_else(|| {
        if budget.max >= Millitokens::ONE && account.is_known_full(vm.host(), budget) {
            return None;
        }
        account.look(vm.host(), budget).ok().map(|record| record.bucket.tokens)
    });
    balance.is_some_and(|tokens| tokens < Millitokens::ONE)
}
