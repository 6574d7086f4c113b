//! `drover delete token`
//! Upstream: clusteradm `delete token`, which says nothing.

use std::time::Duration;

use anyhow::Result;
use clap::Args;
use client::{connect::ApiServer, flags::Global};
use installation::{Mode, token};

/// Take away what clusters join with: no token that was handed out is good for anything any more, and `drover init`
/// makes it anew
#[derive(Debug, Args)]
pub struct DeleteToken {
    /// How long to wait until everything is gone, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = client::flags::wait_seconds())]
    timeout: u64,
    /// Say what would be done and do nothing
    #[arg(long)]
    dry_run: bool,
}

impl DeleteToken {
    pub async fn run(self, global: &Global) -> Result<()> {
        let hub = ApiServer::connect(global).await?;
        let mode = if self.dry_run { Mode::DryRun } else { Mode::Write };
        for line in token::delete(&hub, mode, Duration::from_secs(self.timeout)).await? {
            output::say(line)?;
        }
        Ok(())
    }
}
