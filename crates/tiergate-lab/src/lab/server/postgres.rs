//! A Python shop under gunicorn whose pages query PostgreSQL, which has a cluster of its own for each run.

use super::gunicorn::Gunicorn;
use super::place::Place;
use crate::process::{Program, Running, free_address, output, versioned};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who runs the database if who starts it is root, which PostgreSQL does not accept. Debian's package makes this user.
const OWNER: &str = "postgres";
/// Longest time of a command that makes the cluster.
const COMMAND_PATIENCE: Duration = Duration::from_secs(60);
/// How long the database may take until it accepts connections.
const READY_PATIENCE: Duration = Duration::from_secs(30);
/// Connections beside the application's: the operator's (PostgreSQL reserves three).
const SPARE: u32 = 3;
/// PostgreSQL's own port.
const PORT: u16 = 5432;
/// Python's client of PostgreSQL.
const CLIENT: &str = "/usr/lib/python3/dist-packages/psycopg2";

/// How PostgreSQL and the application before it are set.
#[derive(Deserialize, Serialize, Clone, Debug, PartialEq)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Postgres {
    /// Processes of gunicorn.
    pub(crate) workers: u32,
    /// Threads of each, each with a connection to the database.
    pub(crate) threads: u32,
}

impl Default for Postgres {
    /// As gunicorn with a page that does not query.
    fn default() -> Self {
        let Gunicorn { workers, threads } = Gunicorn::default();
        Self { workers, threads }
    }
}

impl Postgres {
    /// The folder of its programs, of the newest version; an error says how to install it, or what the shop needs.
    pub(super) fn installed() -> Result<PathBuf> {
        Gunicorn::installed()?;
        let install = "run scripts/applications.sh";
        ensure!(Path::new(CLIENT).exists(), "psycopg2 is not installed; {install}");
        versioned("/usr/lib/postgresql", "", "bin/initdb")
            .and_then(|initdb| Some(initdb.parent()?.to_owned()))
            .with_context(|| format!("PostgreSQL is not installed; {install}"))
    }

    /// Requests that it works on at once.
    pub(super) fn slots(&self) -> u32 {
        self.gunicorn().slots()
    }

    fn gunicorn(&self) -> Gunicorn {
        Gunicorn { workers: self.workers, threads: self.threads }
    }

    /// Makes a cluster in the scratch directory, starts it, fills it, and starts the shop before it.
    pub(super) async fn start(&self, place: &Place<'_>) -> Result<Vec<Running>> {
        let programs = Self::installed()?;
        // In a network of the server's own nothing else listens.
        let listen = match place.namespace {
            Some(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, PORT)),
            None => free_address()?,
        };
        let data = place.dir().join("database");
        cluster(&programs, &data).await?;
        let connections = self.slots() + SPARE;
        let values =
            [("PORT", listen.port().to_string()), ("CONNECTIONS", connections.to_string())];
        let template = include_str!("../../../origins/postgres/postgresql.conf");
        let file = place.write("postgresql.conf", template, &values)?;
        let words = ["-D".into(), data.display().to_string()];
        let file = format!("--config_file={}", file.display());
        let program = as_owner(place, "PostgreSQL", &programs.join("postgres"));
        let database = place.start(program.args(words).args([file]), listen).await?;
        fill(place, &programs, listen).await?;
        let told = format!("SHOP_DATABASE=host=127.0.0.1 port={} user={OWNER}", listen.port());
        let shop = include_str!("../../../origins/postgres/shop.py");
        // The shop first: it is ended before its database.
        Ok(vec![self.gunicorn().run(place, shop, Some(&told)).await?, database])
    }
}

/// A program of the server that runs as the database's owner, if we are root, and ends with us.
fn as_owner(place: &Place<'_>, name: &str, path: &Path) -> Program {
    if !rustix::process::geteuid().is_root() {
        return place.program(name, path);
    }
    let (user, group) = (format!("--reuid={OWNER}"), format!("--regid={OWNER}"));
    // To become another user forgets what is to be signalled when we end. SIGINT: without waiting for clients.
    let words = [&user, &group, "--clear-groups", "--pdeathsig", "INT", "--"];
    place.program(name, "setpriv").args(words).args([path])
}

/// Makes a cluster in that directory.
async fn cluster(programs: &Path, data: &Path) -> Result<()> {
    let here = Place {
        scratch: data,
        listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        namespace: None,
        processors: None,
    };
    let own = Program::new("install", "install").args(["-d", "-m", "700"]);
    let own = match rustix::process::geteuid().is_root() {
        true => own.args(["-o", OWNER, "-g", OWNER]),
        false => own,
    };
    output(own.args([data]), COMMAND_PATIENCE).await?;
    // What is not on the disk when the machine stops is of no use to anybody.
    let words = ["--no-sync", "--no-instructions", "--auth=trust", "--encoding=UTF8", "--locale=C"];
    let program = as_owner(&here, "initdb", &programs.join("initdb")).args(words);
    let program = program.args(["-U", OWNER, "-D"]).args([data]);
    output(program, COMMAND_PATIENCE).await?;
    Ok(())
}

/// Waits until the database accepts connections, and makes its tables.
async fn fill(place: &Place<'_>, programs: &Path, listen: SocketAddr) -> Result<()> {
    let schema = include_str!("../../../origins/postgres/schema.sql");
    let schema = place.write("schema.sql", schema, &[])?;
    let client = |name: &str| {
        let to = ["-h".into(), listen.ip().to_string(), "-p".into(), listen.port().to_string()];
        place.program(name, programs.join(name)).args(to).args(["-U", OWNER])
    };
    let begun = Instant::now();
    // It listens before it has read its files.
    while let Err(error) = output(client("pg_isready").args(["-q"]), COMMAND_PATIENCE).await {
        if begun.elapsed() > READY_PATIENCE {
            return Err(error.context("PostgreSQL does not accept connections"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let words = ["-q", "-v", "ON_ERROR_STOP=1", "-f"];
    output(client("psql").args(words).args([schema]), COMMAND_PATIENCE).await?;
    Ok(())
}
