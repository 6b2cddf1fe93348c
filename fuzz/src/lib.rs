//! What the fuzz targets have in common. Each target is one line in
//! `fuzz_targets/`, named after the format that it feeds.

use trimtab_device::Profile;
use trimtab_sim::Scenario;
use trimtab_trace::{Format, Options, Trace};

/// Reads `bytes` as a trace in this format, passing over bad records so that
/// one does not hide what comes behind it, and checks what holds for any trace.
///
/// # Panics
/// If it does not hold.
pub fn read_as(format: Format, bytes: &[u8]) {
    let options = Options { format: Some(format), skip_bad: true, ..Options::default() };
    let Ok(mut trace) = Trace::from_bytes(bytes, &options) else { return };
    let mut batch = Vec::new();
    let mut latest = None;
    while let Ok(true) = trace.read(&mut batch) {
        for record in &batch {
            assert!(latest <= Some(record.arrival), "records are out of order");
            latest = Some(record.arrival);
            assert!(record.issue.is_none_or(|at| at >= record.arrival), "issued before it came");
            let sent = record.issue.unwrap_or(record.arrival);
            assert!(record.complete.is_none_or(|at| at >= sent), "completed before it was sent");
            assert!(record.offset.checked_add(record.length).is_some(), "ends beyond 64 bits");
            // Every number of a name stands for one.
            let _ = trace.names().device(record.device);
        }
    }
}

/// Reads a drive's profile: what is accepted is the same when it is written and
/// read again, and what is not is told in one line.
///
/// # Panics
/// If it is not so.
pub fn read_profile(text: &str) {
    match Profile::parse(text) {
        Ok(profile) => assert_eq!(Profile::parse(&profile.to_toml()), Ok(profile)),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

/// Reads a scenario: what is not accepted is told in one line.
///
/// # Panics
/// If it is not.
pub fn read_scenario(text: &str) {
    if let Err(error) = Scenario::parse(text, "/nonexistent".as_ref()) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

/// Recognises `bytes`. Whatever is wrong with them is told in one line that a
/// terminal can show.
///
/// # Panics
/// If it is not.
pub fn recognise(bytes: &[u8]) {
    if let Err(error) = Trace::from_bytes(bytes, &Options::default()) {
        let message = error.to_string();
        assert!(!message.chars().any(char::is_control), "{message:?}");
    }
}

/// A target that reads its input in one format.
#[macro_export]
macro_rules! fuzz_format {
    ($format:ident) => {
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::read_as(trimtab_trace::Format::$format, bytes);
        });
    };
}
