//! Host calls about a stream: header maps, bodies, properties, local replies, flow.

use wasmi::{Caller, Error as WasmiError, Linker};

use super::{Call, ENV, Outcome};
use crate::abi::{MapType, Status};
use crate::context::{Context, VmState};
use crate::headers::Headers;
use crate::stream::{LocalReply, lock_headers};

pub(super) const NAMES: [&str; 15] = [
    "proxy_get_header_map_value",
    "proxy_get_header_map_pairs",
    "proxy_get_header_map_size",
    "proxy_set_header_map_pairs",
    "proxy_add_header_map_value",
    "proxy_replace_header_map_value",
    "proxy_remove_header_map_value",
    "proxy_get_property",
    "proxy_set_property",
    "proxy_get_buffer_bytes",
    "proxy_get_buffer_status",
    "proxy_send_local_response",
    "proxy_continue_stream",
    "proxy_close_stream",
    "proxy_set_effective_context",
];

type Vm<'a> = Caller<'a, VmState>;

pub(super) fn define(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    let name = "proxy_get_header_map_value";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, key: u32, key_len: u32, to: u32, to_len: u32| {
        Call::run(vm, name, |call| {
            let map = MapType::from_abi(map).ok_or(Status::BadArgument)?;
            let key = call.text(key, key_len)?;
            call.about(&key);
            let map = call.state().map_to_read(map)?;
            let value = lock_headers(&map).get(&key).ok_or(Status::NotFound)?.to_vec();
            call.return_bytes(&value, to, to_len)
        })
    })?;
    let name = "proxy_get_header_map_pairs";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, to: u32, to_len: u32| {
        Call::run(vm, name, |call| {
            let map = MapType::from_abi(map).ok_or(Status::BadArgument)?;
            call.about(format!("{map:?}"));
            // A map that cannot be read now is an empty one here, and no error.
            let pairs = call.state().map_to_read(map).map(|map| lock_headers(&map).encode()).unwrap_or_default();
            call.return_bytes(&pairs, to, to_len)
        })
    })?;
    let name = "proxy_get_header_map_size";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, to: u32| {
        Call::run(vm, name, |call| {
            let map = MapType::from_abi(map).ok_or(Status::BadArgument)?;
            let map = call.state().map_to_change(map)?;
            let size = lock_headers(&map).byte_size() as u32;
            call.write(to, &size.to_le_bytes())
        })
    })?;
    let name = "proxy_set_header_map_pairs";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, pairs: u32, len: u32| {
        Call::run(vm, name, |call| {
            let pairs = call.read(pairs, len)?;
            let pairs = Headers::decode(&pairs).unwrap_or_default();
            change(call, map, |headers| *headers = pairs)
        })
    })?;
    let name = "proxy_add_header_map_value";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, key: u32, key_len: u32, value: u32, value_len: u32| {
        Call::run(vm, name, |call| {
            let (key, value) = field(call, key, key_len, value, value_len)?;
            change(call, map, |headers| headers.add(key, value))
        })
    })?;
    let name = "proxy_replace_header_map_value";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, key: u32, key_len: u32, value: u32, value_len: u32| {
        Call::run(vm, name, |call| {
            let (key, value) = field(call, key, key_len, value, value_len)?;
            change(call, map, |headers| headers.replace(key, value))
        })
    })?;
    let name = "proxy_remove_header_map_value";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, map: u32, key: u32, key_len: u32| {
        Call::run(vm, name, |call| {
            let (key, _) = field(call, key, key_len, 0, 0)?;
            change(call, map, |headers| headers.remove(key))
        })
    })?;
    define_properties_and_bodies(linker)?;
    define_flow(linker)
}

fn field(
    call: &mut Call<'_>,
    key: u32,
    key_len: u32,
    value: u32,
    value_len: u32,
) -> Result<(Vec<u8>, Vec<u8>), Status> {
    let field = (call.read(key, key_len)?, call.read(value, value_len)?);
    call.about(String::from_utf8_lossy(&field.0));
    Ok(field)
}

fn change(call: &mut Call<'_>, map: u32, change: impl FnOnce(&mut Headers)) -> Outcome {
    let map = MapType::from_abi(map).ok_or(Status::BadArgument)?;
    let map = call.state().map_to_change(map)?;
    change(&mut lock_headers(&map));
    Ok(())
}

fn define_properties_and_bodies(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    let name = "proxy_get_property";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, path: u32, path_len: u32, to: u32, to_len: u32| {
        Call::run(vm, name, |call| {
            let path = call.read(path, path_len)?;
            call.about(dotted(&path));
            let value = call.state().property(&path).ok_or(Status::NotFound)?;
            call.return_bytes(&value, to, to_len)
        })
    })?;
    let name = "proxy_set_property";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, path: u32, path_len: u32, value: u32, value_len: u32| {
        Call::run(vm, name, |call| {
            let (path, value) = (call.read(path, path_len)?, call.read(value, value_len)?);
            call.about(dotted(&path));
            let http = call.state().active_http().ok_or(Status::NotFound)?;
            http.stream.lock().filter_state.insert(path, value);
            Ok(())
        })
    })?;
    let name = "proxy_get_buffer_bytes";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, buffer: u32, start: u32, max: u32, to: u32, to_len: u32| {
        Call::run(vm, name, |call| {
            let bytes = buffer_of(call, buffer)?;
            let start = start as usize;
            let end = bytes.len().min(start.saturating_add(max as usize));
            let part = bytes.get(start..end).ok_or(Status::BadArgument)?;
            call.return_bytes(part, to, to_len)
        })
    })?;
    let name = "proxy_get_buffer_status";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, buffer: u32, len: u32, flags: u32| {
        Call::run(vm, name, |call| {
            let bytes = buffer_of(call, buffer)?;
            call.write(len, &(bytes.len() as u32).to_le_bytes())?;
            call.write(flags, &0u32.to_le_bytes())
        })
    })?;
    Ok(())
}

fn dotted(path: &[u8]) -> String {
    String::from_utf8_lossy(path).replace('\0', ".")
}

/// The bytes of a buffer: bodies in their callbacks, the plugin's configuration while it is configured.
fn buffer_of(call: &mut Call<'_>, buffer: u32) -> Result<Vec<u8>, Status> {
    let state = call.state();
    match buffer {
        0 => Ok(state.active_http().map(|http| http.request_body.clone()).unwrap_or_default()),
        1 => Ok(state.active_http().map(|http| http.response_body.clone()).unwrap_or_default()),
        // The VM's own configuration is always empty here.
        6 => Ok(Vec::new()),
        7 if state.current.callback == "proxy_on_configure" => {
            state.active_root().map(|root| root.configuration.clone()).ok_or(Status::NotFound)
        }
        2..=8 => Err(Status::NotFound),
        _ => Err(Status::BadArgument),
    }
}

fn define_flow(linker: &mut Linker<VmState>) -> Result<(), WasmiError> {
    let name = "proxy_send_local_response";
    linker.func_wrap(
        ENV,
        name,
        move |vm: Vm<'_>,
              status: u32,
              details: u32,
              details_len: u32,
              body: u32,
              body_len: u32,
              pairs: u32,
              pairs_len: u32,
              grpc: u32| {
            Call::run(vm, name, |call| {
                let details = call.text(details, details_len)?;
                let body = call.read(body, body_len)?;
                let headers = call.read(pairs, pairs_len)?;
                let headers = Headers::decode(&headers).unwrap_or_default();
                call.about(format!("{status} {details}"));
                let details = details.replace(|c: char| c.is_ascii_whitespace(), "_");
                send(call.state(), status, details, body, headers, grpc);
                Ok(())
            })
        },
    )?;
    let name = "proxy_continue_stream";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, stream: u32| {
        Call::run(vm, name, |call| {
            let http = call.state().active_http();
            match (stream, http) {
                (0, Some(http)) => {
                    http.request_paused = false;
                    [http.open[0], http.open[1]] = Default::default();
                }
                (1, Some(http)) => {
                    http.response_paused = false;
                    [http.open[2], http.open[3]] = Default::default();
                }
                (0 | 1, None) => {}
                _ => return Err(Status::BadArgument),
            }
            Ok(())
        })
    })?;
    let name = "proxy_close_stream";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, stream: u32| {
        Call::run(vm, name, |call| match (stream, call.state().active_http()) {
            (0 | 1, Some(http)) => {
                http.reset = true;
                Ok(())
            }
            (0..=3, _) => Ok(()),
            _ => Err(Status::BadArgument),
        })
    })?;
    let name = "proxy_set_effective_context";
    linker.func_wrap(ENV, name, move |vm: Vm<'_>, context: u32| {
        Call::run(vm, name, |call| {
            call.about(context.to_string());
            let state = call.state();
            if !state.contexts.contains_key(&context) {
                return Err(Status::BadArgument);
            }
            state.current.effective = Some(context);
            Ok(())
        })
    })?;
    Ok(())
}

fn send(state: &mut VmState, status: u32, details: String, body: Vec<u8>, headers: Headers, grpc: u32) {
    let (callback, context) = (state.current.callback, state.active_id());
    state.current.replied = true;
    if context != state.current.context && matches!(callback, "proxy_on_done" | "proxy_on_log" | "proxy_on_delete") {
        let what = format!("a local reply to context {context} from another context's {callback} crashes Envoy");
        state.current.crash = Some(what);
    }
    if let Some(Context::Http(http)) = state.contexts.get_mut(&context) {
        let grpc_status = Some(grpc).filter(|status| *status <= 16);
        let reply = LocalReply { context, callback, status, details, body, headers, grpc_status };
        http.stream.lock().replies.push(reply);
    }
}
