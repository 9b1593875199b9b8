//! Files as one archive of `tar`, for root alone. Must not know what they are.
//! Source: POSIX.1-2017, `pax`, "ustar Interchange Format".

const BLOCK: usize = 512;

/// Regular files by short names, of root, mode 0600; folders of a name are made before it.
pub(super) fn archive<'f>(files: impl IntoIterator<Item = (&'f str, &'f [u8])>) -> Vec<u8> {
    let mut out = header("files/", 0, b'5');
    for (name, content) in files {
        out.extend(header(name, content.len(), b'0'));
        out.extend_from_slice(content);
        out.resize(out.len().next_multiple_of(BLOCK), 0);
    }
    out.resize(out.len() + 2 * BLOCK, 0);
    out
}

fn header(name: &str, bytes: usize, kind: u8) -> Vec<u8> {
    let mut block = vec![0_u8; BLOCK];
    let mut put = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, if kind == b'5' { "0000700" } else { "0000600" });
    put(108, "0000000");
    put(116, "0000000");
    put(124, &format!("{bytes:011o}"));
    put(136, "00000000000");
    // The sum counts its own field as blanks.
    put(148, "        ");
    put(257, "ustar\x0000root");
    put(297, "root");
    block[156] = kind;
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    block
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn tar_reads_it() {
        let big = vec![b'x'; 1000];
        let bytes = archive([("manifest", b"a\n".as_slice()), ("files/001", &big), ("files/002", b"")]);
        let mut tar = Command::new("tar")
            .args(["-tvf", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("tar");
        tar.stdin.take().expect("a pipe").write_all(&bytes).expect("written");
        let output = tar.wait_with_output().expect("an end");
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        let words: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
        let names: Vec<(&str, &str)> = words.iter().map(|line| (line[2], line[line.len() - 1])).collect();
        assert_eq!(names, [("0", "files/"), ("2", "manifest"), ("1000", "files/001"), ("0", "files/002")]);
        assert!(output.status.success() && listed.contains("-rw------- root/root"), "{listed}");
    }
}
