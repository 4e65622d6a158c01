//! What is measured: shipped configurations, each with one worker.

use anyhow::Result;
use lab::{Config, Value, json};
use std::net::SocketAddr;
use std::path::Path;

pub struct Setup {
    pub name: &'static str,
    pub config: Config,
}

/// The control, the floor, and what is compared with them. The folder is for the floor's module.
pub fn success(origin: SocketAddr, folder: &Path) -> Result<Vec<Setup>> {
    // Exports all callbacks and does nothing in any.
    let module = folder.join("empty.wasm");
    std::fs::write(&module, wat::parse_str(include_str!("empty.wat"))?)?;
    let floor = shipped("two-placements.yaml", origin).wasm(module);
    let lua = shipped("control.yaml", origin).edit(add_lua);
    Ok(vec![
        Setup { name: "no filter (control)", config: shipped("control.yaml", origin) },
        Setup { name: "an empty wasm filter in both places (floor)", config: floor },
        Setup { name: "a six-line Lua filter in both places", config: lua },
        Setup { name: "this filter, attempt placement alone", config: shipped("attempt-only.yaml", origin) },
        Setup { name: "this filter, both placements", config: shipped("two-placements.yaml", origin) },
    ])
}

/// Without retries, as no retry is let through.
pub fn failure(origin: SocketAddr) -> Vec<Setup> {
    vec![
        Setup { name: "no filter, no retries (control)", config: shipped("control.yaml", origin).without_retries() },
        Setup { name: "this filter, both placements", config: shipped("two-placements.yaml", origin).policy(empty()) },
    ]
}

/// A bucket that is empty and stays so.
pub fn empty() -> Value {
    json!({"budget": {"ratio": 0, "initial_tokens": 0}})
}

pub fn shipped(file: &str, origin: SocketAddr) -> Config {
    // Without access logs, which cost as much as a filter and would make it look cheaper than it is.
    let config = Config::load(file).connection_manager(json!({"access_log": null}));
    config.upstream("orders", origin).concurrency(1)
}

/// What people write first: it copies a header each way.
const LUA: &str = r#"function envoy_on_request(handle)
  handle:headers():replace("x-copy", handle:headers():get("x-request-id") or "")
end
function envoy_on_response(handle)
  handle:headers():replace("x-copy", handle:headers():get(":status") or "")
end"#;

/// Puts it before the router and into its upstream chain.
fn add_lua(bootstrap: &mut Value) {
    let lua = json!({
        "name": "lua",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
            "default_source_code": { "inline_string": LUA },
        },
    });
    let codec = json!({
        "name": "envoy.filters.http.upstream_codec",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.upstream_codec.v3.UpstreamCodec",
        },
    });
    let manager = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";
    let filters = bootstrap.pointer_mut(manager).and_then(Value::as_array_mut).expect("http_filters");
    let router = filters.last_mut().expect("a router");
    router["typed_config"]["upstream_http_filters"] = json!([lua, codec]);
    filters.insert(0, lua);
}
