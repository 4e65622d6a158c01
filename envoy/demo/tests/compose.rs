//! The demo in containers (`envoy/docker-compose.yaml`, `envoy/demo/`), as far as it can be judged without an engine:
//! the compose file and its Dockerfile, what they mount and build, the very configurations that Envoy gets.
//! `monitoring.rs` judges what Prometheus and Grafana get, `live.rs` runs the same topology.
//!
//! Where a command is missing these tests say so and pass; on CI they fail.

use demo::func_e;
use demo::live::compose::{Compose, read_yaml};
use lab::{Result, Value, json, place, tools};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

const DOCKERFILES: [&str; 2] = ["envoy/demo/Dockerfile", "istio/image/Dockerfile"];

fn read(path: &str) -> Result<String> {
    Ok(fs::read_to_string(place::root().join(path))?)
}

// ---- the compose file ----

#[test]
fn docker_compose_accepts_it() -> Result<()> {
    // The plugin of docker where it is installed, else the command.
    let plugin = tools::on_path("docker").filter(|docker| {
        let version = Command::new(docker).args(["compose", "version"]).output();
        version.is_ok_and(|output| output.status.success())
    });
    let mut command = match plugin {
        Some(docker) => {
            let mut command = Command::new(docker);
            command.arg("compose");
            command
        }
        None => {
            match tools::find("docker-compose", "envoy/demo/tests/compose.rs", "Debian: apt-get install docker-compose")
            {
                Some(compose) => Command::new(compose),
                None => return Ok(()),
            }
        }
    };
    tools::run(command.arg("-f").arg(place::root().join("envoy/docker-compose.yaml")).args(["config", "--quiet"]))?;
    Ok(())
}

#[test]
fn every_version_is_pinned_and_nobody_is_root() -> Result<()> {
    for (name, service) in Compose::load()?.services {
        let (_, tag) = service.image.rsplit_once(':').unwrap_or((&service.image, "latest"));
        assert!(
            tag == "local" && service.target.is_some() || tag.matches('.').count() == 2,
            "{name}: {}",
            service.image
        );
        assert!(!service.user.starts_with('0') && !service.user.starts_with("root"), "{name} runs as {}", service.user);
    }
    let file = read_yaml(&place::root().join("envoy/docker-compose.yaml"))?;
    for (name, service) in file["services"].as_object().expect("services") {
        assert_eq!(service["cap_drop"], json!(["ALL"]), "{name}");
        assert_eq!(service["security_opt"], json!(["no-new-privileges:true"]), "{name}");
    }
    Ok(())
}

#[test]
fn what_it_mounts_exists_and_cannot_be_written() -> Result<()> {
    for (name, service) in Compose::load()?.services {
        for mount in &service.mounts {
            let Some(source) = mount.source() else { continue };
            let metadata =
                fs::metadata(&source).map_err(|e| lab::Error::new(e).context(source.display().to_string()))?;
            assert!(mount.read_only, "{name} could write {}", mount.from);
            // Containers run as other users than who cloned.
            assert_eq!(metadata.permissions().mode() & 0o004, 0o004, "{} is not readable by all", mount.from);
            let script = mount.from.ends_with(".sh");
            assert!(!script || metadata.permissions().mode() & 0o111 == 0o111, "{} is not executable", mount.from);
        }
        for program in service.command.iter().chain(&service.health).filter(|word| word.starts_with("/demo/")) {
            assert!(service.mounts.iter().any(|mount| mount.to == *program), "{name} has no {program}");
        }
    }
    Ok(())
}

#[test]
fn services_wait_for_services_that_there_are_and_only_this_machine_reaches_them() -> Result<()> {
    let compose = Compose::load()?;
    let mut published = BTreeSet::new();
    for (name, service) in &compose.services {
        for other in &service.depends_on {
            assert!(compose.service(other).is_ok(), "{name} waits for {other}");
        }
        for port in &service.published {
            let (at, _) = port.rsplit_once(':').expect("ADDRESS:PORT:PORT");
            assert!(at.starts_with("127.0.0.1:"), "{name} publishes {port}");
            assert!(published.insert(at.to_string()), "{at} is published twice");
        }
        // Whatever one service calls another, the other has that port.
        let words = service.command.iter().chain(service.env.values());
        for (other, port) in words.flat_map(|word| named(word, &compose)) {
            assert!(compose.service(&other)?.ports.contains(&port), "{name} calls {other}:{port}");
        }
    }
    for file in ["envoy/demo/prometheus.yaml", "envoy/demo/grafana/provisioning/datasources/prometheus.yaml"] {
        let text = read(file)?;
        let calls: Vec<(String, u16)> =
            text.split(['"', '/', ' ', '\n']).flat_map(|word| named(word, &compose)).collect();
        assert!(!calls.is_empty(), "{file}");
        for (other, port) in calls {
            assert!(compose.service(&other)?.ports.contains(&port), "{file}: {other}:{port}");
        }
    }
    Ok(())
}

/// `SERVICE:PORT` at the end of a word.
fn named(word: &str, compose: &Compose) -> Option<(String, u16)> {
    let (name, port) = word.rsplit_once(':')?;
    let name = name.rsplit('=').next()?;
    compose.services.contains_key(name).then(|| Some((name.to_string(), port.parse().ok()?)))?
}

// ---- what is built ----

/// A Dockerfile's stages: their names (or numbers) and their instructions, continued lines joined.
fn stages(path: &str) -> Result<Vec<(String, Vec<String>)>> {
    let text = read(path)?.replace("\\\n", " ");
    let mut stages: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with("FROM ") {
            let name = line.rsplit_once(" AS ").map_or(stages.len().to_string(), |(_, name)| name.to_string());
            stages.push((name, Vec::new()));
        }
        stages.last_mut().expect("FROM comes first").1.push(line.to_string());
    }
    Ok(stages)
}

fn instructions<'a>(stage: &'a [String], which: &str) -> Vec<&'a str> {
    stage.iter().filter_map(|line| line.strip_prefix(which)?.strip_prefix(' ')).collect()
}

#[test]
fn images_are_built_from_pinned_ones_and_run_as_nobody() -> Result<()> {
    for file in DOCKERFILES {
        let stages = stages(file)?;
        let names: Vec<&str> = stages.iter().map(|(name, _)| name.as_str()).collect();
        for (i, (name, stage)) in stages.iter().enumerate() {
            let base = instructions(stage, "FROM")[0].split(' ').next().unwrap_or_default();
            let digits = base.rsplit(':').next().unwrap_or_default().chars().filter(char::is_ascii_digit).count();
            // A tag with a whole version or a date.
            let pinned = base.starts_with("docker.io/") && base.contains(':') && digits >= 4;
            assert!(base == "scratch" || pinned || names[..i].contains(&base), "{file}: {name} is FROM {base}");
            assert!(instructions(stage, "ADD").is_empty(), "{file}: {name} has an ADD; COPY does not fetch or unpack");
            for copy in instructions(stage, "COPY") {
                let from = copy.strip_prefix("--from=").and_then(|rest| rest.split(' ').next());
                assert!(from.is_none_or(|from| names[..i].contains(&from)), "{file}: COPY {copy}");
            }
            // Stages that others only copy from are never run.
            let copied =
                stages.iter().any(|(_, other)| other.iter().any(|line| line.contains(&format!("--from={name} "))));
            if !copied {
                let user = instructions(stage, "USER").last().copied().unwrap_or("root");
                assert!(user.starts_with(|c: char| ('1'..='9').contains(&c)), "{file}: {name} runs as {user}");
            }
        }
    }
    for (name, service) in Compose::load()?.services {
        let Some(target) = service.target else { continue };
        assert!(stages(DOCKERFILES[0])?.iter().any(|(stage, _)| *stage == target), "{name}: no stage {target}");
    }
    Ok(())
}

#[test]
fn the_versions_are_those_of_the_tests() -> Result<()> {
    let dockerfile = read(DOCKERFILES[0])?;
    let toolchain = read("rust-toolchain.toml")?;
    let rust =
        toolchain.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"')).expect("a channel");
    assert!(dockerfile.contains(&format!("/rust:{rust}-slim")), "the toolchain is {rust}");
    let find_envoy = read("envoy/find-envoy.sh")?;
    let envoy = find_envoy.lines().find_map(|line| line.strip_prefix("version=${ENVOY_VERSION:-")?.strip_suffix('}'));
    let args = |name: &str| {
        let start = format!("ARG {name}=");
        dockerfile.lines().filter_map(|line| line.strip_prefix(&start)).map(str::to_string).collect::<BTreeSet<_>>()
    };
    assert_eq!(args("ENVOY_VERSION"), BTreeSet::from([envoy.expect("a version").to_string()]));
    assert_eq!(args("FUNC_E_VERSION"), BTreeSet::from([func_e::VERSION.to_string()]));
    Ok(())
}

/// The build sees what `.dockerignore` lets through: all that cargo needs to know the workspace, and little else.
#[test]
fn the_builds_context_is_a_whole_workspace() -> Result<()> {
    let context = place::scratch("context")?;
    let ignore = read(".dockerignore")?;
    assert!(ignore.lines().any(|line| line == "*"), "nothing is let through unasked");
    for path in ignore.lines().filter_map(|line| line.strip_prefix('!')) {
        let to = context.join(path);
        fs::create_dir_all(to.parent().expect("a folder"))?;
        tools::run(Command::new("cp").arg("-R").arg(place::root().join(path)).arg(&to))?;
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut metadata = Command::new(cargo);
    metadata.args(["metadata", "--no-deps", "--offline", "--locked", "--format-version", "1"]).current_dir(&context);
    let metadata: Value = serde_json::from_str(&tools::run(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().expect("packages");
    let targets: Vec<&str> =
        packages.iter().flat_map(|p| p["targets"].as_array().unwrap()).filter_map(|t| t["name"].as_str()).collect();
    // What the Dockerfile builds.
    for name in ["retry_budget", "origin", "storm"] {
        assert!(targets.contains(&name), "{targets:?}");
    }
    Ok(())
}

// ---- Envoy ----

/// Runs a service's command with its environment; a stand-in for func-e has the real Envoy check what it would run.
fn check_by_envoy(service: &str, file: &Path) -> Result<String> {
    let (compose, folder) = (Compose::load()?, place::scratch(service)?);
    let service = compose.service(service)?;
    let stand_in = "#!/bin/sh\n[ \"$1\" = run ] && shift && exec \"$ENVOY\" --mode validate -l warn \"$@\"\n";
    tools::script(&folder.join("func-e"), stand_in)?;
    let mut command = Command::new(place::root().join("envoy/demo/run-envoy.sh"));
    command
        .arg(file)
        .args(&service.command[2..])
        .envs(&service.env)
        .env("PATH", format!("{}:{}", folder.display(), std::env::var("PATH")?))
        .env("ENVOY", place::envoy()?)
        .env("TMPDIR", &folder);
    if service.env.contains_key("MODULE") {
        command.env("MODULE", lab::wasm()?);
    }
    tools::run(&mut command)
}

#[test]
fn envoy_accepts_the_very_files_that_the_containers_run() -> Result<()> {
    for (name, file) in [("with-filter", "two-placements.yaml"), ("without-filter", "control.yaml")] {
        let compose = Compose::load()?;
        let mount = compose.service(name)?.mounts.iter().find(|mount| mount.to == "/demo/envoy.yaml");
        assert_eq!(mount.expect("a configuration").from, format!("./{file}"));
        check_by_envoy(name, &place::root().join("envoy").join(file))?;
    }
    Ok(())
}

#[test]
fn a_file_whose_addresses_are_not_known_is_not_run() -> Result<()> {
    let file = place::scratch("unknown")?.join("envoy.yaml");
    let text = read("envoy/two-placements.yaml")?;
    for (old, new) in
        [("port_value: 10000", "port_value: 10001"), ("type: STATIC", "type: EDS"), ("target/wasm32", "x")]
    {
        fs::write(&file, text.replace(old, new))?;
        let error = check_by_envoy("with-filter", &file).expect_err(new);
        assert!(format!("{error:#}").contains("must have '"), "{error:#}");
    }
    Ok(())
}
