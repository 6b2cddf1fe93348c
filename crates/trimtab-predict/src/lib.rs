//! Will this I/O be late?
//!
//! A [`Predictor`] watches one drive from outside, as any block layer can: what
//! is sent to it, and when each answer comes. Asked about a request before that
//! is sent, it gives a [`Forecast`]. It never sees more than had happened by
//! then, it reads no clock and allocates nothing on the way of a request; the
//! same code is trained on recordings, runs in the simulator and decides live.
//!
//! ```text
//!            ┌───────────── predict ──> Forecast: late? how likely? how long?
//!   request ─┤
//!            └─ sent ─> Ticket ··· the drive works ··· completed(Ticket)
//! ```

mod predictor;

pub use predictor::{Forecast, Predictor, Ticket, Verdict};
