//! For tests: runs a reconciler until it has nothing left to do, and says if it never gets there.

use crate::{
    execute::Clients,
    plan::Plan,
    run::{ObserveError, Reconciler, rounds},
};

/// Runs `key` until plan and conclusion are empty pages; returns the printed plans that were executed.
///
/// # Errors
/// The printed plans when the page is still not empty after `runs` runs, or the failure of a step that did not go away.
pub async fn settle<R: Reconciler>(
    reconciler: &R,
    clients: &Clients,
    key: &str,
    runs: usize,
) -> Result<Vec<String>, ObserveError> {
    let mut printed = Vec::new();
    for _ in 0..runs {
        let mut page = Plan::new();
        let ran = rounds(reconciler, clients, key, |plan| {
            page.then(plan.clone());
        })
        .await?;
        let failures = ran.failures();
        page.then((*ran.last).clone());
        if page.is_empty() {
            return Ok(printed);
        }
        printed.push(match failures {
            None => page.to_string(),
            Some(failures) => format!("{page}failed: {failures}\n"),
        });
    }
    Err(format!(
        "{} still has something to do for {key} after {runs} runs:\n{}",
        R::NAME,
        printed.join("--\n")
    )
    .into())
}
