//! Which kubeconfigs a process uses whose arguments, variables and files somebody else has chosen, who is not to run
//! anything by it: none that names a program, and none that lies or leads outside of one directory.

use std::{
    path::{Path, PathBuf},
    sync::OnceLock,
};

use kube::config::Kubeconfig;

/// The directory, for the whole process: whoever chose the arguments of it chose them for all of its parts.
static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();

/// From now on this process uses only kubeconfigs from files in `dir` that name no file outside of it, and none that
/// names a program. The first call counts.
pub fn confine(dir: PathBuf) {
    // A second one would be a second set of arguments, of which a process has one.
    let _ = DIRECTORY.set(dir);
}

/// Whether a kubeconfig may be read from this file.
///
/// # Errors
/// When the process is confined to a directory in which it is not.
pub fn check_file(file: &Path) -> Result<(), String> {
    match DIRECTORY.get() {
        Some(dir) => is_inside(dir, file),
        None => Ok(()),
    }
}

/// Whether this kubeconfig may be used.
///
/// # Errors
/// When the process is confined, and the kubeconfig names a program to run or a file that it may not read.
pub fn check(kubeconfig: &Kubeconfig) -> Result<(), String> {
    match DIRECTORY.get() {
        Some(dir) => leads_inside(dir, kubeconfig),
        None => Ok(()),
    }
}

fn leads_inside(dir: &Path, kubeconfig: &Kubeconfig) -> Result<(), String> {
    let users = kubeconfig.auth_infos.iter().filter_map(|it| it.auth_info.as_ref());
    for user in users {
        if user.exec.is_some() || user.auth_provider.is_some() {
            return Err("it names a program to run, which is not done in a pod of this image".to_owned());
        }
        let files = user
            .token_file
            .iter()
            .chain(&user.client_certificate)
            .chain(&user.client_key);
        files.into_iter().try_for_each(|it| is_inside(dir, Path::new(it)))?;
    }
    let clusters = kubeconfig.clusters.iter().filter_map(|it| it.cluster.as_ref());
    let authorities = clusters.filter_map(|it| it.certificate_authority.as_ref());
    authorities.into_iter().try_for_each(|it| is_inside(dir, Path::new(it)))
}

/// Links are followed: what counts is where the file is. One that is not there can still come to be.
fn is_inside(dir: &Path, file: &Path) -> Result<(), String> {
    let outside = || format!("{} is not one of the files of this pod", file.display());
    let whole = match std::fs::canonicalize(file) {
        Ok(whole) => whole,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(_) => return Err(outside()),
    };
    let dir = std::fs::canonicalize(dir).map_err(|_| outside())?;
    if whole.starts_with(dir) { Ok(()) } else { Err(outside()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_confined_process_uses_no_kubeconfig_that_leaves_its_directory() {
        let dir = std::env::temp_dir().join(format!("confined-{:032x}", rand::random::<u128>()));
        std::fs::create_dir(&dir).unwrap();
        for name in ["ca", "token"] {
            std::fs::write(dir.join(name), "").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", dir.join("link")).unwrap();
        let of = |cluster: &str, user: &str| {
            let text = format!(
                "{{clusters: [{{name: c, cluster: {{server: 'https://a', {cluster}}}}}], users: [{{name: u, user: {{{user}}}}}]}}"
            );
            let text = text.replace("DIR", &dir.display().to_string());
            leads_inside(&dir, &Kubeconfig::from_yaml(&text).unwrap())
        };
        assert_eq!(of("certificate-authority: DIR/ca", "tokenFile: DIR/token"), Ok(()));
        assert_eq!(of("", "token: abc"), Ok(()));
        for (cluster, user) in [
            ("", "tokenFile: /etc/passwd"),
            ("", "tokenFile: DIR/link"),
            ("", "client-key: DIR/../../etc/passwd"),
            ("certificate-authority: /etc/passwd", ""),
        ] {
            let refused = of(cluster, user).unwrap_err();
            assert!(refused.ends_with("is not one of the files of this pod"), "{refused}");
        }
        for user in [
            "exec: {command: sh, apiVersion: client.authentication.k8s.io/v1}",
            "auth-provider: {name: gcp, config: {}}",
        ] {
            assert!(of("", user).unwrap_err().contains("names a program to run"));
        }
        assert_eq!(is_inside(&dir, &dir.join("later")), Ok(()));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
