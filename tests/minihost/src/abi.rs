//! The numbers of the proxy-wasm ABI 0.2.x, as its hosts use them.

/// What a host call answers.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    Ok = 0,
    NotFound = 1,
    BadArgument = 2,
    SerializationFailure = 3,
    ParseFailure = 4,
    BadExpression = 5,
    InvalidMemoryAccess = 6,
    Empty = 7,
    CasMismatch = 8,
    ResultMismatch = 9,
    InternalFailure = 10,
    BrokenConnection = 11,
    Unimplemented = 12,
}

impl Status {
    /// Every status there is.
    pub const ALL: [Status; 13] = [
        Status::Ok,
        Status::NotFound,
        Status::BadArgument,
        Status::SerializationFailure,
        Status::ParseFailure,
        Status::BadExpression,
        Status::InvalidMemoryAccess,
        Status::Empty,
        Status::CasMismatch,
        Status::ResultMismatch,
        Status::InternalFailure,
        Status::BrokenConnection,
        Status::Unimplemented,
    ];

    /// Every status but `Ok`: what a test injects.
    pub fn failures() -> impl Iterator<Item = Status> {
        Self::ALL.into_iter().skip(1)
    }
}

/// What the module wants to happen to the stream after a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Continue,
    /// The stream waits; also after a local reply, whatever the callback returned, as in Envoy.
    Pause,
}

/// Severity of a log line.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Trace = 0,
    Debug = 1,
    Info = 2,
    Warn = 3,
    Error = 4,
    Critical = 5,
}

impl LogLevel {
    pub(crate) fn from_abi(level: u32) -> Option<Self> {
        use LogLevel::*;
        [Trace, Debug, Info, Warn, Error, Critical].get(level as usize).copied()
    }
}

/// The maps a module may ask for; the others (of callouts) are never there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapType {
    RequestHeaders,
    RequestTrailers,
    ResponseHeaders,
    ResponseTrailers,
    /// Maps of callouts, which this host does not make.
    Callout,
}

impl MapType {
    pub(crate) fn from_abi(map: u32) -> Option<Self> {
        match map {
            0 => Some(Self::RequestHeaders),
            1 => Some(Self::RequestTrailers),
            2 => Some(Self::ResponseHeaders),
            3 => Some(Self::ResponseTrailers),
            4..=7 => Some(Self::Callout),
            _ => None,
        }
    }
}

/// Kind of a metric; the low two bits of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricKind {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

impl MetricKind {
    pub(crate) fn from_abi(kind: u32) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Histogram].get(kind as usize).copied()
    }
}
