//! `tiergate degrade`, the program: whole trees, updates, what is refused, what goes wrong.
#![cfg(feature = "degrade")]

use image::{DynamicImage, ImageFormat, Rgb, RgbImage};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A directory with `site`, and room for `small`.
struct Trees(TempDir);

impl Trees {
    fn new() -> Self {
        let trees = Trees(tempfile::tempdir().expect("a temporary directory"));
        fs::create_dir(trees.path("site")).unwrap();
        trees
    }

    /// With a photograph, two pages and a style sheet.
    fn shop() -> Self {
        let trees = Trees::new();
        trees.write("site/img/photo.jpg", &photo(1200, 300));
        trees.write("site/index.html", b"<p>h\xc3\xa9<img src=img/photo.jpg>");
        trees.write("site/text.html", b"<p>nothing");
        trees.write("site/style.css", b"p{color:red}");
        trees
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|fault| panic!("{name}: {fault}"))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiergate"));
        command.current_dir(self.0.path()).arg("degrade").args(arguments);
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program can be started")
    }

    /// Runs with `--json`, and must succeed.
    fn made(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["site", "small", "--json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    /// Must fail, having said this.
    fn refused(&self, arguments: &[&str], what: &str) {
        let output = self.run(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(what), "{said}");
    }

    /// All files of the degraded tree but its list, with their inodes: who keeps it was not made anew.
    fn inodes(&self) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.path("small")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let name = entry.path().strip_prefix(self.path("small")).unwrap().to_owned();
                match entry.metadata().unwrap() {
                    _ if name.starts_with(".tiergate-degraded") => {}
                    it if it.is_dir() => folders.push(entry.path()),
                    it => drop(found.insert(name.to_string_lossy().into_owned(), it.ino())),
                }
            }
        }
        found
    }
}

fn photo(width: u32, height: u32) -> Vec<u8> {
    let mut state = 1u32;
    let image = RgbImage::from_fn(width, height, |x, y| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgb([(x / 8) as u8, (y / 4) as u8, (state >> 28) as u8])
    });
    let mut out = Cursor::new(Vec::new());
    DynamicImage::from(image).write_to(&mut out, ImageFormat::Jpeg).unwrap();
    out.into_inner()
}

fn paths(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|it| it["path"].as_str().unwrap()).collect()
}

#[test]
fn a_tree_has_every_file_and_is_smaller() {
    let trees = Trees::shop();
    trees.write("site/lies.png", &photo(100, 100));
    trees.write("site/broken.jpg", b"\xff\xd8\xff\xe0 no more");
    trees.write("site/empty.gif", b"");
    let time = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789);
    for name in ["site/img/photo.jpg", "site/style.css"] {
        fs::set_permissions(trees.path(name), fs::Permissions::from_mode(0o640)).unwrap();
        fs::File::options().write(true).open(trees.path(name)).unwrap().set_modified(time).unwrap();
    }
    let dry = trees.made(&["--dry-run"]);
    assert!(!trees.path("small").exists());
    let report = trees.made(&[]);
    assert_eq!(dry["all"], report["all"], "a dry run says what would come out");

    let names: Vec<_> = trees.inodes().into_keys().collect();
    let expected = [
        "broken.jpg",
        "empty.gif",
        "img/photo.jpg",
        "index.html",
        "lies.png",
        "style.css",
        "text.html",
    ];
    assert_eq!(names, expected);
    assert!(trees.read("small/img/photo.jpg").len() * 2 < trees.read("site/img/photo.jpg").len());
    assert_eq!(
        trees.read("small/index.html"),
        b"<p>h\xc3\xa9<img src=img/photo.jpg loading=\"lazy\">"
    );
    for same in ["broken.jpg", "lies.png", "style.css", "text.html"] {
        assert_eq!(trees.read(&format!("small/{same}")), trees.read(&format!("site/{same}")));
    }
    for name in ["small/img/photo.jpg", "small/style.css"] {
        let metadata = fs::metadata(trees.path(name)).unwrap();
        assert_eq!(
            (metadata.modified().unwrap(), metadata.mode() & 0o777),
            (time, 0o640),
            "{name}"
        );
    }
    assert_eq!(paths(&report["copied_as_they_are"]), ["broken.jpg", "empty.gif", "lies.png"]);
    let own = trees.path("small/.tiergate-degraded");
    assert_eq!(fs::metadata(&own).unwrap().mode() & 0o777, 0o700, "servers must not show the list");
    assert!(!own.join("tmp").exists());
}

#[test]
fn what_it_prints_can_be_pasted_into_a_policy() {
    let trees = Trees::shop();
    let output = trees.run(&["site", "small"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(!text.contains('\x1b'), "no colours but on a terminal");
    for part in [
        "JPEG",
        "saved",
        "Largest files that are not smaller",
        "style.css",
        "1 images load lazily",
        "/small/private",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let level = text.lines().find(|line| line.contains("level = ")).expect("it is printed");
    let policy = format!(
        "[origin]\nservers = [\"127.0.0.1:1\"]\n[[sensor]]\nname = \"cpu\"\nmeasure = \"cpu\"\n\
         [[adaptation]]\nname = \"pages\"\nsensor = \"cpu\"\n{level}\n[[class]]\nname = \"all\"\nadaptation = \"pages\"\n"
    );
    trees.write("policy.toml", policy.as_bytes());
    let mut check = Command::new(env!("CARGO_BIN_EXE_tiergate"));
    let check = check.arg("check").arg(trees.path("policy.toml")).output().unwrap();
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    assert!(String::from_utf8_lossy(&check.stdout).contains("/small"));
}

#[test]
fn dotfiles_are_included_only_if_asked_for_and_go_with_the_next_update() {
    let trees = Trees::shop();
    trees.write("site/.htpasswd", b"user:hash");
    trees.write("site/.git/config", b"x");
    trees.write("site/.well-known/security.txt", b"x");
    let report = trees.made(&[]);
    assert_eq!(paths(&report["left_out"]), [".git", ".htpasswd"]);
    let is_there = |name: &str| trees.path("small").join(name).exists();
    assert!(is_there(".well-known/security.txt") && !is_there(".git") && !is_there(".htpasswd"));
    trees.made(&["--update", "--dotfiles"]);
    assert!(is_there(".htpasswd") && is_there(".git/config"));
    trees.made(&["--update"]);
    assert!(!is_there(".htpasswd") && !is_there(".git"));
}

#[test]
fn an_update_makes_what_changed_and_removes_what_has_gone() {
    let trees = Trees::shop();
    trees.write("site/old/gone.html", b"<img src=a>");
    trees.write("site/old/theirs.html", b"<img src=b>");
    trees.made(&[]);
    trees.refused(&["site", "small"], "--update");
    let before = trees.inodes();
    assert_eq!(trees.made(&["--update"])["made"], 0);
    assert_eq!(trees.inodes(), before);

    trees.write("site/index.html", b"<p>new<img src=img/photo.jpg>");
    trees.write("site/more/new.css", b"a");
    fs::remove_dir_all(trees.path("site/old")).unwrap();
    fs::remove_file(trees.path("site/text.html")).unwrap();
    // Of others: a file of their own, and one that they changed.
    trees.write("small/old/own.txt", b"own");
    trees.write("small/old/theirs.html", b"theirs");
    trees.write("small/text.html", b"edited by hand");
    let report = trees.made(&["--update"]);
    let after = trees.inodes();
    let names: Vec<_> = after.keys().map(String::as_str).collect();
    let expected = [
        "img/photo.jpg",
        "index.html",
        "more/new.css",
        "old/own.txt",
        "old/theirs.html",
        "style.css",
        "text.html",
    ];
    assert_eq!(names, expected);
    assert_eq!(
        (after["img/photo.jpg"], after["style.css"]),
        (before["img/photo.jpg"], before["style.css"])
    );
    assert_ne!(after["index.html"], before["index.html"]);
    assert_eq!(trees.read("small/text.html"), b"edited by hand");
    assert_eq!(paths(&report["left_out"]), ["text.html", "old/theirs.html"]);

    // Other settings make anew what depends on them.
    let after = trees.inodes();
    trees.made(&["--update", "--quality", "20"]);
    let last = trees.inodes();
    assert_ne!(after["img/photo.jpg"], last["img/photo.jpg"]);
    assert_eq!(after["index.html"], last["index.html"]);
    // What was deleted by hand comes back.
    fs::remove_file(trees.path("small/style.css")).unwrap();
    assert_eq!(trees.made(&["--update", "--quality", "20"])["made"], 1);
    // A source that is empty is more likely not mounted than meant.
    fs::remove_dir_all(trees.path("site")).unwrap();
    fs::create_dir(trees.path("site")).unwrap();
    trees.refused(&["site", "small", "--update"], "is it mounted?");
    assert!(trees.path("small/index.html").exists());
}

#[test]
fn a_run_that_was_killed_before_a_file_took_its_place_is_taken_up() {
    let trees = Trees::shop();
    trees.made(&[]);
    trees.write("site/style.css", b"p{color:green}");
    // The line is written, the file is not.
    let list = trees.path("small/.tiergate-degraded/files.jsonl");
    let lines = fs::read_to_string(&list).unwrap();
    let line = lines.lines().find(|line| line.contains("style.css")).unwrap();
    fs::write(&list, format!("{lines}{}\n", line.replace("\"len\":12,", "\"len\":14,"))).unwrap();
    let report = trees.made(&["--update"]);
    assert_eq!((&report["made"], &report["left_out"]), (&1.into(), &Value::Array(vec![])));
    assert_eq!(trees.read("small/style.css"), b"p{color:green}");
}

#[test]
fn an_update_with_wider_bounds_makes_what_was_too_large() {
    let trees = Trees::shop();
    let report = trees.made(&["--pixels-max", "1000"]);
    assert_eq!(paths(&report["copied_as_they_are"]), ["img/photo.jpg"]);
    assert_eq!(trees.made(&["--update", "--pixels-max", "1000"])["made"], 0);
    let report = trees.made(&["--update"]);
    assert_eq!(
        (&report["made"], &report["copied_as_they_are"]),
        (&1.into(), &Value::Array(vec![]))
    );
}

#[test]
fn who_may_not_enter_the_source_may_not_enter_the_tree() {
    let trees = Trees::shop();
    fs::set_permissions(trees.path("site"), fs::Permissions::from_mode(0o750)).unwrap();
    let made = trees.run(&["site", "deep/small"]);
    assert!(made.status.success());
    assert_eq!(fs::metadata(trees.path("deep/small")).unwrap().mode() & 0o777, 0o750);
    // One that there is keeps its own.
    fs::create_dir(trees.path("small")).unwrap();
    fs::set_permissions(trees.path("small"), fs::Permissions::from_mode(0o711)).unwrap();
    trees.made(&[]);
    assert_eq!(fs::metadata(trees.path("small")).unwrap().mode() & 0o777, 0o711);
}

#[test]
fn files_and_directories_change_places() {
    let trees = Trees::shop();
    trees.write("site/a", b"a file");
    trees.write("site/b/c.html", b"<img src=x>");
    trees.made(&[]);
    fs::remove_file(trees.path("site/a")).unwrap();
    fs::remove_dir_all(trees.path("site/b")).unwrap();
    trees.write("site/a/d.css", b"now a directory");
    trees.write("site/b", b"now a file");
    trees.made(&["--update"]);
    assert_eq!(trees.read("small/a/d.css"), b"now a directory");
    assert_eq!(trees.read("small/b"), b"now a file");
}

#[test]
fn trees_in_one_another_and_the_trees_of_others_are_refused() {
    let trees = Trees::shop();
    fs::create_dir(trees.path("other")).unwrap();
    trees.write("other/theirs", b"x");
    symlink("site", trees.path("alias")).unwrap();
    trees.refused(&["site", "site/small"], "in one another");
    trees.refused(&["site", "alias/deep/small"], "in one another");
    trees.refused(&["site/img", "site"], "in one another");
    trees.refused(&["site", "site"], "in one another");
    trees.refused(&["site", "absent/../site/small"], "`..`");
    trees.refused(&["site", "other"], "is not empty");
    trees.refused(&["site", "other", "--update"], "is not empty");
    trees.refused(&["absent", "small"], "absent");
    trees.refused(&["site/style.css", "small"], "no directory");
    trees.refused(&["site", "small", "--strip", "a..b"], "--strip");
    trees.refused(&["site", "small", "--files-max", "4"], "--files-max");
    assert_eq!(trees.read("other/theirs"), b"x");
    assert!(!trees.path("small").exists());
}

#[test]
fn links_are_copied_if_they_stay_inside() {
    let trees = Trees::shop();
    trees.write("secret", b"secret");
    for (name, target) in
        [("in", "index.html"), ("out", "../secret"), ("root", "/etc/passwd"), ("self", ".")]
    {
        symlink(target, trees.path("site").join(name)).unwrap();
    }
    let fifo = Command::new("mkfifo").arg(trees.path("site/pipe.jpg")).status().unwrap();
    assert!(fifo.success());
    let report = trees.made(&[]);
    assert_eq!(paths(&report["left_out"]), ["out", "pipe.jpg", "root"]);
    assert_eq!(fs::read_link(trees.path("small/in")).unwrap(), Path::new("index.html"));
    assert_eq!(trees.made(&["--update"])["made"], 0);

    // A link that was edited stays, as files do.
    fs::remove_file(trees.path("small/in")).unwrap();
    symlink("text.html", trees.path("small/in")).unwrap();
    fs::remove_file(trees.path("site/in")).unwrap();
    assert!(paths(&trees.made(&["--update"])["left_out"]).contains(&"in"));
    assert_eq!(fs::read_link(trees.path("small/in")).unwrap(), Path::new("text.html"));

    // What others put in the way is not followed: nothing is written or removed outside.
    fs::create_dir(trees.path("outside")).unwrap();
    fs::rename(trees.path("small/img/photo.jpg"), trees.path("outside/photo.jpg")).unwrap();
    fs::remove_dir_all(trees.path("small/img")).unwrap();
    symlink("../outside", trees.path("small/img")).unwrap();
    trees.write("site/img/photo.jpg", &photo(900, 90));
    trees.write("site/img/more.css", b"x");
    let before = trees.read("outside/photo.jpg");
    let output = trees.run(&["site", "small", "--update"]);
    assert!(!output.status.success());
    fs::remove_dir_all(trees.path("site/img")).unwrap();
    trees.run(&["site", "small", "--update"]);
    assert_eq!(trees.read("outside/photo.jpg"), before);
    assert!(!trees.path("outside/more.css").exists());
}

#[test]
fn hard_links_only_where_nothing_changes() {
    let trees = Trees::shop();
    trees.made(&["--link"]);
    let inode = |name: &str| fs::metadata(trees.path(name)).unwrap().ino();
    assert_eq!(inode("site/style.css"), inode("small/style.css"));
    assert_eq!(inode("site/text.html"), inode("small/text.html"));
    assert_ne!(inode("site/img/photo.jpg"), inode("small/img/photo.jpg"));
    assert_eq!(trees.made(&["--link", "--update"])["made"], 0);
    // Changed in place, both are; and a page that now has an image must be one of its own.
    trees.write("site/text.html", b"<p>something<img src=a>");
    assert_eq!(trees.made(&["--link", "--update"])["made"], 1);
    assert_eq!(trees.read("site/text.html"), b"<p>something<img src=a>");
    assert!(String::from_utf8(trees.read("small/text.html")).unwrap().contains("lazy"));
    let made = trees.made(&["--update"]);
    assert_eq!(made["made"], 1, "copies in place of links");
    assert_ne!(inode("site/style.css"), inode("small/style.css"));
}

#[test]
fn compressed_copies_go_with_what_they_are_of() {
    let trees = Trees::shop();
    for name in
        ["site/index.html.gz", "site/text.html.gz", "site/style.css.br", "site/alone.html.gz"]
    {
        trees.write(name, b"compressed");
    }
    let report = trees.made(&[]);
    assert_eq!(paths(&report["left_out"]), ["index.html.gz"]);
    assert!(trees.path("small/text.html.gz").exists() && trees.path("small/style.css.br").exists());
    // Stale from now on.
    trees.write("site/text.html", b"<p>longer<img src=a>");
    let report = trees.made(&["--update"]);
    assert_eq!(paths(&report["left_out"]), ["index.html.gz", "text.html.gz"]);
    assert!(
        !trees.path("small/text.html.gz").exists() && trees.path("small/alone.html.gz").exists()
    );
    // And no longer.
    trees.write("site/text.html", b"<p>nothing again");
    trees.made(&["--update"]);
    assert!(trees.path("small/text.html.gz").exists());
}

#[test]
fn pages_keep_their_encoding_and_lose_what_is_asked() {
    let trees = Trees::new();
    let page = b"<meta charset=iso-8859-1><div class=ads><img src=1></div><img alt='\xe9t\xe9' src=2><img alt=3 src=3>\xfc";
    trees.write("site/a.html", page);
    let report = trees.made(&["--strip", ".ads", "--images-max", "1"]);
    let expected = b"<meta charset=iso-8859-1><img alt='\xe9t\xe9' src=2 loading=\"lazy\">3\xfc";
    assert_eq!(trees.read("small/a.html"), expected);
    assert_eq!(report["pages"]["fewer"], 2);
    let made = trees.made(&["--update", "--no-defaults"]);
    assert_eq!((made["made"].as_u64(), trees.read("small/a.html")), (Some(1), page.to_vec()));
}

#[test]
fn what_fails_is_said_and_the_rest_goes_on() {
    let trees = Trees::shop();
    // A directory where a file should be.
    trees.made(&[]);
    fs::remove_file(trees.path("small/style.css")).unwrap();
    fs::create_dir(trees.path("small/style.css")).unwrap();
    trees.write("site/new.css", b"x");
    let output = trees.run(&["site", "small", "--update", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(paths(&report["left_out"]), ["style.css"]);
    assert_eq!(trees.read("small/new.css"), b"x");
    // A full disk, on a file system of its own, where that may be mounted.
    fs::create_dir(trees.path("small2")).unwrap();
    let full = trees.path("small2");
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=64k", "none"])
        .arg(&full)
        .stderr(Stdio::null())
        .status();
    if mounted.is_ok_and(|it| it.success()) {
        trees.write("site/large.bin", &vec![7; 200_000]);
        let output = trees.run(&["site", "small2", "--json"]);
        let rest = fs::read(full.join("text.html"));
        let half = full.join("large.bin").exists();
        assert!(Command::new("umount").arg(&full).status().unwrap().success());
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(!output.status.success() && !half && rest.is_ok(), "{report:#}");
        // What is written at the same time may find no space either.
        assert!(paths(&report["failed"]).contains(&"large.bin"), "{report:#}");
        assert!(report["failed"][0]["why"].as_str().unwrap().contains("space"));
    }
}

#[test]
fn an_interrupted_run_leaves_whole_files_and_is_taken_up() {
    let trees = Trees::new();
    for number in 0..60 {
        trees.write(&format!("site/{number}.jpg"), &photo(900, 400));
    }
    let mut running =
        trees.command(&["site", "small", "--threads", "1"]).stdout(Stdio::null()).spawn().unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while fs::read_dir(trees.path("small")).map_or(0, |it| it.count()) < 4 {
        assert!(std::time::Instant::now() < until, "nothing is made");
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert_eq!(running.wait().unwrap().code(), Some(1));
    let some = trees.inodes();
    assert!((1..60).contains(&some.len()), "{}", some.len());
    for name in some.keys() {
        assert!(image::load_from_memory(&trees.read(&format!("small/{name}"))).is_ok(), "{name}");
    }
    // Killed, it has no time to say what it made; that is known all the same.
    let mut running = trees
        .command(&["site", "small", "--update", "--threads", "1"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while trees.inodes().len() < some.len() + 3 {
        assert!(std::time::Instant::now() < until, "nothing is made");
        std::thread::sleep(Duration::from_millis(2));
    }
    running.kill().unwrap();
    running.wait().unwrap();
    let more = trees.inodes();
    let report = trees.made(&["--update"]);
    assert_eq!(report["left_out"], Value::Array(vec![]), "all is known as its own");
    let all = trees.inodes();
    assert_eq!(all.len(), 60);
    assert!(more.iter().all(|(name, inode)| all[name] == *inode), "what was there is kept");
    assert!(!trees.path("small/.tiergate-degraded/tmp").exists());
}
