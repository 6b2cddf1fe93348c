//! Several devices, simulated in turn.

use trimtab_io::{DeviceId, Nanos};

use crate::error::Error;
use crate::lane::{Device, Lane, Span};
use crate::report::{DeviceReport, Report};
use crate::server::Server;

/// Events of one device before the next device's turn: some milliseconds of work, so that an
/// interrupt is noticed soon.
const STEPS: u32 = 1 << 14;

/// Devices with their workloads, in virtual time.
///
/// The same devices, workloads and seeds give the same [`Report`] to the last
/// bit, on any machine.
///
/// ```
/// use trimtab_device::{Profile, Ssd};
/// use trimtab_io::{DeviceId, Issuer, Nanos, Op};
/// use trimtab_sim::{Device, HostInterface, Simulation, Source, Span, Workload};
/// use trimtab_trace::synth;
///
/// let profile = Profile::builtin("reference").unwrap();
/// let mut ssd = Ssd::new(&profile, DeviceId(0), 1);
/// ssd.fill_in_order(1.0);
/// let spec: synth::Spec = toml::from_str(
///     "read_share = 1
///      arrivals = { kind = 'closed', queue_depth = 1, think_us = 0 }
///      offsets = { kind = 'uniform' }
///      sizes = [{ bytes = 4096, weight = 1 }]",
/// ).unwrap();
/// let workload = synth::Workload::new(&spec, 1, ssd.capacity());
/// let device = Device {
///     name: "nvme0".to_owned(),
///     server: ssd,
///     host: HostInterface::default(),
///     workloads: vec![Workload {
///         name: "reads".to_owned(),
///         queue: None,
///         issuer: Issuer::default(),
///         source: Source::synthetic(workload, None, None),
///     }],
/// };
/// let span = Span { requests: Some(1000), ..Span::default() };
/// let mut simulation = Simulation::new(1, span, [device]);
/// simulation.run()?;
/// let report = simulation.report();
/// // One read after the other, each 40 µs in a die and 5.12 µs on a channel.
/// assert_eq!(report.devices[0].ops[0].latency.max, Some(Nanos(45_120)));
/// # Ok::<(), trimtab_sim::Error>(())
/// ```
pub struct Simulation<S> {
    seed: u64,
    span: Span,
    lanes: Vec<Lane<S>>,
}

impl<S: Server> Simulation<S> {
    /// Devices at time zero. `seed` is the one that they were made from, for the report.
    ///
    /// # Panics
    /// A device has no workload.
    pub fn new(seed: u64, span: Span, devices: impl IntoIterator<Item = Device<S>>) -> Self {
        let lane = |(id, device): (u32, Device<S>)| {
            assert!(!device.workloads.is_empty(), "a device needs something to do");
            Lane::new(device, DeviceId(id), span)
        };
        Self { seed, span, lanes: (0..).zip(devices).map(lane).collect() }
    }

    /// Runs for a few milliseconds of work, with the device whose time is least; false when
    /// all are done.
    ///
    /// # Errors
    /// A trace cannot be read on or does not fit, or a device cannot go on.
    pub fn step(&mut self) -> Result<bool, Error> {
        let behind = self.lanes.iter_mut().filter(|lane| !lane.finished).min_by_key(|l| l.now());
        let Some(lane) = behind else { return Ok(false) };
        lane.run(STEPS)?;
        Ok(true)
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// As [`step`](Self::step).
    pub fn run(&mut self) -> Result<(), Error> {
        while self.step()? {}
        Ok(())
    }

    /// The time reached by all devices.
    #[must_use]
    pub fn now(&self) -> Nanos {
        let unfinished = self.lanes.iter().filter(|lane| !lane.finished).map(Lane::now).min();
        unfinished.or_else(|| self.lanes.iter().map(Lane::now).max()).unwrap_or_default()
    }

    /// Requests completed so far, including the warm-up.
    #[must_use]
    pub fn completed(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.figures.completions).sum()
    }

    /// The share done, 0 to 1; `None` if a trace determines the end.
    #[must_use]
    pub fn share_done(&self) -> Option<f64> {
        let lanes = self.lanes.iter().map(|lane| match (lane.finished, self.span) {
            (true, _) => Some(1.0),
            (_, Span { requests: Some(requests), warm_up_requests, .. }) => {
                Some(lane.arrived as f64 / (requests + warm_up_requests) as f64)
            }
            (_, Span { duration: Some(duration), warm_up, .. }) => {
                Some(lane.now().as_secs_f64() / (duration + warm_up).as_secs_f64())
            }
            _ => None,
        });
        let shares: Option<Vec<_>> = lanes.collect();
        Some(shares?.into_iter().fold(1.0, f64::min))
    }

    /// The figures so far.
    #[must_use]
    pub fn report(&self) -> Report {
        Report { seed: self.seed, devices: self.lanes.iter().map(DeviceReport::of).collect() }
    }
}
