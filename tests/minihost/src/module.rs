//! The module under test: where it is, what it imports, how large it is.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use wasmi::{Engine, Module};

use crate::error::{Error, Result};
use crate::imports;

/// Names the file to load instead of the release build of this workspace.
pub const MODULE_VARIABLE: &str = "RETRY_BUDGET_WASM";

/// A compiled module. Compiled once per test binary, however many VMs run it.
#[derive(Clone)]
pub(crate) struct ModuleFile {
    pub(crate) engine: Engine,
    pub(crate) module: Module,
    pub(crate) size: usize,
}

impl ModuleFile {
    /// The module that the environment or the workspace has.
    pub(crate) fn built() -> Result<Self> {
        static BUILT: OnceLock<Result<ModuleFile>> = OnceLock::new();
        BUILT
            .get_or_init(|| {
                let path = module_path();
                let bytes = std::fs::read(&path).map_err(|error| {
                    Error::Load(format!(
                        "{}: {error}; `make build` builds it, {MODULE_VARIABLE} names another",
                        path.display()
                    ))
                })?;
                Self::compile(&bytes)
            })
            .clone()
    }

    pub(crate) fn compile(bytes: &[u8]) -> Result<Self> {
        let engine = Engine::default();
        let module = Module::new(&engine, bytes).map_err(|error| Error::Load(error.to_string()))?;
        let file = Self { engine, module, size: bytes.len() };
        let unknown: Vec<String> = file.imports().into_iter().filter(|name| !imports::is_known(name)).collect();
        if unknown.is_empty() { Ok(file) } else { Err(Error::UnknownImports(unknown)) }
    }

    /// `module.name` of every import.
    pub(crate) fn imports(&self) -> Vec<String> {
        self.module.imports().map(|import| format!("{}.{}", import.module(), import.name())).collect()
    }
}

/// The module's file: what [`MODULE_VARIABLE`] says, else the release build of this workspace.
pub fn module_path() -> PathBuf {
    let built = || {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
        workspace.join(target).join("wasm32-unknown-unknown/release/retry_budget.wasm")
    };
    std::env::var_os(MODULE_VARIABLE).map_or_else(built, PathBuf::from)
}
