//! What callers get where the module cannot be fetched: Istio's agent then sends another filter in its place.

use crate::stock::{Rendering, golden, walk};
use crate::{CALLERS, request, start, storm};
use lab::{Client, Envoy, Origin, Result, Value, eventually, json, tokio};

/// By discovery of our own: with what stands there until there is a module.
const WITH_DEFAULT: [&str; 3] = ["sidecar-oci", "gateway-oci", "waypoint"];
/// By Istio's.
const CALLEES: [&str; 2] = ["callee-wasmplugin", "callee-trafficextension"];
/// What the agent sends: a filter that lets all pass, or none.
const STAND_INS: [&str; 2] = ["agent-open", "agent-closed"];

/// The rendering with this extension instead of the module.
fn replaced(name: &str, stand_in: &str) -> Rendering {
    let stand_in = golden(stand_in);
    Rendering::load(name).edit(|golden| {
        for entry in golden["extensions"].as_array_mut().expect("extensions") {
            entry["typed_config"] = stand_in["typed_config"].clone();
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_requests_pass_without_a_budget() -> Result<()> {
    for name in WITH_DEFAULT {
        for stand_in in STAND_INS {
            let origin = Origin::holding(CALLERS, |_| 503).await;
            let envoy = start(&replaced(name, stand_in), &origin).await?;
            let answers = storm(&envoy).await;
            assert_eq!((origin.hits(), answers.count(503)), (150, CALLERS), "{name}, {stand_in}: {answers}");
        }
    }
    Ok(())
}

/// Why the stand-in is not permitted in the callers' chains: there Envoy knows it since 1.39 only, and refuses
/// everything where it does not.
#[tokio::test(flavor = "multi_thread")]
async fn permitting_the_stand_in_costs_older_envoys_the_listener() -> Result<()> {
    let permitting = replaced("sidecar-oci", "agent-open").edit(|golden| {
        walk(golden, &mut |value| {
            if let Some(Value::Array(types)) = value.get_mut("type_urls") {
                types.push(json!("type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC"));
            }
        });
    });
    let origin = Origin::holding(CALLERS, |_| 503).await;
    let config = permitting.config()?.upstream(&permitting.cluster(), origin.addr());
    match Envoy::validate(&config) {
        Ok(_) => {
            storm(&Envoy::start(&config).await?).await;
            assert_eq!(origin.hits(), 150);
        }
        Err(why) => assert!(why.to_string().contains("no factory found for a required type URL"), "{why}"),
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_that_cannot_be_fetched_leaves_the_running_filter() -> Result<()> {
    for stand_in in STAND_INS {
        let rendering = Rendering::load("sidecar-oci");
        let origin = Origin::holding(CALLERS, |_| 503).await;
        let (config, extensions) = rendering.config_and_extensions()?;
        let envoy = Envoy::start(&config.upstream(&rendering.cluster(), origin.addr())).await?;
        extensions.replace(&golden(stand_in)["typed_config"])?;
        // In both chains.
        let refused = eventually("both chains to refuse the stand-in", async || {
            let refusals = envoy.log().matches("Filesystem config update rejected").count();
            Ok((refusals >= 2).then_some(()))
        });
        refused.await?;
        storm(&envoy).await;
        assert_eq!(origin.hits(), 60, "{stand_in}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callee_is_unprotected_where_it_fails_open() -> Result<()> {
    for name in CALLEES {
        let origin = Origin::holding(CALLERS, |_| 503).await;
        let envoy = start(&replaced(name, "agent-open"), &origin).await?;
        let answers = storm(&envoy).await;
        assert_eq!((origin.hits(), answers.count(503)), (CALLERS, CALLERS), "{name}: {answers}");
        assert!(answers.iter().all(|answer| answer.header("x-retry-stop").is_none()), "{name}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_callee_answers_every_request_403_where_it_fails_closed() -> Result<()> {
    for name in CALLEES {
        let origin = Origin::always(200).await;
        let envoy = start(&replaced(name, "agent-closed"), &origin).await?;
        let answer = Client::new().send(envoy.addr(), request(0)).await?;
        assert_eq!((answer.status, origin.hits()), (403, 0), "{name}");
    }
    Ok(())
}
