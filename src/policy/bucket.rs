//! The token bucket, in whole thousandths of a token: floats lose retries (ten times 0.1 is 0.9999999999999999).
//!
//! Every transition is a pure function of the old bucket, O(1) however long it was idle, and saturates.

use super::Budget;
use std::fmt;

/// Thousandths of a token. Signed: an approximation that can only charge afterwards may owe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Millitokens(pub i64);

impl Millitokens {
    pub const ZERO: Self = Self(0);
    /// What one retry costs.
    pub const ONE: Self = Self(1000);

    /// Whole tokens, rounded down, never below 0: what the gauge shows.
    pub fn whole(self) -> u64 {
        u64::try_from(self.0.max(0).checked_div(Self::ONE.0).unwrap_or(0)).unwrap_or(0)
    }

    pub fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    pub fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    pub fn times(self, n: u32) -> Self {
        Self(self.0.saturating_mul(i64::from(n)))
    }
}

impl fmt::Display for Millitokens {
    /// Decimal and exact: `3.4`, `10`, `-0.25`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let thousandths = self.0.unsigned_abs();
        let (whole, rest) = (thousandths.checked_div(1000).unwrap_or(0), thousandths.checked_rem(1000).unwrap_or(0));
        let sign = if self.0 < 0 { "-" } else { "" };
        if rest == 0 {
            return write!(f, "{sign}{whole}");
        }
        let digits = format!("{rest:03}");
        write!(f, "{sign}{whole}.{}", digits.trim_end_matches('0'))
    }
}

/// A moment on the process's monotonic clock, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(pub u64);

impl Instant {
    #[must_use]
    pub fn plus_millis(self, millis: u64) -> Self {
        Self(self.0.saturating_add(millis.saturating_mul(NANOS_PER_MILLI)))
    }

    /// Whole milliseconds from an earlier moment until this one, rounded up; 0 when it is past.
    pub fn millis_from(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0).div_ceil(NANOS_PER_MILLI)
    }

    /// Whole seconds, the same way.
    pub fn seconds_from(self, earlier: Self) -> u64 {
        self.millis_from(earlier).div_ceil(1000)
    }
}

/// One upstream's tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    pub tokens: Millitokens,
    /// Up to when `per_second` has been credited.
    pub credited: Instant,
    /// What it earns per second *until* it is next touched. Kept with the tokens, so that a configuration
    /// change cannot earn for a time when it was not yet in force.
    pub per_second: Millitokens,
    /// What it can hold until then, for the same reason: time that passed under a lower cap fills no higher one.
    pub max: Millitokens,
}

const NANOS_PER_MILLI: u64 = 1_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

impl Bucket {
    pub fn new(budget: &Budget, now: Instant) -> Self {
        Self { tokens: budget.initial, credited: now, per_second: budget.per_second, max: budget.max }
    }

    /// Credits the time that has passed and takes over `budget`: a lower cap cuts the balance, nothing refills it.
    ///
    /// The time of a fraction of a thousandth is not lost: it is credited once the thousandth is whole.
    #[must_use]
    pub fn touch(self, budget: &Budget, now: Instant) -> Self {
        let elapsed = u128::from(now.0.saturating_sub(self.credited.0));
        let rate = u128::try_from(self.per_second.0).unwrap_or(0);
        let earned = elapsed.saturating_mul(rate).checked_div(NANOS_PER_SECOND).unwrap_or(0);
        let tokens = self.tokens.saturating_add(Millitokens(i64::try_from(earned).unwrap_or(i64::MAX)));
        let tokens = tokens.min(self.max.max(self.tokens));
        let credited = if rate == 0 || tokens >= budget.max.min(self.max) {
            now.max(self.credited)
        } else {
            // Rounded up: a bucket never earns more than its rate.
            let spent = earned.saturating_mul(NANOS_PER_SECOND).div_ceil(rate);
            Instant(self.credited.0.saturating_add(u64::try_from(spent).unwrap_or(u64::MAX)))
        };
        Self { tokens: tokens.min(budget.max), credited, per_second: budget.per_second, max: budget.max }
    }

    /// Adds `amount`; what does not fit under the cap is lost.
    #[must_use]
    pub fn deposit(self, budget: &Budget, amount: Millitokens) -> Self {
        Self { tokens: self.tokens.saturating_add(amount).min(budget.max), ..self }
    }

    /// One token less, if there is a whole one.
    #[must_use]
    pub fn withdraw(self) -> Option<Self> {
        (self.tokens >= Millitokens::ONE).then(|| Self { tokens: self.tokens.saturating_sub(Millitokens::ONE), ..self })
    }

    /// Takes `retries` tokens for retries that were made already, down to −`budget.max`: a debt is bounded, so that
    /// an upstream comes back within the time it takes to fill its bucket twice.
    #[must_use]
    pub fn charge(self, budget: &Budget, retries: u32) -> Self {
        let floor = Millitokens::ZERO.saturating_sub(budget.max);
        let charged = self.tokens.saturating_sub(Millitokens::ONE.times(retries));
        Self { tokens: charged.max(floor).min(self.tokens), ..self }
    }

    pub fn is_full(&self, budget: &Budget) -> bool {
        self.tokens >= budget.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::DepositOn;
    use proptest::prelude::*;

    fn budget(ratio: i64, max: i64, per_second: i64) -> Budget {
        Budget {
            ratio: Millitokens(ratio),
            max: Millitokens(max),
            initial: Millitokens(max),
            per_second: Millitokens(per_second),
            deposit_on: DepositOn::Request,
        }
    }

    fn bucket(tokens: i64, per_second: i64) -> Bucket {
        let max = Millitokens(i64::MAX);
        Bucket { tokens: Millitokens(tokens), credited: Instant(0), per_second: Millitokens(per_second), max }
    }

    #[test]
    fn ten_deposits_of_a_tenth_buy_one_retry() {
        let b = budget(100, 10_000, 0);
        let filled = (0..10).fold(bucket(0, 0), |acc, _| acc.deposit(&b, b.ratio));
        assert_eq!(filled.tokens, Millitokens::ONE);
        assert_eq!(filled.withdraw().map(|x| x.tokens), Some(Millitokens::ZERO));
    }

    #[test]
    fn less_than_a_whole_token_buys_nothing() {
        assert_eq!(bucket(999, 0).withdraw(), None);
    }

    #[test]
    fn a_lower_cap_cuts_and_a_higher_one_does_not_refill() {
        assert_eq!(bucket(3400, 0).touch(&budget(0, 2000, 0), Instant(5)).tokens, Millitokens(2000));
        assert_eq!(bucket(2000, 0).touch(&budget(0, 10_000, 0), Instant(5)).tokens, Millitokens(2000));
    }

    #[test]
    fn a_new_rate_earns_nothing_for_the_time_before_it() {
        let hour = Instant(3_600_000_000_000);
        let touched = bucket(0, 0).touch(&budget(0, 10_000, 1000), hour);
        assert_eq!(touched.tokens, Millitokens::ZERO);
        let later = Instant(hour.0 + 2_500_000_000);
        assert_eq!(touched.touch(&budget(0, 10_000, 1000), later).tokens, Millitokens(2500));
    }

    #[test]
    fn a_higher_cap_is_not_filled_with_the_time_before_it() {
        let hour = Instant(3_600_000_000_000);
        let full = Bucket { max: Millitokens(2000), ..bucket(2000, 1000) };
        assert_eq!(full.touch(&budget(0, 100_000, 1000), hour).tokens, Millitokens(2000));
    }

    #[test]
    fn a_debt_is_bounded_by_the_cap_and_an_old_one_is_not_forgiven() {
        assert_eq!(bucket(1000, 0).charge(&budget(0, 2000, 0), 100).tokens, Millitokens(-2000));
        assert_eq!(bucket(-5000, 0).charge(&budget(0, 2000, 0), 1).tokens, Millitokens(-5000));
    }

    #[test]
    fn shows_whole_tokens_and_exact_decimals() {
        assert_eq!([-5, 999, 1000, 3999].map(|m| Millitokens(m).whole()), [0, 0, 1, 3]);
        assert_eq!(
            [3400, 10_000, -250, 5, 0].map(|m| Millitokens(m).to_string()),
            ["3.4", "10", "-0.25", "0.005", "0"].map(String::from)
        );
    }

    proptest! {
        /// However often it is looked at, time earns rate × elapsed: nothing more, and less than a thousandth is pending.
        #[test]
        fn refill_is_exact_however_it_is_split(rate in 1i64..2_000_000, steps in prop::collection::vec(0u64..3_000_000_000, 1..40)) {
            let b = budget(0, i64::MAX, rate);
            let mut now = 0u64;
            let mut acc = bucket(0, rate);
            for step in steps {
                now += step;
                acc = acc.touch(&b, Instant(now));
            }
            let due = u128::from(now) * rate as u128 / 1_000_000_000;
            let earned = acc.tokens.0 as u128;
            prop_assert!(earned <= due && earned + 1 >= due, "earned {earned}, due {due}");
        }

        /// No order of transitions, no extreme value takes the balance over the cap or panics.
        #[test]
        fn the_cap_holds(tokens: i64, rate in 0i64..=1_000_000_000, max in 0i64..=1_000_000_000, ratio in 0i64..=10_000, n: u32, now: u64) {
            let b = budget(ratio, max, rate);
            let touched = bucket(tokens, rate).touch(&b, Instant(now));
            for next in [touched, touched.deposit(&b, b.ratio), touched.charge(&b, n), touched.withdraw().unwrap_or(touched)] {
                prop_assert!(next.tokens <= b.max);
            }
        }
    }
}
