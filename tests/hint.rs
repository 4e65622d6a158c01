//! `retry-budget hint`, and the sample of responses, read by the command and by the library alike.

use retry_budget::policy::outcome::{Retriable, Status};
use retry_budget::policy::retry_after::{self, Hint};
use serde_json::{Value, json};
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Output};

/// Longer than any cap: a hundred years, in milliseconds.
const OVER: u64 = 3_155_760_000_000;

fn run(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_retry-budget")).arg("hint").args(arguments).output().unwrap()
}

/// The one line that it prints.
fn printed(arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    String::from_utf8(output.stdout).unwrap().strip_suffix('\n').unwrap().to_string()
}

#[test]
fn prints_the_delay_or_why_there_is_none() {
    let at = ["--status", "503", "--now", "1795953600"];
    let with = |field| printed(at.into_iter().chain([field]));
    assert_eq!(with("retry-after: 120"), r#"{"delay_ms":120000}"#);
    assert_eq!(with("Retry-After:\t120 "), r#"{"delay_ms":120000}"#);
    assert_eq!(with("RETRY-AFTER:Sun, 29 Nov 2026 12:02:00 GMT"), r#"{"delay_ms":120000}"#);
    assert_eq!(with("retry-after: 99999999999999999999999999"), r#"{"delay_ms":18446744073709551615}"#);
    assert_eq!(with("retry-after: soon"), r#"{"ignored":"malformed retry-after"}"#);
    assert_eq!(with("server: x"), r#"{"ignored":"no hint that is read at this status"}"#);
    let never = r#"{"never":"grpc-retry-pushback-ms is negative"}"#;
    assert_eq!(printed(["--grpc-status", "14", "grpc-retry-pushback-ms: -1"]), never);
    assert_eq!(printed(["grpc-retry-pushback-ms: -1", "--grpc-status=14", "--status=200"]), never);
    assert!(printed(["--status", "302", "retry-after: 3"]).starts_with(r#"{"ignored":"hints are read on "#));
}

#[test]
fn the_clock_is_the_systems_unless_told() {
    let ignored_date = ["--status", "503", "retry-after: Sun, 29 Nov 1998 12:00:00 GMT"];
    assert_eq!(printed(ignored_date), r#"{"delay_ms":0}"#);
    assert_eq!(printed(ignored_date.into_iter().chain(["--now", "912340800"])), r#"{"delay_ms":0}"#);
    assert_eq!(printed(ignored_date.into_iter().chain(["--now", "912340790"])), r#"{"delay_ms":10000}"#);
}

#[test]
fn header_values_are_bytes() {
    let field = OsStr::from_bytes(b"retry-after: \xff");
    assert_eq!(printed([OsStr::new("--status=503"), field]), r#"{"ignored":"malformed retry-after"}"#);
    let field = OsStr::from_bytes(b"x-\xff: 5");
    assert_eq!(run([OsStr::new("--status=503"), field]).status.code(), Some(2));
}

#[test]
fn a_call_that_is_not_understood_shows_the_usage() {
    let calls: [&[&str]; 13] = [
        &[],
        &["retry-after: 5"],
        &["--status"],
        &["--status", "5xx"],
        &["--status", "99"],
        &["--status="],
        &["--status", "+503"],
        &["--grpc-status", "256"],
        &["--status", "503", "--now", "-1"],
        &["--status", "503", "--max", "5"],
        &["--status", "503", "retry-after"],
        &["--status", "503", ": 5"],
        &["--status", "503", "retry after: 5"],
    ];
    for call in calls {
        let output = run(call);
        assert_eq!(output.status.code(), Some(2), "{call:?}");
        assert!(output.stdout.is_empty(), "{call:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("\nUsage:\n"), "{call:?}");
    }
}

/// A response of the sample, and what is to be read from it: milliseconds, `ignore`, `never` or `over`.
struct Row {
    line: String,
    status: Status,
    fields: Vec<(String, String)>,
    expected: String,
}

struct Sample {
    /// Seconds since the epoch.
    now: u64,
    rows: Vec<Row>,
}

/// The file is kept beside the project, not in it.
fn sample() -> Option<Sample> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/retry-after.tsv");
    let Ok(text) = std::fs::read_to_string(&path) else {
        // Written past the capture of the test's output: it is to be seen.
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: {} is not there, so nothing was tested\n", path.display());
        return None;
    };
    let now = text.strip_prefix("# now = ").and_then(|rest| rest.split(' ').next()?.parse().ok());
    let rows: Vec<Row> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(row).collect();
    assert!(!rows.is_empty());
    Some(Sample { now: now.expect("the first line tells the time"), rows })
}

fn row(line: &str) -> Row {
    let [status, fields, expected] = line.split('\t').collect::<Vec<_>>().try_into().expect(line);
    let fields: Value = serde_json::from_str(fields).expect(line);
    let text = |value: &Value| value.as_str().expect(line).to_string();
    let status = match status.strip_prefix("grpc-") {
        Some(code) => Status { http: 200, grpc: code.parse().ok() },
        None => Status { http: status.parse().expect(line), grpc: None },
    };
    let field = |field: &Value| (text(&field[0]), text(&field[1]));
    Row {
        line: line.to_string(),
        status,
        fields: fields.as_array().expect(line).iter().map(field).collect(),
        expected: expected.to_string(),
    }
}

#[test]
fn every_row_of_the_sample_is_read_as_given() {
    let Some(sample) = sample() else { return };
    for row in &sample.rows {
        let fields = row.fields.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        let reading = retry_after::read(row.status, &Retriable::default(), sample.now * 1000, fields);
        match (reading.hint, row.expected.as_str()) {
            (Hint::Ignored(_), "ignore") | (Hint::Never(_), "never") => {}
            (Hint::Delay(delay), "over") if delay > OVER => {}
            (Hint::Delay(delay), expected) if delay.to_string() == expected => {}
            (hint, _) => panic!("{}: {hint:?}", row.line),
        }
    }
}

#[test]
fn every_row_of_the_sample_is_printed_as_given() {
    let Some(sample) = sample() else { return };
    for row in &sample.rows {
        let mut arguments: Vec<OsString> = vec!["--now".into(), sample.now.to_string().into()];
        match row.status.grpc {
            Some(code) => arguments.extend(["--grpc-status".into(), code.to_string().into()]),
            None => arguments.extend(["--status".into(), row.status.http.to_string().into()]),
        }
        arguments.extend(row.fields.iter().map(|(name, value)| format!("{name}: {value}").into()));
        let shown: Value = serde_json::from_str(&printed(&arguments)).unwrap();
        let only = |key: &str| shown.as_object().is_some_and(|entries| entries.len() == 1 && entries.contains_key(key));
        match row.expected.as_str() {
            "ignore" => assert!(only("ignored") && shown["ignored"].is_string(), "{}: {shown}", row.line),
            "never" => assert!(only("never") && shown["never"].is_string(), "{}: {shown}", row.line),
            "over" => assert!(shown["delay_ms"].as_u64().is_some_and(|delay| delay > OVER), "{}: {shown}", row.line),
            delay => assert_eq!(shown, json!({ "delay_ms": delay.parse::<u64>().unwrap() }), "{}", row.line),
        }
    }
}
