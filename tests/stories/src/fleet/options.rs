//! The flags of `drover up` and `drover kube up` that mean something here.

use anyhow::{Result, bail};
use std::path::PathBuf;

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub data: PathBuf,
    pub clusters: u16,
    pub gates: Vec<String>,
    pub images: Vec<String>,
    /// Where a copy of the administrator's kubeconfig is wanted.
    pub kubeconfig: Option<PathBuf>,
    /// Whether the hub manages the example add-ons.
    pub examples: bool,
}

impl Options {
    /// Reads what follows `up`.
    pub fn read(arguments: &[String]) -> Result<Self> {
        let mut it = Self {
            data: PathBuf::from(".drover"),
            clusters: 2,
            gates: Vec::new(),
            images: Vec::new(),
            kubeconfig: None,
            examples: true,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if word == "--no-examples" {
                it.examples = false;
                continue;
            }
            let (flag, value) = match word.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (word.as_str(), words.next().cloned()),
            };
            let Some(value) = value else {
                bail!("{flag} has no value")
            };
            match flag {
                "--data-dir" => it.data = PathBuf::from(value),
                "--clusters" => it.clusters = value.parse()?,
                "--feature-gates" => it.gates.extend(value.split(',').map(str::to_owned)),
                "--write-kubeconfig" => it.kubeconfig = Some(PathBuf::from(value)),
                "--node-image-map" => it.images.push(value),
                _ => bail!("{flag} means nothing on a real Kubernetes"),
            }
        }
        Ok(it)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_up_are_read_as_it_reads_them() {
        let words = [
            "--clusters",
            "3",
            "--no-examples",
            "--data-dir=other",
            "--feature-gates",
            "ClusterProfile=true,ManifestWorkReplicaSet=false",
        ];
        let options = Options::read(&words.map(str::to_owned)).unwrap();
        assert_eq!((options.clusters, options.data.to_str()), (3, Some("other")));
        assert_eq!(options.gates, ["ClusterProfile=true", "ManifestWorkReplicaSet=false"]);
        assert!(!options.examples);
        assert!(Options::read(&["--ephemeral".to_owned()]).is_err());
    }
}
