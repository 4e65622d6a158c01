//! The compose demo's topology without containers: the services of `envoy/docker-compose.yaml` as processes of this
//! machine, but for Grafana. Envoy is run by func-e, and Prometheus is a real one.

pub mod compose;
pub mod dashboard;
pub mod panel;
mod ports;

use crate::func_e;
use anyhow::{Context, Result, ensure};
use compose::{Compose, Local, Places};
use lab::{Client, Process, Request, eventually, place, tools};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// In the order in which they are started. Grafana only draws what Prometheus has.
const SERVICES: [&str; 5] = ["origin", "with-filter", "without-filter", "storm", "prometheus"];

/// The running services; all of them are stopped when it is dropped.
pub struct Live {
    processes: Vec<(&'static str, Process)>,
    client: Client,
    pub origin: SocketAddr,
    pub storm: SocketAddr,
    pub prometheus: SocketAddr,
    /// The Envoys' admin addresses.
    pub with_filter: SocketAddr,
    pub without_filter: SocketAddr,
    folder: TempDir,
}

/// One series' value, now.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// The programs that are not of this project.
struct Programs {
    prometheus: PathBuf,
    func_e: PathBuf,
    envoy: PathBuf,
}

impl Programs {
    fn find(what: &str) -> Result<Option<Programs>> {
        let Some(prometheus) = tools::find("prometheus", what, "Debian: apt-get install prometheus") else {
            return Ok(None);
        };
        let func_e = match func_e::find() {
            Ok(Some(func_e)) => func_e,
            Ok(None) => {
                tools::skip(&format!("{what} needs func-e, and there is neither Go to build it nor $FUNC_E"));
                return Ok(None);
            }
            // Without a network, for one.
            Err(why) => {
                tools::skip(&format!("{what} needs func-e: {why:#}"));
                return Ok(None);
            }
        };
        Ok(Some(Programs { prometheus, func_e, envoy: place::envoy()?.to_path_buf() }))
    }
}

impl Live {
    /// Starts everything and waits until it is healthy; `programs` is the folder with `origin` and `storm`. `None`,
    /// after saying so, where Prometheus or func-e are not to be had; `what` is what needs them.
    pub async fn start(programs: &Path, what: &str) -> Result<Option<Live>> {
        let Some(others) = Programs::find(what)? else { return Ok(None) };
        let (compose, folder) = (Compose::load()?, TempDir::new()?);
        let places = Places::new(&compose, folder.path().into());
        let mut live = Live {
            processes: Vec::new(),
            client: Client::new(),
            origin: places.addr("origin", 8090)?,
            storm: places.addr("storm", 8091)?,
            prometheus: places.addr("prometheus", 9090)?,
            with_filter: places.addr("with-filter", 9901)?,
            without_filter: places.addr("without-filter", 9901)?,
            folder,
        };
        let module = [("/opt/retry_budget.wasm", place::wasm()?)];
        for name in SERVICES {
            let local = places.localise(name, &module)?;
            live.spawn(name, &local, programs, &others)?;
            live.become_healthy(name, &local).await?;
        }
        Ok(Some(live))
    }

    fn spawn(&mut self, name: &'static str, local: &Local, programs: &Path, others: &Programs) -> Result<()> {
        let folder = self.folder.path().join(name);
        fs::create_dir_all(folder.join("tmp"))?;
        let mut args = local.command.iter();
        let mut command = match name {
            // Its image runs it, whatever the arguments.
            "prometheus" => Command::new(&others.prometheus),
            "origin" | "storm" => Command::new(programs.join(args.next().context("a command")?)),
            _ => Command::new(args.next().context("a command")?),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = others.func_e.parent().into_iter().map(Path::to_path_buf).chain(std::env::split_paths(&path));
        command
            .args(args)
            .envs(&local.env)
            .env("PATH", std::env::join_paths(path)?)
            .env("TMPDIR", folder.join("tmp"))
            // The Dockerfile sets these four; the Envoy that is here stands in for the one that func-e downloads.
            .env("ENVOY_PATH", &others.envoy)
            .env("FUNC_E_DATA_HOME", folder.join("func-e/data"))
            .env("FUNC_E_CONFIG_HOME", folder.join("func-e/config"))
            .env("FUNC_E_STATE_HOME", folder.join("func-e/state"))
            .env("FUNC_E_RUNTIME_DIR", folder.join("func-e/run"))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(File::create(folder.join("stdout"))?)
            .stderr(File::create(folder.join("stderr"))?);
        self.processes.push((name, Process::spawn(command).with_context(|| format!("{name} cannot be started"))?));
        Ok(())
    }

    async fn become_healthy(&mut self, name: &str, local: &Local) -> Result<()> {
        let prometheus = self.prometheus;
        eventually(&format!("{name} to be healthy"), async || {
            for (name, process) in &mut self.processes {
                if let Some(status) = process.ended()? {
                    let said = fs::read_to_string(self.folder.path().join(*name).join("stderr")).unwrap_or_default();
                    anyhow::bail!("{name} ended ({status}):\n{said}");
                }
            }
            Ok(match name {
                // Its image's own command for that may not be here.
                "prometheus" => {
                    let answer = self.client.get(prometheus, "/-/ready").await;
                    answer.is_ok_and(|answer| answer.status == 200).then_some(())
                }
                _ => {
                    let (program, args) = local.health.split_first().context("a health check")?;
                    let status = Command::new(program).args(args).stderr(Stdio::null()).status()?;
                    status.success().then_some(())
                }
            })
        })
        .await
    }

    /// The ids of what runs, by service.
    pub fn pids(&self) -> Vec<(&'static str, u32)> {
        self.processes.iter().map(|(name, process)| (*name, process.id())).collect()
    }

    /// What a service has written to its stdout or stderr.
    pub fn output(&self, service: &str, stream: &str) -> String {
        fs::read_to_string(self.folder.path().join(service).join(stream)).unwrap_or_default()
    }

    /// Switches the origin's fault, e.g. `fail-all` or `fail-ratio?ratio=0.3`.
    pub async fn fault(&self, fault: &str) -> Result<()> {
        self.post(self.origin, fault).await
    }

    pub async fn start_storm(&self, rate: u32, seconds: u32) -> Result<()> {
        self.post(self.storm, &format!("start?rate={rate}&seconds={seconds}")).await
    }

    pub async fn stop_storm(&self) -> Result<()> {
        self.post(self.storm, "stop").await
    }

    async fn post(&self, addr: SocketAddr, what: &str) -> Result<()> {
        let answer = self.client.send(addr, Request::post(format!("/{what}"), "")).await?;
        ensure!(answer.status == 200, "POST {what}: {} {}", answer.status, answer.text());
        Ok(())
    }

    /// What Prometheus says to a query, now.
    pub async fn ask(&self, query: &str) -> Result<Vec<Sample>> {
        let escaped: String = query.bytes().map(percent).collect();
        let page = self.api(&format!("query?query={escaped}")).await.with_context(|| query.to_string())?;
        let result = page["result"].as_array().with_context(|| format!("no result of {query}"))?;
        result.iter().map(|series| sample(series).with_context(|| format!("{query}: {series}"))).collect()
    }

    /// A page of Prometheus' API: its `data`.
    pub async fn api(&self, path: &str) -> Result<Value> {
        let answer = self.client.get(self.prometheus, &format!("/api/v1/{path}")).await?;
        let page: Value = serde_json::from_slice(&answer.body).with_context(|| answer.text())?;
        ensure!(page["status"] == "success", "{page}");
        Ok(page["data"].clone())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // All at once, and each gets the time to end in good order: func-e ends its Envoy. What is left then is
        // killed when the processes are dropped.
        self.processes.iter().for_each(|(_, process)| process.terminate());
        let end = Instant::now() + Duration::from_secs(5);
        for (_, process) in &mut self.processes {
            while matches!(process.ended(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn sample(series: &Value) -> Option<Sample> {
    let labels = series["metric"].as_object()?.iter();
    let labels = labels.map(|(key, value)| Some((key.clone(), value.as_str()?.to_string()))).collect::<Option<_>>()?;
    Some(Sample { labels, value: series["value"][1].as_str()?.parse().ok()? })
}

fn percent(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() { (byte as char).to_string() } else { format!("%{byte:02X}") }
}
