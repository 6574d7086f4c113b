//! The operators as programs: what their flags mean.

use std::{sync::Arc, time::Duration};

use anyhow::{Result, ensure};
use futures::future::join_all;
use operator::{Layout, hub::CertificateTimes};
use process::code_pages;
use process::environment::{read, variable};

use super::{
    api,
    read::FlagValues,
    rounds::{self, ControllerProgram, Round, RoundContext},
    settings,
};

/// `registration-operator hub`, and `drover operator hub`.
pub async fn hub(values: FlagValues, layout: Layout) -> Result<()> {
    let options = operator::hub::Options {
        layout,
        compact_rights: hub::rbac::RIGHTS,
        namespace: namespace(),
        skip_remove_crds: values.is_on("skip-remove-crds"),
        control_plane_node_label_selector: values.text("control-plane-node-label-selector").to_owned(),
        deployment_replicas: replicas(&values),
        enable_sync_labels: values.is_on("enable-sync-labels"),
        image_pull_secret_name: values.text("image-pull-secret-name").to_owned(),
        agent_image: std::env::var("AGENT_IMAGE").ok().filter(|it| !it.is_empty()),
        certificates: certificate_times(variable)?,
    };
    let round: Round = Arc::new(move |ground: RoundContext| {
        let options = options.clone();
        Box::pin(async move {
            let running = operator::hub::start(ground.home.client, options, ground.stop).await;
            join_all(running.into_iter().map(|it| it.finished)).await;
            Ok(())
        })
    });
    run(values, "clustermanager", round).await
}

/// `registration-operator klusterlet`, and `drover operator klusterlet`.
pub async fn klusterlet(values: FlagValues, layout: Layout) -> Result<()> {
    let options = operator::klusterlet::Options {
        layout,
        namespace: namespace(),
        control_plane_node_label_selector: values.text("control-plane-node-label-selector").to_owned(),
        deployment_replicas: replicas(&values),
        disable_default_addon_namespace: values.is_on("disable-default-addon-namespace"),
        enable_sync_labels: values.is_on("enable-sync-labels"),
        hub_access_check_interval: settings::hub_access_check_interval()?,
    };
    let round: Round = Arc::new(move |ground: RoundContext| {
        let options = options.clone();
        Box::pin(async move {
            let running = operator::klusterlet::start(ground.home.client, options, ground.stop).await;
            join_all(running.into_iter().map(|it| it.finished)).await;
            Ok(())
        })
    });
    run(values, "klusterlet", round).await
}

/// How long the certificates of webhooks live, as environment variables in the place of upstream's constants. What
/// lived less than a minute would be over before every API server has heard of what comes next.
fn certificate_times(says: impl Fn(&str) -> Option<String>) -> Result<CertificateTimes> {
    let usual = CertificateTimes::default();
    let life = |name: &str, usual: Duration| {
        let life = read(name, says(name), usual)?;
        ensure!(life >= LIFE_MIN, "{name} must be a minute at least");
        Ok(life)
    };
    let rotation = "DROVER_CERT_ROTATION_INTERVAL";
    Ok(CertificateTimes {
        signer: life("DROVER_SIGNING_CERT_VALIDITY", usual.signer)?,
        target: life("DROVER_TARGET_CERT_VALIDITY", usual.target)?,
        look_again: read(rotation, says(rotation), usual.look_again)?,
    })
}

const LIFE_MIN: Duration = Duration::from_secs(60);

async fn run(values: FlagValues, component: &'static str, round: Round) -> Result<()> {
    let program = ControllerProgram {
        component,
        namespace: operator::NAMESPACE,
        page: None,
        round,
    };
    tokio::select! {
        ended = rounds::run(&values, program) => ended,
        // It works a few times a day.
        () = code_pages::give_back_when_idle() => Ok(()),
    }
}

fn namespace() -> String {
    let said = std::env::var("POD_NAMESPACE").ok().filter(|it| !it.is_empty());
    said.or_else(api::pod_namespace)
        .unwrap_or_else(|| operator::NAMESPACE.to_owned())
}

fn replicas(values: &FlagValues) -> i32 {
    i32::try_from(values.number("deployment-replicas"))
        .unwrap_or_default()
        .max(0)
}
