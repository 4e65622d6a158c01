//! The key-value store that all VMs of one id share, with Envoy's rules:
//! * a write with cas 0 overwrites;
//! * a write to a key that is there, with a cas that is not its own, is refused;
//! * a write to an absent key succeeds whatever the cas, and creates it;
//! * every write takes the next cas of one counter for the whole process, which skips 0.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::Status;

#[derive(Default)]
pub(crate) struct SharedData(Mutex<Store>);

/// Values with their cas, by key.
type Keys = HashMap<Vec<u8>, (Vec<u8>, u32)>;

struct Store {
    next_cas: u32,
    by_vm: HashMap<String, Keys>,
}

impl Default for Store {
    fn default() -> Self {
        Self { next_cas: 1, by_vm: HashMap::new() }
    }
}

impl SharedData {
    fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, vm_id: &str, key: &[u8]) -> Option<(Vec<u8>, u32)> {
        self.lock().by_vm.get(vm_id)?.get(key).cloned()
    }

    pub(crate) fn set(&self, vm_id: &str, key: &[u8], value: &[u8], cas: u32) -> Status {
        let mut store = self.lock();
        let present = store.by_vm.get(vm_id).and_then(|keys| keys.get(key));
        if cas != 0 && present.is_some_and(|(_, own)| *own != cas) {
            return Status::CasMismatch;
        }
        let cas = store.next_cas;
        store.next_cas = cas.wrapping_add(1).max(1);
        store.by_vm.entry(vm_id.to_owned()).or_default().insert(key.to_vec(), (value.to_vec(), cas));
        Status::Ok
    }

    pub(crate) fn keys(&self, vm_id: &str) -> Vec<Vec<u8>> {
        let mut keys: Vec<_> =
            self.lock().by_vm.get(vm_id).map(|keys| keys.keys().cloned().collect()).unwrap_or_default();
        keys.sort();
        keys
    }

    pub(crate) fn set_next_cas(&self, cas: u32) {
        self.lock().next_cas = cas.max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_key_takes_any_cas_and_a_present_one_only_its_own() {
        let data = SharedData::default();
        assert_eq!(data.get("vm", b"k"), None);
        assert_eq!(data.set("vm", b"k", b"1", u32::MAX), Status::Ok);
        assert_eq!(data.get("vm", b"k"), Some((b"1".to_vec(), 1)));
        assert_eq!(data.set("vm", b"k", b"2", u32::MAX), Status::CasMismatch);
        assert_eq!(data.set("vm", b"k", b"2", 1), Status::Ok);
        assert_eq!(data.set("vm", b"k", b"3", 1), Status::CasMismatch);
        assert_eq!(data.set("vm", b"k", b"4", 0), Status::Ok);
        assert_eq!(data.get("vm", b"k"), Some((b"4".to_vec(), 3)));
        assert_eq!(data.get("other", b"k"), None);
    }

    #[test]
    fn the_cas_counter_serves_all_keys_and_skips_zero() {
        let data = SharedData::default();
        data.set_next_cas(u32::MAX);
        for key in [b"a", b"b", b"c"] {
            data.set("vm", key, b"", 0);
        }
        let cas = |key: &[u8]| data.get("vm", key).map(|(_, cas)| cas);
        assert_eq!([cas(b"a"), cas(b"b"), cas(b"c")], [Some(u32::MAX), Some(1), Some(2)]);
    }
}
