//! `envoy/docker-compose.yaml`, read so that its services can run without containers: the same commands, the same
//! environment, the same mounted files, on ports of this machine.

use crate::live::ports;
use anyhow::{Context, Result, bail};
use lab::place;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The compose file: its services by name.
pub struct Compose {
    pub services: BTreeMap<String, Service>,
}

/// What a service's container would be.
pub struct Service {
    pub image: String,
    /// The Dockerfile's stage that is built for it, if one is.
    pub target: Option<String>,
    pub user: String,
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    /// What is mounted: from where (a path in the checkout, or a volume's name) to where, and whether read-only.
    pub mounts: Vec<Mount>,
    /// The ports that it listens on, published or not.
    pub ports: Vec<u16>,
    /// Address and port on this machine under which each is published.
    pub published: Vec<String>,
    /// The command that tells its health.
    pub health: Vec<String>,
    pub depends_on: Vec<String>,
}

pub struct Mount {
    pub from: String,
    pub to: String,
    pub read_only: bool,
}

impl Mount {
    /// The file or folder in the checkout; `None` for a volume.
    pub fn source(&self) -> Option<PathBuf> {
        self.from.starts_with('.').then(|| place::root().join("envoy").join(&self.from))
    }
}

impl Compose {
    pub fn load() -> Result<Compose> {
        let file = read_yaml(&place::root().join("envoy").join(place::COMPOSE))?;
        let services = file["services"].as_object().context("services")?;
        let one = |(name, value): (&String, &Value)| Ok((name.clone(), service(value).with_context(|| name.clone())?));
        Ok(Compose { services: services.iter().map(one).collect::<Result<_>>()? })
    }

    pub fn service(&self, name: &str) -> Result<&Service> {
        self.services.get(name).with_context(|| format!("there is no service {name}"))
    }
}

/// A YAML file as JSON, its anchors and merge keys resolved.
pub fn read_yaml(path: &Path) -> Result<Value> {
    let read = || -> Result<Value> {
        let mut value: serde_yaml_ng::Value = serde_yaml_ng::from_str(&fs::read_to_string(path)?)?;
        value.apply_merge()?;
        Ok(serde_json::to_value(value)?)
    };
    read().with_context(|| path.display().to_string())
}

fn service(value: &Value) -> Result<Service> {
    let text = |value: &Value| value.as_str().map(str::to_string).with_context(|| format!("not a text: {value}"));
    let list = |value: &Value| value.as_array().into_iter().flatten().map(text).collect::<Result<Vec<_>>>();
    let published = list(&value["ports"])?;
    // HOST:PORT:CONTAINER
    let inside = published.iter().map(|port| port.rsplit(':').next().unwrap_or(port).to_string());
    let ports = inside.chain(list(&value["expose"])?).map(|port| port.parse().context("a port"));
    let health = list(&value["healthcheck"]["test"])?;
    let environment = value["environment"].as_object().cloned().unwrap_or_default();
    Ok(Service {
        image: text(&value["image"])?,
        target: value["build"]["target"].as_str().map(str::to_string),
        user: text(&value["user"])?,
        command: list(&value["command"])?,
        env: environment.iter().map(|(key, value)| Ok((key.clone(), text(value)?))).collect::<Result<_>>()?,
        mounts: list(&value["volumes"])?.iter().map(|mount| read_mount(mount)).collect::<Result<_>>()?,
        ports: ports.collect::<Result<_>>()?,
        published,
        health: match health.split_first() {
            Some((how, command)) if how == "CMD" => command.to_vec(),
            _ => bail!("a health check of another kind than CMD"),
        },
        depends_on: value["depends_on"].as_object().map(|on| on.keys().cloned().collect()).unwrap_or_default(),
    })
}

fn read_mount(text: &str) -> Result<Mount> {
    let (from, rest) = text.split_once(':').context("FROM:TO")?;
    let (to, options) = rest.split_once(':').unwrap_or((rest, ""));
    Ok(Mount { from: from.into(), to: to.into(), read_only: options == "ro" })
}

/// One service as it runs here.
pub struct Local {
    pub command: Vec<String>,
    pub env: BTreeMap<String, String>,
    pub health: Vec<String>,
}

/// Where everything is without containers: an address for each port of each service, a file for each path.
pub struct Places<'a> {
    compose: &'a Compose,
    folder: PathBuf,
    addrs: BTreeMap<(String, u16), SocketAddr>,
}

impl<'a> Places<'a> {
    /// Mounted files are copied below `folder`.
    pub fn new(compose: &'a Compose, folder: PathBuf) -> Places<'a> {
        let all =
            compose.services.iter().flat_map(|(name, service)| service.ports.iter().map(move |port| (name, *port)));
        Places { compose, folder, addrs: all.map(|(name, port)| ((name.clone(), port), ports::unused())).collect() }
    }

    /// The address of a service's port.
    pub fn addr(&self, service: &str, port: u16) -> Result<SocketAddr> {
        self.addrs.get(&(service.to_string(), port)).copied().with_context(|| format!("{service} has no port {port}"))
    }

    /// Puts a service's files in place and says how it is run. `image` has the files of its image that are needed:
    /// their path there and here.
    pub fn localise(&self, name: &str, image: &[(&str, PathBuf)]) -> Result<Local> {
        let service = self.compose.service(name)?;
        let mut paths: Vec<(String, PathBuf)> = image.iter().map(|(at, is)| (at.to_string(), is.clone())).collect();
        for mount in &service.mounts {
            let here = self.folder.join(name).join(mount.to.trim_start_matches('/'));
            let here = match mount.source() {
                // A program is run where it is: it has its addresses from its arguments.
                Some(file) if fs::metadata(&file)?.permissions().mode() & 0o100 != 0 => file,
                Some(file) => self.copy(name, &file, here)?,
                None => {
                    fs::create_dir_all(&here)?;
                    here
                }
            };
            paths.push((mount.to.clone(), here));
        }
        let localise = |text: &String| {
            let text = self.with_addrs(name, text);
            // A path is the whole text, or the end of an option.
            let here = paths.iter().find_map(|(there, here)| Some((text.strip_suffix(there.as_str())?, here)));
            match here {
                Some((option, here)) if option.is_empty() || option.ends_with('=') => {
                    format!("{option}{}", here.display())
                }
                _ => text,
            }
        };
        Ok(Local {
            command: service.command.iter().map(localise).collect(),
            env: service.env.iter().map(|(key, value)| (key.clone(), localise(value))).collect(),
            health: service.health.iter().map(localise).collect(),
        })
    }

    /// The same file with this machine's addresses in it.
    fn copy(&self, service: &str, from: &Path, to: PathBuf) -> Result<PathBuf> {
        fs::create_dir_all(to.parent().context("a path")?)?;
        let text = fs::read_to_string(from).with_context(|| from.display().to_string())?;
        fs::write(&to, self.with_addrs(service, &text))?;
        Ok(to)
    }

    /// `NAME:PORT` of every service becomes its address here, and so do the service's own ways to name itself.
    fn with_addrs(&self, own: &str, text: &str) -> String {
        let mut text = text.to_string();
        for ((name, port), addr) in &self.addrs {
            text = replace_whole(&text, &format!("{name}:{port}"), &addr.to_string());
            if name == own {
                for itself in ["0.0.0.0", "127.0.0.1"] {
                    text = replace_whole(&text, &format!("{itself}:{port}"), &addr.to_string());
                }
            }
        }
        text
    }
}

/// Replaces `old` where it is not part of a longer word.
fn replace_whole(text: &str, old: &str, new: &str) -> String {
    let inside = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(old) {
        let (before, after) = (&rest[..at], &rest[at + old.len()..]);
        done.push_str(before);
        let whole = !inside(before.chars().next_back().or(done.chars().next_back())) && !inside(after.chars().next());
        done.push_str(if whole { new } else { old });
        rest = after;
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_words_are_replaced() {
        let replace = |text| replace_whole(text, "a:80", "X");
        assert_eq!(replace("http://a:80/b a:80"), "http://X/b X");
        assert_eq!(replace("a:8080 ca:80 b-a:80"), "a:8080 ca:80 b-a:80");
        assert_eq!(replace("a:80a:80"), "a:80a:80");
    }
}
