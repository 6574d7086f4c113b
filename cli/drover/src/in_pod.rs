//! A hub, an agent or their operator in a pod of a node that runs this binary for their images, although nobody asked
//! for that. Whoever may make pods has chosen the arguments, the variables and the files: the process is one of these
//! programs or nothing, and reads and writes no files but the pod's.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use fleet::{bundled, nodes};
use ocm_addon_sdk::program::Place;

/// The arguments to go on with, if these are those of a pod: the program and its own. What is refused is said, and the
/// exit code is the answer.
pub fn arguments(all: &[OsString]) -> Option<Result<Vec<OsString>, ExitCode>> {
    let (mark, _) = nodes::opened(all.get(1)?);
    if mark != nodes::IN_POD {
        return None;
    }
    let confined = all
        .get(2)
        .context("there is no directory of the pod")
        .and_then(|dir| confine(Path::new(dir), &all[3..]));
    Some(confined.map_err(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    }))
}

/// What became of these arguments if they are those of a pod of one of the known add-ons: the name of the add-on, the
/// pod's directory and the program with its own arguments follow the mark. In a pod of our own image the program says
/// which add-on it is.
pub fn run_add_on(all: &[OsString]) -> Option<ExitCode> {
    let (mark, opened) = nodes::opened(all.get(1)?);
    let ran = if mark == bundled::IN_POD {
        let (name, opened) = nodes::opened(all.get(2).map(|it| it.as_os_str()).unwrap_or_default());
        let add_on = name.to_str().and_then(bundled::find).context("there is no such add-on");
        add_on.and_then(|it| run_confined(it, opened, all.get(3..).unwrap_or_default()))
    } else if mark == nodes::IN_POD {
        let program = Path::new(all.get(3)?).file_name()?.to_str()?;
        run_confined(bundled::with_program(program)?, opened, &all[2..])
    } else {
        return None;
    };
    Some(ran.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::from(2)
    }))
}

/// Runs a program of an add-on in a pod, whose directory comes first, with these folders open to it.
fn run_confined(add_on: &bundled::Bundled, opened: Vec<PathBuf>, words: &[OsString]) -> Result<ExitCode> {
    let (dir, words) = words.split_first().context("there is no directory of the pod")?;
    let dir = Path::new(dir);
    let texts = words.iter().map(|it| it.to_str().context("an argument is no text"));
    let texts = texts.collect::<Result<Vec<_>>>()?;
    stay_inside(dir, texts.get(1..).unwrap_or_default())?;
    add_on.run(words, &Place::pod(dir).opening(opened)).with_context(|| {
        format!(
            "in a pod of this image this binary is {} and nothing else",
            add_on.programs.join(", ")
        )
    })
}

fn confine(dir: &Path, words: &[OsString]) -> Result<Vec<OsString>> {
    let words: Vec<&str> = words.iter().filter_map(|it| it.to_str()).collect();
    let arguments = program(&words)?;
    stay_inside(dir, &words[1..])?;
    Ok(arguments)
}

/// From here on the process reads and writes no files but the pod's.
fn stay_inside(dir: &Path, arguments: &[&str]) -> Result<()> {
    for word in arguments {
        check(dir, word)?;
    }
    if let Ok(paths) = std::env::var("POD_PATHS") {
        check_mounts(dir, &paths)?;
    }
    // Paths that begin nowhere begin there, whatever the container's workingDir.
    let home = dir.join("home");
    std::env::set_current_dir(&home).with_context(|| format!("{} cannot be used", home.display()))?;
    credential::confined::confine(dir.to_owned());
    Ok(())
}

/// The command line of the program that the first word names, with or without a path.
fn program(words: &[&str]) -> Result<Vec<OsString>> {
    let name = words.first().and_then(|it| Path::new(it).file_name()?.to_str());
    let known = name.filter(|it| nodes::PROGRAMS.contains(it));
    let Some(name) = known else {
        bail!(
            "in a pod of this image this binary is {} and nothing else",
            nodes::PROGRAMS.join(", ")
        );
    };
    // Upstream's programs are called by a path, so that none of them is taken for a command of ours.
    let called = match name {
        "hub" | "agent" => name.to_owned(),
        upstreams => format!("/{upstreams}"),
    };
    let own = words[1..].iter().map(|it| (*it).to_owned());
    let line = ["drover".to_owned(), called].into_iter().chain(own);
    Ok(line.map(OsString::from).collect())
}

/// Whether an argument names no file outside of the pod's directory. The node has already replaced what is mounted.
fn check(dir: &Path, word: &str) -> Result<()> {
    // `-ovalue`, a short flag with its value.
    let glued = word.strip_prefix('-').filter(|it| !it.starts_with('-'));
    let short = glued.and_then(|it| it.get(it.chars().next()?.len_utf8()..));
    for part in word.split(['=', ',']).chain(short) {
        let path = Path::new(part.trim_matches(['"', '\'', ' ']));
        let climbs = path.components().any(|it| it == std::path::Component::ParentDir);
        if climbs || path.is_absolute() && !path.starts_with(dir) {
            bail!(
                "{word}: {} is not one of the files of this pod; mount a volume there",
                path.display()
            );
        }
    }
    Ok(())
}

/// Whether all volumes are the pod's own.
fn check_mounts(dir: &Path, paths: &str) -> Result<()> {
    let mounts: BTreeMap<PathBuf, PathBuf> = serde_json::from_str(paths).context("POD_PATHS is no table of mounts")?;
    match mounts.iter().find(|(_, host)| !host.starts_with(dir)) {
        Some((mount, _)) => bail!(
            "what is mounted at {} is not the pod's own, and pods of this image mount no hostPath and no PersistentVolumeClaim",
            mount.display()
        ),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_of_the_image_run_in_a_pod() {
        let line = |words: &[&str]| {
            let line = program(words).map_err(|error| error.to_string())?;
            Ok(line.iter().map(|it| it.to_string_lossy()).collect::<Vec<_>>().join(" "))
        };
        assert_eq!(line(&["operator", "hub"]), Ok("drover /operator hub".to_owned()));
        assert_eq!(
            line(&["/registration", "agent", "--v=2"]),
            Ok("drover /registration agent --v=2".to_owned())
        );
        assert_eq!(line(&["/addon", "enable"]), Ok("drover /addon enable".to_owned()));
        assert_eq!(
            line(&["/drover/hub", "--leader-elect"]),
            Ok("drover hub --leader-elect".to_owned())
        );
        for refused in [
            &["kube", "up"][..],
            &["manifests"],
            &["--log", "hub"],
            &[nodes::IN_POD],
            &["hub/.."],
            &[],
        ] {
            let refusal: Result<String, String> = line(refused);
            assert!(refusal.unwrap_err().ends_with(" and nothing else"), "{refused:?}");
        }
    }

    #[test]
    fn arguments_in_a_pod_name_no_file_of_the_host() {
        let is_taken = |word: &str| check(Path::new("/pod"), word).is_ok();
        for taken in [
            "--kubeconfig=/pod/volumes/a/kubeconfig",
            "/pod/x",
            "--bootstrap-kubeconfigs=/pod/a,/pod/b",
            "--spoke-external-server-urls=https://10.0.0.1:6443/",
            "--feature-gates=A=true,B=false",
            "-v2",
            "home/file",
        ] {
            assert!(is_taken(taken), "{taken}");
        }
        for refused in [
            "--hub-kubeconfig-dir=/root/.ssh",
            "/etc/passwd",
            "--bootstrap-kubeconfigs=/pod/a,/etc/b",
            "--terminate-on-files=\"/etc/b\"",
            "--kubeconfig=/pod/../etc/b",
            "../../b",
            "-f/etc/b",
            "/podx/b",
        ] {
            assert!(!is_taken(refused), "{refused}");
        }
    }

    #[test]
    fn a_pod_of_the_image_mounts_nothing_of_the_host() {
        let check = |host: &str| check_mounts(Path::new("/pod"), &format!(r#"{{"/": "/pod/root", "/a": "{host}"}}"#));
        assert!(check("/pod/volumes/a").is_ok());
        assert!(
            check("/root")
                .unwrap_err()
                .to_string()
                .starts_with("what is mounted at /a is not the pod's own")
        );
        assert!(check_mounts(Path::new("/pod"), "x").is_err());
    }
}
