//! `trimtab profile fit --disk`.

use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use trimtab_report::{Align, Table, count, escaped};
use trimtab_sim::{DiskDistance, FittedDisk, fit_disk};
use trimtab_trace::{AtomicFile, Error, Record};

use super::fit::Args;
use crate::console;
use crate::exit::BadInput;
use crate::units;

#[derive(Debug, Serialize)]
struct FitReport<'a> {
    profile: &'a str,
    rpm: f64,
    /// How well the angles at which reads end agree with this speed, 0 to 1; `null` if it is from
    /// the spread of service times.
    rotation_resultant: Option<f64>,
    rotation_pairs: usize,
    first_half: &'a [DiskDistance],
    second_half: &'a [DiskDistance],
    /// Demerit between the disk's own service times in the two halves, as a share of the mean.
    halves: f64,
}

pub(super) fn run(args: &Args, records: &[Record], mut file: AtomicFile) -> Result<()> {
    let write_error = |source| Error::Write { path: args.out.clone(), source };
    let name = args.out.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let of = args.trace.as_deref().unwrap_or(Path::new("-")).display();
    let fitted = fit_disk(records, &name).map_err(|e| BadInput(format!("{of}: {e}")))?;
    file.write_all(fitted.profile.to_toml().as_bytes()).map_err(write_error)?;
    file.commit().map_err(write_error)?;
    let mut out = console::out(args.json);
    if args.json {
        let report = FitReport {
            profile: &fitted.profile.name,
            rpm: fitted.profile.disk.rpm,
            rotation_resultant: fitted.rotation_resultant,
            rotation_pairs: fitted.rotation_pairs,
            first_half: &fitted.first_half,
            second_half: &fitted.second_half,
            halves: fitted.halves,
        };
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        let path = args.out.display().to_string();
        writeln!(out, "{}\n", escaped(&path))?;
        write!(out, "{}\n{}", table(&fitted), notes(&fitted))?;
    }
    Ok(out.flush()?)
}

fn notes(fitted: &FittedDisk) -> String {
    let rpm = fitted.profile.disk.rpm;
    let rotation = match fitted.rotation_resultant {
        Some(resultant) => format!(
            "{rpm} rpm, from the angles of {} pairs of reads that agree by {resultant:.2} of 1.",
            count(fitted.rotation_pairs as u64)
        ),
        None => format!(
            "{rpm:.0} rpm, from the spread of service times only: the recording has too few reads \
             near each other."
        ),
    };
    format!(
        "{rotation}\nDemerit: root mean square distance between the distributions of service \
         times, as a share of their\nmean. The disk itself was {:.1}% from one half to the other.\n",
        100.0 * fitted.halves
    )
}

fn table(fitted: &FittedDisk) -> Table {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("", Left),
        ("requests", Right),
        ("mean", Right),
        ("model", Right),
        ("p50", Right),
        ("model", Right),
        ("p95", Right),
        ("model", Right),
        ("demerit", Right),
        ("error per request", Right),
    ]);
    let ms = |us: f64| format!("{:.3} ms", us / 1e3);
    let none = || units::NONE.to_owned();
    for (half, classes) in [("fitted to", &fitted.first_half), ("not seen", &fitted.second_half)] {
        table.group(half);
        for class in classes {
            let percentile = |name| class.percentiles.iter().find(|p| p.0 == name);
            let cell = |name, model: bool| {
                percentile(name).map_or_else(none, |p| ms(if model { p.2 } else { p.1 }))
            };
            table.row([
                class.class.to_owned(),
                count(class.requests),
                ms(class.mean_us),
                ms(class.model_mean_us),
                cell("p50", false),
                cell("p50", true),
                cell("p95", false),
                cell("p95", true),
                format!("{:.1}%", 100.0 * class.demerit),
                class.expected_error_us.map_or_else(none, ms),
            ]);
        }
    }
    table
}
