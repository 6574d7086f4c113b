//! One line per step, as it happens: a spinner on a terminal, plain lines elsewhere, or JSON for programs.

use std::{
    io::IsTerminal,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Result;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use serde_json::{Map, Value, json};

/// Tells steps; cloning shares it.
#[derive(Clone)]
pub struct StepProgress {
    how: How,
    begun: Instant,
}

#[derive(Clone)]
enum How {
    Spinners(Arc<MultiProgress>),
    Lines,
    Json,
}

/// A step under way.
pub struct RunningStep {
    progress: StepProgress,
    spinner: Option<ProgressBar>,
    begun: Instant,
}

impl StepProgress {
    /// Tells steps in JSON if asked to, otherwise in the way that fits where standard output goes.
    pub fn new(json: bool, begun: Instant) -> Self {
        let how = match () {
            () if json => How::Json,
            () if std::io::stdout().is_terminal() => How::Spinners(Arc::new(MultiProgress::new())),
            () => How::Lines,
        };
        Self { how, begun }
    }

    /// Begins a step; `what` is what a spinner shows meanwhile.
    pub fn start(&self, what: impl Into<String>) -> RunningStep {
        let spinner = match &self.how {
            How::Spinners(spinners) => {
                let spinner = spinners.add(ProgressBar::new_spinner());
                let style = ProgressStyle::with_template("{spinner} {msg}");
                spinner.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
                spinner.set_message(what.into());
                spinner.enable_steady_tick(Duration::from_millis(80));
                Some(spinner)
            }
            How::Lines | How::Json => None,
        };
        RunningStep {
            progress: self.clone(),
            spinner,
            begun: Instant::now(),
        }
    }

    /// The last word: everything is there. `more` is for programs.
    pub fn ready(&self, more: &Map<String, Value>) -> Result<()> {
        let took = self.begun.elapsed();
        match &self.how {
            How::Json => {
                let mut line = Map::from_iter([("ready".to_owned(), json!(true))]);
                line.insert("milliseconds".into(), json!(milliseconds(took)));
                line.extend(more.clone());
                crate::say(Value::Object(line))
            }
            _ => self.tell(&format!("ready in {}", human(took))),
        }
    }

    /// Something to know beside the steps; nothing for programs.
    pub fn remark(&self, text: &str) -> Result<()> {
        match &self.how {
            How::Json => Ok(()),
            How::Lines | How::Spinners(_) => self.tell(text),
        }
    }

    /// Writes what is to stay. Only what goes away again is drawn by the spinners: they count the lines that are
    /// theirs, and take away others' when a bar of theirs ends and stays.
    fn tell(&self, text: &str) -> Result<()> {
        match &self.how {
            How::Spinners(spinners) => spinners.suspend(|| crate::say(text)),
            How::Lines | How::Json => crate::say(text),
        }
    }
}

impl RunningStep {
    /// Ends the step: `subject` is what it was about (`hub`, `cluster1`), `state` what that is now (`ready`, `joined`).
    pub fn done(mut self, subject: &str, state: &str) -> Result<()> {
        let took = self.begun.elapsed();
        self.clear();
        match &self.progress.how {
            How::Json => crate::say(json!({
                "step": state,
                "subject": subject,
                "milliseconds": milliseconds(took),
                "atMilliseconds": milliseconds(self.progress.begun.elapsed()),
            })),
            How::Lines => self.progress.tell(&line(subject, state, took)),
            How::Spinners(_) => self.progress.tell(&format!("✓ {}", line(subject, state, took))),
        }
    }

    /// Takes the spinner away.
    fn clear(&mut self) {
        if let (How::Spinners(spinners), Some(spinner)) = (&self.progress.how, self.spinner.take()) {
            spinner.finish_and_clear();
            spinners.remove(&spinner);
        }
    }
}

impl Drop for RunningStep {
    fn drop(&mut self) {
        // A step that fails leaves no spinner turning under the sentence that says why.
        self.clear();
    }
}

fn line(subject: &str, state: &str, took: Duration) -> String {
    let what = format!("{subject} {state}");
    format!("{what:<28} {:>8}", human(took))
}

fn milliseconds(took: Duration) -> f64 {
    (took.as_secs_f64() * 10_000.0).round() / 10.0
}

fn human(took: Duration) -> String {
    match took.as_millis() {
        0..1000 => format!("{} ms", took.as_millis()),
        _ => format!("{:.2} s", took.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_a_line_with_the_time_it_took() {
        assert_eq!(
            line("hub", "ready", Duration::from_millis(212)),
            "hub ready                      212 ms"
        );
        assert_eq!(
            line("cluster1", "available", Duration::from_millis(1234)),
            "cluster1 available             1.23 s"
        );
    }

    #[test]
    fn times_for_programs_are_tenths_of_milliseconds() {
        assert_eq!(milliseconds(Duration::from_micros(12_345)), 12.3);
    }
}
