//! Header maps: ordered, raw bytes, repeated fields kept; names compare without case.

use std::fmt;

/// An ordered list of header fields.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Vec<u8>, Vec<u8>)>);

impl Headers {
    /// No fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first value of `name`.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        let name = name.as_ref();
        self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_slice())
    }

    /// The first value of `name` as text; bytes that are no UTF-8 become replacement characters.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// Every value of `name`, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name.as_bytes())).map(|(_, value)| value.as_slice())
    }

    /// Appends a field, beside any of the same name.
    pub fn add(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.0.push((name.as_ref().to_ascii_lowercase(), value.as_ref().to_vec()));
    }

    /// Puts one field in the place of all of that name. It moves to the end, as in Envoy.
    pub fn replace(&mut self, name: impl AsRef<[u8]>, value: impl AsRef<[u8]>) {
        self.remove(name.as_ref());
        self.add(name, value);
    }

    /// Takes out every field of that name.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) {
        let name = name.as_ref();
        self.0.retain(|(key, _)| !key.eq_ignore_ascii_case(name));
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.0.iter().map(|(name, value)| (name.as_slice(), value.as_slice()))
    }

    /// Bytes of all names and values together.
    pub(crate) fn byte_size(&self) -> usize {
        self.0.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The ABI's form: count, then the two lengths of each pair, then the NUL-terminated strings; nothing at all for
    /// an empty map.
    pub(crate) fn encode(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let mut bytes = (self.0.len() as u32).to_le_bytes().to_vec();
        for (name, value) in &self.0 {
            bytes.extend((name.len() as u32).to_le_bytes());
            bytes.extend((value.len() as u32).to_le_bytes());
        }
        for text in self.0.iter().flat_map(|(name, value)| [name, value]) {
            bytes.extend(text);
            bytes.push(0);
        }
        bytes
    }

    /// Reads the ABI's form; `None` where it is cut short.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() {
            return Some(Self::new());
        }
        let word = |index: usize| {
            bytes.get(4 * index..4 * index + 4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]))
        };
        let count = word(0)? as usize;
        let mut at = 4 + 8 * count;
        let mut headers = Self::new();
        for pair in 0..count {
            let (name_len, value_len) = (word(1 + 2 * pair)? as usize, word(2 + 2 * pair)? as usize);
            let name = bytes.get(at..at + name_len)?;
            let value = bytes.get(at + name_len + 1..at + name_len + 1 + value_len)?;
            headers.add(name, value);
            at += name_len + value_len + 2;
        }
        Some(headers)
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = String::from_utf8_lossy;
        f.debug_map().entries(self.iter().map(|(name, value)| (text(name), text(value)))).finish()
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut headers = Self::new();
        fields.into_iter().for_each(|(name, value)| headers.add(name, value));
        headers
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>, const COUNT: usize> From<[(N, V); COUNT]> for Headers {
    fn from(fields: [(N, V); COUNT]) -> Self {
        fields.into_iter().collect()
    }
}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> From<&[(N, V)]> for Headers {
    fn from(fields: &[(N, V)]) -> Self {
        fields.iter().map(|(name, value)| (name, value)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_abi_form_survives_a_round_trip() {
        let headers = Headers::from([("a", &b"1"[..]), ("Set-Cookie", b"\xff\0"), ("set-cookie", b"")]);
        assert_eq!(Headers::decode(&headers.encode()), Some(headers.clone()));
        assert_eq!(headers.get_all("SET-COOKIE").count(), 2);
        assert_eq!(Headers::decode(&headers.encode()[..20]), None);
        assert!(Headers::new().encode().is_empty());
    }

    #[test]
    fn replacing_leaves_one_field() {
        let mut headers = Headers::from([("a", "1"), ("b", "2"), ("A", "3")]);
        headers.replace("a", "4");
        assert_eq!(headers, Headers::from([("b", "2"), ("a", "4")]));
    }
}
