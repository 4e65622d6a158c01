//! What holds between keys: applied once a level has been read and merged.

use super::error::Path;
use super::kind::{Key, Kind, Settings};
use super::marks::Mark;
use super::read::Reader;
use crate::policy::breaker::BreakerPolicy;

impl Reader<'_> {
    /// What is wrong at the level that this one was merged over is not told again here.
    pub fn settle(&mut self, keys: &'static [Key], here: &Path, settings: &mut Settings) {
        for key in keys {
            match key.kind {
                Kind::Group(keys) => self.settle(keys, &here.key(key.name), settings),
                Kind::OptionalGroup { keys, .. } => self.settle_breaker(keys, &here.key(key.name), settings),
                Kind::Tokens { cap: Some(cap), .. } => self.settle_cap(key, cap, here, settings),
                _ => {}
            }
        }
    }

    fn settle_cap(&mut self, key: &Key, cap: &Key, here: &Path, settings: &mut Settings) {
        let (Kind::Tokens { field, .. }, Kind::Tokens { field: cap_field, .. }) = (&key.kind, &cap.kind) else {
            return;
        };
        let named = settings.named;
        let most = *cap_field(settings);
        if !named.any(&[Mark::InitialTokens]) {
            *field(settings) = most;
            return;
        }
        let value = *field(settings);
        // A value that could not be read is in conflict with nothing.
        if value <= most || named.bad(&[Mark::InitialTokens, Mark::MaxTokens]) {
            return;
        }
        if named.here(&[Mark::InitialTokens]) {
            let allowed = format!("at most `{}`, which is {most} here", cap.name);
            self.errors.add(&here.key(key.name), &value.to_string(), &allowed);
        } else if named.here(&[Mark::MaxTokens]) {
            let allowed = format!("at least `{}`, which is {value} here", key.name);
            self.errors.add(&here.key(cap.name), &most.to_string(), &allowed);
        }
    }

    /// Whoever asks for a share of failures does not ask for failures in a row, and the other way round.
    fn settle_breaker(&mut self, keys: &[Key], path: &Path, settings: &mut Settings) {
        const ALONE: [Mark; 2] = [Mark::ConsecutiveFailures, Mark::FailureRatio];
        let named = settings.named;
        let mut breaker = settings.breaker.clone();
        if named.any(&[Mark::Window, Mark::MinRequests]) && !named.any(&[Mark::FailureRatio]) {
            breaker.failure_ratio = Some(BreakerPolicy::DEFAULT_RATIO);
        }
        if breaker.failure_ratio.is_some() && !named.any(&[Mark::ConsecutiveFailures]) {
            breaker.consecutive_failures = None;
        }
        let opens = breaker.consecutive_failures.is_some() || breaker.failure_ratio.is_some();
        if settings.breaks && !opens && named.here(&ALONE) && !named.bad(&ALONE) {
            let mut names = keys.iter().filter(|key| key.mark.is_some_and(|mark| ALONE.contains(&mark)));
            let mut name = || names.next().map_or("", |key| key.name);
            let allowed = format!("a number at `{}` or `{}`, or null for no breaker", name(), name());
            self.errors.add(path, "a breaker that nothing opens", &allowed);
        }
        settings.policy.breaker = settings.breaks.then_some(breaker);
    }
}
