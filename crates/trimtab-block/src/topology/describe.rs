//! A topology as a line of text.

use super::{DeviceKind, Mapping, Node, Target, Topology};

/// The most devices named at one level; further ones are counted.
const MOST_NAMED: usize = 8;

impl Topology {
    /// Its layers, from the device down: `LVM volume vg-data of sda2 sdb on sda sdb`.
    #[must_use]
    pub fn describe(&self) -> String {
        let mut line = String::new();
        self.describe_node(self.root(), &mut line);
        line
    }

    fn describe_node(&self, node: &Node, line: &mut String) {
        *line += &node.kind.describe();
        let below: Vec<_> = node.below.iter().map(|&below| &self.nodes[below]).collect();
        match &below[..] {
            [] => {}
            [one] if matches!(one.kind, DeviceKind::Disk) => {
                *line += &format!(" of {}", one.name);
            }
            [one] => {
                *line += &format!(" of {}, ", one.name);
                self.describe_node(one, line);
            }
            all => {
                *line += &format!(" of {}", some(all.iter().map(|node| &*node.name)));
                if all.iter().any(|node| !matches!(node.mapping, Mapping::Disk(_))) {
                    let mut disks = Vec::new();
                    all.iter().for_each(|node| self.disks_below(node, &mut disks));
                    *line += &format!(" on {}", some(disks.into_iter()));
                }
            }
        }
    }

    /// The names of all disks below a node that are not yet listed.
    fn disks_below<'a>(&'a self, node: &Node, names: &mut Vec<&'a str>) {
        if let Mapping::Disk(disk) = node.mapping {
            let name = &*self.disks[disk].device.name;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        node.below.iter().for_each(|&below| self.disks_below(&self.nodes[below], names));
    }

    /// Why no range, or not every range, of it can be resolved to one drive, in a line; `None`
    /// if every range can.
    #[must_use]
    pub fn limits(&self) -> Option<&'static str> {
        let mut limits = None;
        for node in &self.nodes {
            let Mapping::Segments(segments) = &node.mapping else { continue };
            if segments.is_empty() {
                return Some(match &node.kind {
                    DeviceKind::Opaque => "the block layer does not see its requests",
                    _ => "how it maps its devices is not known",
                });
            }
            for segment in segments {
                match segment.target {
                    Target::Unknown => return Some("how it maps its devices is not known"),
                    Target::Copies if matches!(node.kind, DeviceKind::Multipath) => {
                        limits = Some("any of several paths may carry a read");
                    }
                    Target::Copies => limits = Some("any of several drives may answer a read"),
                    Target::Hidden => {
                        limits.get_or_insert("its table takes CAP_SYS_ADMIN to see");
                    }
                    Target::Linear(_) | Target::Striped(_) => {}
                }
            }
        }
        limits
    }
}

/// The first names, and the number of further ones.
fn some<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let first = names.take(MOST_NAMED).collect::<Vec<_>>().join(" ");
    if more == 0 { first } else { format!("{first} and {more} more") }
}

impl DeviceKind {
    fn describe(&self) -> String {
        match self {
            Self::Disk => "disk".to_owned(),
            Self::Loop(file) => format!("loop device on {file}"),
            Self::Partition => "partition".to_owned(),
            Self::DeviceMapper { tool, name } => match &**tool {
                "LVM" => format!("LVM volume {name}"),
                "CRYPT" => format!("dm-crypt {name}"),
                _ => format!("device-mapper {name}"),
            },
            Self::Md(level) if level.is_empty() => "md array".to_owned(),
            Self::Md(level) => format!("md {level}"),
            Self::Multipath => "NVMe multipath".to_owned(),
            Self::Opaque => "no request queue".to_owned(),
        }
    }
}
