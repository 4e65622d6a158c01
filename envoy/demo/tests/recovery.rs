//! How long an outage lasts after its cause is gone: what the demo shows, shortened.

use demo::recovery::{Kind, Scenario, together};
use lab::{Result, tokio};
use std::time::Duration;

/// In seconds, from the end of the stall.
const SOON: f64 = 3.0;

#[tokio::test]
async fn a_breaker_keeps_the_load_of_a_stall_away_and_the_outage_short() -> Result<()> {
    let scenario =
        Scenario { warm_up: Duration::from_secs(1), stall: Duration::from_secs(4), watch: Duration::from_millis(6500) };
    let courses = together(&[Kind::Budget, Kind::Breaker], scenario).await?;
    let [(_, budget), (_, breaker)] = courses.as_slice() else { panic!("two were asked for") };

    // A budget lets all first calls through, a breaker those that open it, and probes.
    let (alone, both) = (budget.load_in_stall(), breaker.load_in_stall());
    assert!(alone >= 3.0 * both, "calls/s in the stall: {alone:.1} with the budget alone, {both:.1} with a breaker");
    // Hundreds have queued up, and are done hardly faster than new ones come.
    assert_eq!(budget.recovered(), None, "with the budget alone");
    let recovered = breaker.recovered();
    assert!(recovered.is_some_and(|after| after <= SOON), "with budget and breaker it takes {recovered:?} s");
    Ok(())
}
