//! Throughput of drives, to which the rates of random arrays relate.

use std::path::Path;

use trimtab_sim::{Error, Scenario};

use super::mix::Mix;

/// Requests that measure a drive's throughput, after so many others.
const MEASURED: (u64, u64) = (5_000, 20_000);
/// The queue depth at which it is measured.
const DEPTH: u32 = 64;

/// Throughput of drives under their mixes, requests/s, measured in a simulation of its own.
#[derive(Default)]
pub(super) struct Throughput {
    known: Vec<(String, f64)>,
}

impl Throughput {
    /// That of a drive, given its keys, under a mix.
    pub(super) fn of(&mut self, drive: &str, mix: &Mix) -> Result<f64, Error> {
        let arrivals = format!("{{ kind = \"closed\", queue_depth = {DEPTH}, think_us = 0 }}");
        let text = format!(
            "seed = 1\nwarm_up_requests = {}\nrequests = {}\n[[device]]\n{drive}workload = {}\n",
            MEASURED.0,
            MEASURED.1,
            mix.workload(&arrivals)
        );
        if let Some((_, known)) = self.known.iter().find(|(of, _)| *of == text) {
            return Ok(*known);
        }
        let mut simulation = Scenario::parse(&text, Path::new(""))?.simulation()?;
        simulation.run()?;
        let device = &simulation.report().devices[0];
        let measured = device.requests as f64 / device.measured_ns.as_secs_f64().max(1e-9);
        self.known.push((text, measured));
        Ok(measured)
    }
}
