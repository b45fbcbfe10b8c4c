//! `tiergate schema`: the JSON schema of policy files, for editors.

/// The schema. `docs/policy.schema.json` is this text.
pub fn schema() -> String {
    crate::config::schema()
}

#[cfg(test)]
mod tests {
    use crate::config::{reference, schema, tables};

    /// With `UPDATE_DOCS=1`, writes both.
    #[test]
    fn the_schema_and_the_reference_page_are_this_versions() {
        let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
        let page = format!("{docs}/configuration.md");
        let kept = std::fs::read_to_string(&page).expect("it is there");
        for name in tables() {
            let written = kept.contains(&format!("<!-- keys of {name} -->"))
                || kept.contains(&format!("<!-- keys of {name}: "));
            assert!(written || name == "Certificate" || name == "OwnPolicer", "{name}");
        }
        for (path, made) in
            [(format!("{docs}/policy.schema.json"), schema()), (page, reference(&kept))]
        {
            if std::env::var_os("UPDATE_DOCS").is_some() {
                std::fs::write(&path, &made).expect("the repository can be written");
            }
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(kept == made, "{path} is old: run with UPDATE_DOCS=1");
        }
    }
}
