//! What a request leaves behind: nothing.

use crate::flows::{self, Flow};
use crate::worker::{Worker, ok};

/// By then tables have their size, and all metrics are defined.
const WARM: usize = 1_000;

fn assert_no_growth(flow: &Flow, requests: usize) {
    let worker = Worker::new(flow.configuration);
    worker.vm.list_calls(false);
    let (mut done, mut size) = (0, None);
    while done < requests {
        done += ok((flow.run)(&worker.root, "orders")).len();
        worker.host.take_logs();
        if done >= WARM && size.is_none() {
            size = Some(worker.vm.memory_size());
        }
    }
    let (before, after) = (size.unwrap_or_default(), worker.vm.memory_size());
    assert_eq!(before, after, "memory after {WARM} and after {requests} requests");
}

macro_rules! leaks {
    ($($name:ident $flow:ident $requests:literal)*) => {$(
        #[test]
        fn $name() {
            assert_no_growth(&flows::$flow, $requests);
        }
    )*};
}

leaks! {
    successes SUCCESS 2_500
    retries RETRIED_ALONE 10_000
    answers_to_parked_hedges PARKED_AND_ANSWERED 10_000
    clients_that_leave_in_the_backoff CLIENT_LEAVES 10_000
    shadow_requests SHADOW 10_000
    successes_of_the_attempt_placement_alone SUCCESS_ALONE 10_000
    refusals REFUSED 2_500
    parked_hedges PARKED 2_500
    requests_of_the_request_placement_alone REQUEST_ALONE 2_500
    requests_of_the_callee_placement CALLEE 2_500
}
