//! The tracepoint that shows a request's arrival.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::Typedef;

use crate::Error;

/// The tracepoint that marks a request's arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrival {
    /// `block_io_start` where the kernel has it, otherwise `block_getrq`.
    #[default]
    Auto,
    /// `block_io_start` (Linux 6.5 and newer).
    IoStart,
    /// `block_getrq`: identifies the bio, not the request.
    GetRq,
}

/// Checks that the kernel has the tracepoints, and selects the one for arrivals: never
/// [`Arrival::Auto`].
///
/// # Errors
/// The kernel has no type information, or lacks a tracepoint.
pub fn available(arrival: Arrival) -> Result<Arrival, Error> {
    let btf = Btf::from_vmlinux().map_err(|_| {
        Error::Kernel(
            "this kernel has no type information (/sys/kernel/btf/vmlinux): use a distribution's \
             kernel, or build yours with CONFIG_DEBUG_INFO_BTF=y"
                .to_owned(),
        )
    })?;
    let has = |tracepoint: &str| {
        btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{tracepoint}")).is_some()
    };
    for needed in ["block_rq_issue", "block_rq_complete", "block_rq_requeue", "block_rq_merge"] {
        if !has(needed) {
            return Err(missing(needed));
        }
    }
    match arrival {
        Arrival::Auto if has("block_io_start") => Ok(Arrival::IoStart),
        Arrival::Auto | Arrival::GetRq if has("block_getrq") => Ok(Arrival::GetRq),
        Arrival::IoStart if has("block_io_start") => Ok(Arrival::IoStart),
        Arrival::IoStart => Err(Error::Kernel(
            "this kernel lacks the tracepoint block:block_io_start: Linux 6.5 or newer has it"
                .to_owned(),
        )),
        _ => Err(missing("block_getrq")),
    }
}

fn missing(tracepoint: &str) -> Error {
    Error::Kernel(format!(
        "this kernel lacks the tracepoint block:{tracepoint}: Linux 5.15 or newer with \
         CONFIG_BLOCK and CONFIG_TRACEPOINTS has it"
    ))
}
