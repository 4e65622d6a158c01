//! The functions a module may import. Each goes through [`Call::run`], which lets faults and a test's own actions in
//! and keeps the record; what a function does is in the files beside this one.

mod process;
mod stream;

use wasmi::{Caller, Error as WasmiError, Linker, Val};

use crate::abi::Status;
use crate::calls;
use crate::context::VmState;
use crate::module::ModuleFile;

/// The namespace of the proxy's own functions.
pub(crate) const ENV: &str = "env";
/// The namespace of WASI, of which this host has the clock only.
pub(crate) const WASI: &str = "wasi_snapshot_preview1";

/// Functions of the ABI that this host answers with `Unimplemented`: callouts, gRPC streams, queues.
const UNIMPLEMENTED: [&str; 12] = [
    "proxy_http_call",
    "proxy_grpc_call",
    "proxy_grpc_stream",
    "proxy_grpc_send",
    "proxy_grpc_cancel",
    "proxy_grpc_close",
    "proxy_get_status",
    "proxy_register_shared_queue",
    "proxy_resolve_shared_queue",
    "proxy_dequeue_shared_queue",
    "proxy_enqueue_shared_queue",
    "proxy_set_buffer_bytes",
];

/// Host calls that one callback may make before it counts as caught in a loop.
const MAX_CALLS: usize = 10_000;

/// Whether this host has an import, given as `module.name`.
pub(crate) fn is_known(import: &str) -> bool {
    let Some((module, name)) = import.split_once('.') else { return false };
    match module {
        ENV => UNIMPLEMENTED.contains(&name) || stream::NAMES.contains(&name) || process::ENV_NAMES.contains(&name),
        WASI => process::WASI_NAMES.contains(&name),
        _ => false,
    }
}

/// All functions, for one module.
pub(crate) fn linker(file: &ModuleFile) -> Result<Linker<VmState>, WasmiError> {
    let mut linker = Linker::new(&file.engine);
    stream::define(&mut linker)?;
    process::define(&mut linker)?;
    // Of these only the type that the module declares matters.
    for import in file.module.imports() {
        let unimplemented = UNIMPLEMENTED.into_iter().find(|name| import.module() == ENV && *name == import.name());
        let (Some(name), Some(ty)) = (unimplemented, import.ty().func()) else { continue };
        linker.func_new(ENV, name, ty.clone(), move |caller, _, results| {
            let status = Call::run(caller, name, |_| Err(Status::Unimplemented))?;
            results.iter_mut().for_each(|result| *result = Val::I32(status.cast_signed()));
            Ok(())
        })?;
    }
    Ok(linker)
}

/// One host call while it runs.
pub(crate) struct Call<'a> {
    caller: Caller<'a, VmState>,
    about: String,
    returned: Option<usize>,
    trap: Option<WasmiError>,
}

/// What the body of a host call comes to.
pub(crate) type Outcome = Result<(), Status>;

impl<'a> Call<'a> {
    /// Runs a host call: first the test's action, then its faults, else `body`.
    pub(crate) fn run(
        caller: Caller<'a, VmState>,
        name: &'static str,
        body: impl FnOnce(&mut Call<'a>) -> Outcome,
    ) -> Result<u32, WasmiError> {
        let mut call = Call { caller, about: String::new(), returned: None, trap: None };
        let host = call.state().host.clone();
        host.run_hooks(name);
        let status = match host.inner().faults.check(name) {
            Some(status) => {
                call.about("fault");
                status
            }
            None => body(&mut call).err().unwrap_or(Status::Ok),
        };
        if let Some(trap) = call.trap {
            return Err(trap);
        }
        let Call { mut caller, about, returned, .. } = call;
        let state = caller.data_mut();
        let (callback, context) = (state.current.callback, state.active_id());
        state.record(calls::Call { callback, context, name, about, status: status as u32, returned });
        if callback == "_initialize" || callback == "_start" {
            return Err(WasmiError::new(format!("{name} in {callback}: no context exists yet, Envoy fails the load")));
        }
        if state.current.calls.total > MAX_CALLS {
            return Err(WasmiError::new(format!("more than {MAX_CALLS} host calls in one callback")));
        }
        Ok(status as u32)
    }

    pub(crate) fn state(&mut self) -> &mut VmState {
        self.caller.data_mut()
    }

    /// Says for the record what the call is about.
    pub(crate) fn about(&mut self, what: impl Into<String>) {
        self.about = what.into();
    }

    /// Reads the module's memory.
    pub(crate) fn read(&self, at: u32, len: u32) -> Result<Vec<u8>, Status> {
        let memory = self.caller.data().memory.ok_or(Status::InvalidMemoryAccess)?;
        let (at, len) = (at as usize, len as usize);
        let bytes = memory.data(&self.caller).get(at..at + len).ok_or(Status::InvalidMemoryAccess)?;
        Ok(bytes.to_vec())
    }

    /// Reads a text of the module; what is no UTF-8 becomes replacement characters.
    pub(crate) fn text(&self, at: u32, len: u32) -> Result<String, Status> {
        Ok(String::from_utf8_lossy(&self.read(at, len)?).into_owned())
    }

    /// Writes the module's memory.
    pub(crate) fn write(&mut self, at: u32, bytes: &[u8]) -> Outcome {
        let memory = self.caller.data().memory.ok_or(Status::InvalidMemoryAccess)?;
        memory.write(&mut self.caller, at as usize, bytes).map_err(|_| Status::InvalidMemoryAccess)
    }

    /// Returns bytes the ABI's way: the module allocates, the host fills and writes address and length. Without any
    /// bytes the module is not entered, and the address is 0.
    pub(crate) fn return_bytes(&mut self, bytes: &[u8], address_at: u32, len_at: u32) -> Outcome {
        let mut address = 0;
        if !bytes.is_empty() {
            let allocate = self.caller.data().allocate.ok_or(Status::InvalidMemoryAccess)?;
            address = match allocate.call(&mut self.caller, bytes.len() as u32) {
                Ok(address) => address,
                Err(trap) => {
                    self.trap = Some(trap);
                    return Err(Status::InternalFailure);
                }
            };
            self.returned = Some(bytes.len());
            self.write(address, bytes)?;
        }
        self.write(address_at, &address.to_le_bytes())?;
        self.write(len_at, &(bytes.len() as u32).to_le_bytes())
    }
}
