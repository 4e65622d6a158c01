//! What the proxy offers, as a trait: every call answers with a `Result`, never with a panic.

#[cfg(target_arch = "wasm32")]
mod raw;
#[cfg(target_arch = "wasm32")]
pub use raw::ProxyWasm;

/// A call that the host refused, with its proxy-wasm status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostError {
    pub call: &'static str,
    pub status: u32,
}

pub type Result<T> = std::result::Result<T, HostError>;

/// The token that shared data gives with a value and checks on a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cas(pub u32);

impl Cas {
    /// For a key that was missing. The host checks the token of an existing key only, and reads 0 as "overwrite": a
    /// token that no key ever has makes the write a create-if-absent.
    pub const ABSENT: Self = Self(u32::MAX);
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum HeaderMap {
    Request = 0,
    Response = 2,
    ResponseTrailers = 3,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MetricKind {
    Counter = 0,
    Gauge = 1,
    Histogram = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricId(pub u32);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LogLevel {
    Info = 2,
    Warn = 3,
    Error = 4,
}

/// The id that the host gave a root or a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ContextId(pub u32);

pub struct LocalReply<'a> {
    pub status: u16,
    /// Shown by `%RESPONSE_CODE_DETAILS%`.
    pub details: &'a str,
    pub headers: &'a [(&'a str, &'a str)],
    pub body: &'a [u8],
    /// Used by the host where the request is gRPC.
    pub grpc_status: u8,
}

/// Property paths are written with their segments joined by NUL, as the ABI takes them.
pub trait Host {
    fn property(&self, path: &str) -> Result<Option<Vec<u8>>>;
    fn set_property(&self, path: &str, value: &[u8]) -> Result<()>;

    /// The first field of that name.
    fn header(&self, map: HeaderMap, name: &str) -> Result<Option<Vec<u8>>>;
    /// All fields in one call: it costs no more than reading one.
    fn headers(&self, map: HeaderMap) -> Result<Headers>;
    fn set_header(&self, map: HeaderMap, name: &str, value: &str) -> Result<()>;
    fn remove_header(&self, map: HeaderMap, name: &str) -> Result<()>;

    fn shared(&self, key: &[u8]) -> Result<Option<(Vec<u8>, Cas)>>;
    /// Whether the write was made: it is not when another came first.
    fn set_shared(&self, key: &[u8], value: &[u8], cas: Cas) -> Result<bool>;

    fn define_metric(&self, kind: MetricKind, name: &[u8]) -> Result<MetricId>;
    fn increment(&self, counter: MetricId, by: i64) -> Result<()>;
    fn record(&self, gauge: MetricId, value: u64) -> Result<()>;
    fn metric(&self, id: MetricId) -> Result<u64>;

    fn reply(&self, reply: &LocalReply<'_>) -> Result<()>;
    fn set_effective_context(&self, id: ContextId) -> Result<()>;
    fn set_tick_period(&self, millis: u32) -> Result<()>;
    /// Nanoseconds on a clock that never goes back.
    fn monotonic(&self) -> Result<u64>;
    /// Nanoseconds since the epoch, on the wall clock.
    fn wall_clock(&self) -> Result<u64>;
    /// All `len` bytes of it.
    fn plugin_configuration(&self, len: usize) -> Result<Vec<u8>>;
    fn log(&self, level: LogLevel, message: &str);
}

/// A header map as the host serialises it; bytes, because nothing promises UTF-8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<u8>);

impl Headers {
    pub fn new(serialised: Vec<u8>) -> Self {
        Self(serialised)
    }

    /// The first field of that name (lower case).
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.iter().find(|(n, _)| *n == name.as_bytes()).map(|(_, v)| v)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        Pairs::new(&self.0)
    }
}

/// `count u32 · (name length u32 · value length u32) × count · (name NUL value NUL) × count`
struct Pairs<'a> {
    lengths: &'a [u8],
    fields: &'a [u8],
}

impl<'a> Pairs<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self::split(bytes).unwrap_or(Self { lengths: &[], fields: &[] })
    }

    fn split(bytes: &'a [u8]) -> Option<Self> {
        let (count, rest) = take_u32(bytes)?;
        let (lengths, fields) = rest.split_at_checked(count.checked_mul(8)?)?;
        Some(Self { lengths, fields })
    }

    fn take_field(&mut self, len: usize) -> Option<&'a [u8]> {
        let (field, rest) = self.fields.split_at_checked(len)?;
        self.fields = rest.get(1..).unwrap_or(&[]);
        Some(field)
    }
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (name, rest) = take_u32(self.lengths)?;
        let (value, rest) = take_u32(rest)?;
        self.lengths = rest;
        Some((self.take_field(name)?, self.take_field(value)?))
    }
}

fn take_u32(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<4>()?;
    Some((usize::try_from(u32::from_le_bytes(*head)).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_pairs_and_survives_cut_ones() {
        let mut bytes = vec![2, 0, 0, 0];
        for n in [7u32, 3, 1, 0] {
            bytes.extend(n.to_le_bytes());
        }
        bytes.extend(b":status\x00503\x00a\x00\x00");
        let headers = Headers::new(bytes.clone());
        assert_eq!(headers.get(":status"), Some(&b"503"[..]));
        assert_eq!(headers.get("a"), Some(&b""[..]));
        assert_eq!(headers.get("b"), None);
        for cut in 0..bytes.len() {
            assert!(Headers::new(bytes[..cut].to_vec()).iter().count() <= 2);
        }
        assert_eq!(Headers::new(vec![255; 64]).iter().count(), 0);
    }
}
