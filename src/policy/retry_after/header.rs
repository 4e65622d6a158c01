//! The headers that carry hints, by name and as sets.

/// A header that says when to come back, or when a limit is reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintHeader {
    /// RFC 9110 §10.2.3.
    RetryAfter,
    /// Milliseconds; in use at Azure and OpenAI.
    RetryAfterMs,
    /// Milliseconds; in use at Azure.
    XMsRetryAfterMs,
    /// Milliseconds, or a negative number for "do not retry"; gRFC A6.
    GrpcRetryPushbackMs,
    /// draft-ietf-httpapi-ratelimit-headers up to 06.
    RatelimitReset,
    /// What that was made from; as seconds or as a Unix time, depending on who sends it.
    XRatelimitReset,
    /// draft-ietf-httpapi-ratelimit-headers from 08 on, a list of RFC 9651.
    Ratelimit,
}

impl HintHeader {
    pub const ALL: [Self; 7] = [
        Self::RetryAfter,
        Self::RetryAfterMs,
        Self::XMsRetryAfterMs,
        Self::GrpcRetryPushbackMs,
        Self::RatelimitReset,
        Self::XRatelimitReset,
        Self::Ratelimit,
    ];

    /// Lower case, as in HTTP/2 and as the label of a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry-after",
            Self::RetryAfterMs => "retry-after-ms",
            Self::XMsRetryAfterMs => "x-ms-retry-after-ms",
            Self::GrpcRetryPushbackMs => "grpc-retry-pushback-ms",
            Self::RatelimitReset => "ratelimit-reset",
            Self::XRatelimitReset => "x-ratelimit-reset",
            Self::Ratelimit => "ratelimit",
        }
    }

    /// The header of this name (lower case).
    pub fn named(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|header| header.name().as_bytes() == name)
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of hint headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HintHeaders(u8);

impl HintHeaders {
    pub const EMPTY: Self = Self(0);

    pub const fn of(headers: &[HintHeader]) -> Self {
        let mut set = Self::EMPTY;
        let mut rest = headers;
        while let [first, others @ ..] = rest {
            set.0 |= first.bit();
            rest = others;
        }
        set
    }

    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub fn insert(&mut self, header: HintHeader) {
        self.0 |= header.bit();
    }

    pub const fn contains(self, header: HintHeader) -> bool {
        self.0 & header.bit() != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = HintHeader> {
        HintHeader::ALL.into_iter().filter(move |header| self.contains(*header))
    }
}
