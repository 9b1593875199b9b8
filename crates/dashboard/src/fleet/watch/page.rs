//! One page of a list while it arrives: its head as soon as that is there, so that the next page can be asked for, then
//! its objects, some at a time. No page is ever held whole. Must not know what the objects are.

use std::pin::Pin;

use futures::AsyncBufRead;
use futures::io::AsyncBufReadExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use serde::de::DeserializeOwned;

/// Objects handed on together.
const TOGETHER: usize = 250;

/// The answer to a request for a page, not read yet.
pub(super) type Body = Pin<Box<dyn AsyncBufRead + Send>>;

/// Asks for a page.
///
/// # Errors
/// What the server or the way to it says.
pub(super) async fn ask(client: Client, request: http::Request<Vec<u8>>) -> Result<Body, kube::Error> {
    Ok(Box::pin(client.request_stream(request).await?))
}

/// What arrived of a page.
#[derive(Debug, PartialEq)]
pub(super) enum Piece<K> {
    /// Once, mostly before the objects.
    Head(ListMeta),
    Objects(Vec<K>),
    End,
}

/// A page that is being read.
pub(super) struct Page<K> {
    body: Body,
    splitter: Splitter,
    head: Option<ListMeta>,
    objects: Vec<K>,
}

impl<K: DeserializeOwned> Page<K> {
    pub(super) fn new(body: Body) -> Self {
        Self { body, splitter: Splitter::default(), head: None, objects: Vec::new() }
    }

    /// The next piece of it.
    ///
    /// # Errors
    /// The connection broke, or what comes is not a list.
    pub(super) async fn next(&mut self) -> Result<Piece<K>, kube::Error> {
        loop {
            if let Some(head) = self.head.take() {
                return Ok(Piece::Head(head));
            }
            if self.objects.len() >= TOGETHER {
                return Ok(Piece::Objects(std::mem::take(&mut self.objects)));
            }
            let bytes = self.body.fill_buf().await.map_err(kube::Error::ReadEvents)?;
            let read = bytes.len();
            if read == 0 {
                return self.end();
            }
            let (head, objects) = (&mut self.head, &mut self.objects);
            let taken = self.splitter.split(bytes, |field, text| {
                match field {
                    Field::Head => *head = Some(serde_json::from_slice(text)?),
                    Field::Items => objects.push(serde_json::from_slice(text)?),
                    Field::Other => {}
                }
                Ok(())
            });
            self.body.as_mut().consume(read);
            taken.map_err(kube::Error::SerdeError)?;
        }
    }

    fn end(&mut self) -> Result<Piece<K>, kube::Error> {
        if !self.objects.is_empty() {
            return Ok(Piece::Objects(std::mem::take(&mut self.objects)));
        }
        if self.splitter.is_complete {
            return Ok(Piece::End);
        }
        // Taken for a whole list, it would make all other objects look deleted.
        let error = serde::de::Error::custom("the list ended in the middle");
        Err(kube::Error::SerdeError(error))
    }
}

/// What the fields of a list are to us.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Field {
    Head,
    Items,
    #[default]
    Other,
}

/// Where in a text one is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Lexeme {
    #[default]
    Structure,
    Text,
    /// Behind a backslash.
    Escape,
}

/// Finds the head and the objects in the text of a list, which comes in pieces of any length. What it hands on may still be
/// no JSON: it only counts brackets.
#[derive(Default)]
struct Splitter {
    /// The beginning of the value that is being read, where it came with an earlier piece.
    held: Vec<u8>,
    /// A value that matters is being read.
    is_value: bool,
    lexeme: Lexeme,
    /// Brackets that are open.
    depth: usize,
    /// The name of a field comes, or its value.
    is_name: bool,
    field: Field,
    is_complete: bool,
}

impl Splitter {
    /// Takes a piece, and hands on each head and object that ends in it.
    fn split(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(Field, &[u8]) -> serde_json::Result<()>,
    ) -> serde_json::Result<()> {
        // Where the value that matters begins in this piece.
        let mut start = 0;
        let mut at = 0;
        while at < piece.len() {
            let byte = piece[at];
            match self.lexeme {
                Lexeme::Escape => self.lexeme = Lexeme::Text,
                // A list is text for the most part, which one search passes over.
                Lexeme::Text => match piece[at..].iter().position(|byte| matches!(byte, b'"' | b'\\')) {
                    None => break,
                    Some(further) => {
                        at += further;
                        self.lexeme = if piece[at] == b'\\' { Lexeme::Escape } else { Lexeme::Structure };
                        if self.lexeme == Lexeme::Structure && self.ends_name() {
                            self.field = field_of(self.whole(&piece[start..=at]));
                            self.held.clear();
                        }
                    }
                },
                Lexeme::Structure => {
                    if self.begins(byte) {
                        (self.is_value, start) = (true, at);
                    }
                    if self.note(byte) {
                        take(self.field, self.whole(&piece[start..=at]))?;
                        self.held.clear();
                    }
                }
            }
            at += 1;
        }
        // The buffer of the piece is given back, so that the beginning of the value is copied.
        if self.is_value {
            self.held.extend_from_slice(&piece[start..]);
        }
        Ok(())
    }

    /// Does something that matters begin with this byte: a name, a head, an object?
    fn begins(&self, byte: u8) -> bool {
        match (self.depth, self.field) {
            (1, _) if self.is_name => byte == b'"',
            (1, Field::Head) | (2, Field::Items) => byte == b'{',
            _ => false,
        }
    }

    /// Answers whether a value that matters ends with this byte.
    fn note(&mut self, byte: u8) -> bool {
        match byte {
            b'"' => self.lexeme = Lexeme::Text,
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth == 1 {
                    self.is_name = true;
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.is_complete |= self.depth == 0;
                // The objects of a list stand one bracket deeper than its head.
                let outside = if self.field == Field::Items { 2 } else { 1 };
                return self.depth == outside && std::mem::take(&mut self.is_value);
            }
            b',' if self.depth == 1 => (self.is_name, self.field) = (true, Field::Other),
            b':' if self.depth == 1 => self.is_name = false,
            _ => {}
        }
        false
    }

    fn ends_name(&mut self) -> bool {
        self.depth == 1 && self.is_name && std::mem::take(&mut self.is_value)
    }

    /// A value that ends in this piece.
    fn whole<'a>(&'a mut self, end: &'a [u8]) -> &'a [u8] {
        if self.held.is_empty() {
            return end;
        }
        self.held.extend_from_slice(end);
        &self.held
    }
}

fn field_of(name: &[u8]) -> Field {
    match name {
        b"\"metadata\"" => Field::Head,
        b"\"items\"" => Field::Items,
        _ => Field::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ODD: &str = "a \" quote, \\ a backslash, } ] { [ and 日本";

    fn list() -> Value {
        let object = |n: u32| json!({ "metadata": { "name": n, "items": [1, { "a": [] }] }, "status": ODD });
        json!({
            "kind": "List", "apiVersion": "v1", "more": { "metadata": { "continue": "no" }, "items": [{}] },
            "metadata": { "resourceVersion": "7", "continue": ODD }, "items": [object(1), {}, object(2)],
        })
    }

    fn body(text: &str, piece: usize) -> Body {
        let pieces: Vec<_> = text.as_bytes().chunks(piece).map(|piece| Ok(piece.to_vec())).collect();
        Box::pin(futures::TryStreamExt::into_async_read(futures::stream::iter(pieces)))
    }

    async fn read(text: &str, piece: usize) -> Result<(Option<ListMeta>, Vec<Value>), kube::Error> {
        let mut page = Page::new(body(text, piece));
        let (mut head, mut objects) = (None, Vec::new());
        loop {
            match page.next().await? {
                Piece::Head(found) => head = Some(found),
                Piece::Objects(more) => objects.extend(more),
                Piece::End => return Ok((head, objects)),
            }
        }
    }

    #[tokio::test]
    async fn a_list_is_the_same_however_it_is_cut() {
        let list = list();
        let expected = list["items"].as_array().expect("objects").clone();
        for text in [list.to_string(), serde_json::to_string_pretty(&list).expect("a text")] {
            for piece in (1..40).chain([text.len() - 1, text.len()]) {
                let (head, objects) = read(&text, piece).await.expect("a list");
                let head = head.expect("a head");
                assert_eq!(
                    (head.resource_version.as_deref(), head.continue_.as_deref()),
                    (Some("7"), Some(ODD))
                );
                assert_eq!(objects, expected, "in pieces of {piece}");
            }
        }
    }

    #[tokio::test]
    async fn the_head_comes_before_objects_and_those_come_some_at_a_time() {
        let objects = vec![json!({}); TOGETHER * 2 + 1];
        let text = format!(r#"{{"metadata":{{"continue":"x"}},"items":{}}}"#, json!(objects));
        let mut page: Page<Value> = Page::new(body(&text, 64));
        assert!(matches!(page.next().await, Ok(Piece::Head(head)) if head.continue_.as_deref() == Some("x")));
        let mut counts = Vec::new();
        while let Ok(Piece::Objects(objects)) = page.next().await {
            counts.push(objects.len());
        }
        assert_eq!(counts.iter().sum::<usize>(), TOGETHER * 2 + 1);
        assert!(counts.len() >= 2 && counts.iter().all(|count| *count < TOGETHER + 64), "{counts:?}");
    }

    #[tokio::test]
    async fn odd_lists_are_read_and_broken_ones_are_errors() {
        for (text, is_head, count) in [
            (r#"{"items":[{}],"metadata":{}}"#, true, 1),
            (r#"{"metadata":null,"items":null}"#, false, 0),
            (r#"{"items":[]}"#, false, 0),
            ("{}", false, 0),
        ] {
            let (head, objects) = read(text, 3).await.expect("a list");
            assert_eq!((head.is_some(), objects.len()), (is_head, count), "{text}");
        }
        let whole = list().to_string();
        for text in ["", "no JSON", r#"{"items":[{"a" 1}]}"#, r#"{"metadata":{"continue":3},"items":[]}"#]
            .into_iter()
            .chain((1..whole.len()).map(|end| &whole[..whole.floor_char_boundary(end)]))
        {
            assert!(read(text, 5).await.is_err(), "{text}");
        }
    }
}
