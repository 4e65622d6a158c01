//! The record of the host calls a module makes.

use std::collections::BTreeMap;
use std::fmt;

/// One host call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The callback it was made in, such as `proxy_on_request_headers`.
    pub callback: &'static str,
    /// The context of that callback.
    pub context: u32,
    pub name: &'static str,
    /// What it was about: a header, a property (its path joined with dots), a shared-data key, a metric.
    pub about: String,
    /// The status it answered, [`Status`](crate::Status) as a number.
    pub status: u32,
    /// How many bytes it returned, for which the module was entered again to allocate; this is what makes a call dear.
    pub returned: Option<usize>,
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({}) = {}", self.name, self.about, self.status)?;
        match self.returned {
            Some(bytes) => write!(f, ", {bytes} bytes"),
            None => Ok(()),
        }
    }
}

/// Host calls, counted and listed.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    pub total: usize,
    /// Those that returned bytes.
    pub returning_bytes: usize,
    pub by_name: BTreeMap<&'static str, usize>,
    /// Each of them in order, unless [`Vm::list_calls`](crate::Vm::list_calls) switched that off.
    pub list: Vec<Call>,
}

impl Calls {
    /// How many there were of `name`.
    pub fn count(&self, name: &str) -> usize {
        self.by_name.get(name).copied().unwrap_or(0)
    }

    /// The names in the order of the calls.
    pub fn names(&self) -> Vec<&'static str> {
        self.list.iter().map(|call| call.name).collect()
    }

    /// Only those made in one callback, from the list.
    pub fn in_callback(&self, callback: &str) -> Calls {
        let mut some = Calls::default();
        self.list.iter().filter(|call| call.callback == callback).for_each(|call| some.push(call.clone(), true));
        some
    }

    pub(crate) fn push(&mut self, call: Call, listed: bool) {
        self.total += 1;
        self.returning_bytes += usize::from(call.returned.is_some());
        *self.by_name.entry(call.name).or_default() += 1;
        if listed {
            self.list.push(call);
        }
    }
}

impl fmt::Display for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} calls, {} returning bytes", self.total, self.returning_bytes)?;
        self.list.iter().try_for_each(|call| writeln!(f, "  {}: {call}", call.callback))
    }
}
