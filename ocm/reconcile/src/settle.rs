//! For tests: runs a reconciler until it has nothing left to do, and says if it never gets there.

use crate::{
    execute::{Clients, execute},
    run::{ObserveError, Reconciler},
};

/// Runs `key` until plan and conclusion are empty pages; returns the printed plans that were executed.
///
/// # Errors
/// The printed plans when the page is still not empty after `rounds` runs, or the failure of a step that did not go away.
pub async fn settle<R: Reconciler>(
    reconciler: &R,
    clients: &Clients,
    key: &str,
    rounds: usize,
) -> Result<Vec<String>, ObserveError> {
    let mut printed = Vec::new();
    for _ in 0..rounds {
        let seen = reconciler.observe(key).await?;
        let plan = R::plan(&seen);
        let outcome = execute(clients, &plan).await;
        reconciler.remember(&seen, &outcome);
        let last = R::conclude(&seen, &outcome);
        let concluded = execute(clients, &last).await;
        let failures = [outcome.error_text(), concluded.error_text()].concat();
        if plan.is_empty() && last.is_empty() {
            return Ok(printed);
        }
        let mut page = plan;
        page.then(last);
        printed.push(if failures.is_empty() {
            page.to_string()
        } else {
            format!("{page}failed: {failures}\n")
        });
    }
    Err(format!(
        "{} still has something to do for {key} after {rounds} runs:\n{}",
        R::NAME,
        printed.join("--\n")
    )
    .into())
}
