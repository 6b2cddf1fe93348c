//! The windows of a comparison: of one length or of several, and a change in the middle of a run.

use serde::Deserialize;
use toml::Spanned;
use toml::de::DeValue;
use trimtab_device::{FirmwareKind, WindowOptions, WindowSchedule};
use trimtab_io::Nanos;
use trimtab_sim::Error;
use trimtab_sim::scenario::{Text, read};

/// The table `windows`.
#[derive(Clone, Debug, Default)]
pub(super) struct Windows {
    /// All but the lengths of a list.
    pub(super) options: WindowOptions,
    /// A row for each, in ms; none: one row, as `options` say.
    pub(super) lengths_ms: Vec<f64>,
    /// What the windows are changed to.
    pub(super) then: Option<Change>,
}

/// Another length of windows, from some time on (IODA, §6.3.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// From the end of the warm-up. The drives take it over where their next cycle begins.
    pub(super) at: Nanos,
    pub(super) length: Nanos,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawChange {
    at_s: Spanned<f64>,
    window_ms: Spanned<f64>,
}

impl Windows {
    /// Parses the table.
    pub(super) fn parse(value: Spanned<DeValue<'_>>, text: Text<'_>) -> Result<Self, Error> {
        let at = value.span();
        let DeValue::Table(mut table) = value.into_inner() else {
            return Err(text.wrong(&at, "`windows` must be a table"));
        };
        let is_list = table.get("window_ms").is_some_and(|value| value.get_ref().is_array());
        let lengths = if is_list { table.remove("window_ms") } else { None };
        let then = table.remove("then").map(|then| change(then, text)).transpose()?;
        let options: WindowOptions = read(Spanned::new(at.clone(), DeValue::Table(table)), text)?;
        let lengths_ms = lengths.map_or(Ok(Vec::new()), |lengths| list(lengths, text))?;
        for &ms in &lengths_ms {
            check(&WindowOptions { window_ms: Some(ms), ..options }, &at, text)?;
        }
        check(&options, &at, text)?;
        Ok(Self { options, lengths_ms, then })
    }
}

impl Change {
    /// What follows `windows`, of a drive whose requests are judged from `judged` on.
    pub(super) fn after(self, windows: WindowSchedule, judged: Nanos) -> WindowSchedule {
        windows.from_next_cycle(judged + self.at, self.length)
    }
}

/// A length as rows and warnings name it: `20 ms`, `2 s`.
pub(super) fn name(length: Nanos) -> String {
    let ms = length.0 as f64 / 1e6;
    if ms < 1000.0 { format!("{ms} ms") } else { format!("{} s", ms / 1e3) }
}

/// Milliseconds of a scenario.
pub(super) fn of_ms(ms: f64) -> Nanos {
    Nanos((ms * 1e6).round() as u64)
}

fn list(value: Spanned<DeValue<'_>>, text: Text<'_>) -> Result<Vec<f64>, Error> {
    let at = value.span();
    let lengths: Vec<f64> = read(value, text)?;
    let twice = |(place, length): (usize, &f64)| lengths[..place].contains(length);
    if lengths.is_empty() || lengths.iter().enumerate().any(twice) {
        let what = "`windows.window_ms` must be a number, or a list of different numbers";
        return Err(text.wrong(&at, what));
    }
    Ok(lengths)
}

fn change(value: Spanned<DeValue<'_>>, text: Text<'_>) -> Result<Change, Error> {
    let RawChange { at_s, window_ms } = read(value, text)?;
    let (at, ms) = (at_s.span(), window_ms.span());
    text.within("windows.then.at_s", &at, *at_s.get_ref(), 1e-3..=1e6)?;
    text.within("windows.then.window_ms", &ms, *window_ms.get_ref(), 0.001..=1e8)?;
    let at = Nanos::from_secs_f64(at_s.into_inner());
    Ok(Change { at, length: of_ms(window_ms.into_inner()) })
}

fn check(
    options: &WindowOptions,
    at: &std::ops::Range<usize>,
    text: Text<'_>,
) -> Result<(), Error> {
    let checked = FirmwareKind::Ioda(*options).check();
    checked.map_err(|error| text.wrong(at, format!("`windows`: {error}")))
}
