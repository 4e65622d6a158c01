//! The image that Istio fetches (`make image`, istio/image/): what is in it, and that its digest can be pinned.
//!
//! Where umoci is missing these tests say so and pass; on CI they fail.

use lab::{Result, Value, place, tools};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

fn umoci() -> bool {
    tools::find("umoci", "tests/image.rs", "Debian: apt-get install umoci").is_some()
}

fn build(module: &Path, layout: &Path, change: impl FnOnce(&mut Command)) -> Result<String> {
    let mut command = Command::new(place::root().join("istio/image/build.sh"));
    command.args([module, layout]);
    change(&mut command);
    Ok(tools::run(&mut command)?.trim().to_string())
}

/// The file in the layout that this digest names.
fn blob(layout: &Path, digest: &str) -> PathBuf {
    layout.join("blobs").join(digest.replace(':', "/"))
}

fn json(path: &Path) -> Result<Value> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("no text at {pointer} of {value}"))
}

#[test]
fn it_is_one_layer_with_the_built_module_and_the_printed_digest_is_its_manifests() -> Result<()> {
    if !umoci() {
        return Ok(());
    }
    let (module, layout) = (lab::wasm()?, place::scratch("content")?.join("layout"));
    let printed = build(&module, &layout, |_| ())?;

    let index = json(&layout.join("index.json"))?;
    assert_eq!(index["manifests"].as_array().map(Vec::len), Some(1), "{index}");
    assert_eq!(text(&index, "/manifests/0/digest"), printed);
    let manifest = blob(&layout, &printed);
    let sum = tools::run(Command::new("sha256sum").arg(&manifest))?;
    assert_eq!(format!("sha256:{}", sum.split(' ').next().unwrap_or_default()), printed);

    let manifest = json(&manifest)?;
    assert_eq!(manifest["layers"].as_array().map(Vec::len), Some(1), "{manifest}");
    // The media type by which Istio's agent knows a layer with plugin.wasm.
    assert_eq!(text(&manifest, "/layers/0/mediaType"), "application/vnd.oci.image.layer.v1.tar+gzip");
    assert_eq!(manifest["annotations"]["module.wasm.image/variant"], "compat");
    let layer = blob(&layout, text(&manifest, "/layers/0/digest"));
    let listing = tools::run(Command::new("tar").args(["--list", "--verbose", "--numeric-owner", "-zf"]).arg(&layer))?;
    assert_eq!(listing.lines().count(), 1, "{listing}");
    assert!(listing.starts_with("-rw-r--r-- 0/0 ") && listing.ends_with(" plugin.wasm\n"), "{listing}");
    let unpacked = place::scratch("unpacked")?;
    tools::run(Command::new("tar").arg("-xzf").arg(&layer).arg("-C").arg(&unpacked))?;
    assert!(fs::read(unpacked.join("plugin.wasm"))? == fs::read(&module)?, "plugin.wasm is not the built module");

    let config = json(&blob(&layout, text(&manifest, "/config/digest")))?;
    assert_eq!((&config["os"], &config["architecture"]), (&"linux".into(), &"amd64".into()));
    // Nothing is left of the steps on the way: manifest, configuration and layer.
    assert_eq!(fs::read_dir(layout.join("blobs/sha256"))?.count(), 3);
    Ok(())
}

#[test]
fn the_same_module_gives_the_same_digest_and_another_one_another() -> Result<()> {
    if !umoci() {
        return Ok(());
    }
    let folder = place::scratch("digest")?;
    let (module, layout) = (lab::wasm()?, folder.join("layout"));
    let first = build(&module, &layout, |_| ())?;
    // Another time, other permissions, another place, another zone; over what stands there.
    let copy = folder.join("copy.wasm");
    fs::copy(&module, &copy)?;
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
    fs::File::options().write(true).open(&copy)?.set_modified(SystemTime::now() - Duration::from_secs(86_400))?;
    let second = build(&copy, &layout, |command| {
        command.env("TZ", "Asia/Tokyo").env("LC_ALL", "C").current_dir(&folder);
    })?;
    assert_eq!(first, second);
    fs::write(&copy, b"\0asm\x01\0\0\0")?;
    assert_ne!(build(&copy, &layout, |_| ())?, first);
    // Only the image and the copy: no half-made image stays behind.
    assert_eq!(fs::read_dir(&folder)?.count(), 2);
    Ok(())
}

#[test]
fn what_is_no_image_is_never_replaced_and_a_module_that_is_missing_is_named() -> Result<()> {
    if !umoci() {
        return Ok(());
    }
    let folder = place::scratch("refusals")?;
    let precious = folder.join("precious");
    fs::create_dir(&precious)?;
    let error = build(&lab::wasm()?, &precious, |_| ()).expect_err("it is no image");
    assert!(format!("{error:#}").contains("is no OCI image layout"), "{error:#}");
    let error = build(&folder.join("absent.wasm"), &folder.join("layout"), |_| ()).expect_err("there is no module");
    assert!(format!("{error:#}").contains("run `make build` first"), "{error:#}");
    assert!(precious.is_dir());
    Ok(())
}
