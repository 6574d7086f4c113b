//! Charts of Helm repositories: which one a Subscription means.

use application_source::{
    SourceAccess, SourceBounds,
    helm::{self, ArchivePlace, ChartEntry, ChartQuery, HelmIndex, HelmRepository},
};
use ocm_addon_sdk::{
    kube::ResourceExt,
    ocm_api::{
        apps::{ChartSource, HelmRepositoryUrls, Subscription},
        selector::Selector,
    },
};

use super::{
    ChannelInputs, SourceContent,
    reader::said,
    releases::{ChartToRelease, release},
};

/// The chart that a Subscription takes from a Helm repository; `None` when the index is that of the revision `known`.
pub(super) async fn read(
    subscription: &Subscription,
    channel: &ChannelInputs,
    access: SourceAccess,
    known: Option<&str>,
    bounds: &SourceBounds,
) -> Result<Option<SourceContent>, String> {
    let name = &subscription.spec.name;
    if name.is_empty() {
        let (namespace, own) = (subscription.namespace().unwrap_or_default(), subscription.name_any());
        // Upstream's spelling.
        return Err(format!(
            "subsciption.spec.package is missing for subscription: {namespace}/{own}"
        ));
    }
    let repository = HelmRepository {
        url: channel.channel.spec.pathname.clone(),
        access,
    };
    let index = said(helm::read_index(&repository, bounds).await)?;
    if known == Some(index.sha1.as_str()) {
        return Ok(None);
    }
    let chosen = chosen(subscription, &index)?;
    let places = said(helm::archive_places(&repository, chosen))?;
    let Some(ArchivePlace { is_own, .. }) = places.first() else {
        return Err(format!("no valid URLs are found for package: {name}"));
    };
    let chart = ChartToRelease {
        takes_secret: *is_own,
        name: name.clone(),
        version: chosen.version.clone(),
        digest: chosen.digest.clone().unwrap_or_default(),
        commit: None,
        source: ChartSource {
            r#type: "helmrepo".to_owned(),
            helm_repo: Some(HelmRepositoryUrls {
                urls: places.into_iter().map(|it| it.url).collect(),
            }),
            ..ChartSource::default()
        },
    };
    Ok(Some(SourceContent {
        objects: vec![release(subscription, channel, chart)?],
        revision: index.sha1,
        ..SourceContent::default()
    }))
}

/// The newest version that the filter lets through. A keyword of a chart is a label with the value `true`.
fn chosen<'a>(subscription: &Subscription, index: &'a HelmIndex) -> Result<&'a ChartEntry, String> {
    let filter = subscription.spec.package_filter.as_ref();
    let query = ChartQuery {
        name: subscription.spec.name.clone(),
        version: filter.map(|it| it.version.clone()).filter(|it| !it.is_empty()),
        digest: filter.and_then(|it| it.annotations.get("digest").cloned()),
    };
    let Some(selector) = filter.and_then(|it| it.label_selector.as_ref()) else {
        return said(index.choose(&query));
    };
    let selector = Selector::of(selector).map_err(|why| format!("spec.packageFilter.labelSelector: {why}"))?;
    let has = |entry: &ChartEntry, keyword: &str| entry.keywords.iter().any(|it| it == keyword).then_some("true");
    let is_selected = |entry: &ChartEntry| selector.matches(|keyword| has(entry, keyword));
    if let Ok(found) = index.choose_among(&query, is_selected) {
        return Ok(found);
    }
    // Without the keywords it is missing, too, or they are what is in the way.
    let without = said(index.choose(&query))?;
    let keywords = match &without.keywords[..] {
        [] => "none".to_owned(),
        keywords => keywords.join(", "),
    };
    Err(format!(
        "spec.packageFilter.labelSelector selects no version of chart {} by its keywords; those of version {} are: \
         {keywords}",
        query.name, without.version
    ))
}
