//! A real Envoy, from its start to its end.

use crate::client::Client;
use crate::config::Config;
use crate::place;
use crate::process::Process;
use crate::stats::Stats;
use crate::wait::eventually;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use tempfile::TempDir;

/// A running Envoy on ports of its own, killed when dropped. If its test fails, the end of its log is
/// printed.
pub struct Envoy {
    process: Process,
    folder: TempDir,
    client: Client,
    admin: SocketAddr,
    listeners: Vec<(String, SocketAddr)>,
    workers: u64,
}

/// How an Envoy ended that was to refuse its configuration.
#[derive(Debug)]
pub struct Refusal {
    pub status: ExitStatus,
    pub log: String,
}

impl Envoy {
    /// Starts it and waits until it takes requests.
    pub async fn start(config: &Config) -> Result<Envoy> {
        let folder = TempDir::new()?;
        fs::write(bootstrap(&folder), config.render()?.to_string())?;
        Envoy::launch(config, folder).await
    }

    /// Starts it with its listeners in a file of their own, so that [`update`](Envoy::update) can
    /// replace them.
    pub async fn start_updatable(config: &Config) -> Result<Envoy> {
        let folder = TempDir::new()?;
        let (whole, listeners) = config.render_split(&listeners_file(&folder))?;
        fs::write(bootstrap(&folder), whole.to_string())?;
        fs::write(listeners_file(&folder), listeners.to_string())?;
        Envoy::launch(config, folder).await
    }

    /// Starts it with a configuration that it must refuse.
    pub async fn start_expecting_refusal(config: &Config) -> Result<Refusal> {
        let folder = TempDir::new()?;
        fs::write(bootstrap(&folder), config.render()?.to_string())?;
        let mut process = spawn(config, &folder)?;
        let admin = admin_file(&folder);
        let status = eventually("Envoy's refusal", async || {
            let ended = process.ended()?;
            ensure!(ended.is_some() || !is_live(&admin).await, "Envoy took the configuration of {}", config.name());
            Ok(ended)
        });
        Ok(Refusal { status: status.await?, log: read(&log_file(&folder)) })
    }

    /// Has Envoy check a configuration without starting it: its log, as an error where it refuses.
    pub fn validate(config: &Config) -> Result<String> {
        let folder = TempDir::new()?;
        fs::write(bootstrap(&folder), config.render()?.to_string())?;
        let mut command = Command::new(place::envoy()?);
        command.args(["--mode", "validate", "-l", config.level(), "-c"]).arg(bootstrap(&folder));
        let output = command.output()?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "Envoy refuses {}:\n{log}", config.name());
        Ok(log)
    }

    async fn launch(config: &Config, folder: TempDir) -> Result<Envoy> {
        let process = spawn(config, &folder)?;
        let (client, workers) = (Client::new(), config.workers().into());
        let admin = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut envoy = Envoy { process, folder, client, admin, listeners: Vec::new(), workers };
        envoy.become_ready().await.with_context(|| format!("envoy/{}", config.name()))?;
        Ok(envoy)
    }

    async fn become_ready(&mut self) -> Result<()> {
        let admin = admin_file(&self.folder);
        let ready = eventually("Envoy to be ready", async || {
            if let Some(status) = self.process.ended()? {
                let log = read(&log_file(&self.folder));
                if lacks_v8(&log) {
                    bail!(
                        "this Envoy was built without V8, in which wasm filters run: take another (ENVOY_VERSION=1.40.0)"
                    );
                }
                bail!("Envoy ended at its start ({status}):\n{}", tail(&log));
            }
            Ok(is_live(&admin).await.then_some(()))
        });
        ready.await?;
        self.admin = read(&admin).trim().parse().context("Envoy's admin address")?;
        self.listeners = self.find_listeners().await?;
        Ok(())
    }

    async fn find_listeners(&self) -> Result<Vec<(String, SocketAddr)>> {
        let page: Value = serde_json::from_str(&self.admin_get("/listeners?format=json").await?)?;
        let statuses = page["listener_statuses"].as_array().context("no listeners")?;
        let one = |status: &Value| {
            let socket = &status["local_address"]["socket_address"];
            let ip = socket["address"].as_str()?.parse().ok()?;
            let port = socket["port_value"].as_u64()?.try_into().ok()?;
            Some((status["name"].as_str()?.to_string(), SocketAddr::new(ip, port)))
        };
        statuses
            .iter()
            .map(|status| one(status).with_context(|| format!("a listener without address: {status}")))
            .collect()
    }

    /// Where clients connect: the first listener.
    pub fn addr(&self) -> SocketAddr {
        self.listeners.first().expect("every configuration has a listener").1
    }

    /// Where clients of a listener with this name connect.
    pub fn addr_of(&self, listener: &str) -> SocketAddr {
        let found = self.listeners.iter().find(|(name, _)| name == listener);
        found.unwrap_or_else(|| panic!("there is no listener {listener}")).1
    }

    pub fn admin(&self) -> SocketAddr {
        self.admin
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Whether it has neither crashed nor ended.
    pub fn is_running(&mut self) -> bool {
        matches!(self.process.ended(), Ok(None))
    }

    // ---- what it says ----

    /// A page of the admin interface.
    pub async fn admin_get(&self, path: &str) -> Result<String> {
        let answer = self.client.get(self.admin, path).await.with_context(|| format!("admin {path}"))?;
        ensure!(answer.status == 200, "admin {path}: {} {}", answer.status, answer.text());
        Ok(answer.text())
    }

    /// A command to the admin interface, e.g. `/reset_counters`.
    pub async fn admin_post(&self, path: &str) -> Result<String> {
        let answer = self.client.send(self.admin, crate::Request::post(path, "")).await?;
        ensure!(answer.status == 200, "admin {path}: {} {}", answer.status, answer.text());
        Ok(answer.text())
    }

    /// The statistics as Prometheus would get them.
    pub async fn stats(&self) -> Result<Stats> {
        Ok(Stats::parse(&self.admin_get("/stats/prometheus").await?))
    }

    /// One statistic by Envoy's own name, e.g. `cluster.orders.upstream_cx_connect_fail`; 0 if absent.
    pub async fn stat(&self, name: &str) -> Result<u64> {
        let pattern = format!("^{}$", name.replace('.', "\\.").replace('|', "\\|"));
        let escaped: String = pattern.bytes().map(percent).collect();
        let page = self.admin_get(&format!("/stats?filter={escaped}")).await?;
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.map_or(Ok(0), |value| value.trim().parse().with_context(|| format!("{name}: {value}")))
    }

    /// All of Envoy's log so far.
    pub fn log(&self) -> String {
        read(&log_file(&self.folder))
    }

    /// The filter's decisions: the JSON objects in Envoy's log that have a `decision`.
    pub fn decisions(&self) -> Vec<Value> {
        let log = self.log();
        let objects = log.lines().filter_map(|line| serde_json::from_str::<Value>(&line[line.find('{')?..]).ok());
        objects.filter(|object| object.get("decision").is_some()).collect()
    }

    /// The access log so far: one object per finished request, shortly after it has finished.
    pub fn access_log(&self) -> Vec<Value> {
        let lines = read(&access_file(&self.folder));
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The access log, once it has at least `n` lines.
    pub async fn wait_for_access_log(&self, n: usize) -> Result<Vec<Value>> {
        let what = format!("{n} access log lines");
        let enough = eventually(&what, async || {
            let lines = self.access_log();
            Ok((lines.len() >= n).then_some(lines))
        });
        enough.await
    }

    // ---- updates ----

    /// Replaces the listeners by those of this configuration and waits until all workers have them. The
    /// clusters stay. Connections that are open keep the old ones for a second; take a new [`Client`].
    pub async fn update(&mut self, config: &Config) -> Result<()> {
        let before = self.updates().await?;
        self.write_listeners(config)?;
        let after = self.wait_for_verdict(&before).await?;
        ensure!(after.rejected == before.rejected, "Envoy rejected the update:\n{}", tail(&self.log()));
        if after.changed > before.changed {
            let workers = before.on_workers + self.workers;
            let all = eventually("all workers to have the update", async || {
                Ok((self.updates().await?.on_workers >= workers).then_some(()))
            });
            all.await?;
        }
        self.listeners = self.find_listeners().await?;
        Ok(())
    }

    /// The same with listeners that Envoy must reject; returns what it logged since.
    pub async fn update_expecting_refusal(&mut self, config: &Config) -> Result<String> {
        let (before, read_so_far) = (self.updates().await?, self.log().len());
        self.write_listeners(config)?;
        let after = self.wait_for_verdict(&before).await?;
        ensure!(after.rejected > before.rejected, "Envoy accepted the update");
        Ok(self.log().split_off(read_so_far))
    }

    fn write_listeners(&self, config: &Config) -> Result<()> {
        let file = listeners_file(&self.folder);
        ensure!(file.exists(), "only an Envoy started with start_updatable can be updated");
        let (_, listeners) = config.render_split(&file)?;
        let new = file.with_extension("new");
        fs::write(&new, listeners.to_string())?;
        fs::rename(new, file)?; // Envoy watches for moves
        Ok(())
    }

    async fn wait_for_verdict(&self, before: &Updates) -> Result<Updates> {
        let verdict = eventually("Envoy's verdict on the update", async || {
            let now = self.updates().await?;
            Ok((now.accepted + now.rejected > before.accepted + before.rejected).then_some(now))
        });
        verdict.await
    }

    async fn updates(&self) -> Result<Updates> {
        Ok(Updates {
            accepted: self.stat("listener_manager.lds.update_success").await?,
            // A listener that cannot be had, and a file that cannot be read as listeners at all.
            rejected: self.stat("listener_manager.lds.update_rejected").await?
                + self.stat("listener_manager.lds.update_failure").await?,
            changed: self.stat("listener_manager.listener_modified").await?,
            on_workers: self.stat("listener_manager.listener_create_success").await?,
        })
    }
}

struct Updates {
    accepted: u64,
    rejected: u64,
    changed: u64,
    on_workers: u64,
}

impl Drop for Envoy {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("---- the end of Envoy's log ----\n{}\n----", tail(&self.log()));
        }
    }
}

/// `n` Envoys of this configuration in a row: each calls the next, the last one calls `end`.
pub async fn chain(n: usize, config: &Config, cluster: &str, end: SocketAddr) -> Result<Vec<Envoy>> {
    let (mut envoys, mut next) = (Vec::new(), end);
    for _ in 0..n {
        let envoy = Envoy::start(&config.clone().upstream(cluster, next)).await?;
        next = envoy.addr();
        envoys.insert(0, envoy);
    }
    Ok(envoys)
}

fn spawn(config: &Config, folder: &TempDir) -> Result<Process> {
    let mut command = Command::new(place::envoy()?);
    command
        .args(["--disable-hot-restart", "--concurrency", &config.workers().to_string()])
        .args(["-l", config.level(), "--file-flush-interval-msec", "50"])
        .args(["--drain-time-s", "1", "--drain-strategy", "immediate"])
        .arg("--admin-address-path")
        .arg(admin_file(folder))
        .arg("-c")
        .arg(bootstrap(folder))
        .current_dir(folder.path())
        .stdin(std::process::Stdio::null())
        .stdout(File::create(access_file(folder))?)
        .stderr(File::create(log_file(folder))?);
    Process::spawn(command)
}

async fn is_live(admin: &Path) -> bool {
    let Ok(addr) = read(admin).trim().parse() else { return false };
    matches!(Client::new().get(addr, "/ready").await, Ok(answer) if answer.status == 200)
}

fn bootstrap(folder: &TempDir) -> PathBuf {
    folder.path().join("envoy.json")
}

fn listeners_file(folder: &TempDir) -> PathBuf {
    folder.path().join("listeners.json")
}

fn admin_file(folder: &TempDir) -> PathBuf {
    folder.path().join("admin")
}

fn log_file(folder: &TempDir) -> PathBuf {
    folder.path().join("log")
}

fn access_file(folder: &TempDir) -> PathBuf {
    folder.path().join("access")
}

/// Envoy lists at its start what was built into it.
fn lacks_v8(log: &str) -> bool {
    log.lines().any(|line| line.contains("envoy.wasm.runtime: ") && !line.contains("envoy.wasm.runtime.v8"))
}

/// A file's text, empty where it is not there yet.
fn read(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

fn percent(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"._-".contains(&byte) {
        (byte as char).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
