//! The JSON schema of policy files, for editors.

use super::raw::Root;
use serde_json::Value;

/// The schema, as a text that ends in a line break. The same for every run of one version.
pub fn schema() -> String {
    let mut schema = schemars::schema_for!(Root).to_value();
    without_null(&mut schema);
    if let Value::Object(root) = &mut schema {
        root.insert("title".to_owned(), "Tiergate policy".into());
    }
    let text = serde_json::to_string_pretty(&schema).expect("a JSON value is always written");
    text + "\n"
}

/// Takes out the choice of `null`: a key that is left out is left out; TOML has no null.
fn without_null(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            if let Some(Value::Array(kinds)) = object.get_mut("type") {
                kinds.retain(|kind| kind != "null");
                if let [kind] = &kinds[..] {
                    let kind = kind.clone();
                    object.insert("type".to_owned(), kind);
                }
            }
            if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type") != Some(&"null".into()));
                if let [Value::Object(choice)] = &choices[..] {
                    let choice = choice.clone();
                    object.remove("anyOf");
                    for (key, value) in choice {
                        // What is said of the key itself says more than what is said of its kind.
                        object.entry(key).or_insert(value);
                    }
                }
            }
            if let Some(Value::Array(words)) = object.get_mut("enum") {
                words.retain(|word| !word.is_null());
            }
            object.values_mut().for_each(without_null);
        }
        Value::Array(list) => list.iter_mut().for_each(without_null),
        _ => {}
    }
}
