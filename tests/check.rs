//! The native command: what it prints and how it exits; and its schema against its own judgement.

use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_retry-budget"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Commands that do not read may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn check(configuration: &str) -> Output {
    run(&["check", "-"], configuration.as_bytes())
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// A file of its own for each test, gone with it.
struct TestFile(PathBuf);

impl TestFile {
    fn new(name: &str, content: &[u8]) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const GOOD: &[&str] = &[
    "{}",
    r#"{"mode":"observe","placement":"auto","log":"off","stop_signal":{"emit":"none"}}"#,
    r#"{"budget":{"ratio":0.3,"max_tokens":1e6,"initial_tokens":0,"min_retries_per_second":0.001,"deposit_on":"success"}}"#,
    r#"{"budget":{"ratio":10}}"#,
    r#"{"budget":{}}"#,
    r#"{"retriable":{"statuses":["5xx","4XX",100,599,503.0],"grpc_statuses":[1,16]}}"#,
    r#"{"retriable":{"statuses":[],"grpc_statuses":[]}}"#,
    r#"{"retry_after":{"max":"1.5s","wait":true,"hold":"requests","hold_statuses":["4xx",503]}}"#,
    r#"{"retry_after":{"max":"1m30s250ms","hold":"off","hold_statuses":[]}}"#,
    r#"{"retry_after":{"max":"0ms"}}"#,
    r#"{"retry_after":{"max":"24h"}}"#,
    r#"{"idempotency":{"methods":["GET","M-SEARCH"],"key_headers":["Idempotency-Key","x-token"],"grpc":false}}"#,
    r#"{"idempotency":{"methods":[],"key_headers":[],"reset":"unsent"}}"#,
    r#"{"retriable":{"headers":["x-shed","X-Other"]},"retry_after":{"obey":false}}"#,
    r#"{"deadline":{"max":"30s","default":"30s"},"upstreams":{"a":{"deadline":{"default":null,"max":"1s"}}}}"#,
    r#"{"breaker":null}"#,
    r#"{"breaker":{}}"#,
    r#"{"breaker":{"consecutive_failures":1000000,"open_for":"1ms","half_open_probes":1000}}"#,
    r#"{"breaker":{"failure_ratio":0.001,"window":"1s","min_requests":1,"slow_call":"2s"}}"#,
    r#"{"breaker":{"consecutive_failures":null,"failure_ratio":1,"slow_call":null}}"#,
    r#"{"breaker":{"failure_ratio":null}}"#,
    r#"{"breaker":{"window":"1h"},"upstreams":{"a":{"breaker":null},"b":{"breaker":{"consecutive_failures":3}}}}"#,
    r#"{"owner":{"name":"edge/eu-1","defer":true},"stop_signal":{"honor":false}}"#,
    r#"{"owner":{"name":null},"upstreams":{"a":{"owner":{"name":"mesh"}}}}"#,
    r#"{"upstreams":{}}"#,
    r#"{"upstreams":{"orders":{"budget":{"ratio":0.2}},"outbound|*||*.svc":{"mode":"off","log":"all"}}}"#,
];

/// Refused, at this path.
const BAD: &[(&str, &str)] = &[
    ("[]", "$"),
    ("null", "$"),
    ("1", "$"),
    (r#"{"ration":0.1}"#, "ration"),
    (r#"{"budget":{"ration":0.1}}"#, "budget.ration"),
    (r#"{"budget":{"ratio":"x"}}"#, "budget.ratio"),
    (r#"{"budget":{"ratio":"0.1"}}"#, "budget.ratio"),
    (r#"{"budget":{"ratio":-1}}"#, "budget.ratio"),
    (r#"{"budget":{"ratio":10.1}}"#, "budget.ratio"),
    (r#"{"budget":{"ratio":null}}"#, "budget.ratio"),
    (r#"{"budget":{"max_tokens":1000001}}"#, "budget.max_tokens"),
    (r#"{"budget":{"min_retries_per_second":true}}"#, "budget.min_retries_per_second"),
    (r#"{"budget":{"deposit_on":"never"}}"#, "budget.deposit_on"),
    (r#"{"budget":[]}"#, "budget"),
    (r#"{"mode":"Observe"}"#, "mode"),
    (r#"{"mode":["off"]}"#, "mode"),
    (r#"{"placement":null}"#, "placement"),
    (r#"{"log":"none"}"#, "log"),
    (r#"{"stop_signal":{"emit":false}}"#, "stop_signal.emit"),
    (r#"{"retriable":{"statuses":[503,99]}}"#, "retriable.statuses[1]"),
    (r#"{"retriable":{"statuses":[503.5]}}"#, "retriable.statuses[0]"),
    (r#"{"retriable":{"statuses":["6xx"]}}"#, "retriable.statuses[0]"),
    (r#"{"retriable":{"statuses":["503"]}}"#, "retriable.statuses[0]"),
    (r#"{"retriable":{"statuses":"5xx"}}"#, "retriable.statuses"),
    (r#"{"retriable":{"grpc_statuses":[0]}}"#, "retriable.grpc_statuses[0]"),
    (r#"{"retriable":{"grpc_statuses":[17]}}"#, "retriable.grpc_statuses[0]"),
    (r#"{"retry_after":{"max":60}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":"60"}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":"-1s"}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":"1us"}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":" 1s"}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":".5s"}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":""}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":null}}"#, "retry_after.max"),
    (r#"{"retriable":{"headers":["a b"]}}"#, "retriable.headers[0]"),
    (r#"{"retry_after":{"obey":null}}"#, "retry_after.obey"),
    (r#"{"idempotency":{"reset":"sent"}}"#, "idempotency.reset"),
    (r#"{"retry_after":{"wait":1}}"#, "retry_after.wait"),
    (r#"{"retry_after":{"wait":"true"}}"#, "retry_after.wait"),
    (r#"{"retry_after":{"hold":true}}"#, "retry_after.hold"),
    (r#"{"retry_after":{"hold_statuses":[600]}}"#, "retry_after.hold_statuses[0]"),
    (r#"{"retry_after":true}"#, "retry_after"),
    (r#"{"idempotency":{"methods":["get"]}}"#, "idempotency.methods[0]"),
    (r#"{"idempotency":{"methods":["GET","GET"]}}"#, "idempotency.methods[1]"),
    (r#"{"idempotency":{"methods":[""]}}"#, "idempotency.methods[0]"),
    (r#"{"idempotency":{"methods":"GET"}}"#, "idempotency.methods"),
    (r#"{"idempotency":{"key_headers":["a b"]}}"#, "idempotency.key_headers[0]"),
    (r#"{"idempotency":{"key_headers":null}}"#, "idempotency.key_headers"),
    (r#"{"idempotency":{"grpc":null}}"#, "idempotency.grpc"),
    (r#"{"breaker":true}"#, "breaker"),
    (r#"{"breaker":[]}"#, "breaker"),
    (r#"{"breaker":{"consecutive_failures":0}}"#, "breaker.consecutive_failures"),
    (r#"{"breaker":{"consecutive_failures":1.5}}"#, "breaker.consecutive_failures"),
    (r#"{"breaker":{"failure_ratio":0}}"#, "breaker.failure_ratio"),
    (r#"{"breaker":{"failure_ratio":1.001}}"#, "breaker.failure_ratio"),
    (r#"{"breaker":{"failure_ratio":"50%"}}"#, "breaker.failure_ratio"),
    (r#"{"breaker":{"window":10}}"#, "breaker.window"),
    (r#"{"breaker":{"window":null}}"#, "breaker.window"),
    (r#"{"breaker":{"min_requests":1000001}}"#, "breaker.min_requests"),
    (r#"{"breaker":{"slow_call":2}}"#, "breaker.slow_call"),
    (r#"{"breaker":{"open_for":""}}"#, "breaker.open_for"),
    (r#"{"breaker":{"half_open_probes":1001}}"#, "breaker.half_open_probes"),
    (r#"{"breaker":{"half_open_probes":null}}"#, "breaker.half_open_probes"),
    (r#"{"breaker":{"enabled":true}}"#, "breaker.enabled"),
    (r#"{"owner":{"name":""}}"#, "owner.name"),
    (r#"{"owner":{"name":"two words"}}"#, "owner.name"),
    (r#"{"owner":{"defer":"yes"}}"#, "owner.defer"),
    (r#"{"owner":null}"#, "owner"),
    (r#"{"stop_signal":{"honor":null}}"#, "stop_signal.honor"),
    (r#"{"upstreams":{"a":{"breaker":{"failure_ratio":2}}}}"#, "upstreams.a.breaker.failure_ratio"),
    (r#"{"upstreams":[]}"#, "upstreams"),
    (r#"{"upstreams":{"":{}}}"#, "upstreams[\"\"]"),
    (r#"{"upstreams":{"a":1}}"#, "upstreams.a"),
    (r#"{"upstreams":{"a":{"placement":"auto"}}}"#, "upstreams.a.placement"),
    (r#"{"upstreams":{"a.b":{"upstreams":{}}}}"#, "upstreams[\"a.b\"].upstreams"),
    (r#"{"upstreams":{"a":{"budget":{"ratio":11}}}}"#, "upstreams.a.budget.ratio"),
];

/// Refused, though a schema cannot say why: broken, repeated, too fine, in conflict with another key.
const BEYOND_THE_SCHEMA: &[(&str, &str)] = &[
    ("{", "$"),
    ("{} {}", "$"),
    (r#"{"budget":{"ratio":NaN}}"#, "$"),
    (r#"{"mode":"off","mode":"off"}"#, "mode"),
    (r#"{"budget":{"ratio":0.0005}}"#, "budget.ratio"),
    (r#"{"retry_after":{"max":"0.5ms"}}"#, "retry_after.max"),
    (r#"{"retry_after":{"max":"25h"}}"#, "retry_after.max"),
    (r#"{"idempotency":{"key_headers":["a","A"]}}"#, "idempotency.key_headers[1]"),
    (r#"{"breaker":{"window":"999ms"}}"#, "breaker.window"),
    (r#"{"breaker":{"open_for":"0s"}}"#, "breaker.open_for"),
    (r#"{"breaker":{"failure_ratio":0.0015}}"#, "breaker.failure_ratio"),
    (r#"{"breaker":{"consecutive_failures":null}}"#, "breaker"),
    (r#"{"deadline":{"default":"16s"}}"#, "deadline.default"),
    (r#"{"budget":{"initial_tokens":11}}"#, "budget.initial_tokens"),
    (
        r#"{"budget":{"initial_tokens":5},"upstreams":{"a":{"budget":{"max_tokens":4}}}}"#,
        "upstreams.a.budget.max_tokens",
    ),
];

#[test]
fn a_good_file_gives_the_effective_policy() {
    let file = TestFile::new("good.json", br#"{"budget":{"ratio":0.25},"upstreams":{"orders":{"log":"all"}}}"#);
    let output = run(&["check", file.path()], b"");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
    let effective: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(effective["budget"]["ratio"], 0.25);
    assert_eq!(effective["budget"]["initial_tokens"], 10);
    assert_eq!(effective["upstreams"]["orders"]["budget"]["ratio"], 0.25);
    assert_eq!(effective["upstreams"]["orders"]["log"], "all");
    assert!(stdout(&output).starts_with("{\n  \"mode\": \"enforce\",\n  \"placement\": \"auto\",\n  \"budget\": {\n"));
    assert!(stdout(&output).ends_with("}\n"));
    assert_eq!(stdout(&check(stdout(&output))), stdout(&output), "it is a configuration itself");
    assert_eq!(check("").stdout, check("{}").stdout);
}

#[test]
fn a_bad_file_gives_every_error() {
    let output = check(r#"{"budget":{"ration":0.1,"max_tokens":-1}}"#);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stdout(&output), "");
    let errors: Vec<&str> = stderr(&output).lines().collect();
    assert_eq!(errors.len(), 2);
    assert!(errors[0].starts_with("budget.ration: found the unknown key \"ration\" with 0.1, allowed is `ratio`, "));
    assert!(errors[0].ends_with("; did you mean `ratio`?"));
    assert_eq!(errors[1], "budget.max_tokens: found -1, allowed is a number from 0 to 1000000 in steps of 0.001");
    let output = run(&["check", "-"], b"{\"mode\":\"\xff\"}");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("not UTF-8"));
}

#[test]
fn an_unreadable_file_is_named() {
    for path in ["/nonexistent/config.json", "/"] {
        let output = run(&["check", path], b"");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).starts_with(&format!("{path} cannot be read: ")), "{}", stderr(&output));
    }
}

#[test]
fn a_call_that_is_not_understood_shows_the_usage() {
    let calls: [&[&str]; 7] = [
        &[],
        &["check"],
        &["check", "a", "b"],
        &["check", "--strict"],
        &["schema", "x"],
        &["chek", "a"],
        &["--verbose"],
    ];
    for call in calls {
        let output = run(call, b"");
        assert_eq!(output.status.code(), Some(2), "{call:?}");
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains("\nUsage:\n"), "{call:?}");
    }
    let help = run(&["--help"], b"");
    assert!(help.status.success() && stdout(&help).contains("\nUsage:\n"));
    let version = run(&["--version"], b"");
    assert_eq!(stdout(&version), concat!("retry-budget ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn schema_and_command_agree() {
    let output = run(&["schema"], b"");
    assert!(output.status.success());
    let schema: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    for text in GOOD {
        let output = check(text);
        assert_eq!(output.status.code(), Some(0), "{text}: {}", stderr(&output));
        assert!(schema.is_valid(&serde_json::from_str(text).unwrap()), "{text}");
        assert!(schema.is_valid(&serde_json::from_slice(&output.stdout).unwrap()), "{}", stdout(&output));
    }
    for (text, path) in BAD.iter().chain(BEYOND_THE_SCHEMA) {
        let output = check(text);
        assert_eq!(output.status.code(), Some(1), "{text}");
        let errors = stderr(&output);
        assert!(errors.starts_with(&format!("{path}: ")) && errors.lines().count() == 1, "{text}: {errors}");
    }
    for (text, _) in BAD {
        assert!(!schema.is_valid(&serde_json::from_str(text).unwrap()), "{text}");
    }
}
