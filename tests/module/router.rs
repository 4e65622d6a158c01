//! A router in miniature: it makes the attempts of a request and calls the filter, where it stands, as Envoy does.

use crate::worker::ok;
use minihost::{Action, Ctx, Headers, LocalReply, Result, Root, Stream};

/// Where the filter stands, and how many retries the route allows.
#[derive(Clone)]
pub struct Router {
    pub listener: Option<Root>,
    pub upstream: Option<Root>,
    pub retries: u64,
}

/// A status that the route retries and the filter's policy does not know of.
const ALSO_RETRIED: u32 = 404;

/// What becomes of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Status(u32),
    /// A trailers-only gRPC response.
    Grpc(u32),
    Reset,
    ConnectFailure,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// Attempts that were sent.
    pub sent: u64,
    /// The response that the client got.
    pub response: Headers,
    /// The filter's own reply, where that is what the client got.
    pub reply: Option<LocalReply>,
    /// It waits for an answer that nobody will give.
    pub hangs: bool,
    /// The client did not wait for it.
    pub left: bool,
}

impl Exchange {
    pub fn status(&self) -> Option<String> {
        self.response.text(":status")
    }

    /// Why the filter stopped the retries, if it did.
    pub fn stop(&self) -> Option<String> {
        self.response.text("x-retry-stop")
    }
}

/// A request on its way.
pub struct Request {
    router: Router,
    stream: Stream,
    listener: Option<Ctx>,
    attempts: Vec<Attempt>,
    number: u64,
    sent: u64,
    allowed: u64,
    exchange: Option<Exchange>,
}

struct Attempt {
    number: u64,
    filter: Option<Ctx>,
    parked: bool,
}

impl Router {
    /// Both placements, in one root.
    pub fn both(root: &Root) -> Self {
        Self { listener: Some(root.clone()), upstream: Some(root.clone()), retries: 2 }
    }

    pub fn attempt_alone(root: &Root) -> Self {
        Self { listener: None, upstream: Some(root.clone()), retries: 2 }
    }

    pub fn request_alone(root: &Root) -> Self {
        Self { listener: Some(root.clone()), upstream: None, retries: 2 }
    }

    /// In an inbound listener, whose router retries nothing.
    pub fn callee(root: &Root) -> Self {
        Self { listener: Some(root.clone()), upstream: None, retries: 0 }
    }

    /// A whole request; `ending` says what becomes of its nth attempt.
    pub fn send(&self, stream: &Stream, ending: impl Fn(u64) -> Ending) -> Result<Exchange> {
        let mut request = self.begin(stream)?;
        loop {
            if let Some(exchange) = &request.exchange {
                return Ok(exchange.clone());
            }
            if request.attempts.is_empty() {
                request.start()?;
            } else {
                request.answer(request.number, ending(request.number))?;
            }
        }
    }

    /// The request comes, and its first attempt starts.
    pub fn begin(&self, stream: &Stream) -> Result<Request> {
        let listener = self.listener.as_ref().map(|root| root.listener(stream)).transpose()?;
        let mut request = Request {
            router: self.clone(),
            stream: stream.clone(),
            listener,
            attempts: Vec::new(),
            number: 0,
            sent: 0,
            allowed: self.retries,
            exchange: None,
        };
        if let Some(listener) = &request.listener
            && listener.request_headers(true)? == Action::Pause
        {
            request.end(true)?;
            return Ok(request);
        }
        if let Some(asked) = stream.request_headers().text("x-envoy-max-retries") {
            request.allowed = asked.parse().expect("a number of retries");
        }
        request.start()?;
        Ok(request)
    }
}

impl Request {
    /// What became of it, once it is over.
    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
    }

    /// The attempts that are in flight; none during a backoff.
    pub fn in_flight(&self) -> Vec<u64> {
        self.attempts.iter().filter(|a| !a.parked).map(|a| a.number).collect()
    }

    pub fn is_parked(&self) -> bool {
        self.attempts.iter().any(|attempt| attempt.parked)
    }

    /// Attempts that were sent so far.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Whether the route allows one more attempt.
    pub fn may_retry(&self) -> bool {
        self.exchange.is_none() && self.number <= self.allowed
    }

    /// One more attempt: a retry after the backoff, or a hedge beside one that is in flight.
    pub fn start(&mut self) -> Result<()> {
        self.number += 1;
        let path = ["upstream", "request_attempt_count"];
        self.stream.set_property(&path, self.number.to_le_bytes());
        let filter = self.router.upstream.as_ref().map(|root| root.attempt(&self.stream, self.number)).transpose()?;
        let waits = filter.as_ref().map_or(Ok(Action::Continue), |f| f.request_headers(true))? == Action::Pause;
        let replied = self.stream.local_reply().is_some();
        // Nothing but another attempt in flight can answer a parked one.
        let parked = waits && !replied && !self.in_flight().is_empty();
        self.attempts.push(Attempt { number: self.number, filter, parked });
        if waits && !parked {
            return self.end(true);
        }
        self.sent += u64::from(!parked);
        Ok(())
    }

    /// What becomes of an attempt in flight.
    pub fn answer(&mut self, number: u64, ending: Ending) -> Result<()> {
        let at = self.attempts.iter().position(|attempt| attempt.number == number).expect("an attempt of that number");
        let filter = self.attempts.remove(at).filter;
        let (status, fields): (u32, Vec<(&str, String)>) = match ending {
            Ending::Status(status) => (status, vec![("server", "origin".into())]),
            Ending::Grpc(code) => {
                (200, vec![("content-type", "application/grpc".into()), ("grpc-status", code.to_string())])
            }
            Ending::Reset | Ending::ConnectFailure => return self.lose(filter, ending == Ending::ConnectFailure),
        };
        self.stream.respond(status, fields.as_slice());
        if let Some(filter) = &filter {
            filter.response_headers(true)?;
        }
        let failed = status >= 500 || status == ALSO_RETRIED || matches!(ending, Ending::Grpc(1 | 4 | 8 | 13 | 14));
        let marked = self.stream.response_headers().get("x-envoy-ratelimited").is_some();
        let dropped = failed && !marked && (self.may_retry() || !self.attempts.is_empty());
        if let Some(filter) = &filter {
            filter.set_response_code((!dropped).then_some(status.into()));
            filter.done()?;
        }
        if dropped { Ok(()) } else { self.end(false) }
    }

    fn lose(&mut self, filter: Option<Ctx>, never_connected: bool) -> Result<()> {
        if let Some(filter) = &filter {
            if never_connected {
                let reason = "delayed connect error: Connection refused";
                filter.set_property(&["upstream", "transport_failure_reason"], reason);
            }
            filter.done()?;
        }
        if self.attempts.is_empty() && !self.may_retry() {
            self.stream.respond(503, [("server", "envoy")]);
            return self.end(false);
        }
        Ok(())
    }

    /// Looks whether a parked attempt was answered meanwhile.
    pub fn settle(&mut self) -> Result<()> {
        match self.stream.local_reply() {
            Some(_) if self.exchange.is_none() => self.end(true),
            _ => Ok(()),
        }
    }

    /// The client goes. Envoy then destroys the listener's filters before the attempts.
    pub fn leave(&mut self) -> Result<()> {
        self.listener.take().map_or(Ok(()), |listener| listener.done())?;
        let response = Headers::new();
        self.finish(Exchange { sent: self.sent, response, reply: None, hangs: false, left: true })
    }

    /// Nobody has answered it for so long that the route's timeout does.
    pub fn time_out(&mut self) -> Result<()> {
        let response = Headers::from([(":status", "504")]);
        self.finish(Exchange { sent: self.sent, response, reply: None, hangs: true, left: false })
    }

    /// From now on another VM runs the filter. The one before is lost, with all that it knew.
    pub fn reload(&mut self, router: Router) {
        self.router = router;
        self.listener = None;
        self.attempts.clear();
    }

    /// A response goes down to the client: the latest, or where the filter has stopped the stream its own.
    fn end(&mut self, waits: bool) -> Result<()> {
        let reply = self.stream.local_reply();
        if let Some(reply) = &reply {
            let content_type = self.stream.request_headers().text("content-type").unwrap_or_default();
            self.stream.set_response(reply.as_response(content_type.starts_with("application/grpc")));
        }
        let hangs = waits && reply.is_none();
        if let Some(listener) = self.listener.as_ref().filter(|_| !hangs) {
            listener.response_headers(true)?;
        }
        self.finish(Exchange { sent: self.sent, response: self.stream.response_headers(), reply, hangs, left: false })
    }

    fn finish(&mut self, exchange: Exchange) -> Result<()> {
        for attempt in self.attempts.drain(..) {
            attempt.filter.map_or(Ok(()), |filter| filter.done())?;
        }
        self.listener.take().map_or(Ok(()), |listener| listener.done())?;
        self.exchange = Some(exchange);
        Ok(())
    }
}

/// `n` requests at once, each answered only when all have come. Returns what became of them.
pub fn storm(router: &Router, upstream: &str, n: usize, ending: impl Fn(usize, u64) -> Ending) -> Vec<Exchange> {
    let begin = |_| ok(router.begin(&Stream::get(upstream)));
    let mut requests: Vec<Request> = (0..n).map(begin).collect();
    while requests.iter().any(|request| request.exchange.is_none()) {
        for (caller, request) in requests.iter_mut().enumerate() {
            for number in request.in_flight() {
                ok(request.answer(number, ending(caller, number)));
            }
        }
        for request in requests.iter_mut().filter(|request| request.exchange.is_none()) {
            ok(request.start());
        }
    }
    requests.into_iter().filter_map(|request| request.exchange).collect()
}
