//! What pilot rendered, for an Envoy without Istio's extensions.

use lab::{Config, Result, Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A golden file of `tests/istio`: listeners, routes, clusters and extensions as Istio's pilot sends them.
#[derive(Clone)]
pub struct Rendering {
    name: String,
    golden: Value,
    stats: Value,
}

/// A golden file as it is.
pub fn golden(name: &str) -> Value {
    let path = lab::place::root().join("tests/istio/golden").join(format!("{name}.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

impl Rendering {
    pub fn load(name: &str) -> Rendering {
        Rendering { name: name.into(), golden: golden(name), stats: golden("stats") }
    }

    /// The statistics of another golden file.
    pub fn stats(self, name: &str) -> Rendering {
        Rendering { stats: golden(name), ..self }
    }

    /// What pilot renders without our manifest: the Go test sees to it that these are the same.
    pub fn control(mut self) -> Rendering {
        walk(&mut self.golden, &mut |value| match value {
            Value::Object(map) => {
                map.remove("upstream_http_filters");
                map.remove("typed_extension_protocol_options");
            }
            Value::Array(list) => list.retain(|entry| !is_ours(entry)),
            _ => {}
        });
        self
    }

    /// Another policy, in every placement.
    pub fn policy(self, policy: Value) -> Rendering {
        self.plugin(move |plugin| plugin["configuration"]["value"] = json!(policy.to_string()))
    }

    /// Changes the `config` of the filter, wherever it is.
    pub fn plugin(mut self, mut change: impl FnMut(&mut Value)) -> Rendering {
        let mut found = 0;
        walk(&mut self.golden, &mut |value| {
            if value["root_id"] == "retry_budget" {
                found += 1;
                change(value);
            }
        });
        assert!(found > 0, "{} has no filter", self.name);
        self
    }

    /// For what no method does.
    pub fn edit(mut self, change: impl FnOnce(&mut Value)) -> Rendering {
        change(&mut self.golden);
        self
    }

    /// The cluster that leads to the service.
    pub fn cluster(&self) -> String {
        self.golden["clusters"][0]["name"].as_str().expect("a cluster").into()
    }

    /// Runs it as it is but for what a stock Envoy cannot have: extensions of Istio's own, the certificates and
    /// addresses of a mesh, and a control plane.
    pub fn config(&self) -> Result<Config> {
        Ok(self.config_and_extensions()?.0)
    }

    /// The same, and its extensions, to replace them while it runs.
    pub fn config_and_extensions(&self) -> Result<(Config, Extensions)> {
        let mut rendered = self.golden.clone();
        let extensions = self.extensions()?;
        let routes = rendered["routes"].take();
        walk(&mut rendered, &mut |value| stock_filters(value, &extensions.0));
        walk(&mut rendered["listeners"], &mut |value| inline_routes(value, &routes));
        rendered["listeners"].as_array_mut().expect("listeners").iter_mut().for_each(stock_listener);
        rendered["clusters"].as_array_mut().expect("clusters").iter_mut().for_each(stock_cluster);
        let bootstrap = json!({
            "admin": { "address": { "socket_address": { "address": "127.0.0.1", "port_value": 0 } } },
            // Extensions from a file belong to a node.
            "node": { "id": "sidecar~10.1.0.9~checkout-0.shop~shop.svc.cluster.local", "cluster": "checkout.shop" },
            "stats_config": self.stats["stats_config"],
            "static_resources": { "listeners": rendered["listeners"], "clusters": rendered["clusters"] },
        });
        let file = scratch(&self.name, "bootstrap");
        fs::write(&file, bootstrap.to_string())?;
        Ok((Config::load(file.to_str().expect("a path in UTF-8")), extensions))
    }

    /// The extensions, each in a file of its own, as the agent hands them on: with the module as a file.
    fn extensions(&self) -> Result<Extensions> {
        let mut files = Vec::new();
        for extension in self.golden["extensions"].as_array().into_iter().flatten() {
            let mut extension = extension.clone();
            let module = lab::wasm()?;
            walk(&mut extension, &mut |value| {
                if value.get("runtime").is_some() {
                    value["code"] = json!({ "local": { "filename": module } });
                    // The agent takes Istio's notes out.
                    value.as_object_mut().expect("an object").remove("environment_variables");
                }
            });
            let name = extension["name"].as_str().expect("a name").to_owned();
            let file = scratch(&self.name, "extension");
            fs::write(&file, resources(&name, &extension["typed_config"]))?;
            files.push((name, file));
        }
        Ok(Extensions(files))
    }
}

/// The extensions of a rendering, by name, and the files that Envoy reads them from.
pub struct Extensions(Vec<(String, PathBuf)>);

impl Extensions {
    /// Something else in the place of each.
    pub fn replace(&self, config: &Value) -> Result<()> {
        for (name, file) in &self.0 {
            let new = file.with_extension("new");
            fs::write(&new, resources(name, config))?;
            fs::rename(new, file)?; // Envoy watches for moves
        }
        Ok(())
    }
}

fn resources(name: &str, config: &Value) -> String {
    let kind = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
    json!({ "resources": [{ "@type": kind, "name": name, "typed_config": config }] }).to_string()
}

/// Filters of Istio's own are out; those by discovery come from files instead of the agent.
fn stock_filters(value: &mut Value, extensions: &[(String, PathBuf)]) {
    if let Value::Array(list) = value {
        list.retain(|entry| entry.get("typed_config").is_none_or(|config| is_stock(&config["@type"])));
    }
    if value.get("config_discovery").is_some() {
        let (_, file) = extensions.iter().find(|(name, _)| value["name"] == **name).expect("an extension of that name");
        let source = &mut value["config_discovery"]["config_source"];
        source.as_object_mut().expect("a source").remove("ads");
        source["path_config_source"] = json!({ "path": file });
    }
}

fn is_stock(kind: &Value) -> bool {
    kind.as_str().is_some_and(|kind| kind.starts_with("type.googleapis.com/envoy."))
}

fn inline_routes(value: &mut Value, routes: &Value) {
    let Some(rds) = value.get("rds") else { return };
    let name = &rds["route_config_name"];
    let found = routes.as_array().into_iter().flatten().find(|routes| routes["name"] == *name);
    let manager = value.as_object_mut().expect("an object");
    manager.insert("route_config".into(), found.expect("routes of that name").clone());
    manager.remove("rds");
}

/// Bound to a port of this machine. What chose among chains by the original destination is gone.
fn stock_listener(listener: &mut Value) {
    let chain = listener["filter_chains"][0].clone();
    for gone in [
        "bind_to_port",
        "default_filter_chain",
        "filter_chain_matcher",
        "internal_listener",
        "listener_filters",
        "listener_filters_timeout",
        "use_original_dst",
    ] {
        listener.as_object_mut().expect("a listener").remove(gone);
    }
    listener["address"] = json!({ "socket_address": { "address": "127.0.0.1", "port_value": 0 } });
    listener["filter_chains"] = json!([chain]);
    walk(&mut listener["filter_chains"], &mut |value| {
        if let Value::Object(map) = value {
            map.remove("filter_chain_match");
            map.remove("tracing"); // there is no tracer, and its tags are of the mesh
        }
    });
}

/// With endpoints of its own, which the test names, and without TLS.
fn stock_cluster(cluster: &mut Value) {
    for gone in [
        "cleanup_interval",
        "eds_cluster_config",
        "filters",
        "transport_socket",
        "transport_socket_matches",
        "upstream_bind_config",
    ] {
        cluster.as_object_mut().expect("a cluster").remove(gone);
    }
    cluster["type"] = json!("STATIC");
    cluster["lb_policy"] = json!("LEAST_REQUEST");
    cluster["load_assignment"] = json!({ "cluster_name": cluster["name"] });
}

/// Whether this entry of a filter list is the retry budget, inline or by discovery.
fn is_ours(filter: &Value) -> bool {
    let wasm = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";
    filter["typed_config"]["@type"] == wasm
        || filter["config_discovery"]["type_urls"].as_array().is_some_and(|types| types.contains(&json!(wasm)))
}

/// Visits every value, outer ones first.
pub fn walk(value: &mut Value, visit: &mut dyn FnMut(&mut Value)) {
    visit(value);
    match value {
        Value::Object(map) => map.values_mut().for_each(|inner| walk(inner, visit)),
        Value::Array(list) => list.iter_mut().for_each(|inner| walk(inner, visit)),
        _ => {}
    }
}

/// A file that no other test uses.
pub fn scratch(name: &str, what: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("istio");
    fs::create_dir_all(&folder).expect("a folder in the target folder");
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    folder.join(format!("{name}-{what}-{}-{number}.json", std::process::id()))
}
