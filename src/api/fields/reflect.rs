//! Which fields does a type have on the wire? Found out by its own `Deserialize`, which names its fields when it is asked to read an object.
//!
//! `fields::<T>()` lets `T` be read from an input in which every field is there: lists have one element, maps one entry, texts a date,
//! numbers 0. Each field is noted under its path, as in `containers[].ports[].hostPort`.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

/// A text that is read as a text, and as a point in time.
const TEXT: &str = "1970-01-01T00:00:00Z";

/// The paths of all fields of the type.
pub(super) fn fields<T: DeserializeOwned>() -> BTreeSet<String> {
    let found = RefCell::default();
    T::deserialize(Input { path: String::new(), found: &found }).expect("it is read from an input in which everything is there");
    found.into_inner()
}

/// What stands at a path.
struct Input<'a> {
    path: String,
    found: &'a RefCell<BTreeSet<String>>,
}

impl<'a> Input<'a> {
    fn below(&self, suffix: &str) -> Self {
        Input { path: format!("{}{suffix}", self.path), found: self.found }
    }

    fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Input { path, found: self.found }
    }
}

impl<'de> Deserializer<'de> for Input<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_i64(0)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_bool(false)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(TEXT)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_str(TEXT)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _name: &'static str, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_seq(One(Some(self.below("[]"))))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let entry = self.below("{}");
        visitor.visit_map(Entries { left: vec![("k", entry)], value: None })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        let left: Vec<_> = fields.iter().map(|name| (*name, self.field(name))).collect();
        self.found.borrow_mut().extend(left.iter().map(|(_, field)| field.path.clone()));
        visitor.visit_map(Entries { left, value: None })
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct tuple tuple_struct enum identifier ignored_any
    }
}

/// A list with one element.
struct One<'a>(Option<Input<'a>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|element| seed.deserialize(element)).transpose()
    }
}

/// The fields of an object, or the entry of a map.
struct Entries<'a> {
    left: Vec<(&'static str, Input<'a>)>,
    value: Option<Input<'a>>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, value)) = self.left.pop() else { return Ok(None) };
        self.value = Some(value);
        let key: StrDeserializer<'_, Error> = name.into_deserializer();
        seed.deserialize(key).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        seed.deserialize(self.value.take().expect("a key comes before its value"))
    }
}
