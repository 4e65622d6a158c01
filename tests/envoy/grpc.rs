//! gRPC, with a real client and server.

use crate::{ATTEMPTS, RETRIES, STOPS, count, empty};
use lab::{ClosedPort, Code, Config, Envoy, GrpcClient, GrpcOrigin, GrpcReply};

const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

#[tokio::test(flavor = "multi_thread")]
async fn fifty_callers_of_an_unavailable_server_make_60_calls() {
    for file in FILES {
        let origin = GrpcOrigin::start(|_| GrpcReply::failing(Code::Unavailable, "the server's own words")).await;
        // Nothing is earned: nobody holds these calls until all have come.
        let ten = lab::json!({"budget": {"ratio": 0, "max_tokens": 10}});
        let config = Config::load(file).upstream("orders", origin.addr()).http2("orders").policy(ten);
        let envoy = Envoy::start(&config).await.unwrap();
        let answers = GrpcClient::storm(envoy.addr(), 50).await.unwrap();
        assert_eq!(origin.hits(), 60, "{file}");
        for answer in &answers {
            assert_eq!((answer.code, answer.message.as_str()), (Code::Unavailable, "the server's own words"), "{file}");
        }
        assert_eq!(origin.hits() as u64, 50 + count(&envoy, RETRIES).await, "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_failure_tells_the_client_not_to_retry() {
    for file in FILES {
        let origin = GrpcOrigin::start(|_| GrpcReply::failing(Code::Unavailable, "busy")).await;
        let config = Config::load(file).upstream("orders", origin.addr()).http2("orders").policy(empty());
        let envoy = Envoy::start(&config).await.unwrap();
        let client = GrpcClient::connect(envoy.addr()).await.unwrap();
        let answer = client.check("", None, &[]).await;
        assert_eq!((answer.code, origin.hits()), (Code::Unavailable, 1), "{file}");
        let metadata = |name: &str| answer.metadata.get(name).and_then(|v| v.to_str().ok()).map(str::to_owned);
        assert_eq!(metadata("grpc-retry-pushback-ms").as_deref(), Some("-1"), "{file}");
        assert_eq!(metadata("x-retry-stop").as_deref(), Some("budget"), "{file}");
        assert_eq!(envoy.decisions()[0]["outcome"], "grpc-14", "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_servers_own_pushback_is_left_alone() {
    let origin =
        GrpcOrigin::start(|_| GrpcReply::failing(Code::Unavailable, "").metadata("grpc-retry-pushback-ms", "250"))
            .await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).http2("orders").policy(empty());
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = GrpcClient::connect(envoy.addr()).await.unwrap().check("", None, &[]).await;
    let all: Vec<_> = answer.metadata.get_all("grpc-retry-pushback-ms").iter().collect();
    assert_eq!(all, ["250"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_is_unavailable() {
    for file in FILES {
        let closed = ClosedPort::new();
        let config = Config::load(file).upstream("orders", closed.addr()).http2("orders").policy(empty());
        let envoy = Envoy::start(&config).await.unwrap();
        let client = GrpcClient::connect(envoy.addr()).await.unwrap();
        let answer = client.check("", None, &[]).await;
        assert_eq!(answer.code, Code::Unavailable, "{file}");
        assert!(answer.message.contains("retry budget"), "{file}: {}", answer.message);
        assert_eq!((count(&envoy, ATTEMPTS).await, count(&envoy, STOPS).await), (1, 1), "{file}");
        let pushback = answer.metadata.get("grpc-retry-pushback-ms").and_then(|v| v.to_str().ok());
        assert_eq!(pushback, Some("-1"), "{file}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_that_grpc_does_not_retry_is_not_judged() {
    let origin = GrpcOrigin::start(|_| GrpcReply::failing(Code::NotFound, "nothing")).await;
    let config = Config::load("two-placements.yaml").upstream("orders", origin.addr()).http2("orders").policy(empty());
    let envoy = Envoy::start(&config).await.unwrap();
    let answer = GrpcClient::connect(envoy.addr()).await.unwrap().check("", None, &[]).await;
    assert_eq!((answer.code, origin.hits(), count(&envoy, STOPS).await), (Code::NotFound, 1, 0));
    assert!(answer.metadata.get("x-retry-stop").is_none());
}
