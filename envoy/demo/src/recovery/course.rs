//! What happened in one row, over time, and the figures that follow from it.

use std::ops::Range;
use std::time::Duration;

/// A call counts as served when it is answered with a 200 within this time.
pub const IN_TIME: Duration = Duration::from_secs(1);

/// How long a recovery is waited for, in seconds.
pub const WATCHED: f64 = 30.0;

/// Recovered is whoever serves this share of the calls …
const SHARE: f64 = 0.95;
/// … for so many seconds.
const FOR: f64 = 3.0;

/// Between two samples of a curve, in seconds.
const STEP: f64 = 0.25;
/// Each sample is the mean over this time around it: calls come one by one.
const MEAN: f64 = 0.5;

/// One caller's call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub at: f64,
    /// With a 200, in time.
    pub served: bool,
}

/// All times are seconds since the end of the stall; what was before is negative.
#[derive(Clone, Debug, Default)]
pub struct Course {
    /// What was watched.
    pub span: Range<f64>,
    /// How long the stall was.
    pub stall: f64,
    /// When calls came to the origin.
    pub offered: Vec<f64>,
    /// What the callers sent, in this order.
    pub sent: Vec<Sent>,
}

impl Course {
    /// When the callers are served again: the first moment from which on 95 % of the calls of three seconds are.
    /// `None` where that did not happen while it was watched.
    pub fn recovered(&self) -> Option<f64> {
        let after = self.sent.iter().map(|sent| sent.at).filter(|at| *at >= 0.0);
        after.take_while(|at| at + FOR <= self.span.end).find(|at| self.share_served(*at..at + FOR) >= SHARE)
    }

    /// The same in words.
    pub fn verdict(&self) -> String {
        self.recovered().map_or(format!("not in {WATCHED:.0} s"), |after| format!("{after:.1} s"))
    }

    /// Whether all was well before the stall. Where it was not, the machine had too much else to do.
    pub fn is_undisturbed(&self) -> bool {
        self.share_served(self.span.start..-self.stall - IN_TIME.as_secs_f64()) >= SHARE
    }

    /// The share of the calls sent in this time that were served.
    pub fn share_served(&self, span: Range<f64>) -> f64 {
        let sent: Vec<_> = self.sent.iter().filter(|sent| span.contains(&sent.at)).collect();
        sent.iter().filter(|sent| sent.served).count() as f64 / sent.len().max(1) as f64
    }

    /// Calls a second at the origin, on average over this time.
    pub fn load(&self, span: Range<f64>) -> f64 {
        rate(&self.offered, span)
    }

    /// The same in the stall.
    pub fn load_in_stall(&self) -> f64 {
        self.load(-self.stall..0.0)
    }

    /// (time, calls a second at the origin)
    pub fn load_curve(&self) -> Vec<(f64, f64)> {
        self.curve(&self.offered)
    }

    /// (time, calls a second that are served, by the time when they were sent)
    pub fn served_curve(&self) -> Vec<(f64, f64)> {
        let served: Vec<f64> = self.sent.iter().filter(|sent| sent.served).map(|sent| sent.at).collect();
        self.curve(&served)
    }

    fn curve(&self, times: &[f64]) -> Vec<(f64, f64)> {
        let samples = ((self.span.end - self.span.start) / STEP) as usize;
        let at = |i: usize| self.span.start + i as f64 * STEP;
        let mean = |t: f64| rate(times, (t - MEAN / 2.0).max(self.span.start)..(t + MEAN / 2.0).min(self.span.end));
        (0..=samples).map(|i| (at(i), mean(at(i)))).collect()
    }
}

fn rate(times: &[f64], span: Range<f64>) -> f64 {
    times.iter().filter(|at| span.contains(at)).count() as f64 / (span.end - span.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten calls a second from −2 to 10; those that `served` says are.
    fn course(served: impl Fn(f64) -> bool) -> Course {
        let times = (-20..100).map(|i| f64::from(i) / 10.0);
        let sent: Vec<Sent> = times.map(|at| Sent { at, served: served(at) }).collect();
        Course { span: -2.0..10.0, stall: 1.0, offered: sent.iter().map(|sent| sent.at).collect(), sent }
    }

    #[test]
    fn it_has_recovered_when_it_stays_so_for_three_seconds() {
        assert_eq!(course(|_| true).recovered(), Some(0.0));
        assert!(course(|_| true).verdict() == "0.0 s" && course(|_| false).verdict() == "not in 30 s");
        assert_eq!(course(|at| at < 0.0).recovered(), None);
        assert_eq!(course(|at| at >= 8.0).recovered(), None, "too late to say");
        // One of thirty is in time for 95 %, two are not.
        assert_eq!(course(|at| at >= 4.0).recovered(), Some(3.9));
        assert_eq!(course(|at| (1.0..2.0).contains(&at) || at >= 5.0).recovered(), Some(4.9));
    }

    #[test]
    fn curves_are_calls_a_second() {
        let course = course(|at| at < 3.0);
        assert!((course.load_in_stall() - 10.0).abs() < 0.01);
        assert_eq!(course.load_curve().len(), 49);
        assert!(course.load_curve().iter().all(|(_, rate)| (8.0..=12.0).contains(rate)), "{:?}", course.load_curve());
        let served = |t: f64| course.served_curve().into_iter().find(|(at, _)| *at == t).map(|(_, rate)| rate);
        assert_eq!((served(1.0), served(5.0)), (Some(10.0), Some(0.0)));
    }
}
