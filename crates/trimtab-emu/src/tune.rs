//! Changes of a profile while a drive runs.

use toml::{Table, Value};
use trimtab_device::Profile;
use trimtab_io::Nanos;

use super::error::Error;
use super::spec::MAX_COMPENSATION;

/// Keys of a profile that the firmware reads anew for each decision.
pub const TUNABLE: [&str; 8] = [
    "gc.victim",
    "gc.choices",
    "gc.high_watermark",
    "gc.low_watermark",
    "gc.watermarks_of",
    "gc.preemptive",
    "gc.suspend",
    "gc.suspend_us",
];

/// The key of the latency compensation.
const COMPENSATION_KEY: &str = "lead_us";

/// The result of settings.
#[derive(Debug)]
pub(super) struct Tuned {
    pub(super) profile: Profile,
    /// If it is set.
    pub(super) compensation: Option<CompensationSetting>,
}

/// Latency compensation, as set by the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompensationSetting {
    /// Measurement, and corrected in use.
    Auto,
    /// Fixed.
    Fixed(Nanos),
}

impl CompensationSetting {
    pub(super) const fn fixed(self) -> Option<Nanos> {
        match self {
            Self::Auto => None,
            Self::Fixed(compensation) => Some(compensation),
        }
    }
}

/// Applies settings, each written `KEY=VALUE`, to a profile. Values are TOML; words need no quotes.
///
/// # Errors
/// The key cannot change live, or the value is invalid.
pub(super) fn tuned(profile: &Profile, settings: &[String]) -> Result<Tuned, Error> {
    let bad = |why: String| Err(Error::BadInput(why));
    let mut compensation = None;
    let mut table: Table = profile.to_toml().parse().expect("a profile's own TOML");
    for setting in settings {
        let Some((key, text)) = setting.split_once('=') else {
            return bad(format!("`{setting}`: expected KEY=VALUE, such as gc.preemptive=true"));
        };
        if key == COMPENSATION_KEY {
            compensation = Some(parse_compensation(text)?);
            continue;
        }
        if !TUNABLE.contains(&key) {
            let all = TUNABLE.join(", ");
            return bad(format!(
                "`{key}` cannot change while a drive runs; what can: {all}, {COMPENSATION_KEY}"
            ));
        }
        let key = key.strip_prefix("gc.").expect("all begin so");
        let gc = table.entry("gc").or_insert_with(|| Value::Table(Table::new()));
        let gc = gc.as_table_mut().expect("a profile's gc is a table");
        gc.insert(key.to_owned(), value(text));
    }
    let profile = Profile::parse(&table.to_string()).map_err(|error| {
        let error = error.to_string();
        // Line numbers of our own text mean nothing to the user.
        let what = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        let what = what.map_or(error.as_str(), |(_, what)| what);
        Error::BadInput(format!("{}: {what}", settings.join(" ")))
    })?;
    Ok(Tuned { profile, compensation })
}

fn parse_compensation(text: &str) -> Result<CompensationSetting, Error> {
    if text == "auto" {
        return Ok(CompensationSetting::Auto);
    }
    let most = MAX_COMPENSATION.as_micros_f64();
    let us = text.parse().ok().filter(|us| (0.0..=most).contains(us));
    let us: f64 = us.ok_or_else(|| {
        let expected = format!("expected microseconds, from 0 to {most}, or auto");
        Error::BadInput(format!("{COMPENSATION_KEY}={text}: {expected}"))
    })?;
    Ok(CompensationSetting::Fixed(Nanos((us * 1e3).round() as u64)))
}

fn value(text: &str) -> Value {
    let as_toml = format!("value = {text}").parse::<Table>().ok();
    let parsed = as_toml.and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_apply_and_unknown_keys_list_the_tunable_ones() {
        let profile = Profile::builtin("consumer-a").unwrap();
        let set = |setting: &str| tuned(&profile, &[setting.to_owned()]);
        assert!(set("gc.preemptive=true").unwrap().profile.gc.preemptive);
        let fifo = set("gc.victim=fifo").unwrap();
        assert_eq!(fifo.profile.gc.victim, trimtab_device::Victim::Fifo);
        assert_eq!(fifo.compensation, None);
        assert_eq!(set("gc.suspend_us=30").unwrap().profile.gc.suspend_us, 30.0);
        assert_eq!(
            set("lead_us=1.5").unwrap().compensation,
            Some(CompensationSetting::Fixed(Nanos(1_500)))
        );
        assert_eq!(set("lead_us=auto").unwrap().compensation, Some(CompensationSetting::Auto));
        for (setting, expected) in [
            ("gc.blocks=plane", "what can: gc.victim, gc.choices"),
            ("timing.read_us=1", "what can"),
            ("gc.preemptive", "expected KEY=VALUE"),
            ("lead_us=-1", "from 0 to 200"),
            ("lead_us=no", "from 0 to 200"),
            ("gc.victim=none", "unknown variant `none`"),
            ("gc.low_watermark=0.9", "must be less than gc.high_watermark"),
        ] {
            let error = set(setting).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
