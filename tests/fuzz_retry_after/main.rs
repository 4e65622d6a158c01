//! Any bytes as header values: no panic, and no delay shorter than a valid hint asks.
//!
//! Cases are made by the grammar of the headers, so that most of them get deep, and each is the work of its number and
//! the seed alone. `RETRY_AFTER_FUZZ_RUNS` sets how many (a few seconds' worth by default), `RETRY_AFTER_FUZZ_SEED`
//! another seed.

mod grammar;

use grammar::{Asked, Random, imf_fixdate, moment, noise, valid};
use retry_budget::policy::outcome::{Retriable, Status};
use retry_budget::policy::retry_after::{Hint, Ignored, Reading, read};

const RUNS: u64 = 50_000;
const SEED: u64 = 1;

#[test]
fn no_delay_is_shorter_than_a_valid_hint_asks() {
    let setting = |name, default| match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    };
    let (runs, seed) = (setting("RETRY_AFTER_FUZZ_RUNS", RUNS), setting("RETRY_AFTER_FUZZ_SEED", SEED));
    let mut outcomes = Outcomes::default();
    for number in 0..runs {
        let _told = Told { number, seed };
        outcomes.count(Case::make(&mut Random::new(seed, number)).check());
    }
    println!("{runs} runs with seed {seed}: {outcomes:?}");
    if runs >= 1000 {
        // A generator that has lost its grip would pass everything.
        let least = runs / 50;
        assert!(outcomes.delays > least && outcomes.zeros > least && outcomes.nevers > least, "{outcomes:?}");
        assert!(outcomes.malformed > least && outcomes.absent > least && outcomes.over > least, "{outcomes:?}");
    }
}

/// Tells which case failed.
struct Told {
    number: u64,
    seed: u64,
}

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("case {} of seed {}", self.number, self.seed);
        }
    }
}

#[derive(Debug, Default)]
struct Outcomes {
    delays: u64,
    zeros: u64,
    /// A century or more.
    over: u64,
    nevers: u64,
    malformed: u64,
    absent: u64,
}

impl Outcomes {
    fn count(&mut self, reading: Reading) {
        let count = match reading.hint {
            Hint::Delay(0) => &mut self.zeros,
            Hint::Delay(..3_155_760_000_000) => &mut self.delays,
            Hint::Delay(_) => &mut self.over,
            Hint::Never(_) => &mut self.nevers,
            Hint::Ignored(Ignored::Malformed) => &mut self.malformed,
            Hint::Ignored(_) => &mut self.absent,
        };
        *count += 1;
    }
}

const PUSHBACK: &str = "grpc-retry-pushback-ms";

const NAMES: [&str; 7] = [
    "retry-after",
    "retry-after-ms",
    "x-ms-retry-after-ms",
    PUSHBACK,
    "ratelimit-reset",
    "x-ratelimit-reset",
    "ratelimit",
];

/// Which headers speak before others.
fn rank(name: &str) -> usize {
    match name {
        "ratelimit" => 2,
        "ratelimit-reset" | "x-ratelimit-reset" => 1,
        _ => 0,
    }
}

#[derive(Debug)]
struct Field {
    name: &'static str,
    value: Vec<u8>,
    /// Of its valid members.
    asked: Vec<Asked>,
    /// It has no others.
    pure: bool,
}

#[derive(Debug)]
struct Case {
    status: Status,
    now_ms: u64,
    /// Of the `Date` field, in seconds since the epoch.
    date: Option<u64>,
    fields: Vec<Field>,
}

impl Case {
    fn make(random: &mut Random) -> Self {
        let http = |http| Status { http, grpc: None };
        let grpc = |code| Status { http: 200, grpc: Some(code) };
        let statuses =
            [http(503), http(429), grpc(14), grpc(8), grpc(13), Status { http: 429, grpc: Some(14) }, http(302)];
        let now_ms = match random.below(20) {
            0 => 0,
            1 => u64::MAX,
            2 => random.number(),
            _ => 1_795_953_600_000 + random.below(1_000_000_000),
        };
        let status = if random.one_in(4) { http(503) } else { random.pick(&statuses) };
        let date = random.one_in(3).then(|| moment(random, now_ms));
        let fields = (0..1 + random.below(4)).map(|_| Field::make(random, now_ms)).collect();
        Self { status, now_ms, date, fields }
    }

    fn read<'a>(&'a self, fields: impl Iterator<Item = &'a Field>) -> Reading {
        let date = self.date.map(imf_fixdate);
        let date = date.iter().map(|date| (&b"date"[..], date.as_bytes()));
        let fields = fields.map(|field| (field.name.as_bytes(), field.value.as_slice()));
        read(self.status, &Retriable::default(), self.now_ms, fields.chain(date))
    }

    fn check(&self) -> Reading {
        let reading = self.read(self.fields.iter());
        assert_eq!(self.read(self.fields.iter().rev()), reading, "in another order: {self:?}");
        // What is read from all fields is the longest of what is read from each.
        let alone: Vec<(&str, Hint)> = self.fields.iter().map(|field| (field.name, self.alone(field))).collect();
        let longest = |rank_of: usize| {
            let delays = alone.iter().filter_map(|(name, hint)| match hint {
                Hint::Delay(delay) if rank(name) == rank_of => Some(*delay),
                _ => None,
            });
            delays.max()
        };
        let pushbacks = alone.iter().filter(|(name, hint)| *name == PUSHBACK && !matches!(hint, Hint::Ignored(_)));
        let never = alone.iter().any(|(_, hint)| matches!(hint, Hint::Never(_))) || pushbacks.count() > 1;
        match reading.hint {
            Hint::Never(_) => assert!(never, "{self:?}"),
            Hint::Delay(delay) => {
                assert!(!never, "{self:?}");
                assert_eq!(Some(delay), longest(0).or(longest(1)).or(longest(2)), "{self:?}");
            }
            Hint::Ignored(_) => assert!(!never && (0..3).all(|rank| longest(rank).is_none()), "{self:?}"),
        }
        reading
    }

    /// The hint of one field, which is at least what each of its valid members asks for.
    fn alone(&self, field: &Field) -> Hint {
        let reading = self.read(std::iter::once(field));
        let read_here = match (field.name, self.status) {
            (PUSHBACK, Status { grpc, .. }) => grpc.is_some(),
            (name, Status { http, .. }) if rank(name) > 0 => http == 429,
            (_, Status { http, grpc }) => matches!(http, 429 | 503) || matches!(grpc, Some(8 | 14)),
        };
        if !read_here {
            assert!(matches!(reading.hint, Hint::Ignored(Ignored::Status | Ignored::Absent)), "{self:?}");
            return reading.hint;
        }
        let clock = self.date.map_or(u128::from(self.now_ms), |date| u128::from(date) * 1000);
        let delay = |asked: &Asked| match asked {
            Asked::After(delay) => *delay,
            Asked::At(at) => (u128::from(*at) * 1000).saturating_sub(clock) as u64,
            Asked::Never => u64::MAX,
        };
        let least = field.asked.iter().map(delay).max();
        match (reading.hint, least) {
            (Hint::Never(_), _) => assert!(field.asked.contains(&Asked::Never) || !field.pure, "{self:?}"),
            (Hint::Delay(delay), Some(least)) if field.pure => assert_eq!(delay, least, "{field:?} {self:?}"),
            (Hint::Delay(delay), least) => assert!(delay >= least.unwrap_or(0), "{field:?} {self:?}"),
            (Hint::Ignored(_), least) => assert_eq!(least, None, "{field:?} {self:?}"),
        }
        assert!(!field.pure || reading.malformed.is_empty(), "{field:?} {self:?}");
        reading.hint
    }
}

impl Field {
    fn make(random: &mut Random, now_ms: u64) -> Self {
        let name = if random.one_in(2) { "retry-after" } else { random.pick(&NAMES) };
        let mut field = Self { name, value: Vec::new(), asked: Vec::new(), pure: true };
        // A pushback is no list, and a stray quote in a rate limit takes its neighbours with it.
        let noise_alone = matches!(name, PUSHBACK | "ratelimit");
        if noise_alone && random.one_in(3) {
            field.value = noise(random, name, now_ms);
            field.pure = false;
            return field;
        }
        let members = if name == PUSHBACK { 1 } else { 1 + random.below(3) };
        for n in 0..members {
            if n > 0 {
                field.value.extend(random.pick(&[&b","[..], b", ", b" ,\t ", b",,"]));
            }
            if !noise_alone && random.one_in(3) {
                field.value.extend(noise(random, name, now_ms));
                field.pure = false;
            } else {
                let (text, asked) = valid(random, name, now_ms);
                field.value.extend(text.as_bytes());
                field.asked.push(asked);
            }
        }
        if random.one_in(8) {
            field.value.splice(0..0, *b" \t");
            field.value.push(b' ');
        }
        field
    }
}
