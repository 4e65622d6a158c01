//! Every call to the host fails, with every status and at every place: nothing traps, nobody hangs, no request is
//! refused for it, and it is counted.

use crate::flows::{self, Flow};
use crate::router::{Ending, Exchange, Router};
use crate::worker::{HOST_ERRORS, Worker, ok};
use minihost::{Error, Host, Root, Status, Stream, Vm, When};
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Fault {
    call: &'static str,
    status: Status,
    when: When,
}

impl Fault {
    /// Answers that the ABI has for what is no error (it is not there, another was faster): taken at its word.
    fn is_an_answer(self) -> bool {
        match self.status {
            Status::NotFound => [
                "proxy_get_property",
                "proxy_get_header_map_value",
                "proxy_get_header_map_pairs",
                "proxy_remove_header_map_value",
                "proxy_get_shared_data",
            ]
            .contains(&self.call),
            Status::CasMismatch => self.call == "proxy_set_shared_data",
            _ => false,
        }
    }

    /// Whether it can be counted and must be: the counter itself is there, and the log is nobody's to tell.
    fn is_counted(self) -> bool {
        let the_counters_own = ["proxy_define_metric", "proxy_increment_metric"].contains(&self.call);
        !self.is_an_answer() && self.call != "proxy_log" && !(the_counters_own && self.when == When::Always)
    }
}

/// Each call of `made`, at each place and at all of them. At single places only those failures are tried that some call
/// has an answer in, and one that none has: all others are alike.
fn faults(made: &BTreeMap<&'static str, usize>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (&call, &times) in made {
        for when in (1..=times as u64).map(When::Nth).chain([When::Always]) {
            let all = when == When::Always;
            let telling = [Status::NotFound, Status::CasMismatch, Status::InternalFailure];
            let statuses = Status::failures().filter(|status| all || telling.contains(status));
            faults.extend(statuses.map(|status| Fault { call, status, when }));
        }
    }
    faults
}

const EFFECTIVE_CONTEXT: &str = "proxy_set_effective_context";
const ANSWERS: [&str; 2] = [EFFECTIVE_CONTEXT, "proxy_send_local_response"];

/// As many runs share a VM: a new one each would take minutes. Each has an upstream and a root of its own.
const RUNS_PER_VM: usize = 50;

fn sweep(flow: &Flow) {
    let worker = Worker::new(flow.configuration);
    worker.vm.take_calls();
    let usual = seen(&ok((flow.run)(&worker.root, "usual")));
    // What went wrong, and at which faults.
    let mut wrong: BTreeMap<String, Vec<Status>> = BTreeMap::new();
    let made = worker.vm.take_calls().by_name;
    // A hedge that is parked can be answered in no other way.
    let parks = made.contains_key(EFFECTIVE_CONTEXT);
    let faults = faults(&made);
    for some in faults.chunks(RUNS_PER_VM) {
        let worker = Worker::new(flow.configuration);
        for (i, fault) in some.iter().enumerate() {
            let complaint = match run(&worker, flow, &format!("upstream-{i}"), *fault) {
                Ok(_) if parks && fault.when == When::Always && ANSWERS.contains(&fault.call) => continue,
                Ok(exchanges) if exchanges.iter().any(|exchange| exchange.hangs) => "a request hangs".into(),
                Ok(exchanges) if flow.stops || fault.is_an_answer() || seen(&exchanges) == usual => continue,
                Ok(exchanges) => format!("{:?} instead of {usual:?}", seen(&exchanges)),
                Err(why) => why,
            };
            wrong.entry(format!("{} {:?}: {complaint}", fault.call, fault.when)).or_default().push(fault.status);
        }
        // Where all went well none has broken the VM.
        if wrong.is_empty() {
            assert_serves(&worker.root);
        }
    }
    let lines: Vec<String> = wrong.iter().map(|(what, statuses)| format!("{what} {statuses:?}")).collect();
    assert!(lines.is_empty(), "\n{}", lines.join("\n"));
}

fn assert_serves(root: &Root) {
    let exchange = ok(Router::both(root).send(&Stream::get("after"), |_| Ending::Status(200)));
    assert_eq!((exchange.status().as_deref(), exchange.reply.is_none()), (Some("200"), true));
}

/// What a client sees of each request: its status, and the filter's own reply, if any.
fn seen(exchanges: &[Exchange]) -> Vec<(Option<String>, Option<String>)> {
    exchanges.iter().map(|e| (e.status(), e.reply.as_ref().map(|reply| reply.details.clone()))).collect()
}

/// One run of the flow under one fault.
fn run(worker: &Worker, flow: &Flow, upstream: &str, fault: Fault) -> Result<Vec<Exchange>, String> {
    let Worker { host, vm, .. } = worker;
    let trap = |e: Error| e.to_string();
    let root = vm.configure("retry_budget", "retry_budget", flow.configuration).map_err(trap)?;
    let before = host.counter(HOST_ERRORS);
    host.fail(fault.call, fault.status, fault.when);
    let exchanges = (flow.run)(&root, upstream);
    let hits = host.clear_faults();
    let exchanges = exchanges.map_err(trap)?;
    let counted = host.counter(HOST_ERRORS) - before;
    if fault.is_counted() && counted != hits {
        return Err(format!("{hits} calls failed, {counted} were counted"));
    }
    if hits == 0 {
        return Err("it did not happen".into());
    }
    root.shutdown().map_err(trap)?;
    Ok(exchanges)
}

/// A test per flow: they run side by side.
macro_rules! sweeps {
    ($($name:ident $flow:ident)*) => {$(
        #[test]
        fn $name() {
            sweep(&flows::$flow);
        }
    )*};
}

sweeps! {
    success SUCCESS
    success_of_the_attempt_placement_alone SUCCESS_ALONE
    last_token LAST_TOKEN
    last_token_of_the_attempt_placement_alone LAST_TOKEN_ALONE
    retry RETRIED
    retry_in_the_attempt_placement_alone RETRIED_ALONE
    refused_connection NOT_CONNECTED
    request_in_time IN_TIME
    request_too_late TOO_LATE
    failure_to_the_end FAILS_TO_THE_END
    stop STOPPED
    stop_without_a_signal STOPPED_SILENTLY
    refusal REFUSED
    refusal_in_the_attempt_placement_alone REFUSED_ALONE
    grpc GRPC
    parked_hedge PARKED
    answer_to_a_parked_hedge PARKED_AND_ANSWERED
    client_that_leaves CLIENT_LEAVES
    shadow_request SHADOW
    observation OBSERVING
    request_placement_alone REQUEST_ALONE
    callee CALLEE
}

#[test]
fn at_the_start_only_an_unreadable_configuration_refuses() {
    let host = ok(Host::new());
    let configure = |host: &Host| ok(Vm::new(host)).configure("retry_budget", "retry_budget", r#"{"log":"off"}"#);
    let vm = ok(Vm::new(&host));
    ok(vm.configure("retry_budget", "retry_budget", r#"{"log":"off"}"#));
    for fault in faults(&vm.take_calls().by_name) {
        let host = ok(Host::new());
        host.fail(fault.call, fault.status, fault.when);
        let configured = configure(&host);
        host.clear_faults();
        match configured {
            Ok(root) => {
                assert_ne!(fault.call, "proxy_get_buffer_bytes", "{fault:?}: taken for an empty configuration");
                assert_serves(&root);
            }
            Err(Error::Refused { .. }) => assert_eq!(fault.call, "proxy_get_buffer_bytes", "{fault:?}"),
            Err(other) => panic!("{fault:?}: {other}"),
        }
    }
}
