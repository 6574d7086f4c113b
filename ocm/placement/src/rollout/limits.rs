//! A strategy as it was written, read into numbers.

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_primitives::duration;
use ocm_api::cluster::{MandatoryDecisionGroup, RolloutStrategy, RolloutType};

/// A strategy that cannot be read. The user has to change it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The deadline is no duration.
    #[error("progressDeadline {0:?}: invalid timeout format")]
    Deadline(String),
    /// The soak time is no duration.
    #[error("minSuccessTime {0:?} is not a duration")]
    SoakTime(String),
    /// A size is neither a number nor a percentage.
    #[error("'{0}' is an invalid maximum threshold value: string is not a percentage")]
    Size(String),
}

/// What of a strategy counts for its type.
pub(super) struct RolloutLimits<'s> {
    pub soak: SignedDuration,
    /// None is for ever.
    pub deadline: Option<SignedDuration>,
    pub max_failures: Option<&'s IntOrString>,
    pub max_concurrency: Option<&'s IntOrString>,
    pub mandatory: &'s [MandatoryDecisionGroup],
}

impl<'s> RolloutLimits<'s> {
    pub fn of(strategy: &'s RolloutStrategy) -> Result<Self, Unusable> {
        let (soak, deadline, max_failures, max_concurrency, mandatory) = match strategy.r#type {
            // Neither the soak time nor the failures count when everything starts at once.
            RolloutType::All => {
                let it = strategy.all.as_ref();
                ("", it.map(|it| &it.progress_deadline), None, None, None)
            }
            RolloutType::Progressive => {
                let it = strategy.progressive.as_ref();
                (
                    it.map_or("", |it| &it.min_success_time),
                    it.map(|it| &it.progress_deadline),
                    it.and_then(|it| it.max_failures.as_ref()),
                    it.and_then(|it| it.max_concurrency.as_ref()),
                    it.map(|it| &it.mandatory_decision_groups),
                )
            }
            RolloutType::ProgressivePerGroup => {
                let it = strategy.progressive_per_group.as_ref();
                (
                    it.map_or("", |it| &it.min_success_time),
                    it.map(|it| &it.progress_deadline),
                    it.and_then(|it| it.max_failures.as_ref()),
                    None,
                    it.map(|it| &it.mandatory_decision_groups),
                )
            }
        };
        Ok(Self {
            soak: self::soak(soak)?,
            deadline: self::deadline(deadline.map_or("", String::as_str))?,
            max_failures,
            max_concurrency,
            mandatory: mandatory.map_or(&[], Vec::as_slice),
        })
    }
}

fn soak(text: &str) -> Result<SignedDuration, Unusable> {
    if text.is_empty() {
        return Ok(SignedDuration::ZERO);
    }
    duration::parse(text).ok_or_else(|| Unusable::SoakTime(text.to_owned()))
}

fn deadline(text: &str) -> Result<Option<SignedDuration>, Unusable> {
    if text.is_empty() || text == "None" {
        return Ok(None);
    }
    // Upstream's pattern, `^(([0-9])+[h|m|s])|None$`, looks at the beginning only: whole numbers first,
    // then what Go reads.
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let begins_well = digits > 0 && matches!(text.as_bytes().get(digits), Some(b'h' | b'm' | b's'));
    let duration = duration::parse(text).filter(|_| begins_well);
    duration.map(Some).ok_or_else(|| Unusable::Deadline(text.to_owned()))
}

/// A number of `total`. What is missing, below one or above the total is the default.
pub(super) fn size(wanted: Option<&IntOrString>, total: usize, default: usize) -> Result<usize, Unusable> {
    let number = match wanted {
        None => return Ok(default),
        Some(IntOrString::Int(number)) => f64::from(*number),
        Some(IntOrString::String(text)) => {
            let refused = || Unusable::Size(text.clone());
            let percent: f64 = text
                .strip_suffix('%')
                .and_then(|it| it.parse().ok())
                .ok_or_else(refused)?;
            if !percent.is_finite() {
                return Err(refused());
            }
            // In upstream's order of operations, so that the rounding is upstream's too.
            (percent / 100.0 * total as f64).ceil()
        }
    };
    if number <= 0.0 || number > total as f64 {
        return Ok(default);
    }
    Ok(number as usize)
}
