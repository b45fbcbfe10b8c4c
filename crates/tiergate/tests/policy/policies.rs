//! Every policy that comes along is read, makes sense, and has the shape that editors are told of.

use serde_json::Value;
use std::path::PathBuf;
use tiergate::cli::{check, explain};
use tiergate::config::{load, reference, schema, tables};

fn policies() -> Vec<PathBuf> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../policies");
    let entries = std::fs::read_dir(directory).unwrap();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    assert!(paths.len() >= 6, "only {paths:?}");
    paths
}

#[test]
fn every_policy_is_read_and_has_nothing_to_warn_of() {
    for path in policies() {
        let policy = load(&path).unwrap_or_else(|fault| panic!("{fault}"));
        assert!(!policy.plan.classes.is_empty(), "{}", path.display());
        assert_eq!(check::warnings(&policy), [] as [&str; 0], "{}", path.display());
        let words = check::check(&path, false).unwrap();
        for class in &policy.plan.classes {
            assert!(words.contains(&class.name), "{} is missing in\n{words}", class.name);
        }
    }
}

#[test]
fn what_sessions_are_known_by_is_told() {
    let path = policies().into_iter().find(|path| path.ends_with("sessions.toml")).unwrap();
    let words = check::check(&path, false).unwrap();
    assert!(words.contains("the application's cookie `JSESSIONID`"), "{words}");
    assert!(words.contains("over after 20m without a request, and after 12h"), "{words}");
}

#[test]
fn who_goes_under_overload_is_told() {
    let path = policies().into_iter().find(|path| path.ends_with("voigt-c.toml")).unwrap();
    let words = check::check(&path, false).unwrap();
    assert!(words.contains("while the queueing delay is more than 100ms"), "{words}");
    assert!(words.contains("importance, which only running sessions have"), "{words}");
    let policy = load(&path).unwrap();
    let said = |cookies: &str| {
        let question = explain::Question {
            request: "GET /".to_owned(),
            headers: vec![format!("Cookie: {cookies}")],
            ..explain::Question::default()
        };
        explain::explain(&policy, "voigt-c.toml", &question).unwrap()
    };
    assert!(said("basket=full; customer=preferred").contains("kept by importance 200"));
    assert!(said("PHPSESSID=1; basket=full").contains("kept by importance 100"));
    assert!(said("basket=empty").contains("it goes first"));
}

/// A secret that is missing or poor is a fault of the policy, and is never shown.
#[test]
fn a_secret_file_must_be_there_and_be_long_enough() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    let text = "[origin]\nservers = [\"a:1\"]\n[session]\nown = true\nsecret_file = \"key\"\n";
    std::fs::write(&path, text).unwrap();
    let fault = || load(&path).unwrap_err().to_string();
    assert!(fault().contains("policy.toml:5:15: session.secret_file: "), "{}", fault());
    std::fs::write(folder.path().join("key"), "too short").unwrap();
    assert!(fault().contains("key:1: the secret must have at least 32 bytes"), "{}", fault());
    assert!(!fault().contains("too short"));
    std::fs::write(folder.path().join("key"), "0123456789abcdef0123456789abcdef").unwrap();
    let words = check::check(&path, false).unwrap();
    assert!(words.contains("signed by a secret of") && !words.contains("0123456789"), "{words}");
}

#[test]
fn the_shop_puts_requests_where_its_comments_say() {
    let path = policies().into_iter().find(|path| path.ends_with("shop.toml")).unwrap();
    let policy = load(&path).unwrap();
    let class = |request: &str, header: &str| {
        let question = explain::Question {
            request: request.to_owned(),
            headers: vec![header.to_owned()],
            ..explain::Question::default()
        };
        let said = explain::explain(&policy, "shop.toml", &question).unwrap();
        match said.contains("It is refused") {
            true => "refused".to_owned(),
            false => said.split("\nClass ").nth(1).unwrap().split(',').next().unwrap().to_owned(),
        }
    };
    assert_eq!(class("POST /cart/add", "A: b"), "checkout");
    assert_eq!(class("GET /x/..//%63art", "A: b"), "checkout");
    assert_eq!(class("GET /product/7", "A: b"), "browse");
    assert_eq!(class("GET /product/7", "Cookie: a=b; cart_items=12"), "checkout");
    assert_eq!(class("GET /product/7", "Cookie: a=b; cart_items=0"), "browse");
    assert_eq!(class("GET /cart", "Sec-Purpose: prefetch;prerender"), "prefetch");
    assert_eq!(class("GET /internal/x", "A: b"), "refused");
}

/// Whether a value has the kind and the keys that a schema allows; texts are not looked at.
fn accepts(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    if let Some(name) = schema.get("$ref").and_then(Value::as_str) {
        let name = name.strip_prefix("#/$defs/").unwrap();
        return accepts(root, &root["$defs"][name], value);
    }
    for choices in ["anyOf", "oneOf"] {
        if let Some(choices) = schema.get(choices).and_then(Value::as_array)
            && !choices.iter().any(|choice| accepts(root, choice, value).is_ok())
        {
            return Err(format!("{value} fits none of {choices:?}"));
        }
    }
    if let Some(fixed) = schema.get("const")
        && fixed != value
    {
        return Err(format!("{value} is not {fixed}"));
    }
    if let Some(words) = schema.get("enum").and_then(Value::as_array)
        && !words.contains(value)
    {
        return Err(format!("{value} is none of {words:?}"));
    }
    let kind = match value {
        Value::Object(_) => "object",
        Value::Array(_) => "array",
        Value::String(_) => "string",
        Value::Bool(_) => "boolean",
        _ => "integer",
    };
    match schema.get("type") {
        Some(Value::String(one)) if one != kind => return Err(format!("{value} is no {one}")),
        Some(Value::Array(kinds)) if !kinds.contains(&kind.into()) => {
            return Err(format!("{value} is none of {kinds:?}"));
        }
        _ => {}
    }
    for element in value.as_array().into_iter().flatten() {
        accepts(root, &schema["items"], element)?;
    }
    let chosen = schema.get("anyOf").or(schema.get("oneOf")).is_some();
    // The keys of a value that is one of several kinds have been looked at as that kind's.
    for (key, value) in value.as_object().filter(|_| !chosen).into_iter().flatten() {
        let of_key = schema["properties"].get(key).or(schema.get("additionalProperties"));
        match of_key {
            Some(of_key) if of_key != &Value::Bool(false) => accepts(root, of_key, value)?,
            _ => return Err(format!("unknown key {key}")),
        }
    }
    for key in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        if value.get(key.as_str().unwrap()).is_none() {
            return Err(format!("{key} is missing"));
        }
    }
    Ok(())
}

#[test]
fn every_policy_has_the_shape_of_the_schema() {
    let schema: Value = serde_json::from_str(&schema()).unwrap();
    let accepts = |text: &str| {
        let value: Value = toml::from_str(text).unwrap();
        accepts(&schema, &schema, &value)
    };
    for path in policies() {
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(accepts(&text), Ok(()), "{}", path.display());
    }
    for wrong in [
        "",
        "[origin]\nserver = [\"a:1\"]",
        "[origin]\nservers = \"a:1\"",
        "admin = true\n[origin]\nservers = [\"a:1\"]",
        "[origin]\nservers = [\"a:1\"]\n[[class]]\nqueue = 5",
        "[origin]\nservers = [\"a:1\"]\n[[rule]]\nheader.a = false",
        "[origin]\nservers = [\"a:1\"]\n[refusal]\nconnection = \"drop\"",
    ] {
        assert!(accepts(wrong).is_err(), "the schema accepts\n{wrong}");
    }
}

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
    let schema_file = format!("{docs}/policy.schema.json");
    for (path, made) in [(schema_file, schema()), (page, reference(&kept))] {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(&path, &made).expect("the repository can be written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == made, "{path} is old: run with UPDATE_DOCS=1");
    }
}
