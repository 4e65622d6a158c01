//! The records in shared data: the only compare-and-swap loop, and the gauge that spares the success path from it.

use crate::host::{Cas, Host, HostError};
use crate::metrics::RecordGauges;
use crate::policy::Budget;
use crate::policy::bucket::{Bucket, Instant, Millitokens};
use crate::policy::upstream::Record;
use std::cell::Cell;

/// Every key of this module starts so: in Istio all modules of a proxy share one namespace.
pub const PREFIX: &str = "retry_budget/";

/// Tries of one update before it is given up. A try fails only because another worker's write succeeded, so a bound
/// this high is met by a proxy with dozens of workers that do nothing else, and by nobody else.
const MAX_TRIES: u32 = 128;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreError {
    Host(HostError),
    /// Other workers came first, `MAX_TRIES` times.
    Contended,
}

impl From<HostError> for StoreError {
    fn from(e: HostError) -> Self {
        Self::Host(e)
    }
}

/// The record of one upstream, with its gauges.
pub struct Account {
    key: Vec<u8>,
    gauges: RecordGauges,
    /// Calls that went well and are not in the record yet: they are gathered here and written with the next failure, or
    /// on the tick, so that health costs no shared data.
    good: Cell<u32>,
}

impl Account {
    /// Observed requests have a record of their own: what would be stopped must not stop what is.
    pub fn new(upstream: &[u8], observed: bool) -> Self {
        let mut key = PREFIX.as_bytes().to_vec();
        key.extend_from_slice(if observed { b"observe/" } else { b"enforce/" });
        key.extend_from_slice(upstream);
        Self { key, gauges: RecordGauges::new(upstream, observed), good: Cell::new(0) }
    }

    /// Changes the record in one atomic step. `change` sees it brought up to the present moment, which it gets too, and
    /// answers with what to write, if anything; it may run several times. Returns its answer and the record as it is
    /// afterwards.
    ///
    /// # Errors
    /// `Host` when the proxy refused a call, `Contended` when the bounded number of tries was used up.
    pub fn update<T>(
        &self,
        host: &dyn Host,
        budget: &Budget,
        mut change: impl FnMut(Record, Instant) -> (Option<Record>, T),
    ) -> Result<(T, Record), StoreError> {
        for _ in 0..MAX_TRIES {
            let now = Instant(host.monotonic()?);
            let (old, cas) = self.read(host, now)?;
            let present = old.unwrap_or_else(|| Record::new(budget, now)).touch(budget, now);
            let (written, answer) = change(present, now);
            // A denial writes nothing, unless this is the first sight of the upstream, of a new rate or of a new cap:
            // time has to count from here.
            let terms = |r: Record| (r.bucket.per_second, r.bucket.max);
            let adopted = old.is_none_or(|old| terms(old) != terms(present));
            let after = written.unwrap_or(present);
            let rests = after.is_at_rest(budget)
                && old.is_some_and(|old| {
                    Record { bucket: after.bucket, ..old } == after && old.bucket.tokens == after.bucket.tokens
                });
            let write = (written.is_some() && !rests) || adopted;
            if !write || host.set_shared(&self.key, &after.to_bytes(), cas)? {
                if write || rests {
                    self.publish(host, budget, after, now);
                }
                return Ok((answer, after));
            }
        }
        Err(StoreError::Contended)
    }

    /// Adds `amount`. Touches nothing when the record is known to be at rest. Returns the record where it was read.
    pub fn deposit(&self, host: &dyn Host, budget: &Budget, amount: Millitokens) -> Option<Record> {
        if amount <= Millitokens::ZERO || self.is_known_at_rest(host, budget) {
            return None;
        }
        self.add(host, budget, amount)
    }

    /// A token goes back.
    pub fn give_back(&self, host: &dyn Host, budget: &Budget) {
        self.add(host, budget, Millitokens::ONE);
    }

    fn add(&self, host: &dyn Host, budget: &Budget, amount: Millitokens) -> Option<Record> {
        self.transfer(host, budget, |bucket| bucket.deposit(budget, amount))
    }

    fn transfer(&self, host: &dyn Host, budget: &Budget, change: impl Fn(Bucket) -> Bucket) -> Option<Record> {
        let changed = self.update(host, budget, |r, _| (Some(Record { bucket: change(r.bucket), ..r }), ()));
        changed.ok().map(|((), record)| record)
    }

    /// Takes tokens for retries that were made already.
    pub fn charge(&self, host: &dyn Host, budget: &Budget, retries: u32) {
        self.transfer(host, budget, |bucket| bucket.charge(budget, retries));
    }

    /// One more call went well.
    pub fn gather_good(&self) {
        self.good.set(self.good.get().saturating_add(1));
    }

    /// Those gathered since the last time.
    pub fn take_good(&self) -> u32 {
        self.good.take()
    }

    /// The record as it is now.
    pub fn look(&self, host: &dyn Host, budget: &Budget) -> Result<Record, StoreError> {
        self.update(host, budget, |_, _| (None, ())).map(|((), record)| record)
    }

    /// Recomputes the gauges: time fills an idle bucket, and two workers' gauge writes may have crossed.
    pub fn refresh(&self, host: &dyn Host, budget: &Budget) {
        if let Ok(now) = host.monotonic().map(Instant)
            && let Ok((record, _)) = self.read(host, now)
        {
            self.publish(host, budget, record.unwrap_or_else(|| Record::new(budget, now)).touch(budget, now), now);
        }
    }

    fn read(&self, host: &dyn Host, now: Instant) -> Result<(Option<Record>, Cas), HostError> {
        Ok(match host.shared(&self.key)? {
            // Shared data knows no delete: a key that was removed by others is there and empty.
            Some((bytes, cas)) => (Record::from_bytes(&bytes, now), cas),
            None => (None, Cas::ABSENT),
        })
    }

    fn publish(&self, host: &dyn Host, budget: &Budget, record: Record, now: Instant) {
        self.gauges.tokens.set(host, record.bucket.tokens.whole());
        self.gauges.hold_seconds.set(host, record.hold.map_or(0, |hold| hold.until.seconds_from(now)));
        self.gauges.breaker_state.set(host, record.breaker.shown(now));
        self.gauges.at_rest.set(host, if record.is_at_rest(budget) { rest_mark(budget) } else { 0 });
    }

    /// Whether a deposit would be lost and no hold is there, for sure. Never trusted beyond that: a gauge that was never set or is excluded
    /// from the stats reads 0, and then the record decides. When two workers' writes cross, deposits are lost until
    /// the next refresh; none is ever won.
    pub fn is_known_at_rest(&self, host: &dyn Host, budget: &Budget) -> bool {
        self.gauges.at_rest.value(host) == rest_mark(budget)
    }
}

/// What the gauge shows for a record at rest under this cap. Another configuration's cap is another number, and
/// so is what a hot restart merges up: the sum of two odd numbers is even.
fn rest_mark(budget: &Budget) -> u64 {
    u64::try_from(budget.max.0).unwrap_or(0).saturating_mul(2).saturating_add(1)
}
