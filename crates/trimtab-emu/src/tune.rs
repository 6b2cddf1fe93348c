//! What of a profile may change while a drive runs.

use toml::{Table, Value};
use trimtab_device::Profile;
use trimtab_io::Nanos;

use super::error::Error;
use super::spec::MOST_LEAD;

/// Keys of a profile that the firmware asks anew each time it decides something.
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

/// The lead's key.
const LEAD: &str = "lead_us";

/// What settings make of a drive.
#[derive(Debug)]
pub(super) struct Tuned {
    pub(super) profile: Profile,
    /// If it is set.
    pub(super) lead: Option<Lead>,
}

/// How much earlier than the model says to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lead {
    /// As much as the path takes, corrected in use.
    Auto,
    /// So much.
    Fixed(Nanos),
}

impl Lead {
    pub(super) const fn fixed(self) -> Option<Nanos> {
        match self {
            Self::Auto => None,
            Self::Fixed(lead) => Some(lead),
        }
    }
}

/// A profile with keys set, and a lead, each written `KEY=VALUE`; a value is TOML,
/// words need no quotes.
///
/// # Errors
/// A key that cannot change live, or a value that it cannot have.
pub(super) fn tuned(profile: &Profile, settings: &[String]) -> Result<Tuned, Error> {
    let bad = |why: String| Err(Error::BadInput(why));
    let mut lead = None;
    let mut table: Table = profile.to_toml().parse().expect("a profile's own TOML");
    for setting in settings {
        let Some((key, text)) = setting.split_once('=') else {
            return bad(format!("`{setting}`: expected KEY=VALUE, such as gc.preemptive=true"));
        };
        if key == LEAD {
            lead = Some(parse_lead(text)?);
            continue;
        }
        if !TUNABLE.contains(&key) {
            let all = TUNABLE.join(", ");
            return bad(format!(
                "`{key}` cannot change while a drive runs; what can: {all}, {LEAD}"
            ));
        }
        let key = key.strip_prefix("gc.").expect("all begin so");
        let gc = table.entry("gc").or_insert_with(|| Value::Table(Table::new()));
        let gc = gc.as_table_mut().expect("a profile's gc is a table");
        gc.insert(key.to_owned(), value(text));
    }
    let profile = Profile::parse(&table.to_string()).map_err(|error| {
        let error = error.to_string();
        // Lines of our own text say nothing to the user.
        let what = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        let what = what.map_or(error.as_str(), |(_, what)| what);
        Error::BadInput(format!("{}: {what}", settings.join(" ")))
    })?;
    Ok(Tuned { profile, lead })
}

fn parse_lead(text: &str) -> Result<Lead, Error> {
    if text == "auto" {
        return Ok(Lead::Auto);
    }
    let most = MOST_LEAD.as_micros_f64();
    let us = text.parse().ok().filter(|us| (0.0..=most).contains(us));
    let us: f64 = us.ok_or_else(|| {
        let expected = format!("expected microseconds, from 0 to {most}, or auto");
        Error::BadInput(format!("{LEAD}={text}: {expected}"))
    })?;
    Ok(Lead::Fixed(Nanos((us * 1e3).round() as u64)))
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
    fn keys_are_set_and_others_refused_with_the_list() {
        let profile = Profile::builtin("consumer-a").unwrap();
        let set = |setting: &str| tuned(&profile, &[setting.to_owned()]);
        assert!(set("gc.preemptive=true").unwrap().profile.gc.preemptive);
        let fifo = set("gc.victim=fifo").unwrap();
        assert_eq!(fifo.profile.gc.victim, trimtab_device::Victim::Fifo);
        assert_eq!(fifo.lead, None);
        assert_eq!(set("gc.suspend_us=30").unwrap().profile.gc.suspend_us, 30.0);
        assert_eq!(set("lead_us=1.5").unwrap().lead, Some(Lead::Fixed(Nanos(1_500))));
        assert_eq!(set("lead_us=auto").unwrap().lead, Some(Lead::Auto));
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
