//! `trimtab top`.

mod columns;
mod plain;
mod row;
mod screen;
mod source;
mod terminal;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use signal_hook::consts;
use trimtab_block::BlockDevice;
use trimtab_io::Nanos;
use trimtab_record::monitor::{POLL, unix_now};
use trimtab_report::{count, utc};

use self::columns::Sort;
use self::row::Row;
use self::screen::{Page, Screen};
use self::source::{NamedModel, Source};
use self::terminal::{Key, Terminal};
use crate::duration;
use crate::exit::BadInput;
use crate::models;
use crate::privileges::{self, keep_only};
use crate::record::{Signal, Signals};

const EXAMPLES: &str = "\
Examples:
  sudo trimtab top
  sudo trimtab top nvme0n1 nvme1n1 --interval 500ms
  sudo trimtab top nvme0n1 --model nvme0n1=disk.safetensors
  sudo trimtab top nvme0n1 --count 10 --json | jq .reads_per_second

Keys: h help, q quit, d details of a drive, s sort by the next column, arrows select a
drive or scroll, p pause.
Figures include the I/O of all processes. Without a terminal, or with --json, it prints
lines. Without root it shows rates and queue depth only.";

/// The most drives that one recorder observes.
const MOST_DRIVES: usize = 16;

/// Which drives to show, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The disks, by name (nvme0n1) or path (/dev/disk/by-id/…) [default: the 16 with the most
    /// requests so far].
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Compare the predictions of this model, made by `trimtab train`, with the drive.
    #[arg(short, long = "model", value_name = "DEVICE=MODEL", value_parser = device_and_model)]
    models: Vec<(String, PathBuf)>,
    /// The interval between updates: 100ms, 1s.
    #[arg(short, long, value_name = "TIME", value_parser = interval, default_value = "1s")]
    interval: Nanos,
    /// Percentiles cover the reads of this many last seconds.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=600))]
    window: u32,
    /// End after this many updates.
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    /// Print one line of JSON per drive and update.
    #[arg(long)]
    json: bool,
}

fn device_and_model(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((device, model)) if !device.is_empty() && !model.is_empty() => {
            Ok((device.to_owned(), model.into()))
        }
        _ => Err(format!("expected a device and its model, DEVICE=MODEL, found `{text}`")),
    }
}

fn interval(text: &str) -> Result<Nanos, String> {
    let interval = duration::parse(text)?;
    let least = Nanos(POLL.as_nanos() as u64);
    if interval < least {
        return Err(format!("`{text}` is too often, at least {least} is needed"));
    }
    Ok(interval)
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let devices = args.devices()?;
    let models = args.models(&devices)?;
    let end = End::catch()?;
    // Models may be in files that only root may read; nothing after this is.
    keep_only(privileges::BPF)?;
    let mut source = Source::new(devices, models, args.window)?;
    if Terminal::is_there() && !args.json {
        args.on_terminal(&mut source, &end)
    } else {
        args.in_lines(&mut source, &end)
    }
}

impl Args {
    fn devices(&self) -> Result<Vec<BlockDevice>> {
        if !self.devices.is_empty() {
            let found = self.devices.iter().map(|name| BlockDevice::find(name));
            return Ok(found.collect::<Result<_, _>>()?);
        }
        let mut busy: Vec<(u64, BlockDevice)> = BlockDevice::all()
            .into_iter()
            .filter_map(|device| {
                let stat = device.stat().ok()?;
                Some((stat.reads.requests + stat.writes.requests, device))
            })
            .filter(|(requests, _)| *requests > 0)
            .collect();
        busy.sort_by_key(|(requests, _)| std::cmp::Reverse(*requests));
        busy.truncate(MOST_DRIVES);
        if busy.is_empty() {
            return Err(BadInput("no disk here has served anything yet: name one".into()).into());
        }
        Ok(busy.into_iter().map(|(_, device)| device).collect())
    }

    /// Each drive's model, if there is one for it.
    fn models(&self, devices: &[BlockDevice]) -> Result<Vec<Option<NamedModel>>> {
        let mut models = vec![None; devices.len()];
        for (name, path) in &self.models {
            let device = BlockDevice::find(name)?;
            let Some(place) = devices.iter().position(|other| other.number == device.number) else {
                let text = format!("--model {name}=…: {name} is not among the devices shown");
                return Err(BadInput(text).into());
            };
            let model = Arc::new(models::load(path)?);
            models[place] = Some(NamedModel { file: file_name(path), model });
        }
        Ok(models)
    }

    /// What the figures cover, and what was lost. Losses come first, because a narrow terminal
    /// cuts off the rest.
    fn about(&self, lost: u64) -> String {
        let covered = format!("every {}, percentiles of {} s", self.interval, self.window);
        match lost {
            0 => format!("{covered}, lost 0"),
            lost => format!("lost {}, {covered}", count(lost)),
        }
    }

    fn in_lines(&self, source: &mut Source, end: &End) -> Result<()> {
        if let Some(note) = source.note() {
            crate::log::line(note);
        }
        let interval = Duration::from_nanos(self.interval.0);
        let mut next = Instant::now() + interval;
        let mut lost = 0;
        for turn in 0..self.count.unwrap_or(u64::MAX) {
            while let left = next.saturating_duration_since(Instant::now())
                && !left.is_zero()
            {
                if end.has_come() {
                    return Ok(());
                }
                std::thread::sleep(left.min(POLL));
                source.poll()?;
            }
            next += interval;
            if source.lost() > lost {
                lost = source.lost();
                let lost = count(lost);
                crate::log::line(&format!("top: {lost} requests lost so far: figures lack them"));
            }
            let rows = source.rows();
            if self.json { plain::json(&rows)? } else { plain::lines(&rows, turn)? }
        }
        Ok(())
    }

    fn on_terminal(&self, source: &mut Source, end: &End) -> Result<()> {
        let asked = Asked::catch()?;
        let terminal = Terminal::open().context("cannot take over the terminal")?;
        let mut view = View { rows: source.rows(), ..View::default() };
        let (mut size, mut drawn) = (terminal.size(), 0);
        let interval = Duration::from_nanos(self.interval.0);
        let mut next = Instant::now() + interval;
        view.draw(&terminal, size, self, source)?;
        while !end.has_come() && !asked.quit.load(Ordering::Relaxed) {
            let mut changed = false;
            if asked.stop.swap(false, Ordering::Relaxed) {
                terminal.stop()?;
            }
            if asked.go_on.swap(false, Ordering::Relaxed) {
                terminal.set_up()?;
                changed = true;
            }
            for key in terminal.keys(POLL)? {
                match key {
                    Key::Char(b'q') | Key::Gone => return Ok(()),
                    key => changed |= view.press(key),
                }
            }
            source.poll()?;
            if Instant::now() >= next {
                // Updates missed while the machine was suspended are not made up for.
                next = (next + interval).max(Instant::now());
                let rows = source.rows();
                drawn += 1;
                if !view.paused {
                    view.rows = rows;
                    changed = true;
                }
            }
            let now = terminal.size();
            if changed || now != size {
                size = now;
                view.draw(&terminal, size, self, source)?;
            }
            if self.count.is_some_and(|count| drawn >= count) {
                break;
            }
        }
        Ok(())
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into())
}

/// The rows, and the user's choices of how to show them.
#[derive(Default)]
struct View {
    rows: Vec<Row>,
    sort: Sort,
    /// The selected drive, by name, since its row may change; `None`: the first row.
    selected: Option<String>,
    paused: bool,
    page: Page,
    /// How far the page is scrolled, and the step of a page key.
    scroll: usize,
    step: usize,
}

impl View {
    /// Handles a key. Returns whether anything has changed.
    fn press(&mut self, key: Key) -> bool {
        match key {
            Key::Char(b's') => self.sort = self.sort.next(),
            Key::Char(b'p') => self.paused = !self.paused,
            Key::Char(b'h' | b'?') => self.turn_to(Page::Help),
            Key::Char(b'd' | b'\n' | b'\r') => self.turn_to(Page::Details),
            Key::Char(0x1b) => self.turn_to(Page::Table),
            Key::Up | Key::Char(b'k') => self.go(-1),
            Key::Down | Key::Char(b'j') => self.go(1),
            Key::PageUp => self.go(-self.step.cast_signed()),
            Key::PageDown | Key::Char(b' ') => self.go(self.step.cast_signed()),
            Key::Home | Key::Char(b'g') => self.go(isize::MIN),
            Key::End | Key::Char(b'G') => self.go(isize::MAX),
            _ => return false,
        }
        true
    }

    /// Shows a page from its beginning, or the table again if that page was shown.
    fn turn_to(&mut self, page: Page) {
        self.page = if self.page == page { Page::Table } else { page };
        self.scroll = 0;
    }

    /// Moves down by this many lines in a page, or this many drives in the table.
    fn go(&mut self, by: isize) {
        match self.page {
            Page::Table => self.select(self.place().saturating_add_signed(by)),
            Page::Help | Page::Details => self.scroll = self.scroll.saturating_add_signed(by),
        }
    }

    /// Selects the drive in this row, or in the last one.
    fn select(&mut self, place: usize) {
        let rows = screen::sorted(&self.rows, self.sort);
        let row = rows.get(place).or_else(|| rows.last());
        self.selected = row.map(|row| row.device.clone());
    }

    /// The row of the selected drive.
    fn place(&self) -> usize {
        let selected = |row: &&Row| Some(&row.device) == self.selected.as_ref();
        screen::sorted(&self.rows, self.sort).iter().position(selected).unwrap_or(0)
    }

    fn draw(
        &mut self,
        terminal: &Terminal,
        (width, height): (usize, usize),
        args: &Args,
        source: &Source,
    ) -> Result<()> {
        let about = args.about(source.lost());
        let mut screen = Screen {
            rows: &self.rows,
            time: &utc(unix_now())[11..],
            about: &about,
            note: source.note(),
            sort: self.sort,
            selected: self.place(),
            paused: self.paused,
            page: self.page,
            scroll: self.scroll,
        };
        screen.scroll = screen.scroll.min(screen::last_scroll(&screen, width, height));
        let lines = screen::draw(&screen, width, height);
        self.scroll = screen.scroll;
        self.step = height.saturating_sub(4).max(1);
        Ok(terminal.draw(&lines)?)
    }
}

/// Signals that ask for the end: Ctrl-C, SIGTERM, and loss of the terminal.
struct End {
    signals: Signals,
    hung_up: Arc<AtomicBool>,
}

impl End {
    fn catch() -> Result<Self> {
        Ok(Self { signals: Signals::catch()?, hung_up: flag(consts::SIGHUP)? })
    }

    fn has_come(&self) -> bool {
        self.signals.look() != Signal::None || self.hung_up.load(Ordering::Relaxed)
    }
}

/// Signals that must restore the terminal first: stop (Ctrl-Z) and quit (Ctrl-\\).
struct Asked {
    stop: Arc<AtomicBool>,
    go_on: Arc<AtomicBool>,
    quit: Arc<AtomicBool>,
}

impl Asked {
    fn catch() -> Result<Self> {
        let (stop, go_on) = (flag(consts::SIGTSTP)?, flag(consts::SIGCONT)?);
        Ok(Self { stop, go_on, quit: flag(consts::SIGQUIT)? })
    }
}

/// A flag that a signal sets.
fn flag(signal: i32) -> Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot catch signals")?;
    Ok(flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(device: &str, reads_per_second: f64) -> Row {
        Row { device: device.to_owned(), reads_per_second, ..Row::default() }
    }

    #[test]
    fn selection_follows_the_drive_when_rows_move() {
        let rows = vec![row("a", 1.0), row("b", 2.0), row("c", 3.0)];
        let mut view = View { rows, ..View::default() };
        assert_eq!((view.place(), view.press(Key::Down), view.place()), (0, true, 1));
        // By reads, the most first.
        view.press(Key::Char(b's'));
        view.rows = vec![row("a", 1.0), row("b", 20.0), row("c", 3.0)];
        assert_eq!((view.place(), view.selected.as_deref()), (0, Some("b")));
        view.press(Key::Up);
        assert_eq!(view.selected.as_deref(), Some("b"));
        for _ in 0..3 {
            view.press(Key::Down);
        }
        assert_eq!((view.place(), view.selected.as_deref()), (2, Some("a")));
        for (key, place) in [(Key::Home, 0), (Key::End, 2), (Key::Char(b'k'), 1)] {
            view.press(key);
            assert_eq!(view.place(), place);
        }
    }

    #[test]
    fn losses_come_first_in_the_heading() {
        let args = Args {
            devices: Vec::new(),
            models: Vec::new(),
            interval: Nanos::from_secs(1),
            window: 10,
            count: None,
            json: false,
        };
        assert_eq!(args.about(0), "every 1.00 s, percentiles of 10 s, lost 0");
        assert_eq!(args.about(1234), "lost 1,234, every 1.00 s, percentiles of 10 s");
    }

    #[test]
    fn arrow_keys_scroll_pages_and_select_rows() {
        let rows = vec![row("a", 1.0), row("b", 2.0)];
        let mut view = View { rows, step: 6, ..View::default() };
        view.press(Key::Char(b'h'));
        for (key, scroll) in [
            (Key::Up, 0),
            (Key::Char(b'j'), 1),
            (Key::PageDown, 7),
            (Key::Up, 6),
            (Key::PageUp, 0),
            (Key::Down, 1),
        ] {
            assert!(view.press(key));
            assert_eq!((view.page, view.scroll, view.place()), (Page::Help, scroll, 0), "{key:?}");
        }
        view.press(Key::Char(b'd'));
        assert_eq!((view.page, view.scroll), (Page::Details, 0));
        view.press(Key::Char(0x1b));
        view.press(Key::Down);
        assert_eq!((view.page, view.place()), (Page::Table, 1));
    }
}
