//! The circuit breaker of one upstream, all workers together. The budget limits from the first moment; the breaker
//! stops when the evidence is in.
//!
//! Closed, it counts: failures in a row, or their share in a sliding window. Open, nothing is sent. Half open, a few
//! probes are, and decide.

use super::bucket::{Instant, Millitokens};

/// `breaker.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Opens after so many failures in a row (`breaker.consecutive_failures`).
    pub consecutive_failures: Option<u32>,
    /// Opens when this share of the window's calls failed, in thousandths (`breaker.failure_ratio`).
    pub failure_ratio: Option<Millitokens>,
    /// What `failure_ratio` looks back on, in milliseconds (`breaker.window`).
    pub window: u64,
    /// Calls in the window before the ratio counts (`breaker.min_requests`): two failures at the start are no evidence.
    pub min_requests: u32,
    /// A call whose response headers take longer counts as failed, in milliseconds (`breaker.slow_call`).
    pub slow_call: Option<u64>,
    /// How long it stays open before probes are let through, in milliseconds (`breaker.open_for`).
    pub open_for: u64,
    /// Requests let through half open; all of them have to go well (`breaker.half_open_probes`).
    pub half_open_probes: u32,
}

impl Default for BreakerPolicy {
    /// Envoy's outlier detection: five in a row, 30 seconds.
    fn default() -> Self {
        Self {
            consecutive_failures: Some(5),
            failure_ratio: None,
            window: 10_000,
            min_requests: 20,
            slow_call: None,
            open_for: 30_000,
            half_open_probes: 1,
        }
    }
}

impl BreakerPolicy {
    /// The share that `failure_ratio` has where the window is named and the ratio is not.
    pub const DEFAULT_RATIO: Millitokens = Millitokens(500);
}

/// How an attempt ended, as far as the breaker is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Good,
    Failed,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Closed,
    Open {
        until: Instant,
    },
    HalfOpen {
        /// Places taken by probes that have not ended.
        lent: u32,
        /// Probes that went well.
        passed: u32,
        /// When probes that have not ended by then are given up: their worker may be gone.
        lease: Instant,
    },
}

/// The part of an upstream's record that is the breaker's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    pub state: State,
    /// Failures in a row.
    pub streak: u32,
    pub window: Window,
}

/// What a new request is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Pass,
    /// It is let through as a probe; the breaker as it is then.
    Probe(Breaker),
    /// Not before this moment.
    Refuse {
        until: Instant,
    },
}

impl Breaker {
    pub fn is_at_rest(&self) -> bool {
        self.state == State::Closed && self.streak == 0
    }

    /// As the gauge shows it: 0 closed, 1 half open, 2 open.
    pub fn shown(&self, now: Instant) -> u64 {
        match self.state {
            State::Closed => 0,
            State::Open { until } if now < until => 2,
            State::Open { .. } | State::HalfOpen { .. } => 1,
        }
    }

    /// Whether a request may go, at `now`. `hold`: until when the upstream is held; it stretches the open time.
    pub fn admit(&self, policy: &BreakerPolicy, hold: Option<Instant>, now: Instant) -> Admission {
        let lease = now.plus_millis(policy.open_for.max(MIN_LEASE_MILLIS));
        let (lent, passed, old_lease) = match self.state {
            State::Closed => return Admission::Pass,
            State::Open { until } => {
                let until = hold.map_or(until, |hold| until.max(hold));
                if now < until {
                    return Admission::Refuse { until };
                }
                (0, 0, lease)
            }
            State::HalfOpen { lent, passed, lease: until } if now < until => (lent, passed, until),
            // Lost with their worker, or forgotten: their places are free.
            State::HalfOpen { passed, .. } => (0, passed, lease),
        };
        if lent.saturating_add(passed) >= policy.half_open_probes {
            // Soon: the probes are on their way.
            return Admission::Refuse { until: old_lease.min(now.plus_millis(PROBE_PATIENCE_MILLIS)) };
        }
        let state = State::HalfOpen { lent: lent.saturating_add(1), passed, lease };
        Admission::Probe(Self { state, ..*self })
    }

    /// A probe has ended. `None`: without telling anything, cancelled or lost; its place is free again.
    #[must_use]
    pub fn conclude(self, policy: &BreakerPolicy, call: Option<Call>, now: Instant) -> Self {
        let State::HalfOpen { lent, passed, lease } = self.state else { return self };
        match call {
            None => Self { state: State::HalfOpen { lent: lent.saturating_sub(1), passed, lease }, ..self },
            Some(Call::Failed) => self.open(policy, now),
            Some(Call::Good) => {
                let passed = passed.saturating_add(1);
                if passed >= policy.half_open_probes {
                    return Self::default();
                }
                Self { state: State::HalfOpen { lent: lent.saturating_sub(1), passed, lease }, ..self }
            }
        }
    }

    /// Calls have ended. Those that had set out before it opened tell nothing new, and change nothing.
    #[must_use]
    pub fn note(self, policy: &BreakerPolicy, good: u32, failed: u32, now: Instant) -> Self {
        if self.state != State::Closed {
            return self;
        }
        let streak = if failed > 0 {
            self.streak.saturating_add(failed)
        } else if good > 0 {
            0
        } else {
            self.streak
        };
        let window = match policy.failure_ratio {
            Some(_) => self.window.advance(policy.window, now).add(good, failed),
            None => self.window,
        };
        let noted = Self { streak, window, ..self };
        let row = policy.consecutive_failures.is_some_and(|limit| failed > 0 && streak >= limit);
        let share = policy.failure_ratio.is_some_and(|ratio| failed > 0 && window.exceeds(ratio, policy.min_requests));
        if row || share { noted.open(policy, now) } else { noted }
    }

    fn open(self, policy: &BreakerPolicy, now: Instant) -> Self {
        Self { state: State::Open { until: now.plus_millis(policy.open_for) }, ..Self::default() }
    }
}

/// A probe is given up after this time at least: shorter ones would let the next probe in beside a slow one.
const MIN_LEASE_MILLIS: u64 = 60_000;
/// What callers are told while probes are under way.
const PROBE_PATIENCE_MILLIS: u64 = 1000;

/// Calls and failures of the last `window`, in slots of a tenth each: the oldest tenth is forgotten at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// When the first slot began.
    pub since: Instant,
    /// (all calls, failed ones), the newest first.
    pub slots: [(u32, u32); SLOTS],
}

pub const SLOTS: usize = 10;

impl Window {
    fn advance(self, window_millis: u64, now: Instant) -> Self {
        let slot =
            Instant(0).plus_millis(window_millis.max(SLOTS as u64)).0.checked_div(SLOTS as u64).unwrap_or(1).max(1);
        let passed = now.0.saturating_sub(self.since.0).checked_div(slot).unwrap_or(0);
        if passed == 0 {
            return self;
        }
        let mut slots = [(0, 0); SLOTS];
        let shift = usize::try_from(passed).unwrap_or(usize::MAX);
        for (to, from) in slots.iter_mut().skip(shift).zip(self.slots) {
            *to = from;
        }
        Self { since: Instant(self.since.0.saturating_add(passed.saturating_mul(slot))), slots }
    }

    fn add(mut self, good: u32, failed: u32) -> Self {
        if let Some((all, bad)) = self.slots.first_mut() {
            *all = all.saturating_add(good).saturating_add(failed);
            *bad = bad.saturating_add(failed);
        }
        self
    }

    fn exceeds(&self, ratio: Millitokens, min_requests: u32) -> bool {
        let sum = |part: fn(&(u32, u32)) -> u32| self.slots.iter().map(|slot| u64::from(part(slot))).sum::<u64>();
        let (all, failed) = (sum(|slot| slot.0), sum(|slot| slot.1));
        let ratio = u64::try_from(ratio.0).unwrap_or(0);
        all >= u64::from(min_requests) && failed.saturating_mul(1000) >= all.saturating_mul(ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Instant {
        Instant(seconds * SECOND)
    }

    fn ratio() -> BreakerPolicy {
        BreakerPolicy { consecutive_failures: None, failure_ratio: Some(Millitokens(500)), ..BreakerPolicy::default() }
    }

    fn fail(breaker: Breaker, policy: &BreakerPolicy, n: u32, now: Instant) -> Breaker {
        (0..n).fold(breaker, |b, _| b.note(policy, 0, 1, now))
    }

    fn is_open(breaker: Breaker, now: Instant) -> bool {
        breaker.shown(now) == 2
    }

    #[test]
    fn four_failures_a_success_and_four_more_leave_it_closed() {
        let policy = BreakerPolicy::default();
        let four = fail(Breaker::default(), &policy, 4, at(1));
        let again = fail(four.note(&policy, 1, 0, at(1)), &policy, 4, at(1));
        assert_eq!(again.state, State::Closed);
        assert!(is_open(again.note(&policy, 0, 1, at(1)), at(1)), "the fifth in a row opens it");
    }

    #[test]
    fn a_ratio_needs_a_minimum_of_calls() {
        let two = fail(Breaker::default(), &ratio(), 2, at(1));
        assert_eq!(two.state, State::Closed);
        let mixed = Breaker::default().note(&ratio(), 10, 0, at(1));
        assert!(is_open(fail(mixed, &ratio(), 10, at(2)), at(2)), "10 of 20");
        assert!(!is_open(fail(Breaker::default().note(&ratio(), 11, 0, at(1)), &ratio(), 9, at(2)), at(2)), "9 of 20");
    }

    #[test]
    fn the_window_slides() {
        let old = Breaker::default().note(&ratio(), 0, 15, at(1));
        assert_eq!(old.state, State::Closed);
        // Eleven seconds later the 15 are forgotten: 15 more make no 20.
        assert_eq!(old.note(&ratio(), 0, 15, at(12)).state, State::Closed);
        assert!(is_open(old.note(&ratio(), 0, 15, at(5)), at(5)));
    }

    #[test]
    fn half_open_lets_as_many_through_as_it_says_and_they_decide() {
        let policy = BreakerPolicy { half_open_probes: 2, ..BreakerPolicy::default() };
        let open = fail(Breaker::default(), &policy, 5, at(0));
        assert_eq!(open.admit(&policy, None, at(29)), Admission::Refuse { until: at(30) });
        let Admission::Probe(first) = open.admit(&policy, None, at(30)) else { panic!("a probe") };
        let Admission::Probe(second) = first.admit(&policy, None, at(30)) else { panic!("a second probe") };
        assert!(matches!(second.admit(&policy, None, at(30)), Admission::Refuse { .. }));
        let one = second.conclude(&policy, Some(Call::Good), at(31));
        assert!(matches!(one.admit(&policy, None, at(31)), Admission::Refuse { .. }), "no third");
        assert_eq!(one.conclude(&policy, Some(Call::Good), at(31)).state, State::Closed);
        assert!(is_open(one.conclude(&policy, Some(Call::Failed), at(31)), at(31)));
    }

    #[test]
    fn a_cancelled_probe_frees_its_place_and_a_lost_one_in_time() {
        let policy = BreakerPolicy::default();
        let open = fail(Breaker::default(), &policy, 5, at(0));
        let Admission::Probe(probing) = open.admit(&policy, None, at(30)) else { panic!("a probe") };
        assert!(matches!(probing.admit(&policy, None, at(31)), Admission::Refuse { .. }));
        assert!(matches!(probing.conclude(&policy, None, at(31)).admit(&policy, None, at(31)), Admission::Probe(_)));
        assert!(matches!(probing.admit(&policy, None, at(91)), Admission::Probe(_)));
    }

    #[test]
    fn a_hold_stretches_the_open_time() {
        let policy = BreakerPolicy::default();
        let open = fail(Breaker::default(), &policy, 5, at(0));
        assert_eq!(open.admit(&policy, Some(at(45)), at(31)), Admission::Refuse { until: at(45) });
        assert_eq!(open.admit(&policy, Some(at(5)), at(10)), Admission::Refuse { until: at(30) });
    }

    #[test]
    fn calls_that_set_out_before_change_nothing() {
        let policy = BreakerPolicy::default();
        let open = fail(Breaker::default(), &policy, 5, at(0));
        assert_eq!(open.note(&policy, 0, 1, at(20)), open);
        assert_eq!(open.note(&policy, 1, 0, at(20)), open);
    }

    proptest! {
        /// Whatever happens, half open there are never more probes than it says.
        #[test]
        fn probes_are_bounded(probes in 1u32..4, steps in prop::collection::vec((0u8..4, 0u64..20), 1..200)) {
            let policy = BreakerPolicy { half_open_probes: probes, open_for: 5000, ..BreakerPolicy::default() };
            let mut breaker = fail(Breaker::default(), &policy, 5, at(0));
            let (mut now, mut out) = (0, 0u32);
            for (step, seconds) in steps {
                now += seconds.min(2);
                match step {
                    0 => if let Admission::Probe(next) = breaker.admit(&policy, None, at(now)) {
                        breaker = next;
                        out += 1;
                    },
                    1 if out > 0 => { breaker = breaker.conclude(&policy, Some(Call::Good), at(now)); out -= 1; }
                    2 if out > 0 => { breaker = breaker.conclude(&policy, None, at(now)); out -= 1; }
                    3 if out > 0 => { breaker = breaker.conclude(&policy, Some(Call::Failed), at(now)); out = 0; }
                    _ => {}
                }
                if breaker.state == State::Closed {
                    breaker = fail(breaker, &policy, 5, at(now));
                    out = 0;
                }
                prop_assert!(out <= probes);
            }
        }
    }
}
