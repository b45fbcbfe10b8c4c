//! `tiergate schema`: the JSON schema of policy files, for editors.

/// The schema. `docs/policy.schema.json` is this text; `UPDATE_DOCS=1 cargo test -p tiergate --test
/// policies` writes it and the tables of docs/configuration.md.
pub fn schema() -> String {
    crate::config::schema()
}
