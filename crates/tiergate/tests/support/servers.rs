//! Real servers on ports of their own, with everything they write in a folder of their own.

use super::client::Client;
use super::eventually;
use super::gateway::Port;
use super::process::{Process, program};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// A running server.
#[derive(Debug)]
pub struct Server {
    pub process: Process,
    pub address: SocketAddr,
    /// Its document root is `www` in here.
    pub folder: TempDir,
    _port: Port,
}

impl Server {
    pub fn server(&self) -> String {
        self.address.to_string()
    }

    /// Writes a file into the document root.
    pub fn put(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.folder.path().join("www").join(name);
        fs::create_dir_all(path.parent().expect("in the root")).expect("a folder of our own");
        fs::write(&path, content).expect("a folder of our own");
        path
    }

    fn await_ready(mut self, log: &Path) -> Self {
        eventually("the server answers", || {
            if let Some(status) = self.process.has_ended() {
                let log = fs::read_to_string(log).unwrap_or_default();
                panic!("the server has ended with {status}:\n{log}");
            }
            let Ok(mut client) = Client::try_connect(self.address) else { return false };
            client.send_anyway(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
            client.try_answer(false).is_ok()
        });
        self
    }
}

/// A folder with a document root that a server which gave up its rights can read.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let www = folder.path().join("www");
    fs::create_dir(&www).expect("an empty folder");
    for path in [folder.path(), &www] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o777)).expect("our own folder");
    }
    fs::write(www.join("index.html"), "<!doctype html><title>home</title>\n").expect("our own");
    folder
}

fn logging<'c>(command: &'c mut Command, log: &Path) -> &'c mut Command {
    let file = File::create(log).expect("a folder of our own");
    let again = file.try_clone().expect("descriptors are left");
    command.stdin(Stdio::null()).stdout(Stdio::from(again)).stderr(Stdio::from(file))
}

/// nginx as it comes, with uploads by PUT under `/up/`, and a UNIX socket `nginx.sock`.
pub fn nginx() -> Option<Server> {
    let program = program("nginx")?;
    let (folder, port) = (folder(), Port::reserve());
    let root = folder.path().display().to_string();
    fs::create_dir(folder.path().join("www/up")).expect("an empty folder");
    let config = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; keepalive_requests 100000; client_max_body_size 0;
           types {{ text/html html; text/plain txt; application/octet-stream bin; }}
           client_body_temp_path {root}/body; proxy_temp_path {root}/proxy;
           fastcgi_temp_path {root}/fcgi; uwsgi_temp_path {root}/uwsgi; scgi_temp_path {root}/scgi;
           gzip on; gzip_min_length 1; gzip_types text/plain;
           server {{
             listen {address}; listen unix:{root}/nginx.sock; root {root}/www;
             location /up/ {{ dav_methods PUT DELETE; create_full_put_path on; }}
             location = /nothing {{ return 204; }}
             location = /moved {{ return 302 /; }}
             location = /seen {{ add_header Set-Cookie a=1; add_header Set-Cookie b=2;
                                 return 200 \"$http_cookie|$http_x_one|$request_uri\"; }}
           }}
         }}",
        address = port.address,
    );
    let path = folder.path().join("nginx.conf");
    fs::write(&path, config).expect("our own folder");
    let log = folder.path().join("log");
    let mut command = Command::new(program);
    command.args(["-e", &format!("{root}/error.log"), "-p", &root, "-c"]).arg(path);
    let process = Process::start_gentle(logging(&mut command, &log));
    let server = Server { process, address: port.address, folder, _port: port };
    Some(server.await_ready(&log))
}

/// Apache with the event MPM.
pub fn apache() -> Option<Server> {
    let program = program("apache2")?;
    let (folder, port) = (folder(), Port::reserve());
    let root = folder.path().display().to_string();
    let modules = "/usr/lib/apache2/modules";
    let load = |name: &str| format!("LoadModule {name}_module {modules}/mod_{name}.so\n");
    let names = ["mpm_event", "authz_core", "mime", "dir", "deflate", "filter", "headers", "alias"];
    let config = names.map(load).concat()
        + &format!(
            "ServerRoot {root}\nServerName localhost\nListen {address}\nPidFile {root}/pid\n\
             Mutex file:{root}\nErrorLog {root}/error.log\nDocumentRoot {root}/www\n\
             User www-data\nGroup www-data\nTypesConfig /dev/null\n\
             AddType text/html .html\nAddType text/plain .txt\n\
             StartServers 1\nThreadsPerChild 32\nMaxRequestWorkers 64\nServerLimit 2\n\
             MaxKeepAliveRequests 0\nDirectoryIndex index.html\n\
             AddOutputFilterByType DEFLATE text/plain\nRedirect 302 /moved /index.html\n\
             <Directory {root}/www>\nRequire all granted\n</Directory>\n",
            address = port.address
        );
    let path = folder.path().join("apache.conf");
    fs::write(&path, config).expect("our own folder");
    let log = folder.path().join("log");
    let mut command = Command::new(program);
    command.args(["-DFOREGROUND", "-d", &root, "-f"]).arg(path);
    let process = Process::start_gentle(logging(&mut command, &log));
    let server = Server { process, address: port.address, folder, _port: port };
    Some(server.await_ready(&log))
}

/// A server of ours in another language, from a script beside this file.
fn scripted(interpreter: &str, script: &str) -> Option<Server> {
    let program = program(interpreter)?;
    let (folder, port) = (folder(), Port::reserve());
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support");
    let log = folder.path().join("log");
    let mut command = Command::new(program);
    command.arg(here.join(script)).arg(port.address.port().to_string());
    command.current_dir(folder.path().join("www"));
    let process = Process::start(logging(&mut command, &log));
    let server = Server { process, address: port.address, folder, _port: port };
    Some(server.await_ready(&log))
}

/// Node's `http`: see `origin.js`.
pub fn node() -> Option<Server> {
    scripted("node", "origin.js")
}

/// Python's `http.server`, which speaks HTTP/1.0 and closes after each answer; see `origin.py`.
pub fn python() -> Option<Server> {
    scripted("python3", "origin.py")
}

/// Files by Node, looked up by the decoded path: see `files.js`.
pub fn node_files() -> Option<Server> {
    scripted("node", "files.js")
}

/// Files by Python's `wsgiref`: see `wsgi.py`.
pub fn wsgi() -> Option<Server> {
    scripted("python3", "wsgi.py")
}
