//! DiffServer's `options.conf`, and the policy that means the same.
//!
//! Source: Rao, Ramamurthy: DiffServer (2001), §3.2. A line is the name of a host or domain, or the path
//! of a file or (with `/` at the end) directory, then its priority from 1 to 10; without a number the
//! priority is 1. `DOMAIN_NAME_FACTOR` and `FILE_NAME_FACTOR`, the paper's DNF and FNF, are named in the
//! same way; the paper does not show such a line, so an `=` between is taken too, and so are the short
//! names. The queue is sorted by the score alone. Beyond the paper: a deadline, addresses and networks of clients, and comments from `#` on, which are kept.

use crate::config::score::{client, path};
use std::collections::HashMap;
use std::fmt;
use tiergate_core::classify::pattern::Pattern;
use tiergate_core::classify::score::{Points, ScoreClient, ScoreTables};

/// Most faults that are told of one file.
const FAULTS_MAX: usize = 100;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, from 1.
    pub line: usize,
    /// What was expected, and what was found.
    pub message: String,
}

/// The first hundred faults of a file, in its order. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    /// The file's name as given.
    pub file: String,
    /// What is wrong.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Fault { line, message }) in self.faults.iter().enumerate() {
            let separator = if index > 0 { "\n" } else { "" };
            write!(f, "{separator}{}:{line}: {message}", self.file)?;
        }
        Ok(())
    }
}

impl std::error::Error for Faults {}

/// Whom or what an entry is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Client(ScoreClient),
    Path(Pattern),
    ClientFactor,
    PathFactor,
}

/// An entry as it stands in the file.
#[derive(Debug)]
struct Entry<'t> {
    line: usize,
    text: &'t str,
    key: Key,
    /// `None`: nothing is written, which is the lowest.
    points: Option<Points>,
    /// Comments in front of it, and on its line.
    comments: Vec<&'t str>,
}

/// The policy that gives each request the score that the file gives it, in TOML. `origin` is the
/// server behind, at first the paper's Apache on port 8080.
///
/// # Errors
/// Every line that means nothing, means too much, or that another line contradicts.
pub fn policy(text: &str, file: &str, origin: &str) -> Result<String, Faults> {
    let mut faults = Vec::new();
    let (entries, rest) = entries(text, &mut faults);
    if !faults.is_empty() {
        faults.truncate(FAULTS_MAX);
        return Err(Faults { file: file.to_owned(), faults });
    }
    Ok(written(&entries, &rest, file, origin))
}

/// The entries, and the comments behind the last.
fn entries<'t>(text: &'t str, faults: &mut Vec<Fault>) -> (Vec<Entry<'t>>, Vec<&'t str>) {
    let mut entries: Vec<Entry<'t>> = Vec::new();
    let mut known: HashMap<Key, usize> = HashMap::new();
    let mut comments = Vec::new();
    for (line, whole) in (1..).zip(text.lines()) {
        let mut fault = |message: String| faults.push(Fault { line, message });
        let (said, comment) = match whole.split_once('#') {
            Some((said, comment)) => (said, Some(comment.trim())),
            None => (whole, None),
        };
        comments.extend(comment);
        let words: Vec<&str> = said.split_whitespace().filter(|word| *word != "=").collect();
        let (text, number) = match words[..] {
            [] => continue,
            [text] => (text, None),
            [text, number] => (text, Some(number)),
            _ => {
                fault(format!("must be a name and a number, got {:?}", shortened(said)));
                continue;
            }
        };
        let (text, number) = match text.split_once('=') {
            Some((text, joined)) if number.is_none() => (text, Some(joined)),
            _ => (text, number),
        };
        let read = key(text).and_then(|key| Ok((points(&key, number)?, key)));
        match read {
            Err(message) => fault(message),
            Ok((points, key)) => {
                if let Some(first) = known.insert(key.clone(), line) {
                    fault(format!("{:?} stands on line {first} already", shortened(text)));
                }
                let comments = std::mem::take(&mut comments);
                entries.push(Entry { line, text, key, points, comments });
            }
        }
    }
    let clients = entries.iter().filter(|entry| matches!(entry.key, Key::Client(_))).count();
    if clients.max(entries.len() - clients) > ScoreTables::ENTRIES_MAX {
        let message = format!("there may be at most {} entries", ScoreTables::ENTRIES_MAX);
        faults.push(Fault { line: 1, message });
    }
    (entries, comments)
}

fn key(text: &str) -> Result<Key, String> {
    let told = |fault: String| format!("{fault}, got {:?}", shortened(text));
    match text {
        "DOMAIN_NAME_FACTOR" | "DNF" => Ok(Key::ClientFactor),
        "FILE_NAME_FACTOR" | "FNF" => Ok(Key::PathFactor),
        _ if text.chars().any(char::is_control) => Err(told("must not have controls".to_owned())),
        _ if text.starts_with('/') => path(text).map(Key::Path).map_err(told),
        // The paper's options are written like this, and hosts are not: one that is unknown is no host.
        _ if !text.contains('.')
            && text.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b'_') =>
        {
            Err(told(UNKNOWN.to_owned()))
        }
        _ => client(text).map(Key::Client).map_err(told),
    }
}

const UNKNOWN: &str = "is no option; there are DOMAIN_NAME_FACTOR and FILE_NAME_FACTOR, and a host \
                       without a dot is written in small letters";

fn points(key: &Key, number: Option<&str>) -> Result<Option<Points>, String> {
    let factor = matches!(key, Key::ClientFactor | Key::PathFactor);
    let Some(text) = number else {
        return match factor {
            true => Err("must have a number behind it".to_owned()),
            false => Ok(None),
        };
    };
    let scale = Points::ONE..=Points::from_thousandths(10_000).expect("ten is below the largest");
    let points = Points::parse(text).filter(|points| factor || scale.contains(points));
    let expected = if factor { "a number from 0 to 1000" } else { "a priority from 1 to 10" };
    points.map(Some).ok_or_else(|| {
        let got = shortened(text);
        format!("must be {expected} with at most three decimals, got {got:?}")
    })
}

fn shortened(text: &str) -> String {
    crate::config::error::shortened(text.trim())
}

/// DiffServer's queue: the highest score first, of equal ones the older.
const QUEUE: &str = "\
# One queue, sorted by the score alone. With ageing = 1 a request gains a point for each second that it
# waits, so that no request waits for ever.
[scheduling]
policy = \"score\"
ageing = 0

# DiffServer keeps a request for as long as its client stays; here it is refused after the deadline.
[[class]]
name = \"all\"
deadline = \"30s\"

";

fn written(entries: &[Entry<'_>], rest: &[&str], file: &str, origin: &str) -> String {
    let mut out = format!(
        "# The policy that means the same as {} of DiffServer.\n\n\
         [[listener]]\naddress = \"0.0.0.0:80\"\n\n\
         [origin]\nservers = [{}]\n\n{QUEUE}[score]\n",
        one_line(file),
        quoted(origin)
    );
    let put = |out: &mut String, entry: &Entry<'_>, key: &str| {
        *out += &comments(&entry.comments);
        let (points, missing) = match entry.points {
            Some(points) => (points, ""),
            None => (Points::ONE, ", without a number"),
        };
        *out += &format!("{key} = {points} # line {}{missing}\n", entry.line);
    };
    for (wanted, key) in [(Key::ClientFactor, "client_factor"), (Key::PathFactor, "path_factor")] {
        match entries.iter().find(|entry| entry.key == wanted) {
            Some(entry) => put(&mut out, entry, key),
            None => out += &format!("{key} = 1\n"),
        }
    }
    out += "\n[score.client]\n";
    for entry in entries.iter().filter(|entry| matches!(entry.key, Key::Client(_))) {
        put(&mut out, entry, &quoted(entry.text));
    }
    out += "\n[score.path]\n";
    for entry in entries.iter().filter(|entry| matches!(entry.key, Key::Path(_))) {
        put(&mut out, entry, &quoted(entry.text));
    }
    out + &comments(rest)
}

fn comments(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("# {}\n", one_line(text))).collect()
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    // Without controls, JSON and TOML write a text alike.
    serde_json::Value::from(one_line(text)).to_string()
}

/// A text without controls, which TOML allows neither in comments nor in texts.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn faults(text: &str) -> String {
        policy(text, "options.conf", "127.0.0.1:8080").unwrap_err().to_string()
    }

    #[test]
    fn every_line_that_means_nothing_is_told_with_its_number() {
        let text = "# fine\nunl.edu 8.5\nunl.edu. 9\n/a 11\n/b 0.5\n/c 1 2\nx y z\n\
                    http://a.com/ 5\n/a//b 2\nDNF\nFNF = much\n129.93. 4\n/d 1.0001\n10.0.0.1/8 3\n\
                    10.0.0.0/8 4\nMAX_PROC 5\nMAXPROC 5\nmax_proc 5\nEdu 5\nUNL.EDU 5";
        assert_eq!(
            faults(text),
            "options.conf:3: \"unl.edu.\" stands on line 2 already
options.conf:4: must be a priority from 1 to 10 with at most three decimals, got \"11\"
options.conf:5: must be a priority from 1 to 10 with at most three decimals, got \"0.5\"
options.conf:6: must be a name and a number, got \"/c 1 2\"
options.conf:7: must be a name and a number, got \"x y z\"
options.conf:8: has ':', which no host has; leave out scheme, port and path, got \"http://a.com/\"
options.conf:9: can never match, because paths are normalised first: `//` never occurs, write `/`, got \"/a//b\"
options.conf:10: must have a number behind it
options.conf:11: must be a number from 0 to 1000 with at most three decimals, got \"much\"
options.conf:12: must be a host, a domain, an address or a network such as \"10.0.0.0/8\", got \"129.93.\"
options.conf:13: must be a priority from 1 to 10 with at most three decimals, got \"1.0001\"
options.conf:15: \"10.0.0.0/8\" stands on line 14 already
options.conf:16: is no option; there are DOMAIN_NAME_FACTOR and FILE_NAME_FACTOR, and a host without a dot is written in small letters, got \"MAX_PROC\"
options.conf:17: is no option; there are DOMAIN_NAME_FACTOR and FILE_NAME_FACTOR, and a host without a dot is written in small letters, got \"MAXPROC\"
options.conf:18: is no option; there are DOMAIN_NAME_FACTOR and FILE_NAME_FACTOR, and a host without a dot is written in small letters, got \"max_proc\"
options.conf:19: is no option; there are DOMAIN_NAME_FACTOR and FILE_NAME_FACTOR, and a host without a dot is written in small letters, got \"Edu\"
options.conf:20: \"UNL.EDU\" stands on line 3 already"
        );
    }

    #[test]
    fn nothing_is_lost() {
        let text = "# campus\nunl.edu 8.5 # all of it\r\n\tandes.unl.edu=10\nedu\n\
                    DOMAIN_NAME_FACTOR = 2\nFNF 0.25\n129.93.0.0/16 5\n/a\"b\\*c 3\n/images/ 4\n# end";
        let written = policy(text, "o\n.conf", "app:80").unwrap();
        assert_eq!(
            written,
            r#"# The policy that means the same as o .conf of DiffServer.

[[listener]]
address = "0.0.0.0:80"

[origin]
servers = ["app:80"]

# One queue, sorted by the score alone. With ageing = 1 a request gains a point for each second that it
# waits, so that no request waits for ever.
[scheduling]
policy = "score"
ageing = 0

# DiffServer keeps a request for as long as its client stays; here it is refused after the deadline.
[[class]]
name = "all"
deadline = "30s"

[score]
client_factor = 2 # line 5
path_factor = 0.25 # line 6

[score.client]
# campus
# all of it
"unl.edu" = 8.5 # line 2
"andes.unl.edu" = 10 # line 3
"edu" = 1 # line 4, without a number
"129.93.0.0/16" = 5 # line 7

[score.path]
"/a\"b\\*c" = 3 # line 8
"/images/" = 4 # line 9
# end
"#
        );
        let policy = parse(&written, "p.toml").unwrap();
        let tables = policy.score.unwrap();
        assert_eq!((tables.clients.len(), tables.paths.len()), (4, 2));
        assert_eq!(tables.client_factor.to_string(), "2");
    }
}
