//! Header values made by their grammar, with what they ask for; and noise.

use std::time::{Duration, UNIX_EPOCH};

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64, number: u64) -> Self {
        let mut random = Self(seed);
        random.0 = random.next() ^ number;
        random
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// Of any magnitude, and small for the most part.
    pub fn number(&mut self) -> u64 {
        let least = if self.one_in(4) { 0 } else { 36 };
        let shift = least + self.below(64 - least);
        self.next() >> shift
    }

    pub fn digits(&mut self, most: u64) -> String {
        let length = 1 + self.below(most);
        (0..length).map(|_| char::from(b'0' + self.below(10) as u8)).collect()
    }
}

/// What a value that was made on purpose asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    After(u64),
    /// Seconds since the epoch.
    At(u64),
    Never,
}

/// Bytes that may mean anything.
pub fn noise(random: &mut Random, name: &str, now_ms: u64) -> Vec<u8> {
    const PIECES: [&str; 24] = [
        "",
        " ",
        ",",
        ", ",
        ";",
        "\"",
        "\\",
        "-",
        "+",
        ".",
        "Sun",
        "Sun, ",
        "Sunday, ",
        "29 Nov 2026 12:02:00 GMT",
        "GMT",
        "-Nov-",
        "s",
        "ms",
        "\u{b5}s",
        "1e3",
        "r=0;t=",
        "\u{663}",
        "0x",
        "23:59:60",
    ];
    let mut bytes = match random.below(3) {
        0 => (0..random.below(40)).map(|_| random.next() as u8).collect(),
        1 => (0..random.below(6)).flat_map(|_| random.pick(&PIECES).bytes()).collect(),
        _ => valid(random, name, now_ms).0.into_bytes(),
    };
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len() as u64 + 1) as usize;
        match random.below(4) {
            0 => bytes.insert(at, random.next() as u8),
            1 => bytes.insert(at, random.pick(b"0123456789 .,;:-+\"GMTsmh")),
            2 => bytes.truncate(at),
            _ => drop(bytes.drain(at..(at + 1).min(bytes.len()))),
        }
    }
    bytes
}

/// A valid value of a header, and what it asks for, found in another way than the reader's.
pub fn valid(random: &mut Random, name: &str, now_ms: u64) -> (String, Asked) {
    match name {
        "retry-after" if random.one_in(3) => date(random, now_ms),
        "retry-after" | "ratelimit-reset" | "x-ratelimit-reset" => match random.below(6) {
            0 => decimal(random, 1000),
            1 => go_duration(random),
            2 => ("9".repeat(21 + random.below(60) as usize), Asked::After(u64::MAX)),
            _ => seconds(random, now_ms),
        },
        "ratelimit" => {
            let number = random.number();
            let item = random.pick(&["\"default\"", "a", "\"q,;\\\"r=1\"", "1"]);
            let text = random.pick(&["I;r=0;t=N", "I; t=N; r=0", "I;w=9;r=00;t=1;t=N;pk=:ab==:"]);
            (text.replace('I', item).replace('N', &number.to_string()), Asked::After(number.saturating_mul(1000)))
        }
        "grpc-retry-pushback-ms" => match random.number() as i32 {
            millis if random.one_in(4) => {
                ((-i64::from(millis).abs() - 1).max(-2_147_483_648).to_string(), Asked::Never)
            }
            millis => (millis.max(0).to_string(), Asked::After(millis.max(0) as u64)),
        },
        _ if random.one_in(2) => decimal(random, 1),
        _ => {
            let number = random.number();
            (number.to_string(), Asked::After(number))
        }
    }
}

fn seconds(random: &mut Random, now_ms: u64) -> (String, Asked) {
    let number = match random.below(4) {
        0 => random.pick(&[999_999_999, 1_000_000_000, 99_999_999_999, 100_000_000_000, u64::MAX]),
        1 => now_ms.saturating_add(random.below(100_000)),
        2 => (now_ms / 1000).saturating_add(random.below(100)),
        _ => random.number(),
    };
    let millis = u128::from(number) * if number < 100_000_000_000 { 1000 } else { 1 };
    let past = if number < 1_000_000_000 { 0 } else { u128::from(now_ms) };
    let zeros = "0".repeat(random.below(3) as usize);
    (format!("{zeros}{number}"), Asked::After(u64::try_from(millis.saturating_sub(past)).unwrap_or(u64::MAX)))
}

/// In units of so many milliseconds, 1 or 1000.
fn decimal(random: &mut Random, unit: u128) -> (String, Asked) {
    let (whole, fraction) = (random.number() >> 8, random.digits(40));
    let places = if unit == 1 { 0 } else { 3 };
    let padded = format!("{fraction:0<3}");
    let (near, far) = padded.split_at(places);
    let near: u128 = if near.is_empty() { 0 } else { near.parse().unwrap() };
    let millis = u128::from(whole) * unit + near + u128::from(far.bytes().any(|digit| digit != b'0'));
    (format!("{whole}.{fraction}"), Asked::After(u64::try_from(millis).unwrap_or(u64::MAX)))
}

fn go_duration(random: &mut Random) -> (String, Asked) {
    let units: [(&str, u128); 8] = [
        ("ns", 1),
        ("us", 1_000),
        ("\u{b5}s", 1_000),
        ("\u{3bc}s", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    let (mut text, mut nanos) = (String::new(), 0_u128);
    for _ in 0..1 + random.below(3) {
        let (unit, length) = random.pick(&units);
        let number = random.number();
        nanos += u128::from(number) * length;
        text += &number.to_string();
        if length >= 1_000 && random.one_in(3) {
            let thousandths = random.below(1000);
            nanos += u128::from(thousandths) * length / 1000;
            text += &format!(".{thousandths:03}000");
        }
        text += unit;
    }
    (text, Asked::After(u64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(u64::MAX)))
}

/// Near the clock for the most part, else anywhere in the calendar; in seconds since the epoch.
pub fn moment(random: &mut Random, now_ms: u64) -> u64 {
    const LAST: u64 = 253_402_300_799;
    let now = (now_ms / 1000).min(LAST);
    let moment = if random.one_in(4) { random.below(LAST) } else { now.saturating_sub(1000) + random.below(5000) };
    moment.min(LAST)
}

fn date(random: &mut Random, now_ms: u64) -> (String, Asked) {
    let at = moment(random, now_ms);
    let imf = imf_fixdate(at);
    let (weekday, day, month, year, time) = (&imf[..3], &imf[5..7], &imf[8..11], &imf[12..16], &imf[17..25]);
    let text = match random.below(3) {
        0 => format!("{weekday} {month} {:>2} {time} {year}", day.trim_start_matches('0')),
        1 if (now_ms / 1000).abs_diff(at) < 49 * 31_556_952 => {
            let names = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
            let name = names.into_iter().find(|name| name.starts_with(weekday)).unwrap();
            format!("{name}, {day}-{month}-{} {time} GMT", &year[2..])
        }
        _ => imf.clone(),
    };
    (text, Asked::At(at))
}

pub fn imf_fixdate(seconds: u64) -> String {
    httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(seconds))
}
