//! What a scripted service does with one call.

use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::time::Duration;

/// An answer, or the way in which there is none. `503.into()` is a plain 503.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub(crate) trailers: HeaderMap,
    pub body: Bytes,
    /// Before any of it.
    pub delay: Duration,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    /// The whole answer.
    Whole,
    /// The connection (HTTP/2: the stream) is reset instead of an answer.
    Reset,
    /// It is reset after the headers and the first half of the body.
    Cut,
    /// No answer at all; the connection stays open.
    Hang,
}

impl Reply {
    /// This status, with a body that names it.
    pub fn new(status: u16) -> Reply {
        Reply {
            status: StatusCode::from_u16(status).expect("a status between 100 and 999"),
            headers: HeaderMap::new(),
            trailers: HeaderMap::new(),
            body: format!("the origin says {status}\n").into(),
            delay: Duration::ZERO,
            end: End::Whole,
        }
    }

    /// Takes the request, then resets its connection (HTTP/2: its stream) without an answer.
    pub fn reset() -> Reply {
        Reply { end: End::Reset, ..Reply::new(200) }
    }

    /// Takes the request and never answers it.
    pub fn hang() -> Reply {
        Reply { end: End::Hang, ..Reply::new(200) }
    }

    /// Resets in the middle of the body instead of finishing it.
    pub fn cut(self) -> Reply {
        Reply { end: End::Cut, ..self }
    }

    /// Does all that only after a while.
    pub fn after(self, delay: Duration) -> Reply {
        Reply { delay, ..self }
    }

    pub fn body(self, body: impl Into<Bytes>) -> Reply {
        Reply { body: body.into(), ..self }
    }

    /// One more header field; repeated names are repeated on the wire.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Reply {
        let (name, value) = field(name, value);
        self.headers.append(name, value);
        self
    }

    /// One more trailer field.
    pub fn trailer(mut self, name: &str, value: impl AsRef<[u8]>) -> Reply {
        let (name, value) = field(name, value);
        self.trailers.append(name, value);
        self
    }
}

impl From<u16> for Reply {
    fn from(status: u16) -> Reply {
        Reply::new(status)
    }
}

/// A header field out of a name and any bytes that HTTP allows, UTF-8 or not.
pub(crate) fn field(name: &str, value: impl AsRef<[u8]>) -> (HeaderName, HeaderValue) {
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap_or_else(|e| panic!("header name {name:?}: {e}"));
    let value = HeaderValue::from_bytes(value.as_ref()).unwrap_or_else(|e| panic!("value of {name}: {e}"));
    (name, value)
}
