//! The flags that say how the agents of add-ons on a cluster prove to the hub who they are. Their names are upstream's.

use clap::{Args, ValueEnum};
use installation::cluster::AddOnDriver;
use ocm_api::addon::KubeClientDriver;
use registration::agent::AgentOptions;

/// How the agents of add-ons prove to the hub who they are.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Add-ons")]
pub struct AddOnCredentials {
    /// How the agents of all add-ons prove to the hub who they are [default: as each add-on says, mostly csr]
    #[arg(long, value_enum, value_name = "HOW")]
    addon_kubeclient_registration_auth: Option<Driver>,
    /// How long their tokens live [default: as each add-on says, mostly 31536000]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(i64).range(600..))]
    addon_token_expiration_seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Driver {
    /// With certificates
    Csr,
    /// With tokens of ServiceAccounts on the hub
    Token,
}

impl AddOnCredentials {
    /// What a Klusterlet says of them; nothing where nobody said anything.
    pub fn driver(&self) -> Option<AddOnDriver> {
        match (
            self.addon_kubeclient_registration_auth,
            self.addon_token_expiration_seconds,
        ) {
            (None, None) => None,
            (Some(Driver::Csr), _) => Some(AddOnDriver::Csr),
            (Some(Driver::Token) | None, seconds) => Some(AddOnDriver::Token(seconds)),
        }
    }

    /// Tells the agent.
    pub fn tell(&self, options: &mut AgentOptions) {
        options.addon_driver = self.addon_kubeclient_registration_auth.map(|it| match it {
            Driver::Csr => KubeClientDriver::Csr,
            Driver::Token => KubeClientDriver::Token,
        });
        options.addon_token_seconds = self.addon_token_expiration_seconds;
    }
}
