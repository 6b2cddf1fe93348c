//! The options that every command writing a trace shares.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use trimtab_trace::{Meta, OutputFormat, Writer};

use crate::exit::BadInput;

/// Where to write a trace, and how.
#[derive(Clone, Debug, Args)]
pub(crate) struct WriteArgs {
    /// The file to write: .parquet, .iolog or .log (fio), .csv (MSR Cambridge).
    #[arg(short, long, value_name = "PATH")]
    out: PathBuf,
    /// Format of the output, where its name does not tell: parquet, fio-iolog,
    /// msr.
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
}

impl WriteArgs {
    /// Begins the output.
    pub(crate) fn create(&self, meta: &Meta) -> Result<Writer> {
        let extension = self.out.extension().and_then(|e| e.to_str());
        let format = match self.to.as_deref().or(extension) {
            Some("parquet") => OutputFormat::Parquet,
            Some("fio-iolog" | "iolog" | "log") => OutputFormat::FioIolog,
            Some("msr" | "csv") => OutputFormat::Msr,
            _ => {
                let what = format!("{}: cannot tell the format, use --to", self.out.display());
                return Err(BadInput(what).into());
            }
        };
        Ok(Writer::create(&self.out, format, meta)?)
    }
}
