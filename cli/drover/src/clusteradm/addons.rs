//! `clusteradm addon …`

use anyhow::{Result, bail};

use super::line::Line;
use crate::{
    command::addon::{create::Create, disable::Disable, enable::Enable},
    manifests,
};

/// Does one of them.
pub async fn run(verb: &str, line: &Line<'_>) -> Result<()> {
    match verb {
        "create" => create(line).await,
        "disable" => {
            let disable = Disable {
                names: names(line)?,
                clusters: line.clusters()?,
                dry_run: line.is_dry_run(),
            };
            disable.disable(&line.hub().await?).await
        }
        _ => {
            let enable = Enable {
                names: names(line)?,
                clusters: line.some_clusters()?,
                // The API's default is the flag's: left out, the add-on's own configuration may say something else.
                namespace: line.text("namespace").filter(|_| line.flags.is_given("namespace")),
                annotate: line.flags.list("annotate"),
                labels: line.flags.list("labels"),
                config_file: line.file("config-file"),
                output_file: line.file("output-file"),
                dry_run: line.is_dry_run(),
            };
            enable.enable(&line.hub().await?).await
        }
    }
}

fn names(line: &Line<'_>) -> Result<Vec<String>> {
    let names = line.flags.list("names");
    if names.is_empty() {
        bail!("names is missing");
    }
    Ok(names)
}

async fn create(line: &Line<'_>) -> Result<()> {
    // The spelling is upstream's.
    let name = line.word("addon name must be specified", "only one adon name can be specified")?;
    let Some(version) = line.text("version") else {
        bail!("addon version must be specified");
    };
    let create = Create {
        name,
        filename: line.flags.list("filename").into_iter().map(Into::into).collect(),
        recursive: line.flags.is_on("recursive"),
        version,
        overwrite: line.flags.is_on("overwrite"),
        hub_registration: line.flags.is_on("hub-registration"),
        cluster_role_bind: line.text("cluster-role-bind"),
        labels: line.flags.list("labels"),
        placement_ref: line.text("placement-ref"),
        dry_run: line.is_dry_run(),
    };
    if create.filename.is_empty() {
        bail!("manifest files must be specified");
    }
    let hub = line.hub().await?;
    let manifests = manifests::read(&create.filename, create.recursive)?;
    create.create(&hub, manifests).await
}
