//! The configurations in `envoy/` as they are.

use lab::{Config, Envoy, Result};

#[test]
fn envoy_accepts_every_shipped_configuration() -> Result<()> {
    for name in lab::shipped() {
        Envoy::validate(&Config::load(&name))?;
    }
    Ok(())
}

#[test]
fn each_has_the_filter_where_its_name_says() {
    let placements = |name: &str| Config::load(name).placements();
    let expected = [
        ("attempt-only.yaml", 1),
        ("bulkhead.yaml", 2),
        ("callee.yaml", 1),
        ("cluster-filters.yaml", 1),
        ("control.yaml", 0),
        ("request-only.yaml", 1),
        ("two-placements.yaml", 2),
    ];
    assert_eq!(lab::shipped(), expected.map(|(name, _)| name));
    for (name, n) in expected {
        assert_eq!(placements(name), n, "{name}");
    }
}
