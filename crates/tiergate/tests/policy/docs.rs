//! The documents: every page is in the site's summary, links lead somewhere, policies pass `check`, commands run as written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tiergate::config::parse;

/// Pages that a newcomer follows: what they show is run.
const GUIDES: [&str; 10] = [
    "quickstart.md",
    "classes.md",
    "load-balancer.md",
    "kubernetes.md",
    "upgrade.md",
    "faq.md",
    "migrate/nginx.md",
    "migrate/haproxy.md",
    "migrate/envoy.md",
    "migrate/mod_qos.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// The pages below a folder.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut list = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => list.extend(pages(&path)),
            false if path.extension().is_some_and(|it| it == "md") => list.push(path),
            false => {}
        }
    }
    list.sort();
    list
}

/// The text outside of code.
fn prose(text: &str) -> String {
    let mut is_code = false;
    let outside = |line: &&str| {
        is_code ^= line.trim_start().starts_with("```");
        !is_code && !line.starts_with("    ")
    };
    text.lines().filter(outside).collect::<Vec<_>>().join("\n")
}

/// The targets of a page's links.
fn links(text: &str) -> Vec<String> {
    let prose = prose(text);
    let mut list = Vec::new();
    for (at, _) in prose.match_indices("](") {
        let target = prose[at + 2..].split([')', ' ', '\n']).next().unwrap_or_default();
        list.push(target.to_owned());
    }
    list
}

/// The anchors of a page's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#').trim();
        let letters = title.chars().filter_map(|it| match it {
            ' ' => Some('-'),
            it if it.is_alphanumeric() || it == '-' || it == '_' => Some(it),
            _ => None,
        });
        letters.collect::<String>().to_lowercase()
    };
    let own = text
        .match_indices(" id=\"")
        .map(|(at, it)| text[at + it.len()..].split('"').next().unwrap_or_default().to_owned());
    text.lines().filter(|line| line.starts_with('#')).map(heading).chain(own).collect()
}

#[test]
fn every_page_is_in_the_summary_and_every_link_leads_somewhere() {
    let docs = root().join("docs");
    let summary = fs::read_to_string(docs.join("SUMMARY.md")).expect("it is there");
    let listed: BTreeSet<String> = links(&summary).into_iter().collect();
    let mut wrong = Vec::new();
    let all = pages(&docs);
    for path in &all {
        let name = path.strip_prefix(&docs).expect("below it").to_string_lossy().into_owned();
        if name != "SUMMARY.md" && !listed.contains(&name) {
            wrong.push(format!("docs/SUMMARY.md does not list {name}"));
        }
    }
    let top = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"];
    let mut known: BTreeMap<PathBuf, BTreeSet<String>> = BTreeMap::new();
    for path in all.into_iter().chain(top.map(|name| root().join(name))) {
        let text = fs::read_to_string(&path).expect("a page");
        for link in links(&text) {
            if link.contains("://") || link.starts_with("mailto:") || link.is_empty() {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file.is_empty() {
                true => path.clone(),
                false => path.parent().expect("in a folder").join(file),
            };
            let Ok(target) = target.canonicalize() else {
                wrong.push(format!("{}: {link} does not exist", path.display()));
                continue;
            };
            if anchor.is_empty() || target.extension().is_none_or(|it| it != "md") {
                continue;
            }
            let known = known
                .entry(target.clone())
                .or_insert_with(|| anchors(&fs::read_to_string(&target).expect("a page")));
            if !known.contains(anchor) {
                wrong.push(format!("{}: {link}: no such heading", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The blocks of a kind of code, in order, each with its place.
fn blocks<'t>(text: &'t str, kind: &str) -> Vec<(usize, &'t str)> {
    let begin = format!("```{kind}\n");
    let starts = text.match_indices(&begin).map(|(at, begin)| at + begin.len());
    starts.map(|at| (at, text[at..].split("```").next().unwrap_or_default())).collect()
}

#[test]
fn policies_of_guides_pass_check_and_their_commands_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let log =
        "192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] \"GET /cart/ HTTP/1.1\" 200 512 \"-\" \"-\"\n";
    fs::write(folder.join("access.log"), log).expect("our own folder");
    let mut ran = 0;
    for guide in GUIDES {
        let text = fs::read_to_string(root().join("docs").join(guide)).expect("a guide");
        let policies = blocks(&text, "toml");
        for (_, policy) in &policies {
            parse(policy, guide).unwrap_or_else(|fault| panic!("{fault}\n{policy}"));
        }
        for (at, block) in blocks(&text, "sh") {
            let before = policies.iter().rfind(|(place, _)| *place < at);
            let policy = before.map_or("origin.servers = [\"a:1\"]\n", |(_, policy)| *policy);
            fs::write(folder.join("policy.toml"), policy).expect("our own folder");
            for line in block.lines() {
                let words = words(line);
                let Some((first, arguments)) = words.split_first() else { continue };
                match (first.as_str(), arguments.first().map(String::as_str)) {
                    ("tiergate", Some("check" | "explain" | "simulate" | "import")) => {}
                    // What is long or needs more than a test may have; scripts/readme.py and deb-check run the same.
                    ("tiergate", Some("run" | "top")) | ("sudo" | "curl", _) => continue,
                    _ => panic!("{guide}: is not run by any test: {line}"),
                }
                let examples = root().join("docs/migrate");
                let arguments =
                    arguments.iter().take_while(|it| *it != ">").map(|it| match it.as_str() {
                        "/etc/nginx/nginx.conf" => {
                            examples.join("nginx/nginx.conf").into_os_string()
                        }
                        "/etc/haproxy/haproxy.cfg" => {
                            examples.join("haproxy/haproxy.cfg").into_os_string()
                        }
                        it => it.into(),
                    });
                let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
                command.args(arguments).current_dir(folder).stdin(Stdio::null());
                let output = command.output().expect("it starts");
                assert!(output.status.success(), "{guide}: {line}\n{output:?}");
                ran += 1;
            }
        }
    }
    assert!(ran >= 10, "{ran}");
}

/// The words of a command, with quotes.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars().chain(" ".chars()) {
        match letter {
            '\'' => quoted = !quoted,
            '#' if !quoted && word.is_empty() => break,
            ' ' if !quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            letter => word.push(letter),
        }
    }
    words
}

#[test]
fn policies_of_manifests_packages_and_examples_pass_check() {
    let docs = root().join("docs");
    for name in ["sidecar.yaml", "ingress.yaml"] {
        let text = fs::read_to_string(docs.join("kubernetes").join(name)).expect("a manifest");
        for document in text.split("\n---\n") {
            for key in ["apiVersion: ", "kind: ", "metadata:\n  name: "] {
                assert!(document.contains(key), "{name}: {key} is missing in\n{document}");
            }
        }
        assert!(!text.contains('\t'), "{name}: YAML has no tabs");
        let (_, policy) = text.split_once("policy.toml: |\n").expect("a policy");
        let policy: Vec<&str> =
            policy.lines().take_while(|it| it.is_empty() || it.starts_with("    ")).collect();
        let policy =
            policy.iter().map(|it| it.trim_start_matches("    ")).collect::<Vec<_>>().join("\n");
        parse(&policy, name).unwrap_or_else(|fault| panic!("{fault}\n{policy}"));
        // Probes ask what the admin listener answers.
        for path in ["/readyz", "/healthz"] {
            assert!(text.contains(&format!("path: {path}, port: admin")), "{name}: {path}");
        }
    }
    for name in [
        "packaging/policy.toml",
        "docs/migrate/envoy/policy.toml",
        "docs/migrate/mod_qos/policy.toml",
    ] {
        let text = fs::read_to_string(root().join(name)).expect("a policy");
        let policy = parse(&text, name).unwrap_or_else(|fault| panic!("{fault}"));
        let warnings = tiergate::cli::check::warnings(&policy);
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    command
        .args(["check", "packaging/container.toml"])
        .current_dir(root())
        .env("ORIGIN", "app:8080");
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
}

/// What is wrong with a policy is in the body of the answer, which `curl -f` does not print.
#[test]
fn commands_that_reload_show_why_not() {
    for page in pages(&root().join("docs")) {
        let text = fs::read_to_string(&page).expect("a page");
        for line in text.lines().filter(|it| it.contains("-X POST")) {
            let mut words = line.split_whitespace();
            let hides = |it: &str| it.starts_with('-') && !it.starts_with("--") && it.contains('f');
            assert!(!words.any(|it| hides(it) || it == "--fail"), "{}: {line}", page.display());
        }
    }
}

/// An upgrade of the package restarts nothing: the administrator then sends SIGUSR2, by which the gateway hands over to the new program.
#[test]
fn a_new_version_of_the_package_leaves_a_gateway_that_runs_alone() {
    let manifest =
        fs::read_to_string(root().join("crates/tiergate/Cargo.toml")).expect("it is there");
    let manifest: toml::Table = manifest.parse().expect("TOML");
    let units = &manifest["package"]["metadata"]["deb"]["systemd-units"];
    for key in ["start", "stop-on-upgrade", "restart-after-upgrade"] {
        // What is left out is true.
        assert_eq!(units.get(key).and_then(toml::Value::as_bool), Some(false), "{key}");
    }
}
