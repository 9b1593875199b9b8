//! A value as it is kept: packed when that pays. Must not know what is inside.

use std::sync::Arc;

use bytes::Bytes;

use super::Error;

/// Below this size packing costs more than it saves.
const PACK_BYTES_MIN: usize = 256;

const RAW: u8 = 0;
const LZ4: u8 = 1;

/// An immutable value, shared by everything that holds it. One tag byte, then the value as it is
/// or as lz4 with its size in front.
#[derive(Clone, PartialEq, Eq)]
pub struct Blob(Arc<[u8]>);

impl Blob {
    /// Compressed when that makes it smaller.
    pub fn pack(value: &[u8]) -> Self {
        if value.len() >= PACK_BYTES_MIN {
            let packed = lz4_flex::compress_prepend_size(value);
            if packed.len() < value.len() {
                return Self::tagged(LZ4, &packed);
            }
        }
        // A value that does not shrink stays raw, so that reading it costs no work.
        Self::tagged(RAW, value)
    }

    /// As it is: for what does not shrink, or is read once.
    pub(super) fn raw(value: &[u8]) -> Self {
        Self::tagged(RAW, value)
    }

    fn tagged(tag: u8, body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(body.len() + 1);
        bytes.push(tag);
        bytes.extend_from_slice(body);
        Self(bytes.into())
    }

    /// The value.
    ///
    /// # Errors
    /// [`Error::Damaged`] when the packed form was altered outside of capstan.
    pub fn unpack(&self) -> Result<Bytes, Error> {
        match self.0.split_first() {
            Some((&RAW, body)) => Ok(Bytes::copy_from_slice(body)),
            Some((&LZ4, body)) => {
                let (size, packed) =
                    lz4_flex::block::uncompressed_size(body).map_err(|e| Error::Damaged(e.to_string()))?;
                match lz4_flex::decompress(packed, size) {
                    // lz4 takes a result that is shorter than the size in front, so the size is
                    // compared here.
                    Ok(value) if value.len() == size => Ok(value.into()),
                    Ok(value) => Err(Error::Damaged(format!("{} bytes instead of {size}", value.len()))),
                    Err(error) => Err(Error::Damaged(error.to_string())),
                }
            }
            _ => Err(Error::Damaged("unknown packing".to_owned())),
        }
    }

    /// Size of the value in bytes, as far as it is intact.
    pub fn bytes(&self) -> usize {
        match self.0.split_first() {
            // Only the size in front is read: the answer weighs work, and unpacking would be that
            // work.
            Some((&LZ4, body)) => lz4_flex::block::uncompressed_size(body).map_or(0, |(size, _)| size),
            Some((_, body)) => body.len(),
            None => 0,
        }
    }

    /// Whether the value begins with these bytes. Nothing is unpacked for it, unless the value repeats itself at its very beginning.
    pub(super) fn begins_with(&self, start: &[u8]) -> bool {
        match self.0.split_first() {
            Some((&RAW, body)) => body.starts_with(start),
            Some((&LZ4, body)) => match first_literals(body) {
                Some(text) if text.len() >= start.len() => text.starts_with(start),
                _ => self.unpack().is_ok_and(|value| value.starts_with(start)),
            },
            _ => false,
        }
    }

    /// The packed form, for a backend to write.
    pub(super) fn packed(&self) -> &[u8] {
        &self.0
    }

    /// From the packed form.
    pub(super) fn from_packed(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }
}

/// The bytes with which a packed value begins, as they are.
///
/// Source: the description of the lz4 block format: a token, whose upper half is how many bytes come as they are; from 15 on
/// more bytes are added to that, up to the first one that is not 255.
fn first_literals(body: &[u8]) -> Option<&[u8]> {
    let (_size, block) = body.split_first_chunk::<4>()?;
    let (token, mut rest) = block.split_first()?;
    let mut count = usize::from(token >> 4);
    if count == 15 {
        loop {
            let (more, behind) = rest.split_first()?;
            (count, rest) = (count + usize::from(*more), behind);
            if *more < 255 {
                break;
            }
        }
    }
    rest.get(..count)
}

impl std::fmt::Debug for Blob {
    /// Sizes only: values may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Blob({} bytes packed)", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_whatever_their_size() {
        for value in [Vec::new(), b"{}".to_vec(), vec![b'x'; 100_000], (0..=255).cycle().take(999).collect()]
        {
            assert_eq!(Blob::pack(&value).unpack().unwrap(), value);
        }
        assert!(Blob::pack(&vec![b'x'; 100_000]).packed().len() < 1_000);
    }

    #[test]
    fn a_beginning_is_known_whether_a_value_is_packed_or_not() {
        let noise = capstan_base::rng::Rng::seeded(7).suffix(2_000);
        for length in [0, 1, 14, 15, 16, 269, 270, 271, 1_000] {
            for tail in ["", &"x".repeat(1_500)] {
                let value = format!("{}{tail}", &noise[..length]);
                let blob = Blob::pack(value.as_bytes());
                assert_eq!(blob.bytes(), value.len());
                for end in 0..=value.len() {
                    assert!(
                        blob.begins_with(&value.as_bytes()[..end]),
                        "{end} of {length} and {}",
                        tail.len()
                    );
                }
                assert!(!blob.begins_with(b"!") && !blob.begins_with(format!("{value}!").as_bytes()));
            }
        }
    }

    #[test]
    fn damage_is_an_error_not_a_panic() {
        assert!(matches!(Blob::from_packed(&[]).unpack(), Err(Error::Damaged(_))));
        assert!(matches!(Blob::from_packed(&[LZ4, 9, 0, 0, 0, 1]).unpack(), Err(Error::Damaged(_))));
        assert!(matches!(Blob::from_packed(&[7, 1]).unpack(), Err(Error::Damaged(_))));
        for bytes in [&[][..], &[LZ4], &[LZ4, 9, 0, 0, 0, 0xf0, 255], &[7, 1]] {
            assert!(!Blob::from_packed(bytes).begins_with(b"x"));
        }
    }
}
