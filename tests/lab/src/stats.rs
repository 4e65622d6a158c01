//! Envoy's statistics, read from its Prometheus page.

use std::collections::BTreeMap;

/// One look at `/stats/prometheus`.
pub struct Stats {
    samples: Vec<Sample>,
}

struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Stats {
    pub(crate) fn parse(page: &str) -> Stats {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        Stats { samples: lines.filter_map(sample).collect() }
    }

    /// The sum over all series of this name that carry at least these labels; 0 where there is none.
    pub fn counter(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.matching(name, labels).map(|s| s.value as u64).sum()
    }

    /// The gauge (or histogram part) with at least these labels. Several of them add up.
    pub fn gauge(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        self.matching(name, labels).map(|s| s.value).reduce(|a, b| a + b)
    }

    /// Every series of this name: its labels and its value.
    pub fn series<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a BTreeMap<String, String>, f64)> + 'a {
        self.matching(name, &[]).map(|s| (&s.labels, s.value))
    }

    /// All names there are, for a look at what came out.
    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.samples.iter().map(|s| s.name.as_str()).collect();
        names.dedup();
        names
    }

    fn matching<'a>(&'a self, name: &'a str, labels: &'a [(&'a str, &'a str)]) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |s| {
            s.name == name && labels.iter().all(|(k, v)| s.labels.get(*k).is_some_and(|found| found == v))
        })
    }
}

/// `name{label="value",…} 1`
fn sample(line: &str) -> Option<Sample> {
    let (series, value) = line.rsplit_once(' ')?;
    let (name, labels) = match series.split_once('{') {
        Some((name, rest)) => (name, read_labels(rest.strip_suffix('}')?)?),
        None => (series, BTreeMap::new()),
    };
    Some(Sample { name: name.to_string(), labels, value: value.parse().ok()? })
}

fn read_labels(mut text: &str) -> Option<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = rest.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.insert(name.to_string(), value);
        let rest = &rest[end + 1..];
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_read_with_their_labels_and_added_up() {
        let stats = Stats::parse(
            "# TYPE stops counter\nstops{upstream=\"a|b\",reason=\"budget\"} 3\nstops{upstream=\"a|b\",reason=\"hold\"} 4\n\
             plain{} 7\nbare 8\nodd{k=\"a \\\"quoted\\\", one\"} 1\n",
        );
        assert_eq!(stats.counter("stops", &[]), 7);
        assert_eq!(stats.counter("stops", &[("upstream", "a|b"), ("reason", "hold")]), 4);
        assert_eq!(stats.counter("stops", &[("reason", "none")]), 0);
        assert_eq!(stats.gauge("plain", &[]), Some(7.0));
        assert_eq!(stats.gauge("bare", &[]), Some(8.0));
        assert_eq!(stats.gauge("absent", &[]), None);
        assert_eq!(stats.counter("odd", &[("k", "a \"quoted\", one")]), 1);
    }
}
