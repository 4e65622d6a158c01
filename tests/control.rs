//! What Envoy does without the filter: the figures that all others are measured against, and the
//! proof that the lab counts right.

use lab::storm::Figures;
use lab::{
    Client, ClosedPort, Code, Config, Envoy, GrpcClient, GrpcOrigin, GrpcReply, Origin, Reply, Request, Resets, Result,
    Storm, json, tokio,
};
use std::time::Duration;

fn control() -> Config {
    Config::load("control.yaml")
}

// ---- the storms ----

#[tokio::test]
async fn three_attempts_triple_the_load_of_an_outage() -> Result<()> {
    let figures = Storm::Outage.run(&control()).await?;
    assert_eq!(figures, Figures { callers: 50, calls: 150, served: 0, refused: 0 });
    Ok(())
}

#[tokio::test]
async fn without_retries_every_caller_makes_one_call() -> Result<()> {
    let figures = Storm::Outage.run(&control().without_retries()).await?;
    assert_eq!(figures, Figures { callers: 50, calls: 50, served: 0, refused: 0 });
    let figures = Storm::Blip.run(&control().without_retries()).await?;
    assert_eq!(figures, Figures { callers: 50, calls: 50, served: 45, refused: 0 });
    Ok(())
}

#[tokio::test]
async fn three_attempts_serve_everyone_where_calls_fail_once_or_twice() -> Result<()> {
    let figures = Storm::Blip.run(&control()).await?;
    assert_eq!(figures, Figures { callers: 50, calls: 55, served: 50, refused: 0 });
    let figures = Storm::Stutter.run(&control()).await?;
    assert_eq!(figures, Figures { callers: 50, calls: 150, served: 50, refused: 0 });
    Ok(())
}

#[tokio::test]
async fn four_retrying_layers_multiply() -> Result<()> {
    let figures = Storm::Chain.run(&control()).await?;
    assert_eq!(figures, Figures { callers: 10, calls: 810, served: 0, refused: 0 });
    Ok(())
}

#[tokio::test]
async fn envoys_own_budget_limits_concurrent_retries() -> Result<()> {
    let native = control().native_budget("orders", 20.0, 3, None);
    let figures = Storm::Outage.run(&native).await?;
    assert!((53..=80).contains(&figures.calls) && figures.refused > 0, "{figures:?}");
    let figures = Storm::Chain.run(&native).await?;
    assert!((100..=400).contains(&figures.calls) && figures.refused > 0, "{figures:?}");
    Ok(())
}

#[tokio::test]
async fn callers_get_the_origins_own_failure() -> Result<()> {
    let origin = Origin::start(|_| Reply::new(503).header("x-from", "origin").body("sorry")).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr())).await?;
    let forged = Request::get("/").header("x-envoy-attempt-count", "7").header("x-envoy-max-retries", "9");
    let answer = Client::new().send(envoy.addr(), forged).await?;
    assert_eq!((answer.status, answer.header("x-from"), answer.text()), (503, Some("origin"), "sorry".into()));
    let attempts: Vec<_> = origin.calls().iter().map(|c| c.header("x-envoy-attempt-count").map(String::from)).collect();
    assert_eq!(attempts, ["1", "2", "3"].map(|n| Some(n.to_string())));
    let line = &envoy.wait_for_access_log(1).await?[0];
    assert_eq!((line["status"].as_u64(), line["attempts"].as_u64()), (Some(503), Some(3)), "{line}");
    Ok(())
}

#[tokio::test]
async fn a_load_over_kept_connections_is_counted_alike_everywhere() -> Result<()> {
    let origin = Origin::always(503).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).concurrency(4)).await?;
    let answers = lab::load(envoy.addr(), 2000, 64, |_| Request::get("/")).await;
    assert_eq!(answers.count(503), 2000, "{answers}");
    assert_eq!(origin.hits(), 6000);
    let stats = envoy.stats().await?;
    let orders = [("envoy_cluster_name", "orders")];
    assert_eq!(stats.counter("envoy_cluster_upstream_rq_total", &orders), 6000);
    assert_eq!(stats.counter("envoy_cluster_upstream_rq_retry", &orders), 4000);
    let ingress = [("envoy_http_conn_manager_prefix", "ingress")];
    assert_eq!(stats.counter("envoy_http_downstream_cx_total", &ingress), 64);
    Ok(())
}

// ---- failures without a response ----

#[tokio::test]
async fn a_refused_connection_is_tried_three_times() -> Result<()> {
    let closed = ClosedPort::new();
    let envoy = Envoy::start(&control().upstream("orders", closed.addr())).await?;
    assert_eq!(Client::new().get(envoy.addr(), "/").await?.status, 503);
    assert_eq!(envoy.stat("cluster.orders.upstream_cx_connect_fail").await?, 3);
    Ok(())
}

#[tokio::test]
async fn a_reset_connection_is_tried_three_times() -> Result<()> {
    let resets = Resets::start();
    let envoy = Envoy::start(&control().upstream("orders", resets.addr())).await?;
    assert_eq!(Client::new().get(envoy.addr(), "/").await?.status, 503);
    assert_eq!(resets.connections(), 3);

    let origin = Origin::start(|call| if call.attempt < 3 { Reply::reset() } else { 200.into() }).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr())).await?;
    assert_eq!(Client::new().get(envoy.addr(), "/").await?.status, 200);
    assert_eq!((origin.hits(), origin.connections()), (3, 3));
    Ok(())
}

#[tokio::test]
async fn http2_streams_are_reset_one_by_one() -> Result<()> {
    let origin = Origin::start(|call| if call.attempt < 3 { Reply::reset() } else { 200.into() }).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).http2("orders").concurrency(1)).await?;
    assert_eq!(Client::http2().get(envoy.addr(), "/").await?.status, 200);
    assert_eq!((origin.hits(), origin.connections()), (3, 1));
    Ok(())
}

#[tokio::test]
async fn a_body_that_breaks_off_is_not_retried() -> Result<()> {
    let origin = Origin::start(|_| Reply::new(200).body("first half, second half").cut()).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr())).await?;
    let error = Client::new().get(envoy.addr(), "/").await.expect_err("half an answer");
    assert!(error.to_string().contains("the body broke off"), "{error:#}");
    assert_eq!(origin.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_hanging_origin_is_cut_by_the_route() -> Result<()> {
    let origin = Origin::start(|_| Reply::hang()).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).route(json!({"timeout": "0.3s"}))).await?;
    assert_eq!(Client::new().get(envoy.addr(), "/").await?.status, 504);
    assert_eq!(origin.hits(), 1);
    Ok(())
}

#[tokio::test]
async fn a_hedge_overtakes_a_slow_attempt() -> Result<()> {
    let slow = |call: &lab::Call| Reply::new(200).after(Duration::from_secs(if call.attempt == 1 { 5 } else { 0 }));
    let origin = Origin::start(slow).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).hedging("0.2s")).await?;
    let answer = Client::new().get(envoy.addr(), "/").await?;
    assert_eq!((answer.status, origin.hits()), (200, 2));
    assert!((Duration::from_millis(200)..Duration::from_secs(4)).contains(&answer.latency), "{:?}", answer.latency);
    Ok(())
}

// ---- requests ----

#[tokio::test]
async fn bytes_and_bodies_pass_as_they_are() -> Result<()> {
    let origin = Origin::start(|call| Reply::new(200).body(call.body.clone()).trailer("x-last", "one")).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).http2("orders")).await?;
    let mut request = Request::post("/path?query", "the body").header("x-bytes", b"\xff\xfe").header("x-twice", "1");
    for i in 0..60 {
        request = request.header("x-twice", i.to_string());
    }
    let answer = Client::http2().send(envoy.addr(), request).await?;
    assert_eq!((answer.status, answer.text()), (200, "the body".into()));
    assert_eq!(answer.trailers["x-last"], "one");
    let call = &origin.calls()[0];
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/path?query"));
    assert_eq!(call.headers["x-bytes"].as_bytes(), b"\xff\xfe");
    assert_eq!(call.headers.get_all("x-twice").iter().count(), 61);
    assert_eq!(call.body, "the body");
    Ok(())
}

#[tokio::test]
async fn two_upstreams_are_two_clusters() -> Result<()> {
    let (orders, payments) = (Origin::always(503).await, Origin::always(200).await);
    let config = control().upstream("orders", orders.addr()).also("/pay", "payments", payments.addr());
    let envoy = Envoy::start(&config).await?;
    let client = Client::new();
    assert_eq!(client.get(envoy.addr(), "/").await?.status, 503);
    assert_eq!(client.get(envoy.addr(), "/pay/1").await?.status, 200);
    assert_eq!((orders.hits(), payments.hits()), (3, 1));
    Ok(())
}

#[tokio::test]
async fn an_origin_can_change_its_mind() -> Result<()> {
    let origin = Origin::failing(1, 500).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr())).await?;
    let client = Client::new();
    assert_eq!(client.get(envoy.addr(), "/").await?.status, 200);
    origin.wait_for_hits(2).await?;
    origin.forget();
    origin.answer(|_| 404);
    assert_eq!(client.get(envoy.addr(), "/").await?.status, 404);
    assert_eq!((origin.hits(), origin.calls()[0].index), (1, 0));
    Ok(())
}

// ---- gRPC ----

#[tokio::test]
async fn a_storm_of_50_grpc_calls_is_150() -> Result<()> {
    let origin =
        GrpcOrigin::start(|_| GrpcReply::failing(Code::Unavailable, "not now").metadata("x-why", "load")).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).http2("orders")).await?;
    let answers = GrpcClient::storm(envoy.addr(), 50).await?;
    assert!(answers.iter().all(|a| a.code == Code::Unavailable && a.message == "not now"), "{answers:?}");
    assert!(answers.iter().all(|a| a.metadata.get("x-why").is_some_and(|why| why == "load")));
    assert_eq!(origin.hits(), 150);
    Ok(())
}

#[tokio::test]
async fn a_grpc_service_sees_metadata_timeout_and_attempts() -> Result<()> {
    let script = |call: &lab::GrpcCall| match call.attempt {
        1 => GrpcReply::failing(Code::ResourceExhausted, "busy").after(Duration::from_millis(10)),
        _ => GrpcReply::serving().metadata("x-answer", "yes"),
    };
    let origin = GrpcOrigin::start(script).await;
    let envoy = Envoy::start(&control().upstream("orders", origin.addr()).http2("orders")).await?;
    let client = GrpcClient::connect(envoy.addr()).await?;
    let answer = client.check("orders", Some(Duration::from_secs(5)), &[("x-question", "why")]).await;
    assert_eq!((answer.code, answer.metadata.get("x-answer").is_some()), (Code::Ok, true), "{answer:?}");
    let calls = origin.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!((calls[1].service.as_str(), calls[1].attempt), ("orders", 2));
    assert!(calls.iter().all(|call| call.timeout.is_some() && call.metadata.get("x-question").is_some()), "{calls:?}");
    Ok(())
}

// ---- Envoy itself ----

#[tokio::test]
async fn listeners_are_replaced_without_a_restart() -> Result<()> {
    let origin = Origin::always(503).await;
    let config = control().upstream("orders", origin.addr());
    let mut envoy = Envoy::start_updatable(&config).await?;
    let before = envoy.addr();
    assert_eq!(Client::new().get(envoy.addr(), "/").await?.status, 503);
    assert_eq!(origin.hits(), 3);

    envoy.update(&config.clone().retry(json!({"num_retries": 4}))).await?;
    assert_eq!(envoy.addr(), before);
    Client::new().get(envoy.addr(), "/").await?;
    assert_eq!(origin.hits(), 3 + 5);

    for (broken, named) in [(json!({"timeout": "soon"}), "timeout"), (json!({"cluster": "nobodys"}), "nobodys")] {
        let log = envoy.update_expecting_refusal(&config.clone().route(broken)).await?;
        assert!(log.contains(named), "{log}");
    }
    Client::new().get(envoy.addr(), "/").await?;
    assert_eq!(origin.hits(), 3 + 5 + 5);

    envoy.update(&config).await?;
    Client::new().get(envoy.addr(), "/").await?;
    assert_eq!(origin.hits(), 3 + 5 + 5 + 3);
    Ok(())
}

#[tokio::test]
async fn a_broken_configuration_is_refused() -> Result<()> {
    let broken = control().cluster("orders", json!({"connect_timeuot": "1s"}));
    let refusal = Envoy::start_expecting_refusal(&broken).await?;
    assert!(!refusal.status.success() && refusal.log.contains("connect_timeuot"), "{}", refusal.log);
    assert!(Envoy::validate(&broken).is_err());
    assert!(Envoy::start(&broken).await.is_err());
    let error = Envoy::start_expecting_refusal(&control()).await.expect_err("nothing to refuse");
    assert!(error.to_string().contains("took the configuration"), "{error:#}");
    Ok(())
}

#[tokio::test]
async fn a_dropped_envoy_is_gone() -> Result<()> {
    let mut envoy = Envoy::start(&control()).await?;
    assert!(envoy.is_running());
    let admin = envoy.admin();
    drop(envoy);
    assert!(Client::new().get(admin, "/ready").await.is_err());
    Ok(())
}
