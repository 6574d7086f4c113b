//! Helm charts: archives of strangers, with values.

use super::part;
use flate2::{Compression, write::GzEncoder};
use gotemplate::helm::{Capabilities, Chart, Release, RenderOptions, merge_values};
use serde_json::{Value, json};
use std::{io::Write, sync::Arc};

/// Less than a template may do otherwise: what is in proportion ends soon then.
const WORK_MAX: u64 = 1_000_000;

const MARK: &str = "--- ";

/// The values on the first line; then an archive, or its files as a text: each after a line with its path.
pub fn charts(data: &[u8]) {
    let (values, rest) = part(data);
    let values: Value = serde_json::from_slice(values).unwrap_or_else(|_| json!({}));
    let files = files(rest);
    let chart = if files.is_empty() {
        Chart::from_archive(rest)
    } else {
        let once = Chart::from_files(files.iter().map(|(name, data)| (name, data)));
        let packed = Chart::from_archive(&pack(&files));
        // What an archive cannot say, such as a long name, is no chart.
        if let (Ok(once), Ok(packed)) = (&once, &packed) {
            assert_eq!(once.name(), packed.name());
        }
        once
    };
    let Ok(chart) = chart else { return };
    let options = RenderOptions {
        clock: Some(Arc::new(|| jiff::Timestamp::UNIX_EPOCH)),
        random: Some(Arc::new(|bytes| bytes.fill(7))),
        work_max: Some(WORK_MAX),
        ..RenderOptions::default()
    };
    let (release, capabilities) = (Release::install("r", "default"), Capabilities::default());
    let _ = chart.render(&release, &capabilities, values.clone(), &options);
    let mut twice = values.clone();
    merge_values(&mut twice, &values);
    assert_eq!(twice, values, "values over themselves are the same");
}

fn files(data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    for line in data.split_inclusive(|it| *it == b'\n') {
        match line.strip_prefix(MARK.as_bytes()) {
            Some(name) => {
                let name = String::from_utf8_lossy(name).trim().to_owned();
                files.push((name, Vec::new()));
            }
            None => match files.last_mut() {
                Some((_, data)) => data.extend_from_slice(line),
                None => return Vec::new(),
            },
        }
    }
    files
}

fn pack(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, data) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        // A path that an archive cannot hold is left out.
        let _ = tar.append_data(&mut header, format!("chart/{name}"), data.as_slice());
    }
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    let packed = tar.into_inner().and_then(|it| gzip.write_all(&it));
    packed.and_then(|()| gzip.finish()).expect("memory takes it")
}
