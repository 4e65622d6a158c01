//! A real gRPC service and client: the standard health service, whose server does as it is told.

use crate::serve::Server;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

/// A gRPC health service on a port of its own.
pub struct GrpcOrigin {
    server: Server,
    shared: Arc<Shared>,
}

/// One call that the service took.
#[derive(Clone, Debug)]
pub struct GrpcCall {
    /// 0 for the first call since the service started.
    pub index: usize,
    /// 1 for the first call of its logical request, told by `x-request-id`, else by the name it asks for.
    pub attempt: usize,
    /// The name of the service whose health is asked for.
    pub service: String,
    pub metadata: MetadataMap,
    /// `grpc-timeout` as it came.
    pub timeout: Option<String>,
    pub at: Instant,
}

/// What the service does with one call.
#[derive(Clone, Debug)]
pub struct GrpcReply {
    status: Option<(Code, String)>,
    metadata: MetadataMap,
    delay: Duration,
}

impl GrpcReply {
    /// Status OK, "serving".
    pub fn serving() -> GrpcReply {
        GrpcReply { status: None, metadata: MetadataMap::new(), delay: Duration::ZERO }
    }

    /// A failure, which gRPC servers send as one block of headers ("trailers only").
    pub fn failing(code: Code, message: &str) -> GrpcReply {
        GrpcReply { status: Some((code, message.into())), ..GrpcReply::serving() }
    }

    pub fn metadata(mut self, name: &str, value: &str) -> GrpcReply {
        append(&mut self.metadata, name, value);
        self
    }

    pub fn after(self, delay: Duration) -> GrpcReply {
        GrpcReply { delay, ..self }
    }
}

struct Shared {
    script: Box<dyn Fn(&GrpcCall) -> GrpcReply + Send + Sync>,
    book: Mutex<(Vec<GrpcCall>, HashMap<String, usize>)>,
}

impl GrpcOrigin {
    pub async fn start(script: impl Fn(&GrpcCall) -> GrpcReply + Send + Sync + 'static) -> GrpcOrigin {
        let shared = Arc::new(Shared { script: Box::new(script), book: Mutex::default() });
        let service = HealthServer::new(Scripted(shared.clone()));
        let server = Server::start(move |stream, _| connection(service.clone(), stream));
        GrpcOrigin { server, shared }
    }

    pub fn addr(&self) -> SocketAddr {
        self.server.addr()
    }

    pub fn hits(&self) -> usize {
        self.shared.book.lock().expect("the book").0.len()
    }

    pub fn calls(&self) -> Vec<GrpcCall> {
        self.shared.book.lock().expect("the book").0.clone()
    }
}

async fn connection(service: HealthServer<Scripted>, stream: TcpStream) {
    let server = auto::Builder::new(TokioExecutor::new()).http2_only();
    // An error is a peer that went away.
    let _ = server.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)).await;
}

struct Scripted(Arc<Shared>);

#[tonic::async_trait]
impl Health for Scripted {
    type WatchStream = tokio_stream::Empty<Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let call = self.0.take(request);
        let reply = (self.0.script)(&call);
        if !reply.delay.is_zero() {
            tokio::time::sleep(reply.delay).await;
        }
        match reply.status {
            Some((code, message)) => Err(Status::with_metadata(code, message, reply.metadata)),
            None => {
                let mut response = Response::new(HealthCheckResponse { status: ServingStatus::Serving.into() });
                *response.metadata_mut() = reply.metadata;
                Ok(response)
            }
        }
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("the lab answers single checks"))
    }
}

impl Shared {
    fn take(&self, request: Request<HealthCheckRequest>) -> GrpcCall {
        let text = |name: &str| request.metadata().get(name).and_then(|v| v.to_str().ok()).map(String::from);
        let (timeout, id) = (text("grpc-timeout"), text("x-request-id"));
        let (metadata, _, message) = request.into_parts();
        let mut book = self.book.lock().expect("the book");
        let (calls, attempts) = &mut *book;
        let attempt = attempts.entry(id.unwrap_or_else(|| message.service.clone())).or_default();
        *attempt += 1;
        let call = GrpcCall {
            index: calls.len(),
            attempt: *attempt,
            service: message.service,
            metadata,
            timeout,
            at: Instant::now(),
        };
        calls.push(call.clone());
        call
    }
}

/// What a gRPC client saw.
#[derive(Clone, Debug)]
pub struct GrpcAnswer {
    /// [`Code::Ok`] where the service said "serving".
    pub code: Code,
    pub message: String,
    /// Headers and trailers of a good answer come as one; so do those of a failure.
    pub metadata: MetadataMap,
    pub latency: Duration,
}

/// A gRPC client with one connection of its own. It retries nothing.
#[derive(Clone)]
pub struct GrpcClient(HealthClient<Channel>);

impl GrpcClient {
    /// Connects to an Envoy or straight to a service.
    pub async fn connect(addr: SocketAddr) -> anyhow::Result<GrpcClient> {
        let endpoint = Endpoint::from_shared(format!("http://{addr}"))?;
        Ok(GrpcClient(HealthClient::new(endpoint.connect().await?)))
    }

    /// One call. The timeout goes along as `grpc-timeout`.
    pub async fn check(&self, service: &str, timeout: Option<Duration>, metadata: &[(&str, &str)]) -> GrpcAnswer {
        let mut request = Request::new(HealthCheckRequest { service: service.into() });
        for (name, value) in metadata {
            append(request.metadata_mut(), name, value);
        }
        if let Some(timeout) = timeout {
            request.set_timeout(timeout);
        }
        let begin = Instant::now();
        let result = self.0.clone().check(request).await;
        let latency = begin.elapsed();
        match result {
            Ok(response) => {
                GrpcAnswer { code: Code::Ok, message: String::new(), metadata: response.metadata().clone(), latency }
            }
            Err(status) => GrpcAnswer {
                code: status.code(),
                message: status.message().into(),
                metadata: status.metadata().clone(),
                latency,
            },
        }
    }

    /// `n` calls at once, each over a connection of its own, so that all of Envoy's workers get some.
    pub async fn storm(addr: SocketAddr, n: usize) -> anyhow::Result<Vec<GrpcAnswer>> {
        let mut clients = Vec::new();
        for _ in 0..n {
            clients.push(GrpcClient::connect(addr).await?);
        }
        let mut running = JoinSet::new();
        for (i, client) in clients.into_iter().enumerate() {
            running.spawn(async move { client.check(&format!("call-{i}"), None, &[]).await });
        }
        Ok(running.join_all().await)
    }
}

fn append(metadata: &mut MetadataMap, name: &str, value: &str) {
    let key: MetadataKey<Ascii> = name.parse().unwrap_or_else(|e| panic!("metadata name {name:?}: {e}"));
    let value: MetadataValue<Ascii> = value.parse().unwrap_or_else(|e| panic!("metadata value {value:?}: {e}"));
    metadata.append(key, value);
}
