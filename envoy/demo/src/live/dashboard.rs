//! The dashboard's panels, as far as Prometheus is concerned: their queries.

use anyhow::{Context, Result};
use lab::place;
use serde_json::Value;

/// One query of the dashboard.
#[derive(Clone, Debug)]
pub struct Query {
    /// Of the panel.
    pub title: String,
    /// How its series are named: text with `{{label}}` in it.
    pub legend: String,
    /// As it is in the file.
    pub template: String,
}

impl Query {
    /// As Prometheus gets it: Grafana puts in how far a rate reaches, at least four scrapes.
    pub fn over(&self, interval: &str) -> String {
        self.template.replace("$__rate_interval", interval)
    }
}

/// The file.
pub fn file() -> Result<Value> {
    let path = place::root().join("envoy/demo/grafana/dashboards/retry-budget.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| path.display().to_string())
}

/// All queries, in the order of the panels.
pub fn queries() -> Result<Vec<Query>> {
    let file = file()?;
    let mut queries = Vec::new();
    for panel in file["panels"].as_array().context("panels")? {
        let text = |value: &Value, key: &str| {
            value[key].as_str().map(str::to_string).with_context(|| format!("no {key} in {value}"))
        };
        let title = text(panel, "title")?;
        for target in panel["targets"].as_array().into_iter().flatten() {
            let (legend, template) = (text(target, "legendFormat")?, text(target, "expr")?);
            queries.push(Query { title: title.clone(), legend, template });
        }
    }
    Ok(queries)
}

/// The metrics that a query names: words that are neither functions, keywords, labels nor in quotes or brackets.
pub fn metrics(query: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut closes: Option<char> = None;
    for c in query.chars() {
        match closes {
            Some(end) if c == end => closes = None,
            Some(_) => {}
            None => match c {
                '{' => closes = Some('}'),
                '[' => closes = Some(']'),
                '"' => closes = Some('"'),
                _ => plain.push(c),
            },
        }
    }
    let mut metrics: Vec<String> = plain
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'))
        // All metrics here have an underscore; no label that queries group by, function or keyword has.
        .filter(|word| word.contains('_') && !["clamp_min", "clamp_max", "envoy_cluster_name"].contains(word))
        .map(str::to_string)
        .collect();
    metrics.sort();
    metrics.dedup();
    metrics
}
