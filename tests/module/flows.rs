//! The ways that requests take through the filter. Each flow is one configuration and what its router and origin do.

use crate::router::{Ending, Exchange, Router};
use minihost::{Result, Root, Stream};
use std::time::Duration;

pub struct Flow {
    pub configuration: &'static str,
    pub run: fn(&Root, &str) -> Result<Vec<Exchange>>,
    /// Whether the budget stops something here.
    pub stops: bool,
}

const FULL: &str = "{}";
const EMPTY: &str = r#"{"budget":{"ratio":0,"initial_tokens":0}}"#;
const ON_SUCCESS: &str = r#"{"budget":{"deposit_on":"success","initial_tokens":1}}"#;
const OBSERVED: &str = r#"{"mode":"observe","budget":{"ratio":0,"initial_tokens":0},"log":"all"}"#;
const SILENT: &str = r#"{"budget":{"ratio":0,"initial_tokens":0},"stop_signal":{"emit":"none"}}"#;
const FAILED: &str = r#"{"stop_signal":{"emit":"failed"}}"#;
const CAP_OF_TWO: &str = r#"{"budget":{"ratio":0,"max_tokens":2}}"#;
const CALLED: &str = r#"{"budget":{"ratio":0,"initial_tokens":1}}"#;

const fn flow(configuration: &'static str, stops: bool, run: fn(&Root, &str) -> Result<Vec<Exchange>>) -> Flow {
    Flow { configuration, run, stops }
}

pub const SUCCESS: Flow = flow(FULL, false, |root, upstream| one(Router::both(root), upstream, |_| OK));
pub const SUCCESS_ALONE: Flow = flow(FULL, false, |root, upstream| one(Router::attempt_alone(root), upstream, |_| OK));
/// The retry needs the only token there is; the request's own comes too late.
pub const LAST_TOKEN: Flow = flow(ON_SUCCESS, false, |root, upstream| one(Router::both(root), upstream, fails_once));
pub const LAST_TOKEN_ALONE: Flow =
    flow(ON_SUCCESS, false, |root, upstream| one(Router::attempt_alone(root), upstream, fails_once));
pub const RETRIED: Flow = flow(FULL, false, |root, upstream| one(Router::both(root), upstream, fails_once));
pub const RETRIED_ALONE: Flow =
    flow(FULL, false, |root, upstream| one(Router::attempt_alone(root), upstream, fails_once));
pub const NOT_CONNECTED: Flow = flow(FULL, false, |root, upstream| {
    one(Router::both(root), upstream, |nth| if nth == 1 { Ending::ConnectFailure } else { OK })
});
pub const IN_TIME: Flow = flow(FULL, false, |root, upstream| {
    let stream = Stream::get(upstream).with("x-request-deadline-ms", "5000");
    Ok(vec![Router::both(root).send(&stream, fails_once)?])
});
/// Answered as it arrives.
pub const TOO_LATE: Flow = flow(FULL, true, |root, upstream| {
    let stream = Stream::get(upstream).with("x-request-deadline-ms", "0");
    Ok(vec![Router::both(root).send(&stream, |_| OK)?])
});
pub const FAILS_TO_THE_END: Flow = flow(FAILED, false, |root, upstream| one(Router::both(root), upstream, |_| BAD));
pub const STOPPED: Flow = flow(EMPTY, true, |root, upstream| one(Router::both(root), upstream, |_| BAD));
pub const STOPPED_SILENTLY: Flow = flow(SILENT, true, |root, upstream| one(Router::both(root), upstream, |_| BAD));
pub const REFUSED: Flow = flow(EMPTY, true, |root, upstream| one(Router::both(root), upstream, |_| Ending::Reset));
pub const REFUSED_ALONE: Flow =
    flow(EMPTY, true, |root, upstream| one(Router::attempt_alone(root), upstream, |_| Ending::ConnectFailure));
pub const GRPC: Flow = flow(EMPTY, true, |root, upstream| {
    let router = Router::both(root);
    let stopped = router.send(&Stream::grpc(upstream), |_| Ending::Grpc(14))?;
    Ok(vec![stopped, router.send(&Stream::grpc(upstream), |_| Ending::Reset)?])
});
/// A hedge starts beside the first attempt, which then answers.
pub const PARKED: Flow = flow(EMPTY, false, |root, upstream| {
    let mut request = Router::both(root).begin(&Stream::get(upstream))?;
    request.start()?;
    if request.exchange().is_none() {
        request.answer(1, OK)?;
    }
    Ok(request.exchange().cloned().into_iter().collect())
});
/// The same, but the first attempt is lost.
pub const PARKED_AND_ANSWERED: Flow = flow(EMPTY, true, parked_and_answered);
pub const CLIENT_LEAVES: Flow = flow(FULL, false, |root, upstream| {
    let mut gone = Vec::new();
    for router in [Router::both(root), Router::attempt_alone(root)] {
        let mut request = router.begin(&Stream::get(upstream))?;
        request.answer(1, BAD)?;
        request.leave()?;
        gone.extend(request.exchange().cloned());
    }
    Ok(gone)
});
/// Beside a request, as mirroring makes them: first attempts that no listener has seen.
pub const SHADOW: Flow = flow(FULL, false, |root, upstream| {
    let shadow = Router { retries: 0, ..Router::attempt_alone(root) };
    Ok([one(Router::both(root), upstream, |_| OK)?, one(shadow, upstream, |_| BAD)?].concat())
});
pub const OBSERVING: Flow = flow(OBSERVED, false, |root, upstream| one(Router::both(root), upstream, |_| BAD));
pub const REQUEST_ALONE: Flow = flow(CAP_OF_TWO, true, |root, upstream| {
    let router = Router::request_alone(root);
    (0..3).map(|_| router.send(&Stream::get(upstream), |_| BAD)).collect()
});
pub const CALLEE: Flow = flow(CALLED, true, |root, upstream| {
    let sent = |n: &str| {
        let stream = Stream::get(upstream).inbound().with("x-envoy-attempt-count", n);
        Router::callee(root).send(&stream, |_| BAD)
    };
    Ok(vec![sent("1")?, sent("2")?, sent("2")?])
});

const OK: Ending = Ending::Status(200);
const BAD: Ending = Ending::Status(503);

fn one(router: Router, upstream: &str, ending: impl Fn(u64) -> Ending) -> Result<Vec<Exchange>> {
    Ok(vec![router.send(&Stream::get(upstream), ending)?])
}

fn fails_once(nth: u64) -> Ending {
    if nth == 1 { BAD } else { OK }
}

fn parked_and_answered(root: &Root, upstream: &str) -> Result<Vec<Exchange>> {
    let mut request = Router::both(root).begin(&Stream::get(upstream))?;
    request.start()?;
    if request.exchange().is_none() {
        request.answer(1, Ending::Reset)?;
    }
    for number in request.in_flight() {
        request.answer(number, OK)?;
    }
    if request.exchange().is_none() {
        // The regular tick has come by then, too.
        root.vm().run_for(Duration::from_secs(2))?;
        request.settle()?;
    }
    if request.exchange().is_none() {
        request.time_out()?;
    }
    Ok(request.exchange().cloned().into_iter().collect())
}
