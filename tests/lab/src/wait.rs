//! Waiting for a condition, never for a time.

use anyhow::{Result, bail};
use std::time::Duration;
use tokio::time::Instant;

/// How long anything in the lab may take before it counts as broken. Generous: a loaded machine is
/// slow, and nobody waits for it where all is well.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Between two looks at a condition.
pub(crate) const LOOK: Duration = Duration::from_millis(10);

/// Asks until the answer is `Some`, for at most [`DEADLINE`]. `what` names the condition in the error.
pub async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let end = Instant::now() + DEADLINE;
    loop {
        if let Some(answer) = ask().await? {
            return Ok(answer);
        }
        if Instant::now() >= end {
            bail!("gave up after {DEADLINE:?} waiting for {what}");
        }
        tokio::time::sleep(LOOK).await;
    }
}
