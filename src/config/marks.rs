//! Which keys were named, where it matters to other keys.

/// A key whose being named has effect on other keys; a bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    InitialTokens = 1,
    MaxTokens = 2,
    ConsecutiveFailures = 4,
    FailureRatio = 8,
    Window = 16,
    MinRequests = 32,
    DefaultDeadline = 64,
    MaxDeadline = 128,
}

/// Which of them were named, in bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// At this level or at the one that it is merged over.
    any: u8,
    /// At this level.
    here: u8,
    /// With a value that could not be read, where they were named last.
    bad: u8,
}

impl Marks {
    pub fn set(&mut self, mark: Mark, good: bool) {
        let bit = mark as u8;
        self.any |= bit;
        self.here |= bit;
        self.bad = if good { self.bad & !bit } else { self.bad | bit };
    }

    /// As the level below starts with them.
    pub fn below(self) -> Self {
        Self { here: 0, ..self }
    }

    pub fn any(self, marks: &[Mark]) -> bool {
        self.any & bits(marks) != 0
    }

    pub fn here(self, marks: &[Mark]) -> bool {
        self.here & bits(marks) != 0
    }

    pub fn bad(self, marks: &[Mark]) -> bool {
        self.bad & bits(marks) != 0
    }
}

fn bits(marks: &[Mark]) -> u8 {
    marks.iter().fold(0, |bits, mark| bits | *mark as u8)
}
