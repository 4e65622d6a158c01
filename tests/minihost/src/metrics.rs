//! Metrics by name, shared by all VMs of the process; each VM has ids of its own for them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi::{MetricKind, Status};

type Excluded = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// All metrics of the process.
#[derive(Default)]
pub(crate) struct Metrics {
    cells: Mutex<BTreeMap<(MetricKind, String), Arc<Cell>>>,
    excluded: Mutex<Option<Excluded>>,
}

/// One metric.
#[derive(Default)]
pub(crate) struct Cell {
    pub(crate) name: String,
    value: AtomicU64,
    recorded: Mutex<Vec<u64>>,
    /// Swallows all that is written to it, like a stat that the proxy's `stats_matcher` excludes.
    null: bool,
}

impl Metrics {
    pub(crate) fn define(&self, kind: MetricKind, name: &str) -> Arc<Cell> {
        let excluded = self.excluded.lock().unwrap_or_else(PoisonError::into_inner);
        if excluded.as_ref().is_some_and(|excluded| excluded(name)) {
            return Arc::new(Cell { name: name.to_owned(), null: true, ..Cell::default() });
        }
        let mut cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.entry((kind, name.to_owned()));
        cell.or_insert_with(|| Arc::new(Cell { name: name.to_owned(), ..Cell::default() })).clone()
    }

    pub(crate) fn exclude(&self, excluded: Excluded) {
        *self.excluded.lock().unwrap_or_else(PoisonError::into_inner) = Some(excluded);
    }

    pub(crate) fn value(&self, kind: MetricKind, name: &str) -> Option<u64> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.get(&(kind, name.to_owned())).map(|cell| cell.value())
    }

    pub(crate) fn recorded(&self, name: &str) -> Vec<u64> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        let cell = cells.get(&(MetricKind::Histogram, name.to_owned()));
        cell.map(|cell| cell.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()).unwrap_or_default()
    }

    pub(crate) fn all(&self) -> Vec<(MetricKind, String, u64)> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.iter().map(|((kind, name), cell)| (*kind, name.clone(), cell.value())).collect()
    }
}

impl Cell {
    fn value(&self) -> u64 {
        self.value.load(Relaxed)
    }

    fn write(&self, change: impl FnOnce(&AtomicU64)) {
        if !self.null {
            change(&self.value);
        }
    }
}

/// The metrics one VM has defined, by its ids. Defining a name again gives a further id for the same metric.
#[derive(Default)]
pub(crate) struct MetricIds {
    cells: BTreeMap<u32, Arc<Cell>>,
    defined: [u32; 3],
}

impl MetricIds {
    pub(crate) fn add(&mut self, kind: MetricKind, cell: Arc<Cell>) -> u32 {
        self.defined[kind as usize] += 1;
        let id = (self.defined[kind as usize] << 2) | kind as u32;
        self.cells.insert(id, cell);
        id
    }

    /// The metric's name, for the record of calls.
    pub(crate) fn name(&self, id: u32) -> String {
        self.cells.get(&id).map_or_else(|| format!("#{id}"), |cell| cell.name.clone())
    }

    fn find(&self, id: u32) -> Option<(MetricKind, &Cell)> {
        Some((MetricKind::from_abi(id & 3)?, self.cells.get(&id)?))
    }

    /// A counter or gauge. Envoy tells a metric of the wrong kind from an unknown one.
    fn find_value(&self, id: u32) -> Result<(MetricKind, &Cell), Status> {
        match MetricKind::from_abi(id & 3) {
            Some(MetricKind::Counter | MetricKind::Gauge) => self.find(id).ok_or(Status::NotFound),
            Some(MetricKind::Histogram) | None => Err(Status::BadArgument),
        }
    }

    pub(crate) fn increment(&self, id: u32, offset: i64) -> Result<(), Status> {
        match self.find_value(id)? {
            (MetricKind::Counter, _) if offset <= 0 => return Err(Status::BadArgument),
            (_, cell) => cell.write(|value| _ = value.fetch_add(offset.cast_unsigned(), Relaxed)),
        }
        Ok(())
    }

    pub(crate) fn record(&self, id: u32, new: u64) -> Result<(), Status> {
        match self.find(id).ok_or(Status::NotFound)? {
            (MetricKind::Counter, cell) => cell.write(|value| _ = value.fetch_add(new, Relaxed)),
            (MetricKind::Gauge, cell) => cell.write(|value| value.store(new, Relaxed)),
            (MetricKind::Histogram, cell) => {
                cell.write(|_| cell.recorded.lock().unwrap_or_else(PoisonError::into_inner).push(new));
            }
        }
        Ok(())
    }

    pub(crate) fn get(&self, id: u32) -> Result<u64, Status> {
        self.find_value(id).map(|(_, cell)| cell.value())
    }
}

/// Splits a raw name into what dashboards call it and its labels: `upstream=.=orders;.;reason=.=budget;.;stops` is
/// `stops` with `upstream` and `reason`.
pub(crate) fn split_name(raw: &str) -> (&str, Vec<(&str, &str)>) {
    let mut parts: Vec<&str> = raw.split(";.;").collect();
    let name = parts.pop().unwrap_or_default();
    (name, parts.into_iter().filter_map(|label| label.split_once("=.=")).collect())
}
