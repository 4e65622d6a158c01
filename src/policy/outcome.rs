//! Which responses are *failing*: the ones that Envoy may be about to retry, and the only ones judged.

/// HTTP statuses, one bit each; statuses outside 100–599 are in no set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StatusSet([u64; 8]);

impl StatusSet {
    pub const EMPTY: Self = Self([0; 8]);
    /// The lowest and the highest status that a set can hold.
    pub const RANGE: (u16, u16) = (100, 599);

    pub fn insert(&mut self, status: u16) {
        if let Some((word, bit)) = Self::place(status)
            && let Some(word) = self.0.get_mut(word)
        {
            *word |= bit;
        }
    }

    pub fn contains(&self, status: u16) -> bool {
        Self::place(status).and_then(|(word, bit)| Some(self.0.get(word)? & bit != 0)).unwrap_or(false)
    }

    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (Self::RANGE.0..=Self::RANGE.1).filter(|s| self.contains(*s))
    }

    fn place(status: u16) -> Option<(usize, u64)> {
        if status > Self::RANGE.1 {
            return None;
        }
        let index = status.checked_sub(Self::RANGE.0)?;
        Some((usize::from(index >> 6), 1 << (index & 63)))
    }
}

impl std::fmt::Debug for StatusSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl FromIterator<u16> for StatusSet {
    fn from_iter<I: IntoIterator<Item = u16>>(statuses: I) -> Self {
        let mut set = Self::EMPTY;
        statuses.into_iter().for_each(|s| set.insert(s));
        set
    }
}

/// gRPC status codes 0–16, one bit each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrpcStatusSet(u32);

impl GrpcStatusSet {
    pub const EMPTY: Self = Self(0);
    /// The highest code that gRPC defines (UNAUTHENTICATED).
    pub const MAX: u8 = 16;

    pub fn insert(&mut self, code: u8) {
        if code <= Self::MAX {
            self.0 |= 1 << code;
        }
    }

    pub fn contains(&self, code: u8) -> bool {
        code <= Self::MAX && self.0 & (1 << code) != 0
    }

    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=Self::MAX).filter(|c| self.contains(*c))
    }
}

impl FromIterator<u8> for GrpcStatusSet {
    fn from_iter<I: IntoIterator<Item = u8>>(codes: I) -> Self {
        let mut set = Self::EMPTY;
        codes.into_iter().for_each(|c| set.insert(c));
        set
    }
}

/// `retriable.*`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retriable {
    pub statuses: StatusSet,
    /// Response headers, in lower case, that make a response failing whatever its status (the route's
    /// `retriable-headers`).
    pub headers: Vec<String>,
    pub grpc_statuses: GrpcStatusSet,
}

impl Default for Retriable {
    /// What Envoy's `retry_on` conditions can name without extra status codes of the route: `5xx`,
    /// `retriable-4xx` (409), early data (425), `envoy-ratelimited` (429); for gRPC CANCELLED,
    /// DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED, INTERNAL and UNAVAILABLE.
    fn default() -> Self {
        Self {
            statuses: (500..=599).chain([409, 425, 429]).collect(),
            headers: Vec::new(),
            grpc_statuses: [1, 4, 8, 13, 14].into_iter().collect(),
        }
    }
}

/// The status of a response as its headers tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `:status`; 0 when it is missing or not a number.
    pub http: u16,
    /// `grpc-status` in the headers (a trailers-only response), where there is one.
    pub grpc: Option<u8>,
}

impl Retriable {
    /// Whether Envoy may be about to retry this response.
    pub fn is_failing(&self, status: Status) -> bool {
        self.statuses.contains(status.http) || status.grpc.is_some_and(|code| self.grpc_statuses.contains(code))
    }
}

impl Status {
    /// Whether the upstream has failed, as the breaker sees it: HTTP 5xx; gRPC DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED,
    /// INTERNAL, UNAVAILABLE and DATA_LOSS. What the caller did wrong is no failure of the upstream.
    pub fn is_upstream_failure(self) -> bool {
        (500..=599).contains(&self.http) || matches!(self.grpc, Some(4 | 8 | 13 | 14 | 15))
    }
}

impl std::fmt::Display for Status {
    /// `503`, or `grpc-14` where gRPC tells more than HTTP does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.grpc {
            Some(code) => write!(f, "grpc-{code}"),
            None => write!(f, "{}", self.http),
        }
    }
}
