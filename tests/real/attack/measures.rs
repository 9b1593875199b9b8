//! What a process uses, as the kernel counts it. Must not know what the process is.

use std::path::Path;

/// At one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    pub resident_mib: u64,
    /// The most there ever was.
    pub resident_max_mib: u64,
    pub descriptors: usize,
    pub threads: u64,
    pub data_file_mib: u64,
}

impl Sample {
    pub fn of(process: u32, data_file: &Path) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let number = |field: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
            line.trim_end_matches("kB").trim().parse::<u64>().unwrap_or_default()
        };
        let data_file = std::fs::metadata(data_file).map_or(0, |data| data.len());
        Self {
            resident_mib: number("VmRSS:") / 1024,
            resident_max_mib: number("VmHWM:") / 1024,
            descriptors: std::fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count(),
            threads: number("Threads:"),
            data_file_mib: data_file / (1024 * 1024),
        }
    }
}
