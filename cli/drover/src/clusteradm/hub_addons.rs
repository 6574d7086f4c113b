//! `clusteradm install hub-addon` and `uninstall hub-addon`

use anyhow::{Result, bail};
use installation::images::ImageFlags;

use super::line::Line;
use crate::command::hub_addon::{InstallHubAddOn, UninstallHubAddOn};

/// `install hub-addon`
pub async fn install(line: &Line<'_>) -> Result<()> {
    let install = InstallHubAddOn {
        names: names(line)?,
        namespace: line.flags.text("namespace").to_owned(),
        create_namespace: line.flags.is_on("create-namespace"),
        images: ImageFlags {
            bundle_version: line.flags.some("bundle-version").map(str::to_owned),
            bundle_version_overrides: line.flags.some("bundle-version-overrides").map(Into::into),
            ..ImageFlags::default()
        },
        dry_run: line.is_dry_run(),
    };
    install.install(&line.hub().await?, &line.global).await
}

/// `uninstall hub-addon`
pub async fn uninstall(line: &Line<'_>) -> Result<()> {
    let uninstall = UninstallHubAddOn {
        names: names(line)?,
        namespace: line.flags.text("namespace").to_owned(),
        dry_run: line.is_dry_run(),
        timeout: line.seconds(),
    };
    uninstall.uninstall(&line.hub().await?, &line.global).await
}

fn names(line: &Line<'_>) -> Result<Vec<String>> {
    match line.flags.some("names") {
        Some(names) => Ok(names.split(',').map(|it| it.trim().to_owned()).collect()),
        None => bail!("names is missing"),
    }
}
