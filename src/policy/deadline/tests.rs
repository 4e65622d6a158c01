use super::*;
use proptest::prelude::*;

const SECOND: u64 = 1_000_000_000;
const NOW: WallTime = WallTime(1_767_268_800 * SECOND);

const OWN: &str = "x-request-deadline-ms";
const GRPC: &str = "grpc-timeout";

fn read(policy: &DeadlinePolicy, fields: &[(&str, &str)]) -> Read {
    policy.read(fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())), Some(NOW))
}

/// Milliseconds left under the default policy.
fn millis(fields: &[(&str, &str)]) -> Option<u64> {
    read(&DeadlinePolicy::default(), fields).remaining.map(TimeLeft::millis)
}

fn absolute() -> DeadlinePolicy {
    let accept = Accept { header: "x-deadline-at".to_owned(), format: Format::EpochMs };
    DeadlinePolicy { accept: vec![accept], ..DeadlinePolicy::default() }
}

#[test]
fn the_smallest_valid_value_counts() {
    assert_eq!(millis(&[(OWN, "800"), (OWN, "300")]), Some(300));
    assert_eq!(millis(&[(OWN, "800, 300")]), Some(300));
    assert_eq!(millis(&[(OWN, "800"), (GRPC, "500m")]), Some(500));
    assert_eq!(millis(&[(OWN, "800"), (GRPC, "2S,1S")]), Some(800));
    assert_eq!(millis(&[(OWN, "abc"), (OWN, "800")]), Some(800));
    assert_eq!(millis(&[(OWN, "800"), (OWN, "-5")]), Some(0));
}

#[test]
fn headers_that_are_not_accepted_say_nothing() {
    assert_eq!(read(&DeadlinePolicy::default(), &[("x-timeout", "5"), (":path", "/")]), Read::default());
}

#[test]
fn a_malformed_value_is_as_if_absent_and_noted_once() {
    let policy = DeadlinePolicy { default: Some(700), ..DeadlinePolicy::default() };
    let got = read(&policy, &[(GRPC, "5"), (OWN, "1e3"), (OWN, "")]);
    assert_eq!(got, Read { remaining: Some(TimeLeft::from_millis(700)), present: vec![1, 0], malformed: vec![1, 0] });
    let got = read(&policy, &[(OWN, "abc"), (OWN, "300")]);
    assert_eq!(got, Read { remaining: Some(TimeLeft::from_millis(300)), present: vec![0], malformed: vec![0] });
}

#[test]
fn the_default_is_for_requests_without_a_valid_one_and_is_cut_too() {
    let policy = DeadlinePolicy { default: Some(5_000), max: 2_000, ..DeadlinePolicy::default() };
    assert_eq!(read(&policy, &[]).remaining, Some(TimeLeft::from_millis(2_000)));
    assert_eq!(read(&policy, &[(OWN, "0")]).remaining, Some(TimeLeft::EXPIRED));
    assert_eq!(read(&policy, &[(OWN, "1999")]).remaining, Some(TimeLeft::from_millis(1_999)));
}

#[test]
fn what_is_longer_than_max_is_cut() {
    assert_eq!(millis(&[(OWN, "15001")]), Some(15_000));
    assert_eq!(millis(&[(OWN, "999999999999999999999999999999")]), Some(15_000));
    assert_eq!(millis(&[(GRPC, "99999999H")]), Some(15_000));
}

#[test]
fn a_sub_millisecond_grpc_timeout_loses_nothing() {
    assert_eq!(read(&DeadlinePolicy::default(), &[(GRPC, "500u")]).remaining, Some(TimeLeft(500_000)));
}

#[test]
fn a_moment_that_only_a_wrong_clock_explains_is_as_if_absent_and_not_noted() {
    let now = NOW.0 / 1_000_000;
    for moment in [now - 3_600_000, now + 3_600_000, 0] {
        let got = read(&absolute(), &[("x-deadline-at", &moment.to_string())]);
        assert_eq!(got, Read { present: vec![0], ..Read::default() }, "{moment}");
    }
    let got = read(&absolute(), &[("x-deadline-at", &(now + 400).to_string())]);
    assert_eq!(got.remaining, Some(TimeLeft::from_millis(400)));
}

#[test]
fn only_a_moment_needs_the_wall_clock() {
    let needs = |policy: &DeadlinePolicy, name: &str| policy.needs_wall_clock([(name.as_bytes(), &b"5"[..])]);
    assert!(needs(&absolute(), "x-deadline-at"));
    assert!(!needs(&absolute(), OWN));
    assert!(!needs(&DeadlinePolicy::default(), OWN));
}

#[test]
fn a_deadline_ends_when_its_time_is_used_up() {
    let deadline = Deadline::after(Instant(5 * SECOND), TimeLeft::from_millis(800));
    assert_eq!(deadline.remaining(Instant(5 * SECOND)).millis(), 800);
    assert_eq!(deadline.remaining(Instant(5_500_000_000)).millis(), 300);
    assert_eq!(deadline.remaining(deadline.at), TimeLeft::EXPIRED);
    assert_eq!(deadline.remaining(Instant(u64::MAX)), TimeLeft::EXPIRED);
}

#[test]
fn a_retry_needs_min_remaining_after_the_longest_wait() {
    let enough = |min_remaining, left: Option<u64>, wait| {
        let policy = DeadlinePolicy { min_remaining, ..DeadlinePolicy::default() };
        policy.leaves_time_for_retry(left.map(TimeLeft::from_millis), wait)
    };
    assert!(!enough(300, Some(200), 0));
    assert!(!enough(300, Some(299), 0));
    assert!(enough(300, Some(300), 0));
    assert!(enough(300, None, 1_000_000));
    // A wait of 2 s may last 3 s.
    assert!(!enough(0, Some(2_500), 2_000));
    assert!(!enough(0, Some(3_000), 2_000));
    assert!(enough(0, Some(3_001), 2_000));
    assert!(!enough(300, Some(3_299), 2_000));
    assert!(enough(300, Some(3_300), 2_000));
    // With nothing left the attempt would only be refused as it starts.
    assert!(!enough(0, Some(0), 0));
    assert!(enough(0, Some(1), 0));
    assert!(!enough(0, Some(u64::MAX), u64::MAX));
}

/// Values as they come, and bytes that nobody expects.
fn any_value() -> impl Strategy<Value = Vec<u8>> {
    let number = (any::<i64>(), 0u32..64).prop_map(|(n, shift)| (n >> shift).to_string().into_bytes());
    let grpc =
        (any::<u64>(), 0u32..64, "[HMSmunx]").prop_map(|(n, shift, u)| format!("{}{u}", n >> shift).into_bytes());
    let moment = (-20_000i64..20_000).prop_map(|by| (1_767_268_800_000 + by).to_string().into_bytes());
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    prop_oneof![number, grpc, moment, bytes]
}

fn any_fields() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    prop::collection::vec((0usize..5, any_value()), 0..6)
}

const HEADERS: [(&str, Format); 4] = [("a", Format::Ms), ("b", Format::S), ("c", Format::Grpc), ("d", Format::EpochMs)];

/// A policy that accepts every format; the fifth header is unknown to it.
fn read_any(default: Option<u64>, max: u64, fields: &[(usize, Vec<u8>)]) -> Read {
    let accept = HEADERS.map(|(header, format)| Accept { header: header.to_owned(), format }).into();
    let policy = DeadlinePolicy { accept, default, max, ..DeadlinePolicy::default() };
    let name = |place: usize| HEADERS.get(place).map_or(&b"other"[..], |(header, _)| header.as_bytes());
    policy.read(fields.iter().map(|(place, value)| (name(*place), value.as_slice())), Some(NOW))
}

proptest! {
    #[test]
    fn nothing_makes_it_more_than_max(fields in any_fields(), default: Option<u64>, max: u64) {
        let got = read_any(default, max, &fields);
        prop_assert!(got.remaining.is_none_or(|left| left <= TimeLeft::from_millis(max)));
        prop_assert!(default.is_none() || got.remaining.is_some());
        prop_assert!(got.malformed.iter().all(|place| got.present.contains(place)));
    }

    /// All the fields together say what the shortest of them says alone.
    #[test]
    fn the_smallest_field_counts_in_any_order(fields in any_fields(), max in 0u64..1_000_000) {
        let together = read_any(None, max, &fields).remaining;
        let alone = fields.iter().filter_map(|field| read_any(None, max, std::slice::from_ref(field)).remaining).min();
        prop_assert_eq!(together, alone);
        let backwards: Vec<_> = fields.into_iter().rev().collect();
        prop_assert_eq!(read_any(None, max, &backwards).remaining, together);
    }

    #[test]
    fn a_longer_value_is_never_read_as_shorter(a: u64, b: u64, place in 0usize..2, max in 0u64..1_000_000) {
        let left = |n: u64| read_any(None, max, &[(place, n.to_string().into_bytes())]).remaining;
        prop_assert!(left(a.min(b)) <= left(a.max(b)));
    }

    /// No moment on the clock gives a request more than it came with, and time only uses it up.
    #[test]
    fn what_is_left_only_falls(arrival: u64, left: u64, later: [u64; 2]) {
        let deadline = Deadline::after(Instant(arrival), TimeLeft(left));
        let [soon, late] = [later[0].min(later[1]), later[0].max(later[1])].map(|by| Instant(arrival.saturating_add(by)));
        prop_assert!(deadline.remaining(Instant(arrival)).0 <= left);
        prop_assert!(deadline.remaining(late) <= deadline.remaining(soon));
        prop_assert!(deadline.remaining(soon).0 <= left.saturating_sub(soon.0 - arrival));
    }

    #[test]
    fn more_time_or_less_to_wait_never_stops_a_retry(left: u64, more: u64, wait: u64, less: u64, min_remaining: u64) {
        let policy = DeadlinePolicy { min_remaining, ..DeadlinePolicy::default() };
        if policy.leaves_time_for_retry(Some(TimeLeft(left)), wait) {
            prop_assert!(policy.leaves_time_for_retry(Some(TimeLeft(left.max(more))), wait.min(less)));
            prop_assert!(policy.leaves_time_for_retry(None, wait));
        }
    }
}
