//! The flags that upstream's programs say what they log with.

use clap::Args;

/// Flags of upstream's loggers, which manifests give to every program of an image. They are accepted: `$RUST_LOG` says
/// what is logged.
#[derive(Clone, Debug, Default, Args)]
pub struct LoggingFlags {
    /// Accepted: what is logged is chosen by $RUST_LOG
    #[arg(long, value_name = "LEVEL", allow_hyphen_values = true)]
    pub log_level: Option<String>,
    /// Accepted
    #[arg(long, value_name = "ENCODER")]
    pub log_encoder: Option<String>,
    /// Accepted
    #[arg(long, short, value_name = "LEVEL", allow_hyphen_values = true)]
    pub v: Option<String>,
}
