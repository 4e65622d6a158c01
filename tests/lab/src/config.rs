//! A shipped Envoy configuration and the changes that a test makes to it.

use crate::place;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// One of the files in `envoy/`, read as it is, then changed by structure: every method finds what
/// it changes by meaning (all routes, all of the filter's placements, a cluster by name), so that a
/// file may be written as suits its readers. A method panics where the file has no such thing.
///
/// Ports of listeners and admin become ephemeral, the module's path absolute; nothing else changes
/// unasked.
#[derive(Clone, Debug)]
pub struct Config {
    name: String,
    bootstrap: Value,
    concurrency: u32,
    log_level: String,
    wasm: Option<PathBuf>,
}

/// Where the filter stands in a configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Placement {
    /// In a listener's chain, inbound (callee) or not.
    Request,
    /// In a router's or a cluster's upstream chain.
    Attempt,
}

const HTTP_PROTOCOL_OPTIONS: &str = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions";

impl Config {
    /// Reads `envoy/NAME`.
    pub fn load(name: &str) -> Config {
        let path = place::root().join("envoy").join(name);
        let read = || -> Result<Value> { Ok(serde_yaml_ng::from_str(&std::fs::read_to_string(&path)?)?) };
        let bootstrap = read().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let config = Config { name: name.into(), bootstrap, concurrency: 2, log_level: "info".into(), wasm: None };
        config.free_ports()
    }

    fn free_ports(mut self) -> Config {
        let admin = "/admin/address/socket_address/port_value";
        *self.bootstrap.pointer_mut(admin).expect("an admin address") = json!(0);
        for listener in self.listeners() {
            *listener.pointer_mut("/address/socket_address/port_value").expect("a listener's port") = json!(0);
        }
        self
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    // ---- the filter ----

    /// The plugin configuration of every placement: JSON, or any text for what must be refused.
    pub fn policy(mut self, policy: impl ToString) -> Config {
        let text = policy.to_string();
        assert!(self.each_filter(|_, plugin| set_policy(plugin, &text)) > 0, "{} has no filter", self.name);
        self
    }

    /// The plugin configuration of one placement.
    pub fn policy_at(mut self, placement: Placement, policy: impl ToString) -> Config {
        let (text, mut found) = (policy.to_string(), 0);
        self.each_filter(|at, plugin| {
            if at == placement {
                found += 1;
                set_policy(plugin, &text);
            }
        });
        assert!(found > 0, "{} has no filter in the {placement:?} placement", self.name);
        self
    }

    /// No plugin configuration at all, in any placement.
    pub fn without_policy(mut self) -> Config {
        self.each_filter(|_, plugin| {
            plugin.as_object_mut().expect("a plugin").remove("configuration");
        });
        self
    }

    /// Merges into the `config` of every placement (`root_id`, `vm_config`, `failure_policy`, …).
    pub fn plugin(mut self, patch: Value) -> Config {
        self.each_filter(|_, plugin| merge(plugin, &patch));
        self
    }

    /// Another wasm module than the built one.
    pub fn wasm(self, path: impl AsRef<Path>) -> Config {
        Config { wasm: Some(path.as_ref().into()), ..self }
    }

    /// In how many places the filter stands.
    pub fn placements(&self) -> usize {
        self.clone().each_filter(|_, _| ())
    }

    // ---- routes ----

    /// Merges into the retry policy of every route.
    pub fn retry(self, patch: Value) -> Config {
        self.route(json!({ "retry_policy": patch }))
    }

    /// No retry policy on any route.
    pub fn without_retries(self) -> Config {
        self.route(json!({ "retry_policy": null }))
    }

    /// Merges into the `route` action of every route, e.g. `{"timeout": "2s"}`.
    pub fn route(mut self, patch: Value) -> Config {
        for route in self.routes() {
            merge(&mut route["route"], &patch);
        }
        self
    }

    /// Merges into every virtual host, e.g. `{"include_request_attempt_count": false}`.
    pub fn virtual_host(mut self, patch: Value) -> Config {
        self.find(|value| value.get("domains").is_some() && value.get("routes").is_some(), |host| merge(host, &patch));
        self
    }

    /// Merges into every HTTP connection manager.
    pub fn connection_manager(mut self, patch: Value) -> Config {
        self.find(|value| is_type(value, "HttpConnectionManager"), |manager| merge(manager, &patch));
        self
    }

    /// Merges into every listener, e.g. `{"traffic_direction": "OUTBOUND"}`.
    pub fn listener(mut self, patch: Value) -> Config {
        for listener in self.listeners() {
            merge(listener, &patch);
        }
        self
    }

    /// Merges into every route's hedging: another attempt at each per-try timeout, which is this long.
    pub fn hedging(self, per_try_timeout: &str) -> Config {
        self.route(json!({
            "hedge_policy": { "hedge_on_per_try_timeout": true },
            "retry_policy": { "per_try_timeout": per_try_timeout },
        }))
    }

    // ---- clusters ----

    /// Where a cluster's one endpoint is.
    pub fn upstream(self, cluster: &str, addr: SocketAddr) -> Config {
        self.upstreams(cluster, &[addr])
    }

    /// Where a cluster's endpoints are.
    pub fn upstreams(mut self, cluster: &str, addrs: &[SocketAddr]) -> Config {
        let endpoints: Vec<Value> = addrs.iter().map(endpoint).collect();
        self.cluster_mut(cluster)["load_assignment"]["endpoints"] = json!([{ "lb_endpoints": endpoints }]);
        self
    }

    /// One more cluster, otherwise like the first, and a route to it, otherwise like the first, for
    /// the paths that begin with `prefix`.
    pub fn also(mut self, prefix: &str, cluster: &str, addr: SocketAddr) -> Config {
        let clusters = self.bootstrap["static_resources"]["clusters"].as_array_mut().expect("clusters");
        let mut copy = clusters[0].clone();
        copy["name"] = json!(cluster);
        copy["load_assignment"]["cluster_name"] = json!(cluster);
        clusters.push(copy);
        let is_host = |value: &Value| value.get("domains").is_some() && value.get("routes").is_some();
        self.find(is_host, |host| {
            let routes = host["routes"].as_array_mut().expect("routes");
            let mut route = routes[0].clone();
            route["match"] = json!({ "prefix": prefix });
            route["route"]["cluster"] = json!(cluster);
            routes.insert(0, route);
        });
        self.upstream(cluster, addr)
    }

    /// Merges into a cluster, e.g. `{"connect_timeout": "0.2s"}`.
    pub fn cluster(mut self, cluster: &str, patch: Value) -> Config {
        merge(self.cluster_mut(cluster), &patch);
        self
    }

    /// HTTP/2 towards this cluster, as gRPC needs it.
    pub fn http2(self, cluster: &str) -> Config {
        let options = json!({
            "@type": format!("type.googleapis.com/{HTTP_PROTOCOL_OPTIONS}"),
            "explicit_http_config": { "http_protocol_options": null, "http2_protocol_options": {} },
        });
        self.cluster(cluster, json!({ "typed_extension_protocol_options": { HTTP_PROTOCOL_OPTIONS: options } }))
    }

    /// Envoy's own retry budget: percent of the requests at a time, at least `min` retries at a time.
    /// `interval` (Envoy 1.39 and later) counts the requests of that time instead.
    pub fn native_budget(mut self, cluster: &str, percent: f64, min: u32, interval: Option<&str>) -> Config {
        let mut budget = json!({ "budget_percent": { "value": percent }, "min_retry_concurrency": min });
        if let Some(interval) = interval {
            budget["budget_interval"] = json!(interval);
        }
        let thresholds = &mut self.cluster_mut(cluster)["circuit_breakers"]["thresholds"][0];
        thresholds["retry_budget"] = budget;
        self
    }

    // ---- anything else ----

    /// Worker threads; 2 where nothing is said.
    pub fn concurrency(self, workers: u32) -> Config {
        Config { concurrency: workers, ..self }
    }

    /// `info` where nothing is said.
    pub fn log_level(self, level: &str) -> Config {
        Config { log_level: level.into(), ..self }
    }

    /// Merges at a JSON pointer (`""` is the whole bootstrap), making objects on the way.
    pub fn merge_at(mut self, pointer: &str, patch: Value) -> Config {
        let patch =
            pointer.rsplit('/').filter(|step| !step.is_empty()).fold(patch, |inner, step| json!({ step: inner }));
        merge(&mut self.bootstrap, &patch);
        self
    }

    /// The whole bootstrap, for what no method does.
    pub fn edit(mut self, edit: impl FnOnce(&mut Value)) -> Config {
        edit(&mut self.bootstrap);
        self
    }

    // ---- for Envoy ----

    pub(crate) fn workers(&self) -> u32 {
        self.concurrency
    }

    pub(crate) fn level(&self) -> &str {
        &self.log_level
    }

    /// The bootstrap as Envoy gets it.
    pub(crate) fn render(&self) -> Result<Value> {
        let mut config = self.clone();
        if config.placements() > 0 {
            let module = match &self.wasm {
                Some(path) => path.clone(),
                None => place::wasm()?,
            };
            config.each_filter(|_, plugin| {
                merge(plugin, &json!({ "vm_config": { "code": { "local": { "filename": module } } } }));
            });
        }
        // Histograms are up to date whenever somebody looks.
        merge(&mut config.bootstrap, &json!({ "stats_flush_on_admin": true }));
        Ok(config.bootstrap)
    }

    /// The same, with the listeners in a file of their own: (bootstrap, listeners).
    pub(crate) fn render_split(&self, listeners_file: &Path) -> Result<(Value, Value)> {
        let mut bootstrap = self.render()?;
        let resources = bootstrap["static_resources"].as_object_mut().context("static resources")?;
        let mut listeners = resources.remove("listeners").context("listeners")?;
        for listener in listeners.as_array_mut().context("listeners")? {
            listener["@type"] = json!("type.googleapis.com/envoy.config.listener.v3.Listener");
        }
        merge(
            &mut bootstrap,
            &json!({
                "node": { "id": "lab", "cluster": "lab" },
                "dynamic_resources": { "lds_config": { "path_config_source": { "path": listeners_file } } },
            }),
        );
        Ok((bootstrap, json!({ "resources": listeners })))
    }

    fn listeners(&mut self) -> impl Iterator<Item = &mut Value> {
        self.bootstrap["static_resources"]["listeners"].as_array_mut().expect("listeners").iter_mut()
    }

    fn cluster_mut(&mut self, name: &str) -> &mut Value {
        let clusters = self.bootstrap["static_resources"]["clusters"].as_array_mut().expect("clusters");
        let found = clusters.iter_mut().find(|cluster| cluster["name"] == name);
        found.unwrap_or_else(|| panic!("{} has no cluster {name}", self.name))
    }

    fn routes(&mut self) -> impl Iterator<Item = &mut Value> {
        let mut routes = Vec::new();
        collect_routes(&mut self.bootstrap, &mut routes);
        assert!(!routes.is_empty(), "{} has no routes", self.name);
        routes.into_iter()
    }

    /// Runs `change` on everything that `is` what is looked for.
    fn find(&mut self, is: impl Fn(&Value) -> bool, mut change: impl FnMut(&mut Value)) {
        let mut found = 0;
        walk(&mut self.bootstrap, "", &mut |_, value| {
            if is(value) {
                found += 1;
                change(value);
            }
        });
        assert!(found > 0, "{} has nothing of the kind", self.name);
    }

    /// Runs `change` on the plugin `config` of every placement of this filter; returns their number.
    fn each_filter(&mut self, mut change: impl FnMut(Placement, &mut Value)) -> usize {
        let mut found = 0;
        walk(&mut self.bootstrap, "", &mut |path, value| {
            if is_type(value, "Wasm") && value["config"]["root_id"] == "retry_budget" {
                let upstream = path.contains("/upstream_http_filters/") || path.contains("/clusters/");
                found += 1;
                change(if upstream { Placement::Attempt } else { Placement::Request }, &mut value["config"]);
            }
        });
        found
    }
}

fn set_policy(plugin: &mut Value, text: &str) {
    plugin["configuration"] = json!({ "@type": "type.googleapis.com/google.protobuf.StringValue", "value": text });
}

fn endpoint(addr: &SocketAddr) -> Value {
    let socket = json!({ "address": addr.ip().to_string(), "port_value": addr.port() });
    json!({ "endpoint": { "address": { "socket_address": socket } } })
}

fn is_type(value: &Value, name: &str) -> bool {
    let kind = value.get("@type").and_then(Value::as_str).unwrap_or_default();
    kind.rsplit('.').next() == Some(name)
}

fn collect_routes<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Value>) {
    match value {
        Value::Object(map) if map.contains_key("match") && map.contains_key("route") => found.push(value),
        Value::Object(map) => map.values_mut().for_each(|inner| collect_routes(inner, found)),
        Value::Array(list) => list.iter_mut().for_each(|inner| collect_routes(inner, found)),
        _ => {}
    }
}

/// Visits every value with its path, outer ones first.
fn walk(value: &mut Value, path: &str, visit: &mut dyn FnMut(&str, &mut Value)) {
    visit(path, value);
    match value {
        Value::Object(map) => map.iter_mut().for_each(|(key, inner)| walk(inner, &format!("{path}/{key}"), visit)),
        Value::Array(list) => {
            list.iter_mut().enumerate().for_each(|(i, inner)| walk(inner, &format!("{path}/{i}"), visit));
        }
        _ => {}
    }
}

/// Objects merge deeply, `null` removes, anything else replaces (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let target = target.as_object_mut().expect("made an object above");
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key).or_insert(Value::Null), value);
        }
    }
}
