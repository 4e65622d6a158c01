//! gRPC as applications speak it: grpc-go, whose clients retry by a policy of their own on top of Envoy's.
//!
//! The command in `tests/grpc-go` is client and server. Where there is no Go to build it with, these tests
//! say so and pass; on CI they fail.

use lab::{ClosedPort, Code, Config, Envoy, GrpcOrigin, GrpcReply, Result, Value, json, tokio};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use support::go::GoModule;

mod support;

const FILES: [&str; 2] = ["two-placements.yaml", "attempt-only.yaml"];

/// The client's policy in all tests: with Envoy's 3 attempts each, 12 calls.
const MAX_ATTEMPTS: usize = 4;

const WORDS: &str = "the server's own words";

const PUSHBACK: &str = "grpc-retry-pushback-ms";

const UPSTREAM: (&str, &str) = ("upstream", "orders");

fn config(file: &str, upstream: SocketAddr) -> Config {
    Config::load(file).upstream("orders", upstream).http2("orders")
}

/// A bucket that starts with this many tokens and earns none.
fn tokens(initial: u32) -> Value {
    json!({"budget": {"ratio": 0, "initial_tokens": initial}})
}

async fn unavailable() -> GrpcOrigin {
    GrpcOrigin::start(|_| GrpcReply::failing(Code::Unavailable, WORDS)).await
}

async fn count(envoy: &Envoy, name: &str) -> Result<u64> {
    Ok(envoy.stats().await?.counter(name, &[UPSTREAM]))
}

// ---- without the filter ----

#[tokio::test]
async fn without_the_filter_the_clients_attempts_multiply_envoys() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    let origin = unavailable().await;
    let envoy = Envoy::start(&config("control.yaml", origin.addr())).await?;
    let answers = go.client(envoy.addr(), &["-calls", "5"]).await?;
    assert_eq!(origin.hits(), 5 * 12);
    for answer in &answers {
        assert_eq!((answer.code, answer.message.as_str()), (Code::Unavailable, WORDS), "{answer:?}");
        assert_eq!(answer.attempts.len(), MAX_ATTEMPTS, "{answer:?}");
    }
    // What the client tells of its attempts passes Envoy: each of them is three calls.
    let told = |call: &lab::GrpcCall| match call.metadata.get("grpc-previous-rpc-attempts") {
        Some(previous) => previous.to_str().expect("a number").to_owned(),
        None => "none".into(),
    };
    let mut previous: Vec<String> = origin.calls().iter().map(told).collect();
    previous.sort();
    assert_eq!(previous, ["1", "2", "3", "none"].map(|n| vec![n; 15]).concat());
    Ok(())
}

#[tokio::test]
async fn without_the_filter_a_dead_server_is_tried_twelve_times() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    let closed = ClosedPort::new();
    let envoy = Envoy::start(&config("control.yaml", closed.addr())).await?;
    let answers = go.client(envoy.addr(), &[]).await?;
    assert_eq!((answers[0].code, answers[0].attempts.len()), (Code::Unavailable, MAX_ATTEMPTS), "{answers:?}");
    assert_eq!(envoy.stat("cluster.orders.upstream_cx_connect_fail").await?, 12);
    Ok(())
}

// ---- with it ----

#[tokio::test]
async fn an_empty_bucket_stops_envoy_and_the_client() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    for file in FILES {
        let origin = unavailable().await;
        let envoy = Envoy::start(&config(file, origin.addr()).policy(tokens(0))).await?;
        let answers = go.client(envoy.addr(), &[]).await?;
        assert_eq!((origin.hits(), answers[0].attempts.len()), (1, 1), "{file}: {answers:?}");
        assert_eq!((answers[0].code, answers[0].message.as_str()), (Code::Unavailable, WORDS), "{file}");
        assert_eq!(answers[0].told(PUSHBACK), ["-1"], "{file}");
        assert_eq!(answers[0].told("x-retry-stop"), ["budget"], "{file}");
    }
    Ok(())
}

#[tokio::test]
async fn an_empty_bucket_stops_every_client_of_a_grpc_go_server() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    for file in FILES {
        let server = go.server(&["-code", "UNAVAILABLE", "-message", WORDS, "-metadata", "x-why=load"])?;
        let envoy = Envoy::start(&config(file, server.addr).policy(tokens(0))).await?;
        let answers = go.client(envoy.addr(), &["-calls", "20"]).await?;
        assert_eq!((answers.len(), server.calls()?.len()), (20, 20), "{file}");
        for answer in &answers {
            assert_eq!((answer.code, answer.message.as_str()), (Code::Unavailable, WORDS), "{file}: {answer:?}");
            assert_eq!((answer.told("x-why"), answer.attempts.len()), (vec!["load"], 1), "{file}: {answer:?}");
        }
    }
    Ok(())
}

#[tokio::test]
async fn the_client_stops_where_the_tokens_end() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    for file in FILES {
        let origin = unavailable().await;
        let envoy = Envoy::start(&config(file, origin.addr()).policy(tokens(3))).await?;
        let answers = go.client(envoy.addr(), &[]).await?;
        // Two retries for the client's first attempt, one for its second, then the stop. The first ends
        // as Envoy's policy says: no stop, so the client may go on.
        let attempts = &answers[0].attempts;
        assert_eq!((origin.hits(), attempts.len()), (5, 2), "{file}: {answers:?}");
        assert_eq!((attempts[0].told(PUSHBACK), attempts[1].told(PUSHBACK)), (vec![], vec!["-1"]), "{file}");
        assert_eq!((answers[0].code, answers[0].message.as_str()), (Code::Unavailable, WORDS), "{file}");
    }
    Ok(())
}

#[tokio::test]
async fn a_client_that_gets_no_signal_goes_on() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    for file in FILES {
        let origin = unavailable().await;
        let mut policy = tokens(0);
        policy["stop_signal"] = json!({"emit": "none"});
        let envoy = Envoy::start(&config(file, origin.addr()).policy(policy)).await?;
        let answers = go.client(envoy.addr(), &[]).await?;
        assert_eq!((origin.hits(), answers[0].attempts.len()), (MAX_ATTEMPTS, MAX_ATTEMPTS), "{file}: {answers:?}");
        assert_eq!((answers[0].code, answers[0].message.as_str()), (Code::Unavailable, WORDS), "{file}");
        assert!(answers[0].told(PUSHBACK).is_empty(), "{file}: {answers:?}");
    }
    Ok(())
}

#[tokio::test]
async fn an_empty_bucket_and_a_refused_connection_are_one_attempt() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    for file in FILES {
        let closed = ClosedPort::new();
        let envoy = Envoy::start(&config(file, closed.addr()).policy(tokens(0))).await?;
        let answers = go.client(envoy.addr(), &[]).await?;
        assert_eq!((answers[0].code, answers[0].attempts.len()), (Code::Unavailable, 1), "{file}: {answers:?}");
        assert!(answers[0].message.contains("retry budget"), "{file}: {}", answers[0].message);
        assert_eq!(answers[0].told(PUSHBACK), ["-1"], "{file}");
        assert_eq!(answers[0].told("x-retry-stop"), ["budget"], "{file}");
        // Envoy began one retry, the filter refused it: one attempt, whose failure the client was told of at once.
        assert_eq!(envoy.stat("cluster.orders.upstream_rq_retry").await?, 1, "{file}");
        let (attempts, stops) = ("retry_budget_attempts_total", "retry_budget_stops_total");
        assert_eq!((count(&envoy, attempts).await?, count(&envoy, stops).await?), (1, 1), "{file}");
    }
    Ok(())
}

#[tokio::test]
async fn calls_that_succeed_after_a_retry_are_one_attempt_to_the_client() -> Result<()> {
    let Some(go) = GrpcGo::built() else { return Ok(()) };
    for file in FILES {
        let server = go.server(&["-failures", "1"])?;
        let envoy = Envoy::start(&config(file, server.addr)).await?;
        let answers = go.client(envoy.addr(), &["-calls", "5", "-timeout", "10s", "-metadata", "x-tenant=t"]).await?;
        for answer in &answers {
            assert_eq!((answer.code, answer.attempts.len()), (Code::Ok, 1), "{file}: {answer:?}");
        }
        let calls = server.calls()?;
        assert_eq!(calls.len(), 10, "{file}");
        for call in &calls {
            assert_eq!(call["metadata"]["x-tenant"], json!(["t"]), "{file}: {call}");
            let left = call["left_ms"].as_f64().expect("the call has a deadline");
            assert!((1.0..=10_000.0).contains(&left), "{file}: {call}");
        }
    }
    Ok(())
}

// ---- the command ----

/// The built command.
struct GrpcGo(PathBuf);

/// What the client saw of one call.
#[derive(Debug)]
struct Answer {
    code: Code,
    message: String,
    trailer: Metadata,
    /// The trailers of each attempt that grpc-go made.
    attempts: Vec<Metadata>,
}

/// Metadata as the command prints them: names with lists of values.
#[derive(Debug)]
struct Metadata(Value);

impl Metadata {
    /// The values of one name.
    fn told(&self, name: &str) -> Vec<&str> {
        self.0[name].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

impl Answer {
    fn read(answer: &Value) -> Answer {
        let number = answer["code"].as_i64().and_then(|code| i32::try_from(code).ok()).expect("a code");
        let attempts = answer["attempts"].as_array().expect("attempts").iter();
        Answer {
            code: Code::from_i32(number),
            message: answer["message"].as_str().expect("a message").into(),
            trailer: Metadata(answer["trailer"].clone()),
            attempts: attempts.map(|attempt| Metadata(attempt["trailer"].clone())).collect(),
        }
    }

    fn told(&self, name: &str) -> Vec<&str> {
        self.trailer.told(name)
    }
}

impl GrpcGo {
    /// Builds it, once for all tests. `None` where there is no Go that could.
    fn built() -> Option<&'static GrpcGo> {
        static BUILT: OnceLock<Option<GrpcGo>> = OnceLock::new();
        let find = || {
            let module = GoModule::new("grpc-go");
            module.is_usable(false).then(|| GrpcGo(build(&module)))
        };
        BUILT.get_or_init(find).as_ref()
    }

    /// Calls `addr`, with the retry policy and what else the flags say.
    async fn client(&self, addr: SocketAddr, flags: &[&str]) -> Result<Vec<Answer>> {
        let mut command = Command::new(&self.0);
        command.args(["client", "-addr", &addr.to_string(), "-attempts", &MAX_ATTEMPTS.to_string()]).args(flags);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        assert!(output.status.success(), "the client: {}", String::from_utf8_lossy(&output.stderr));
        let answers = parse(&output.stdout)?;
        Ok(answers.as_array().expect("a list of answers").iter().map(Answer::read).collect())
    }

    fn server(&self, flags: &[&str]) -> Result<GoServer> {
        let mut command = Command::new(&self.0);
        command.arg("server").args(flags).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let mut stdout = BufReader::new(child.stdout.take().expect("a piped stdout"));
        let mut line = String::new();
        stdout.read_line(&mut line)?;
        let addr = parse(line.as_bytes())?["addr"].as_str().expect("an address").parse()?;
        Ok(GoServer { addr, child, stdout })
    }
}

/// A running grpc-go server, ended when dropped.
struct GoServer {
    addr: SocketAddr,
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl GoServer {
    /// Ends it: all calls that it took.
    fn calls(mut self) -> Result<Vec<Value>> {
        drop(self.child.stdin.take());
        let mut book = Vec::new();
        self.stdout.read_to_end(&mut book)?;
        let calls = parse(&book)?;
        Ok(calls.as_array().expect("a list of calls").clone())
    }
}

impl Drop for GoServer {
    fn drop(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parse(json: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(json)?;
    text.parse().map_err(|e| lab::Error::msg(format!("{e}: {text}")))
}

// ---- Go ----

fn build(module: &GoModule) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let binary = folder.join("grpc-go");
    // A test runner may have a process for every test. The second build finds nothing to do.
    let lock = File::create(folder.join("grpc-go.lock")).expect("a file in the target folder");
    lock.lock().expect("a lock in the target folder");
    let mut command = module.command(&["build", "-trimpath", "-buildvcs=false", "-o"]);
    let output = command.arg(&binary).env("CGO_ENABLED", "0").output().expect("Go ran a moment ago");
    assert!(output.status.success(), "go build:\n{}", String::from_utf8_lossy(&output.stderr));
    binary
}
