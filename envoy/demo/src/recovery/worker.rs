//! The origin's one worker: calls are done one after the other, whoever still waits for them.

use std::ops::Range;
use std::time::{Duration, Instant};

/// What one call takes.
const WORK: Duration = Duration::from_millis(10);

/// What the worker can do in a second, and no more.
pub const CAPACITY: f64 = 1000.0 / WORK.as_millis() as f64;

/// Works by the clock and not by the processor, so that its capacity does not depend on the machine.
#[derive(Debug, Default)]
pub struct Worker {
    /// When everything that has come is done.
    free: Option<Instant>,
    stall: Option<Range<Instant>>,
    /// When each call came.
    pub calls: Vec<Instant>,
}

impl Worker {
    /// It does nothing meanwhile; what it is at then takes so much longer.
    pub fn stall(&mut self, stall: Range<Instant>) {
        self.stall = Some(stall);
    }

    /// Takes a call to the end of the queue and tells how long it will be until it is done. Nothing takes it out
    /// again: the worker cannot know that its caller has left.
    pub fn take(&mut self, now: Instant) -> Duration {
        self.calls.push(now);
        let begin = self.free.map_or(now, |free| free.max(now));
        let mut done = begin + WORK;
        if let Some(stall) = &self.stall
            && done > stall.start
            && begin < stall.end
        {
            done = stall.end + (done - begin.max(stall.start));
        }
        self.free = Some(done);
        done - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn calls_are_done_one_after_the_other() {
        let (mut worker, now) = (Worker::default(), Instant::now());
        assert_eq!([worker.take(now), worker.take(now), worker.take(now + ms(5))], [ms(10), ms(20), ms(25)]);
        assert_eq!(worker.take(now + ms(100)), ms(10), "idle in between");
        assert_eq!(worker.calls.len(), 4);
    }

    #[test]
    fn a_stall_delays_what_is_there_and_what_comes() {
        let (mut worker, now) = (Worker::default(), Instant::now());
        worker.stall(now + ms(105)..now + ms(605));
        assert_eq!(worker.take(now + ms(50)), ms(10), "before");
        assert_eq!(worker.take(now + ms(100)), ms(510), "half of it is done before the stall");
        assert_eq!(worker.take(now + ms(300)), ms(320), "it waits for the stall's end and for the one before");
        assert_eq!(worker.take(now + ms(700)), ms(10), "after");
    }

    #[test]
    fn a_call_that_comes_in_the_stall_to_an_idle_worker_begins_at_its_end() {
        let (mut worker, now) = (Worker::default(), Instant::now());
        worker.stall(now..now + ms(500));
        assert_eq!([worker.take(now + ms(100)), worker.take(now + ms(100))], [ms(410), ms(420)]);
    }
}
