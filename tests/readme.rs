//! What the README shows is so: its policy, its commands, its tables.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Output, Stdio};

const README: &str = include_str!("../README.md");
const METRICS: &str = include_str!("../src/metrics.rs");
const MAKEFILE: &str = include_str!("../Makefile");

fn command(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_retry-budget"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// The text between two lines that are given by how they begin.
fn section<'a>(from: &str, to: &str) -> &'a str {
    let begin = README.find(from).expect(from);
    let rest = &README[begin + from.len()..];
    &rest[..rest.find(to).expect(to)]
}

/// Every dotted key of the schema that holds a value.
fn keys(schema: &serde_json::Value, prefix: &str, found: &mut BTreeSet<String>) {
    for (name, property) in schema["properties"].as_object().unwrap() {
        let path = format!("{prefix}{name}");
        // The breaker has one row for all its keys.
        if property["properties"].is_object() && path != "breaker" && property["type"] == "object" {
            keys(property, &format!("{path}."), found);
        } else {
            found.insert(path);
        }
    }
}

#[test]
fn the_table_of_keys_is_that_of_the_schema() {
    let schema = command(&["schema"], "");
    let schema: serde_json::Value = serde_json::from_slice(&schema.stdout).unwrap();
    let mut known = BTreeSet::new();
    keys(&schema, "", &mut known);
    let table = section("## Configuration\n", "\n## ");
    let shown: BTreeSet<String> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).map(str::to_owned).collect();
    assert_eq!(shown, known);
}

#[test]
fn the_policy_it_shows_is_accepted() {
    let policy = section("```json\n", "```");
    let checked = command(&["check", "-"], policy);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

#[test]
fn the_hint_it_shows_is_read() {
    assert!(README.contains("retry-budget hint --status 503 'retry-after: 1m30s'"));
    let hint = command(&["hint", "--status", "503", "retry-after: 1m30s"], "");
    assert_eq!(String::from_utf8_lossy(&hint.stdout).trim(), r#"{"delay_ms":90000}"#);
}

#[test]
fn the_decision_line_it_shows_has_the_keys_that_are_logged() {
    let line: serde_json::Value = serde_json::from_str(
        section("## Logs\n", "\n## ").split("```").nth(1).unwrap().strip_prefix("json\n").unwrap(),
    )
    .unwrap();
    let keys: Vec<&String> = line.as_object().unwrap().keys().collect();
    let mut expected =
        ["logical_id", "upstream", "attempt", "owner", "outcome", "decision", "reason", "tokens", "remaining_ms"];
    expected.sort_unstable();
    assert_eq!(keys, expected);
}

#[test]
fn every_metric_is_told_and_none_that_is_not() {
    let named = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.filter(|word| word.starts_with("retry_budget_")).map(str::to_owned).collect()
    };
    assert_eq!(named(section("## Metrics\n", "\n## ")).difference(&named(METRICS)).collect::<Vec<_>>(), [""; 0]);
    let told = named(README);
    assert_eq!(named(METRICS).difference(&told).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_commands_it_shows_exist() {
    for line in README.lines().filter_map(|line| line.strip_prefix("make ")) {
        let target = line.split_whitespace().next().unwrap();
        assert!(MAKEFILE.contains(&format!("\n{target}:")), "make {target}");
    }
    let words = README.split(|c: char| c.is_whitespace() || "`()".contains(c));
    let files = words.filter(|word| word.starts_with("envoy/") || word.starts_with("istio/"));
    for file in files.map(|file| file.trim_end_matches(['.', ',', ':'])) {
        assert!(std::path::Path::new(file).exists(), "{file}");
    }
}

#[test]
fn every_reason_is_explained() {
    use retry_budget::policy::stop::Reason;
    let table = section("| reason | |\n", "\n## ");
    let explained: Vec<&str> = table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    assert_eq!(explained, Reason::ALL.map(Reason::name));
}
