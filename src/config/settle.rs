//! What holds between keys: applied once a level has been read and merged.

use super::duration;
use super::error::Path;
use super::kind::{Key, Kind, Settings};
use super::marks::{Mark, Marks};
use super::read::Reader;
use crate::policy::breaker::BreakerPolicy;

impl Reader<'_> {
    /// What is wrong at the level that this one was merged over is not told again here.
    pub fn settle(&mut self, keys: &'static [Key], here: &Path, settings: &mut Settings) {
        for key in keys {
            match key.kind {
                Kind::Group(keys) => self.settle(keys, &here.key(key.name), settings),
                Kind::OptionalGroup { keys, .. } => self.settle_breaker(keys, &here.key(key.name), settings),
                Kind::Tokens { cap: Some(cap), .. } => self.settle_tokens(key, cap, here, settings),
                Kind::OptionalDuration { cap: Some(cap), .. } => self.settle_duration(key, cap, here, settings),
                _ => {}
            }
        }
    }

    /// What is not named follows its cap.
    fn settle_tokens(&mut self, key: &Key, cap: &Key, here: &Path, settings: &mut Settings) {
        let (Kind::Tokens { field, .. }, Kind::Tokens { field: cap_field, .. }) = (&key.kind, &cap.kind) else {
            return;
        };
        let most = *cap_field(settings);
        if !settings.named.any(key.mark.as_slice()) {
            *field(settings) = most;
        }
        let value = *field(settings);
        if value > most {
            self.above_cap(here, settings.named, (key, &value.to_string()), (cap, &most.to_string()));
        }
    }

    fn settle_duration(&mut self, key: &Key, cap: &Key, here: &Path, settings: &mut Settings) {
        let (Kind::OptionalDuration { field, .. }, Kind::Duration { field: cap_field, .. }) = (&key.kind, &cap.kind)
        else {
            return;
        };
        let most = *cap_field(settings);
        if let Some(value) = field(settings).filter(|value| *value > most) {
            let quoted = |millis| format!("\"{}\"", duration::text(millis));
            self.above_cap(here, settings.named, (key, &quoted(value)), (cap, &quoted(most)));
        }
    }

    /// Told at the key that this level names.
    fn above_cap(&mut self, here: &Path, named: Marks, (key, value): (&Key, &str), (cap, most): (&Key, &str)) {
        let (key_mark, cap_mark) = (key.mark.as_slice(), cap.mark.as_slice());
        // A value that could not be read is in conflict with nothing.
        if named.bad(key_mark) || named.bad(cap_mark) {
            return;
        }
        if named.here(key_mark) {
            self.errors.add(&here.key(key.name), value, &format!("at most `{}`, which is {most} here", cap.name));
        } else if named.here(cap_mark) {
            self.errors.add(&here.key(cap.name), most, &format!("at least `{}`, which is {value} here", key.name));
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
