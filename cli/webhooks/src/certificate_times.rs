//! How long the certificate of a hub's webhooks lives, as environment variables in the place
//! of upstream's operator's constants.

use std::time::Duration;

use anyhow::{Result, bail};
use process::environment::{read, variable};

/// How long the certificate of a hub's webhooks lives, and how often it is looked at.
pub struct ServingCertificate {
    /// Its life. Its authority signs nothing else, and ends with it: the shorter of the two times is that of both.
    pub life: Duration,
    /// The time between two looks.
    pub look_again: Duration,
}

/// Reads it. A shorter life than a minute would be over before every API server has heard of the next certificate.
pub fn serving_certificate() -> Result<ServingCertificate> {
    of_serving_certificate(variable)
}

fn of_serving_certificate(says: impl Fn(&str) -> Option<String>) -> Result<ServingCertificate> {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    const LIFE_MIN: Duration = Duration::from_secs(60);
    // Within what a certificate can say.
    let mut life = 36500 * DAY;
    let lives = [
        ("DROVER_SIGNING_CERT_VALIDITY", 365 * DAY),
        ("DROVER_TARGET_CERT_VALIDITY", 30 * DAY),
    ];
    for (name, default) in lives {
        let one = read(name, says(name), default)?;
        if one < LIFE_MIN {
            bail!("{name} must be a minute at least");
        }
        life = life.min(one);
    }
    Ok(ServingCertificate {
        life,
        look_again: read(ROTATION, says(ROTATION), Duration::from_secs(10 * 60))?,
    })
}

/// How often a certificate is looked at.
const ROTATION: &str = "DROVER_CERT_ROTATION_INTERVAL";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shorter_configured_time_is_the_certificate_lifetime() {
        let of = |all: &'static [(&str, &str)]| {
            let says = move |name: &str| {
                let found = all.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            of_serving_certificate(says).map(|it| (it.life.as_secs(), it.look_again.as_secs()))
        };
        const DAY: u64 = 24 * 60 * 60;
        assert_eq!(of(&[]).unwrap(), (30 * DAY, 600));
        assert_eq!(of(&[("DROVER_TARGET_CERT_VALIDITY", "48h")]).unwrap(), (2 * DAY, 600));
        let short = &[
            ("DROVER_SIGNING_CERT_VALIDITY", "1h30m"),
            ("DROVER_CERT_ROTATION_INTERVAL", "5s"),
        ];
        assert_eq!(of(short).unwrap(), (5400, 5));
        let refused = |all| of(all).unwrap_err().to_string();
        assert_eq!(
            refused(&[("DROVER_TARGET_CERT_VALIDITY", "1s")]),
            "DROVER_TARGET_CERT_VALIDITY must be a minute at least"
        );
        assert!(refused(&[("DROVER_CERT_ROTATION_INTERVAL", "soon")]).contains("is not a duration"));
    }
}
