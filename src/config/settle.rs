//! What holds between keys: applied once a level has been read and merged.

use super::error::Path;
use super::keys::{Key, Kind, Settings};
use super::read::Reader;

/// A key that was named: whether its value was good, and whether at this level or at the one above.
struct Named {
    good: bool,
    here: bool,
}

impl Reader<'_> {
    /// `above` is the level that this one was merged over; what is wrong there is not told again here.
    pub fn settle(&mut self, keys: &'static [Key], here: &Path, above: Option<&Path>, settings: &mut Settings) {
        for key in keys {
            match key.kind {
                Kind::Group(keys) => {
                    let above = above.map(|above| above.key(key.name));
                    self.settle(keys, &here.key(key.name), above.as_ref(), settings);
                }
                Kind::Tokens { cap: Some(cap), .. } => self.settle_cap(key, cap, here, above, settings),
                _ => {}
            }
        }
    }

    fn settle_cap(&mut self, key: &Key, cap: &Key, here: &Path, above: Option<&Path>, settings: &mut Settings) {
        let (Kind::Tokens { field, .. }, Kind::Tokens { field: cap_field, .. }) = (&key.kind, &cap.kind) else {
            return;
        };
        let most = *cap_field(settings);
        let Some(value_named) = self.named(key, here, above) else {
            *field(settings) = most;
            return;
        };
        let value = *field(settings);
        let cap_named = self.named(cap, here, above);
        // A value that could not be read is in conflict with nothing.
        if value <= most || !value_named.good || cap_named.as_ref().is_some_and(|cap| !cap.good) {
            return;
        }
        if value_named.here {
            let allowed = format!("at most `{}`, which is {most} here", cap.name);
            self.errors.add(&here.key(key.name), &value.to_string(), &allowed);
        } else if cap_named.is_some_and(|cap| cap.here) {
            let allowed = format!("at least `{}`, which is {value} here", key.name);
            self.errors.add(&here.key(cap.name), &most.to_string(), &allowed);
        }
    }

    /// Who named a key last.
    fn named(&self, key: &Key, here: &Path, above: Option<&Path>) -> Option<Named> {
        let good = |level: &Path| self.met.get(&level.key(key.name)).copied();
        match good(here) {
            Some(good) => Some(Named { good, here: true }),
            None => above.and_then(good).map(|good| Named { good, here: false }),
        }
    }
}
