//! The rules, one test each or more. 2026-11-29 is a Sunday.

mod dates;
mod headers;
mod values;

use super::*;

/// Sun, 29 Nov 2026 12:00:00 GMT
const NOW_MS: u64 = 1_795_953_600_000;
/// Longer than any cap: a hundred years.
const OVER: u64 = 3_155_760_000_000;

const PUSHBACK: &str = "grpc-retry-pushback-ms";

const HTTP_503: Status = Status { http: 503, grpc: None };
const HTTP_429: Status = Status { http: 429, grpc: None };

fn grpc(code: u8) -> Status {
    Status { http: 200, grpc: Some(code) }
}

fn reading(status: Status, fields: &[(&str, &str)]) -> Reading {
    let fields = fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    read(status, &Retriable::default(), NOW_MS, fields)
}

fn hint(status: Status, fields: &[(&str, &str)]) -> Hint {
    reading(status, fields).hint
}

fn malformed(status: Status, fields: &[(&str, &str)]) -> Vec<&'static str> {
    reading(status, fields).malformed.iter().map(HintHeader::name).collect()
}

/// Of a 503 with this Retry-After; `None` when it is malformed.
fn retry_after(value: impl AsRef<[u8]>) -> Option<u64> {
    one(HTTP_503, "retry-after", value.as_ref())
}

fn one(status: Status, name: &str, value: &[u8]) -> Option<u64> {
    let reading = read(status, &Retriable::default(), NOW_MS, [(name.as_bytes(), value)]);
    match reading.hint {
        Hint::Delay(delay) => {
            assert!(reading.malformed.is_empty(), "{reading:?}");
            Some(delay)
        }
        Hint::Ignored(Ignored::Malformed) => {
            assert_eq!(reading.malformed.iter().map(HintHeader::name).collect::<Vec<_>>(), [name]);
            None
        }
        other => panic!("{name} {}: {other:?}", value.escape_ascii()),
    }
}

#[test]
fn other_statuses_are_not_asked() {
    for http in [0, 200, 301, 302, 404, 408, 425, 500, 502, 504] {
        let fields = [("retry-after", "3"), ("retry-after", "soon"), ("ratelimit-reset", "3"), (PUSHBACK, "-1")];
        let expected = Reading { hint: Hint::Ignored(Ignored::Status), malformed: HintHeaders::EMPTY };
        assert_eq!(reading(Status { http, grpc: None }, &fields), expected, "{http}");
    }
    assert_eq!(hint(HTTP_429, &[("retry-after", "3")]), Hint::Delay(3_000));
    assert_eq!(hint(HTTP_503, &[("server", "x"), (":status", "503")]), Hint::Ignored(Ignored::Absent));
    assert_eq!(hint(HTTP_503, &[]), Hint::default());
}

#[test]
fn every_header_is_found_by_its_name() {
    for header in HintHeader::ALL {
        assert_eq!(HintHeader::named(header.name().as_bytes()), Some(header));
        let mut set = HintHeaders::EMPTY;
        set.insert(header);
        assert_eq!(set.iter().collect::<Vec<_>>(), [header]);
        assert_eq!(set, HintHeaders::of(&[header]));
    }
    assert_eq!(HintHeader::named(b"Retry-After"), None);
}
