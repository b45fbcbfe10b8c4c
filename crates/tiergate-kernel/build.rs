//! Compiles the programs for the kernel by clang, and the code that they share with the host, for the tests, by the C compiler.
//!
//! Without clang the library is built without programs, and says so when they are asked for. A package that is built elsewhere brings the compiled programs along in the folder that
//! `TIERGATE_KERNEL_PROGRAMS` names; they fit any kernel (CO-RE).

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: [&str; 3] = ["http", "steer", "syn"];
const FOLDER: &str = "TIERGATE_KERNEL_PROGRAMS";

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed={FOLDER}");
    println!("cargo:rerun-if-env-changed=CLANG");
    println!("cargo:rustc-check-cfg=cfg(programs)");
    if env::var_os("CARGO_FEATURE_LOAD").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    let made = PROGRAMS.iter().all(|name| match env::var_os(FOLDER) {
        Some(folder) => copy(&Path::new(&folder).join(format!("{name}.bpf.o")), &out, name),
        None => compile(&out, name),
    });
    if made {
        println!("cargo:rustc-cfg=programs");
    }
    cc::Build::new()
        .file("bpf/native.c")
        .flag_if_supported("-std=gnu11")
        .compile("tiergate_kernel_native");
}

fn copy(from: &Path, out: &Path, name: &str) -> bool {
    println!("cargo:rerun-if-changed={}", from.display());
    match std::fs::copy(from, out.join(format!("{name}.bpf.o"))) {
        Ok(_) => true,
        Err(error) => panic!("{FOLDER}: {}: {error}", from.display()),
    }
}

fn compile(out: &Path, name: &str) -> bool {
    let clang = env::var_os("CLANG").unwrap_or_else(|| "clang".into());
    // Of libbpf-sys, with the headers of the libbpf that is linked.
    let headers = env::var("DEP_BPF_INCLUDE").expect("libbpf-sys says where its headers are");
    let output = Command::new(&clang)
        .args(["-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-c"])
        .arg(format!("-I{headers}"))
        .arg(format!("bpf/{name}.bpf.c"))
        .arg("-o")
        .arg(out.join(format!("{name}.bpf.o")))
        .output();
    let fault = match output {
        Ok(output) if output.status.success() => return true,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            said.lines().next().unwrap_or("it fails").to_owned()
        }
        Err(error) => error.to_string(),
    };
    let clang = clang.display();
    println!("cargo:warning=built without the programs for the kernel: {clang}: {fault}");
    false
}
