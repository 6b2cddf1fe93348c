//! Builds a topology from a system's files.

use std::path::Path;

use super::md::Array;
use super::striped::Striped;
use super::sysfs::{System, names, number, text};
use super::table::{Place, Row, Rule};
use super::{DeviceKind, Disk, Mapping, Member, Node, Segment, Target, Topology};
use crate::device::BlockDevice;

/// The kernel does not stack devices in a loop, but files that are read one after the other
/// may appear so.
const DEEPEST: usize = 32;
const MOST_NODES: usize = 1 << 14;

/// The topology of the device with this number.
pub(super) fn topology(system: &System, number: (u32, u32)) -> Option<Topology> {
    let mut builder = Builder { system, nodes: Vec::new(), open: Vec::new(), disks: Vec::new() };
    builder.add(&system.directory(number)?, 0)?;
    Some(Topology { nodes: builder.nodes, disks: builder.disks })
}

struct Builder<'a> {
    system: &'a System,
    nodes: Vec<Node>,
    /// The nodes whose devices below are being added.
    open: Vec<usize>,
    disks: Vec<Disk>,
}

impl Builder<'_> {
    /// Adds the device with this directory and all below it. Returns its index. A device that
    /// is reached twice is added once; `None` if it would be below itself.
    fn add(&mut self, directory: &Path, depth: usize) -> Option<usize> {
        let number = self.system.number(directory)?;
        if let Some(known) = self.nodes.iter().position(|node| node.number == number) {
            return (!self.open.contains(&known)).then_some(known);
        }
        if depth > DEEPEST || self.nodes.len() == MOST_NODES {
            return None;
        }
        let name = directory.file_name()?.to_str()?.to_owned();
        // In sectors of 512 bytes, independent of the device's.
        let size = self::number::<u64>(&directory.join("size"))?.checked_mul(512)?;
        let index = self.nodes.len();
        let (kind, mapping) = (DeviceKind::Opaque, Mapping::Segments(Vec::new()));
        self.nodes.push(Node { name, number, size, kind, below: Vec::new(), mapping });
        self.open.push(index);
        let (kind, mapping) = self.look(directory, index, depth);
        let mut below: Vec<_> = mapping.below();
        for slave in names(&directory.join("slaves")) {
            below.extend(self.add_link(&directory.join("slaves").join(slave), depth));
        }
        self.open.pop();
        below.sort_unstable();
        below.dedup();
        let node = &mut self.nodes[index];
        (node.kind, node.mapping, node.below) = (kind, mapping, below);
        Some(index)
    }

    fn add_link(&mut self, link: &Path, depth: usize) -> Option<usize> {
        self.add(&std::fs::canonicalize(link).ok()?, depth + 1)
    }

    fn add_number(&mut self, number: (u32, u32), depth: usize) -> Option<usize> {
        self.add(&self.system.directory(number)?, depth + 1)
    }

    fn look(&mut self, directory: &Path, index: usize, depth: usize) -> (DeviceKind, Mapping) {
        if directory.join("partition").exists() {
            return (DeviceKind::Partition, self.partition(directory, index, depth));
        }
        let name = self.nodes[index].name.clone();
        if directory.join("mq").exists() {
            let loop_file = text(&directory.join("loop/backing_file"));
            let kind = loop_file.map_or(DeviceKind::Disk, DeviceKind::Loop);
            return (kind, self.disk(directory, index));
        }
        if let Some(mapped) = text(&directory.join("dm/name")) {
            let uuid = text(&directory.join("dm/uuid")).unwrap_or_default();
            let tool = uuid.split_once('-').map_or("", |(tool, _)| tool).to_owned();
            return (DeviceKind::DeviceMapper { tool, name: mapped }, self.mapped(index, depth));
        }
        if directory.join("md").exists() {
            let level = text(&directory.join("md/level")).unwrap_or_default();
            return (DeviceKind::Md(level), self.md(directory, index, depth));
        }
        let paths = self.system.paths(&name);
        if !paths.is_empty() {
            let nodes: Vec<_> = paths.iter().filter_map(|path| self.add(path, depth + 1)).collect();
            let target = match nodes[..] {
                [path] => Target::Linear(Member { node: path, at: 0 }),
                _ => Target::Copies,
            };
            let mapping = self.whole(index, target);
            self.nodes[index].below.extend(&nodes);
            return (DeviceKind::Multipath, mapping);
        }
        (DeviceKind::Opaque, Mapping::Segments(Vec::new()))
    }

    fn whole(&self, index: usize, target: Target) -> Mapping {
        Mapping::Segments(vec![Segment { start: 0, end: self.nodes[index].size, target }])
    }

    fn disk(&mut self, directory: &Path, index: usize) -> Mapping {
        let Node { name, number, size, .. } = &self.nodes[index];
        let device = BlockDevice::at(name, *number, directory);
        self.disks.push(Disk { device, size: *size });
        Mapping::Disk(self.disks.len() - 1)
    }

    fn partition(&mut self, directory: &Path, index: usize, depth: usize) -> Mapping {
        let start = number::<u64>(&directory.join("start")).and_then(|n| n.checked_mul(512));
        let disk = directory.parent().and_then(|disk| self.add(disk, depth + 1));
        let target = match (disk, start) {
            (Some(node), Some(at)) => Target::Linear(Member { node, at }),
            _ => Target::Unknown,
        };
        self.whole(index, target)
    }

    fn md(&mut self, directory: &Path, index: usize, depth: usize) -> Mapping {
        let array = Array::read(&directory.join("md"));
        let array = array.map(|array| array.map(|member| self.add(&member, depth + 1)));
        let size = self.nodes[index].size;
        Mapping::Segments(array.map(|array| array.segments(size)).unwrap_or_default())
    }

    fn mapped(&mut self, index: usize, depth: usize) -> Mapping {
        if let Some(rows) = (self.system.table)(self.nodes[index].number) {
            let segments = rows.into_iter().map(|row| self.segment(row, depth));
            let mut segments: Vec<_> = segments.collect();
            segments.sort_by_key(|segment| segment.start);
            return Mapping::Segments(segments);
        }
        self.whole(index, Target::Hidden)
    }

    fn segment(&mut self, row: Row, depth: usize) -> Segment {
        let Row { start, length, rule } = row;
        let mut member = |place: Place| {
            let node = self.add_number(place.device, depth)?;
            Some(Member { node, at: place.at })
        };
        let target = match rule {
            Rule::Linear(place) => member(place).map_or(Target::Unknown, Target::Linear),
            Rule::Striped { chunk, parity, members } => {
                let members = members.into_iter().map(|place| place.and_then(&mut member));
                let striped = Striped { chunk, first: 0, parity, members: members.collect() };
                if striped.is_valid() { Target::Striped(striped) } else { Target::Unknown }
            }
            Rule::Copies => Target::Copies,
            Rule::Unknown => Target::Unknown,
        };
        Segment { start, end: start + length, target }
    }
}

impl Mapping {
    /// The devices that the target refers to.
    fn below(&self) -> Vec<usize> {
        let Self::Segments(segments) = self else { return Vec::new() };
        let mut below = Vec::new();
        for segment in segments {
            match &segment.target {
                Target::Linear(member) => below.push(member.node),
                Target::Striped(striped) => {
                    below.extend(striped.members.iter().flatten().map(|member| member.node));
                }
                Target::Copies | Target::Hidden | Target::Unknown => {}
            }
        }
        below
    }
}
