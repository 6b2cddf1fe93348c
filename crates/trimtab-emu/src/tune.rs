//! Changes of a profile while a drive runs.

use toml::{Table, Value};
use trimtab_device::DriveProfile;
use trimtab_io::Nanos;
use trimtab_serve::Error;

use super::spec::MAX_COMPENSATION;

/// Keys of a flash drive's profile that the firmware reads anew for each decision.
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

/// The same of a disk's.
pub const TUNABLE_OF_DISKS: [&str; 3] = ["queue.order", "queue.depth", "queue.starvation_ms"];

/// The key of the latency compensation.
const COMPENSATION_KEY: &str = "lead_us";

/// The key of the firmware: whether cleaning takes time.
const FIRMWARE_KEY: &str = "firmware";

/// The result of settings.
#[derive(Debug)]
pub(super) struct Tuned {
    pub(super) profile: DriveProfile,
    /// If it is set.
    pub(super) compensation: Option<CompensationSetting>,
    /// Whether cleaning takes no time, if that is set.
    pub(super) is_ideal: Option<bool>,
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
pub(super) fn tuned(profile: &DriveProfile, settings: &[String]) -> Result<Tuned, Error> {
    let bad = |why: String| Err(Error::BadInput(why));
    let tunable = match profile {
        DriveProfile::Flash(_) => &TUNABLE[..],
        DriveProfile::Disk(_) => &TUNABLE_OF_DISKS,
    };
    let (mut compensation, mut is_ideal) = (None, None);
    let mut table: Table = profile.to_toml().parse().expect("a profile's own TOML");
    for setting in settings {
        let Some((key, text)) = setting.split_once('=') else {
            return bad(format!("`{setting}`: expected KEY=VALUE, such as {}=…", tunable[0]));
        };
        if key == COMPENSATION_KEY {
            compensation = Some(parse_compensation(text)?);
            continue;
        }
        if key == FIRMWARE_KEY {
            is_ideal = match text {
                "standard" => Some(false),
                "ideal" => Some(true),
                _ => return bad(format!("{FIRMWARE_KEY}={text}: expected standard or ideal")),
            };
            continue;
        }
        if !tunable.contains(&key) {
            let all = tunable.join(", ");
            return bad(format!(
                "`{key}` cannot change while a drive runs; what can: {all}, \
                 {COMPENSATION_KEY}, {FIRMWARE_KEY}"
            ));
        }
        let (section, key) = key.split_once('.').expect("all are in a table");
        let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
        let section = section.as_table_mut().expect("a profile's section is a table");
        section.insert(key.to_owned(), value(text));
    }
    let profile = DriveProfile::parse(&table.to_string()).map_err(|error| {
        let error = error.to_string();
        // Line numbers of our own text mean nothing to the user.
        let what = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        let what = what.map_or(error.as_str(), |(_, what)| what);
        Error::BadInput(format!("{}: {what}", settings.join(" ")))
    })?;
    Ok(Tuned { profile, compensation, is_ideal })
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
        let profile = DriveProfile::builtin("consumer-a").unwrap();
        let set = |setting: &str| tuned(&profile, &[setting.to_owned()]);
        let gc = |setting: &str| match set(setting).unwrap().profile {
            DriveProfile::Flash(profile) => profile.gc,
            DriveProfile::Disk(_) => unreachable!("is flash"),
        };
        assert!(gc("gc.preemptive=true").preemptive);
        assert_eq!(gc("gc.victim=fifo").victim, trimtab_device::Victim::Fifo);
        assert_eq!(set("gc.victim=fifo").unwrap().compensation, None);
        assert_eq!(gc("gc.suspend_us=30").suspend_us, 30.0);
        assert_eq!(
            set("lead_us=1.5").unwrap().compensation,
            Some(CompensationSetting::Fixed(Nanos(1_500)))
        );
        assert_eq!(set("lead_us=auto").unwrap().compensation, Some(CompensationSetting::Auto));
        assert_eq!(set("firmware=ideal").unwrap().is_ideal, Some(true));
        for (setting, expected) in [
            ("firmware=fast", "expected standard or ideal"),
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

    #[test]
    fn disk_has_other_keys() {
        let profile = DriveProfile::builtin("disk-7200").unwrap();
        let set = |setting: &str| tuned(&profile, &[setting.to_owned()]);
        let DriveProfile::Disk(sstf) = set("queue.order=sstf").unwrap().profile else {
            unreachable!("is a disk")
        };
        assert_eq!(sstf.queue.order, trimtab_device::Order::Sstf);
        for (setting, expected) in [
            ("gc.preemptive=true", "what can: queue.order, queue.depth, queue.starvation_ms, lead"),
            ("disk.rpm=5400", "cannot change while a drive runs"),
            ("queue.depth=0", "queue.depth must be from 1 to 32"),
            ("queue.order=scan", "unknown variant `scan`"),
        ] {
            let error = set(setting).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
