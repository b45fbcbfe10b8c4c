//! `tiergate schema`: the JSON schema of policy files, for editors.

/// The schema. `docs/policy.schema.json` is this text; `UPDATE_SCHEMA=1 cargo test -p tiergate schema`
/// writes it.
pub fn schema() -> String {
    crate::config::schema()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_in_the_docs_is_this_versions() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policy.schema.json");
        let schema = super::schema();
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &schema).expect("the repository can be written");
        }
        let kept = std::fs::read_to_string(path).unwrap_or_default();
        assert!(kept == schema, "docs/policy.schema.json is old: run with UPDATE_SCHEMA=1");
    }
}
