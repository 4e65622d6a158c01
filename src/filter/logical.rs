//! A logical request: what its placements and attempts, all on one worker, know of each other.

use super::served::Served;
use crate::host::Host;
use crate::policy::bucket::Instant;
use crate::policy::deadline::Deadline;
use crate::policy::outcome::Status;
use crate::policy::stop::Reason;
use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

/// How an attempt ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    #[default]
    None,
    Response(Status),
    Reset,
    ConnectFailure,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Response(status) => status.fmt(f),
            Self::Reset => f.write_str("reset"),
            Self::ConnectFailure => f.write_str("connect-failure"),
        }
    }
}

/// Which placement saw the request first, and so counts it and keeps its state between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenBy {
    Request,
    /// Nobody lives between two attempts: what must be remembered stays in the filter state.
    Attempt,
    /// A called service's own proxy, which judges by the caller's count.
    Callee,
}

pub struct Logical {
    pub id: u64,
    pub seen_by: SeenBy,
    /// Physical attempts that were started.
    pub attempts: Cell<u32>,
    /// Of these, in flight and not parked.
    pub live: Cell<u32>,
    /// Attempts that wait without having been sent.
    pub parked: Cell<u32>,
    /// Why the first of them was parked.
    pub parked_for: Cell<Option<Reason>>,
    /// A token that was set aside for the next attempt, and from where.
    pub reservation: Cell<Option<Rc<Served>>>,
    /// No retry starts before: what a response asked for that the router waits for.
    pub not_before: Cell<Option<Instant>>,
    /// How the latest attempt failed.
    pub last: Cell<Outcome>,
    /// `observe`: a first stop would have ended this request; what comes after would not have been.
    pub would_have_ended: Cell<bool>,
    /// A response was marked as stopped.
    pub marked: Cell<bool>,
    /// The client's side is gone.
    pub ended: Cell<bool>,
    /// Its first stream was taken for an attempt and is the listener's.
    pub mistaken: Cell<bool>,
    /// When its time is over, if it has a deadline.
    pub deadline: Cell<Option<Deadline>>,
    /// By its content type.
    pub grpc: Cell<bool>,
    /// The request brought a `grpc-timeout`.
    pub grpc_timeout: Cell<bool>,
    /// It may be repeated though its outcome is unknown.
    pub repeatable: Cell<bool>,
    /// Its retries are another layer's.
    pub deferred: Cell<bool>,
    /// Who owns its retries, where anybody says so.
    pub owner: OnceCell<Vec<u8>>,
    /// It has taken a place of the half-open breaker, and has not told how it went.
    pub probe: Cell<bool>,
    /// One of its attempts has been answered, or this filter has answered it: what becomes of the others tells nothing
    /// of the upstream.
    pub decided: Cell<bool>,
    /// As the request headers told it: later they cannot be read.
    pub request_id: OnceCell<Vec<u8>>,
    registry: Weak<Registry>,
}

/// The filter state that links attempts to their request; visible to both placements and all attempts.
pub const LINK: &str = "retry_budget_link";

const RESERVED: u8 = 1;
const WOULD_HAVE_ENDED: u8 = 2;
const GRPC: u8 = 4;
const GRPC_TIMEOUT: u8 = 8;
const DEFERRED: u8 = 16;
const UNREPEATABLE: u8 = 32;
const NO_GRPC_STATUS: u8 = u8::MAX;

impl Logical {
    /// The link's bytes, little endian: `id u64 · flags u8 · outcome u8 · status u16 · grpc-status u8 ·
    /// not before u64 · deadline u64` (a moment 0: none).
    pub fn link(&self, reserved: bool) -> Vec<u8> {
        let flag = |set: bool, flag: u8| if set { flag } else { 0 };
        let flags = flag(reserved, RESERVED)
            | flag(self.would_have_ended.get(), WOULD_HAVE_ENDED)
            | flag(self.deferred.get(), DEFERRED)
            | flag(!self.repeatable.get(), UNREPEATABLE)
            | flag(self.grpc.get(), GRPC)
            | flag(self.grpc_timeout.get(), GRPC_TIMEOUT);
        let (outcome, status) = match self.last.get() {
            Outcome::None => (0, Status::default()),
            Outcome::Reset => (1, Status::default()),
            Outcome::ConnectFailure => (2, Status::default()),
            Outcome::Response(status) => (3, status),
        };
        let moment = |moment: Option<Instant>| moment.map_or(0, |m| m.0).to_le_bytes();
        let mut bytes = self.id.to_le_bytes().to_vec();
        bytes.extend([flags, outcome]);
        bytes.extend(status.http.to_le_bytes());
        bytes.push(status.grpc.unwrap_or(NO_GRPC_STATUS));
        bytes.extend(moment(self.not_before.get()));
        bytes.extend(moment(self.deadline.get().map(|deadline| deadline.at)));
        bytes
    }

    /// Takes up what the link remembers.
    fn recall(&self, remembered: &[u8], served: &Rc<Served>) {
        let Some(([flags, outcome, low, high, grpc], moments)) = remembered.split_first_chunk::<5>() else { return };
        let flag = |flag: u8| flags & flag != 0;
        self.would_have_ended.set(flag(WOULD_HAVE_ENDED));
        self.deferred.set(flag(DEFERRED));
        self.repeatable.set(!flag(UNREPEATABLE));
        self.grpc.set(flag(GRPC));
        self.grpc_timeout.set(flag(GRPC_TIMEOUT));
        if flag(RESERVED) {
            self.reservation.set(Some(Rc::clone(served)));
        }
        let grpc = (*grpc != NO_GRPC_STATUS).then_some(*grpc);
        self.last.set(match outcome {
            1 => Outcome::Reset,
            2 => Outcome::ConnectFailure,
            3 => Outcome::Response(Status { http: u16::from_le_bytes([*low, *high]), grpc }),
            _ => Outcome::None,
        });
        let mut moments = moments.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut moment = || moments.next().filter(|moment| *moment > 0).map(Instant);
        self.not_before.set(moment());
        self.deadline.set(moment().map(|at| Deadline { at }));
    }

    pub fn has_reservation(&self) -> bool {
        let held = self.reservation.take();
        let some = held.is_some();
        self.reservation.set(held);
        some
    }

    /// Gives a token that was set aside back to where it came from.
    pub fn give_back(&self, host: &dyn Host) {
        if let Some(served) = self.reservation.take() {
            served.account().give_back(host, &served.policy.budget);
        }
    }
}

impl Drop for Logical {
    fn drop(&mut self) {
        if let Some(registry) = self.registry.upgrade()
            && let Ok(mut all) = registry.live.try_borrow_mut()
        {
            all.remove(&self.id);
        }
    }
}

/// The logical requests that are alive on this worker. Holds none of them alive: they leave when their streams do.
pub struct Registry {
    live: RefCell<HashMap<u64, Weak<Logical>>>,
    next: Cell<u64>,
}

impl Registry {
    pub fn new(first: u64) -> Self {
        Self { live: RefCell::new(HashMap::new()), next: Cell::new(first) }
    }

    pub fn begin(self: &Rc<Self>, seen_by: SeenBy) -> Rc<Logical> {
        let id = self.next.get();
        self.next.set(id.wrapping_add(1));
        self.insert(id, seen_by, 0)
    }

    /// The request that this link belongs to. Where it is not alive (between two attempts, or since the VM was
    /// reloaded) it is taken up again from what the link says; `served` is whose token a reservation would be.
    pub fn resume(self: &Rc<Self>, link: &[u8], served: &Rc<Served>) -> Option<Rc<Logical>> {
        let (id, remembered) = link.split_first_chunk::<8>()?;
        let id = u64::from_le_bytes(*id);
        let alive = self.live.try_borrow().ok()?.get(&id).and_then(Weak::upgrade);
        if alive.is_some() {
            return alive;
        }
        let logical = self.insert(id, SeenBy::Attempt, 1);
        logical.recall(remembered, served);
        Some(logical)
    }

    fn insert(self: &Rc<Self>, id: u64, seen_by: SeenBy, attempts: u32) -> Rc<Logical> {
        let logical = Rc::new(Logical {
            id,
            seen_by,
            attempts: Cell::new(attempts),
            live: Cell::new(0),
            parked: Cell::new(0),
            parked_for: Cell::new(None),
            reservation: Cell::new(None),
            not_before: Cell::new(None),
            last: Cell::new(Outcome::None),
            would_have_ended: Cell::new(false),
            marked: Cell::new(false),
            ended: Cell::new(false),
            mistaken: Cell::new(false),
            deadline: Cell::new(None),
            grpc: Cell::new(false),
            grpc_timeout: Cell::new(false),
            repeatable: Cell::new(true),
            deferred: Cell::new(false),
            owner: OnceCell::new(),
            probe: Cell::new(false),
            decided: Cell::new(false),
            request_id: OnceCell::new(),
            registry: Rc::downgrade(self),
        });
        if let Ok(mut all) = self.live.try_borrow_mut() {
            all.insert(id, Rc::downgrade(&logical));
        }
        logical
    }
}
