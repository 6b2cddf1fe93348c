//! What of a profile may change while a drive runs.

use toml::{Table, Value};
use trimtab_device::Profile;

use super::error::Error;

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

/// A profile with keys set, each written `KEY=VALUE`; a value is TOML, words need no
/// quotes.
///
/// # Errors
/// A key that cannot change live, or a value that it cannot have.
pub(super) fn tuned(profile: &Profile, settings: &[String]) -> Result<Profile, Error> {
    let bad = |why: String| Err(Error::BadInput(why));
    let mut table: Table = profile.to_toml().parse().expect("a profile's own TOML");
    for setting in settings {
        let Some((key, text)) = setting.split_once('=') else {
            return bad(format!("`{setting}`: expected KEY=VALUE, such as gc.preemptive=true"));
        };
        if !TUNABLE.contains(&key) {
            let all = TUNABLE.join(", ");
            return bad(format!("`{key}` cannot change while a drive runs; what can: {all}"));
        }
        let key = key.strip_prefix("gc.").expect("all begin so");
        let gc = table.entry("gc").or_insert_with(|| Value::Table(Table::new()));
        let gc = gc.as_table_mut().expect("a profile's gc is a table");
        gc.insert(key.to_owned(), value(text));
    }
    Profile::parse(&table.to_string()).or_else(|error| {
        let error = error.to_string();
        // Lines of our own text say nothing to the user.
        let what = error.strip_prefix("line ").and_then(|rest| rest.split_once(": "));
        bad(format!("{}: {}", settings.join(" "), what.map_or(error.as_str(), |(_, what)| what)))
    })
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
        assert!(set("gc.preemptive=true").unwrap().gc.preemptive);
        let fifo = set("gc.victim=fifo").unwrap().gc.victim;
        assert_eq!(fifo, trimtab_device::Victim::Fifo);
        assert_eq!(set("gc.suspend_us=30").unwrap().gc.suspend_us, 30.0);
        for (setting, expected) in [
            ("gc.blocks=plane", "what can: gc.victim, gc.choices"),
            ("timing.read_us=1", "what can"),
            ("gc.preemptive", "expected KEY=VALUE"),
            ("gc.victim=none", "unknown variant `none`"),
            ("gc.low_watermark=0.9", "must be less than gc.high_watermark"),
        ] {
            let error = set(setting).unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
