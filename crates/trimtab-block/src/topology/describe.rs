//! A topology in a line of text.

use super::{DeviceKind, Mapping, Node, Target, Topology};

/// Devices that are named at one level before the rest is counted.
const MOST_NAMED: usize = 8;

impl Topology {
    /// What it is made of, from the device down: `LVM vg-data on sda2, sdb (sda2: partition of
    /// sda)`.
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
                let names: Vec<_> = all.iter().take(MOST_NAMED).map(|node| &*node.name).collect();
                *line += &format!(" of {}", names.join(" "));
                if all.len() > MOST_NAMED {
                    *line += &format!(" and {} more", all.len() - MOST_NAMED);
                }
            }
        }
    }

    /// Why no range, or not every range, of it can be followed to one drive, in a line; none
    /// if all can.
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
