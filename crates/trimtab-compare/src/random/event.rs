//! What happens to an array's drives in phase two.

use std::fmt::Write as _;

use super::draw::{Draw, round};

/// An event, as faults of the drives.
pub(super) struct Event {
    /// Its name in [`Traits`](super::Traits).
    pub(super) name: &'static str,
    /// The key `fault` of each drive, in TOML; empty for a drive without.
    pub(super) faults: Vec<String>,
}

/// Names of the events, and of none.
pub(super) const NONE: &str = "none";
const SLOW_FOR_GOOD: &str = "slow for good";
const SLOW: &str = "slow for a while";
const STALLS: &str = "stalls";
const DIES: &str = "dies";
const RETURNS: &str = "dies and returns";
const ALL_SLOW: &str = "all slow";

/// The share of arrays with an event.
const PROBABILITY: f64 = 0.3;

/// Whether an array has an event. The draws are from a generator of their own: arrays without
/// one are what they would be if there were no events.
pub(super) fn happens(draw: &mut Draw) -> bool {
    draw.chance(PROBABILITY)
}

/// An event of an array of so many drives, whose phase two takes `length` seconds.
pub(super) fn event(draw: &mut Draw, drives: usize, length: f64) -> Event {
    let name = draw.pick(&[SLOW_FOR_GOOD, SLOW, STALLS, DIES, RETURNS, ALL_SLOW]);
    let drive = draw.below(drives as u64) as usize;
    // Late enough for every strategy to know the drives, early enough to be felt.
    let at = round(length * draw.uniform(0.1, 0.7));
    let faults = match name {
        SLOW_FOR_GOOD => slow(draw, at, None),
        SLOW | ALL_SLOW => {
            let lasts = round(length * draw.scale(0.02, 0.3));
            slow(draw, at, Some(lasts))
        }
        STALLS => {
            let times = draw.pick(&[1, 1, 2, 3, 5]);
            let mut stalls = Vec::new();
            for time in 0..times {
                let at = if time == 0 { at } else { round(length * draw.uniform(0.1, 0.9)) };
                let lasts = round(draw.scale(0.05, 2.0));
                stalls.push(format!("{{ kind = \"stall\", at_s = {at}, for_s = {lasts} }}"));
            }
            stalls.join(", ")
        }
        DIES => dies(at, None),
        _ => dies(at, Some(round(draw.scale(0.2, 3.0)))),
    };
    let line = format!("fault = [{faults}]\n");
    let of =
        |number| if name == ALL_SLOW || number == drive { line.clone() } else { String::new() };
    Event { name, faults: (0..drives).map(of).collect() }
}

fn slow(draw: &mut Draw, at: f64, lasts: Option<f64>) -> String {
    let factor = round(draw.scale(2.0, 50.0));
    lasting(format!("kind = \"slow\", factor = {factor}, at_s = {at}"), lasts)
}

/// Its reads fail. What is written in the meantime is there afterwards, as after a resync.
fn dies(at: f64, lasts: Option<f64>) -> String {
    lasting(format!("kind = \"error\", share = 1, ops = \"reads\", at_s = {at}"), lasts)
}

fn lasting(mut keys: String, lasts: Option<f64>) -> String {
    if let Some(lasts) = lasts {
        write!(keys, ", for_s = {lasts}").expect("a string grows");
    }
    format!("{{ {keys} }}")
}
