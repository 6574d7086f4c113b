//! The hub's credential as files, for the other programs on the cluster that speak to the hub with it.
//! Upstream: ocm `pkg/registration/spoke/spokeagent.go`, `DumpSecret`.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use credential::hub_secret;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, runtime::watcher};
use ocm_reconcile::Cache;
use output::private_file;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

/// Writes each key of a Secret into a file of the directory, once, and returns what was written. Which hub the cluster
/// is joined to is told by these files alone, and in a new pod the directory is empty.
///
/// # Errors
/// When the Secret cannot be read. That it is not there, or cannot be written, is none: [`keep`] sees to both.
pub async fn restore(client: Client, namespace: &str, name: &str, directory: &Path) -> Result<hub_secret::Data> {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let found = api.get_opt(name).await;
    let found = found.with_context(|| format!("could not read Secret {namespace}/{name}"))?;
    let Some(data) = found.as_ref().map(hub_secret::data) else {
        return Ok(hub_secret::Data::new());
    };
    Ok(match write(directory, &data, &hub_secret::Data::new()) {
        Ok(_) => data,
        Err(_) => hub_secret::Data::new(),
    })
}

/// Writes each key of a Secret into a file of the directory, as often as they change from what was `written` before.
/// Files whose key has gone stay, as upstream has it: somebody may be reading them.
pub async fn keep(
    client: Client,
    namespace: &str,
    name: &str,
    directory: PathBuf,
    mut written: hub_secret::Data,
    stop: CancellationToken,
) {
    let api: Api<Secret> = Api::namespaced(client, namespace);
    let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let secrets = Cache::start_with(api, only, stop.clone());
    let mut changes = secrets.changes();
    let mut said = String::new();
    loop {
        changes.borrow_and_update();
        if let Some(secret) = secrets.get(namespace, name) {
            let data = hub_secret::data(&secret);
            match write(&directory, &data, &written) {
                Ok(0) => {}
                Ok(files) => {
                    info!(directory = %directory.display(), files, "wrote the hub's credential");
                    written = data;
                }
                Err(error) => {
                    let error = error.to_string();
                    if said != error {
                        warn!(directory = %directory.display(), %error, "could not write the hub's credential; choose another --hub-kubeconfig-dir");
                        said = error;
                    }
                }
            }
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
        }
    }
}

/// Writes what differs from what was written before; returns how many files.
fn write(directory: &Path, data: &hub_secret::Data, written: &hub_secret::Data) -> io::Result<usize> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    // The kubeconfig comes last: whoever waits for it finds the files that it names.
    let (kubeconfig, others): (Vec<_>, Vec<_>) = data.iter().partition(|(key, _)| *key == hub_secret::KUBECONFIG);
    let mut count = 0;
    for (key, value) in others.into_iter().chain(kubeconfig) {
        // A Secret's keys are file names, without a separator. What is still asked for is of no use to others.
        if written.get(key) == Some(value) || key.contains('/') || key == hub_secret::PENDING_KEY {
            continue;
        }
        private_file::replace(&directory.join(key), value)?;
        count += 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn each_key_is_a_private_file_and_removed_keys_stay() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let directory = folder.path().join("hub");
        let data = |pairs: &[(&str, &str)]| -> hub_secret::Data {
            let owned = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()));
            owned.collect()
        };
        let first = data(&[("kubeconfig", "k"), ("pending.key", "p"), ("tls.crt", "one")]);
        // Somebody was there before, and has put a link where the draft of a key could be expected.
        let victim = folder.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink(&victim, directory.join(".tls.crt.new")).unwrap();
        assert_eq!(write(&directory, &first, &data(&[])).unwrap(), 2);
        assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
        fs::remove_file(directory.join(".tls.crt.new")).unwrap();
        let second = data(&[("tls.crt", "two")]);
        assert_eq!(write(&directory, &second, &first).unwrap(), 1);
        assert_eq!(write(&directory, &second, &second).unwrap(), 0);
        let read = |name: &str| fs::read_to_string(directory.join(name)).unwrap();
        assert_eq!(
            (read("kubeconfig"), read("tls.crt")),
            ("k".to_owned(), "two".to_owned())
        );
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&directory), mode(&directory.join("tls.crt"))), (0o700, 0o600));
        let mut names: Vec<_> = fs::read_dir(&directory)
            .unwrap()
            .map(|it| it.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["kubeconfig", "tls.crt"], "nothing half written is left");
    }
}
