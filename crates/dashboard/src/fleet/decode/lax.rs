//! Deserialising what may have any shape: the value when it fits, its default when it does not. Must
//! not know which fields there are.

use std::fmt;
use std::marker::PhantomData;

use compact_str::CompactString;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// What a scalar or a struct makes of each JSON shape; `None` means "not this one".
pub trait Shape: Default {
    fn of_text(_: &str) -> Option<Self> {
        None
    }
    fn of_number(_: i64) -> Option<Self> {
        None
    }
    fn of_bool(_: bool) -> Option<Self> {
        None
    }
    /// # Errors
    /// Only what the parser reports: the text is not JSON.
    fn of_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        // Read to its end, because the parser goes on behind the value.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
    /// # Errors
    /// Only what the parser reports: the text is not JSON.
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

/// `T` where the document has one, the default where it has something else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lax<T>(pub T);

impl<T> std::ops::Deref for Lax<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: Shape> Deserialize<'de> for Lax<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyShape(PhantomData))
    }
}

struct AnyShape<T>(PhantomData<T>);

impl<'de, T: Shape> Visitor<'de> for AnyShape<T> {
    type Value = Lax<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Lax(T::of_text(text).unwrap_or_default()))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Lax(T::of_number(number).unwrap_or_default()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Lax(T::of_number(i64::try_from(number).unwrap_or(i64::MAX)).unwrap_or_default()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Lax::default())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(Lax(T::of_bool(value).unwrap_or_default()))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Lax::default())
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(Lax::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::of_map(map).map(|value| Lax(value.unwrap_or_default()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        T::of_list(list).map(|value| Lax(value.unwrap_or_default()))
    }
}

/// A struct where the document has an object or nothing; where it has something else, that is noted.
#[derive(Clone, Debug, Default)]
pub struct OptionalMap<T> {
    pub value: T,
    pub is_misshapen: bool,
}

impl<T: Default> OptionalMap<T> {
    fn misshapen() -> Self {
        Self { value: T::default(), is_misshapen: true }
    }
}

impl<'de, T: Shape> Deserialize<'de> for OptionalMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(OnlyMap(PhantomData))
    }
}

struct OnlyMap<T>(PhantomData<T>);

impl<'de, T: Shape> Visitor<'de> for OnlyMap<T> {
    type Value = OptionalMap<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(OptionalMap::misshapen())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(OptionalMap::misshapen())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(OptionalMap::misshapen())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(OptionalMap::misshapen())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(OptionalMap::misshapen())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        // `null` stands for a part that is not there, too.
        Ok(OptionalMap::default())
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(OptionalMap::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        let value = T::of_map(map)?.unwrap_or_default();
        Ok(OptionalMap { value, is_misshapen: false })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(OptionalMap::misshapen())
    }
}

/// Text that is decoded, looked at and dropped: most of it is short, and short text takes no memory of its own.
pub type Text = CompactString;

impl Shape for Text {
    fn of_text(text: &str) -> Option<Self> {
        Some(Self::new(text))
    }
}

impl<T: Shape> Shape for Box<T> {
    fn of_map<'de, A: MapAccess<'de>>(map: A) -> Result<Option<Self>, A::Error> {
        Ok(T::of_map(map)?.map(Self::new))
    }
}

impl Shape for Option<u32> {
    fn of_number(number: i64) -> Option<Self> {
        u32::try_from(number).ok().map(Some)
    }
}

impl Shape for bool {
    fn of_bool(value: bool) -> Option<Self> {
        Some(value)
    }
}

impl Shape for Option<bool> {
    fn of_bool(value: bool) -> Option<Self> {
        Some(Some(value))
    }
}

/// A list of more than so many is one of conditions, as a rule: with room for them they are moved once.
const LIST_SHORT: usize = 2;
const LIST_ROOM: usize = 14;

/// A list of `T`; items of another shape are their default.
impl<T: Shape> Shape for Vec<T> {
    fn of_list<'de, A: SeqAccess<'de>>(mut list: A) -> Result<Option<Self>, A::Error> {
        let mut items = Self::new();
        while let Some(Lax(item)) = list.next_element::<Lax<T>>()? {
            if items.len() == LIST_SHORT {
                items.reserve(LIST_ROOM);
            }
            items.push(item);
        }
        Ok(Some(items))
    }
}

/// Text by key, in key order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts(pub Vec<(Text, Text)>);

impl Shape for Texts {
    fn of_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<Option<Self>, A::Error> {
        let mut texts = Vec::new();
        while let Some((key, Lax(value))) = map.next_entry::<Text, Lax<Text>>()? {
            texts.push((key, value));
        }
        // Labels are looked up by a binary search, and shared where their lists are equal.
        texts.sort();
        Ok(Some(Self(texts)))
    }
}

impl Texts {
    pub fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }
}

/// A struct with serde's derived map form.
pub fn fields<'de, T: Deserialize<'de>, A: MapAccess<'de>>(map: A) -> Result<Option<T>, A::Error> {
    T::deserialize(MapAccessDeserializer::new(map)).map(Some)
}
