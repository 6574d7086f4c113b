//! `cargo xtask dist`: what a release consists of, in target/dist-out. The archive has the binary, its completions and
//! manual pages; beside it are what it was made of (an SBOM) and the checksums of both.

mod manual;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use sha2::{Digest, Sha256};

/// The shells of `drover completions`, and what each wants its file to be called.
const SHELLS: &[(&str, &str)] = &[
    ("bash", "drover.bash"),
    ("elvish", "drover.elv"),
    ("fish", "drover.fish"),
    ("powershell", "drover.ps1"),
    ("zsh", "_drover"),
];

#[derive(clap::Args)]
pub struct Dist {
    /// What to build for [default: this machine with musl, for a static binary, if that is installed;
    /// else this machine]
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Build nothing and pack this binary, which is one for the target
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Where everything goes
    #[arg(long, value_name = "DIR", default_value = "target/dist-out")]
    out: PathBuf,
}

pub fn run(root: &Path, wanted: &Dist) -> Result<()> {
    let host = host()?;
    let target = match &wanted.target {
        Some(named) => named.clone(),
        None => default_target(&host)?,
    };
    if !target.contains("musl") {
        println!(
            "The binary needs the C library of the machine it was built on. For a static one: `rustup target add {}`, and musl-gcc.",
            host.replace("-gnu", "-musl")
        );
    }
    let binary = match &wanted.binary {
        Some(named) => named.clone(),
        None => build(root, &target)?,
    };
    let binary = binary
        .canonicalize()
        .with_context(|| format!("there is no {}", binary.display()))?;
    let out = root.join(&wanted.out);
    std::fs::create_dir_all(&out).with_context(|| format!("could not make {}", out.display()))?;

    let version = env!("CARGO_PKG_VERSION");
    let name = format!("drover-{version}-{target}");
    let mut files = vec![
        ("LICENSE".to_owned(), read(&root.join("LICENSE"))?, 0o644),
        ("README.md".to_owned(), read(&root.join("README.md"))?, 0o644),
        ("drover".to_owned(), read(&binary)?, 0o755),
    ];
    for (shell, file) in SHELLS {
        let script = drover(&binary, &["completions", shell])?;
        files.push((format!("completions/{file}"), script.into_bytes(), 0o644));
    }
    for (file, page) in manual::pages(version, &|verbs: &[&str]| {
        drover(&binary, &[verbs, &["--help"]].concat())
    })? {
        files.push((format!("man/man1/{file}"), page.into_bytes(), 0o644));
    }
    let parts = [
        (format!("{name}.tar.gz"), packed(&name, files)?),
        (format!("{name}.cdx.json"), sbom::of_drover(root, &target)?.into_bytes()),
    ];
    let mut sums = String::new();
    for (file, bytes) in &parts {
        std::fs::write(out.join(file), bytes).with_context(|| format!("could not write {file}"))?;
        sums.push_str(&sum(bytes, file));
    }
    let file = format!("{name}.sha256");
    std::fs::write(out.join(&file), &sums).with_context(|| format!("could not write {file}"))?;
    print!("{sums}");
    println!("in {}", out.display());
    Ok(())
}

/// The line that `sha256sum --check` reads.
fn sum(bytes: &[u8], file: &str) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|it| format!("{it:02x}")).collect();
    format!("{hex}  {file}\n")
}

/// An archive with one folder. The same files make the same bytes, whoever packs them and when.
fn packed(folder: &str, mut files: Vec<(String, Vec<u8>, u32)>) -> Result<Vec<u8>> {
    files.sort();
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (path, bytes, mode) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(mode);
        archive.append_data(&mut header, format!("{folder}/{path}"), bytes.as_slice())?;
    }
    Ok(archive.into_inner()?.finish()?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("could not read {}", path.display()))
}

/// What a binary prints. It has to be one that runs here.
fn drover(binary: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(binary)
        .args(arguments)
        // The width of the help; with no kubeconfig nothing is asked.
        .env("COLUMNS", "80")
        .output()
        .with_context(|| {
            format!(
                "{} does not run here; build each target on a machine of its kind",
                binary.display()
            )
        })?;
    ensure!(
        output.status.success(),
        "drover {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).context("drover prints text")
}

fn build(root: &Path, target: &str) -> Result<PathBuf> {
    let mut build = crate::cargo::command();
    build
        .args([
            "build",
            "--profile",
            "dist",
            "--locked",
            "--package",
            "drover",
            "--target",
            target,
        ])
        .current_dir(root);
    if target.contains("musl") {
        build.env(format!("CC_{}", target.replace('-', "_")), "musl-gcc");
    }
    let status = build.status().context("could not run cargo")?;
    ensure!(status.success(), "drover could not be built for {target}");
    let folder = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(folder.join(target).join("dist/drover"))
}

/// This machine's triple.
fn host() -> Result<String> {
    let told = rustc(&["-vV"])?;
    let line = told.lines().find_map(|it| it.strip_prefix("host: "));
    Ok(line.context("rustc tells its host")?.to_owned())
}

/// The static kind of this machine where it can be built for, and the machine itself otherwise.
fn default_target(host: &str) -> Result<String> {
    let musl = host.replace("-gnu", "-musl");
    let libraries = Path::new(rustc(&["--print", "sysroot"])?.trim())
        .join("lib/rustlib")
        .join(&musl);
    let has_compiler = Command::new("musl-gcc").arg("--version").output().is_ok();
    Ok(if libraries.is_dir() && has_compiler {
        musl
    } else {
        host.to_owned()
    })
}

fn rustc(arguments: &[&str]) -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc)
        .args(arguments)
        .output()
        .context("could not run rustc")?;
    ensure!(output.status.success(), "rustc {} failed", arguments.join(" "));
    String::from_utf8(output.stdout).context("rustc prints text")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_make_the_same_archive() {
        let files = || vec![("b".to_owned(), vec![1], 0o755), ("a/c".to_owned(), vec![2, 3], 0o644)];
        let mut reversed = files();
        reversed.reverse();
        let one = packed("x", files()).unwrap();
        assert_eq!(one, packed("x", reversed).unwrap());
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(one.as_slice()));
        let entries: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|it| {
                let it = it.unwrap();
                (it.path().unwrap().display().to_string(), it.header().mode().unwrap())
            })
            .collect();
        assert_eq!(entries, [("x/a/c".to_owned(), 0o644), ("x/b".to_owned(), 0o755)]);
    }

    #[test]
    fn checksums_are_those_of_sha256sum() {
        assert_eq!(
            sum(b"abc", "f"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  f\n"
        );
    }
}
