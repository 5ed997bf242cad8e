//! Checks the content blocks of a prompt against the protocol's schema.
//!
//! Blocks are stored and replayed as text, so an invalid block would be sent to clients in each
//! replay: it is rejected now. Unknown members are allowed.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::params::decode_at;

/// The most blocks a prompt may have; the line's limit bounds their size.
const BLOCKS: usize = 10_000;

/// Checks a `prompt` array. The error names the field that is wrong.
pub(super) fn check(prompt: &str) -> Result<(), String> {
    let PromptBlocks(blocks) = decode_at(prompt, "prompt")?;
    if blocks.len() > BLOCKS {
        return Err(format!(
            "`prompt` has more than {BLOCKS} content blocks, the most that a prompt may have"
        ));
    }
    if blocks.is_empty() {
        return Err("`prompt` is empty".to_owned());
    }
    for (at, block) in blocks.iter().enumerate() {
        check_block(block.get(), &format!("prompt[{at}]"))?;
    }
    Ok(())
}

struct PromptBlocks<'a>(Vec<&'a RawValue>);

impl<'de> Deserialize<'de> for PromptBlocks<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = PromptBlocks<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of content blocks")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut blocks = Vec::new();
                while let Some(block) = seq.next_element()? {
                    // A single block too many is enough to reject the prompt.
                    if blocks.len() <= BLOCKS {
                        blocks.push(block);
                    }
                }
                Ok(PromptBlocks(blocks))
            }
        }
        deserializer.deserialize_seq(Each)
    }
}

/// A JSON object whose members do not matter.
struct AnyObject;

impl<'de> Deserialize<'de> for AnyObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = AnyObject;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(AnyObject)
            }
        }
        deserializer.deserialize_map(Any)
    }
}

mod block {
    //! The members that the schema types, block by block.
    use super::{AnyObject, Cow, RawValue};
    use serde::Deserialize;

    #[derive(Deserialize)]
    pub(super) struct Tag<'a> {
        #[serde(rename = "type", borrow)]
        pub(super) tag: Cow<'a, str>,
    }

    #[derive(Deserialize)]
    pub(super) struct Annotations<'a> {
        #[serde(default, borrow)]
        pub(super) audience: Option<Vec<Cow<'a, str>>>,
        #[serde(default, borrow, rename = "lastModified")]
        _last_modified: Option<Cow<'a, str>>,
        #[serde(default, rename = "priority")]
        _priority: Option<f64>,
        #[serde(default, rename = "_meta")]
        _meta: Option<AnyObject>,
    }

    #[derive(Deserialize)]
    pub(super) struct Common<'a> {
        #[serde(default, borrow)]
        pub(super) annotations: Option<Annotations<'a>>,
        #[serde(default, rename = "_meta")]
        _meta: Option<AnyObject>,
    }

    #[derive(Deserialize)]
    pub(super) struct TextContent<'a> {
        #[serde(borrow, rename = "text")]
        _text: Cow<'a, str>,
    }

    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Media<'a> {
        #[serde(borrow, rename = "data")]
        _data: Cow<'a, str>,
        #[serde(borrow, rename = "mimeType")]
        _mime_type: Cow<'a, str>,
        #[serde(default, borrow, rename = "uri")]
        _uri: Option<Cow<'a, str>>,
    }

    #[derive(Deserialize)]
    pub(super) struct ResourceLink<'a> {
        #[serde(borrow, rename = "name")]
        _name: Cow<'a, str>,
        #[serde(borrow, rename = "uri")]
        _uri: Cow<'a, str>,
        #[serde(default, borrow, rename = "title")]
        _title: Option<Cow<'a, str>>,
        #[serde(default, borrow, rename = "description")]
        _description: Option<Cow<'a, str>>,
        #[serde(default, borrow, rename = "mimeType")]
        _mime_type: Option<Cow<'a, str>>,
        #[serde(default, rename = "size")]
        _size: Option<i64>,
    }

    #[derive(Deserialize)]
    pub(super) struct EmbeddedResource<'a> {
        #[serde(borrow)]
        pub(super) resource: &'a RawValue,
    }

    #[derive(Deserialize)]
    pub(super) struct Contents<'a> {
        #[serde(borrow, rename = "uri")]
        _uri: Cow<'a, str>,
        #[serde(default, borrow)]
        pub(super) text: Option<Cow<'a, str>>,
        #[serde(default, borrow)]
        pub(super) blob: Option<Cow<'a, str>>,
        #[serde(default, borrow, rename = "mimeType")]
        _mime_type: Option<Cow<'a, str>>,
        #[serde(default, rename = "_meta")]
        _meta: Option<AnyObject>,
    }
}

fn check_block(json: &str, place: &str) -> Result<(), String> {
    if !json.starts_with('{') {
        return Err(format!("`{place}` must be an object"));
    }
    let tag: block::Tag<'_> = decode_at(json, place)?;
    match tag.tag.as_ref() {
        "text" => decode_at::<block::TextContent<'_>>(json, place).map(drop)?,
        "image" | "audio" => decode_at::<block::Media<'_>>(json, place).map(drop)?,
        "resource_link" => decode_at::<block::ResourceLink<'_>>(json, place).map(drop)?,
        "resource" => {
            let resource: block::EmbeddedResource<'_> = decode_at(json, place)?;
            let place = format!("{place}.resource");
            if !resource.resource.get().starts_with('{') {
                return Err(format!("`{place}` must be an object"));
            }
            let contents: block::Contents<'_> = decode_at(resource.resource.get(), &place)?;
            if contents.text.is_none() && contents.blob.is_none() {
                return Err(format!("`{place}` needs `text` or `blob`"));
            }
        }
        _ => return Err(format!("`{place}.type` is not a known kind of content")),
    }
    let common: block::Common<'_> = decode_at(json, place)?;
    let audience = common
        .annotations
        .and_then(|annotations| annotations.audience);
    let roles = ["assistant", "user"];
    if audience
        .iter()
        .flatten()
        .any(|role| !roles.contains(&role.as_ref()))
    {
        return Err(format!(
            "`{place}.annotations.audience` holds an unknown role"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn every_kind_of_content_is_valid() {
        check(
            r#"[
            {"type":"text","text":"a\u0000\ud83d\ude00","annotations":{"audience":["user"],"priority":1e0,"x":1},"_meta":{"a":1}},
            {"type":"text","text":"","annotations":null,"_meta":null},
            {"type":"image","data":"AA==","mimeType":"image/png","uri":null},
            {"type":"audio","data":"AA==","mimeType":"audio/wav","unknown":[{}]},
            {"type":"resource_link","name":"n","uri":"file:///x","size":7,"title":null},
            {"type":"resource","resource":{"uri":"file:///x","text":"t"}},
            {"type":"resource","resource":{"uri":"file:///x","blob":"AA==","mimeType":"x/y"}}
            ]"#,
        )
        .unwrap();
    }

    #[test]
    fn too_many_blocks_are_an_error() {
        let prompt = |count| {
            format!(
                "[{}]",
                vec![r#"{"type":"text","text":""}"#; count].join(",")
            )
        };
        check(&prompt(10_000)).unwrap();
        assert_eq!(
            check(&prompt(10_001)).unwrap_err(),
            "`prompt` has more than 10000 content blocks, the most that a prompt may have"
        );
    }

    #[test]
    fn the_invalid_field_is_named() {
        for (prompt, problem) in [
            ("[]", "`prompt` is empty"),
            ("{}", "`prompt` must be an array of content blocks"),
            ("\"secret\"", "`prompt` must be an array of content blocks"),
            ("[1]", "`prompt[0]` must be an object"),
            ("[{}]", "`prompt[0].type` is missing"),
            (
                r#"[{"type":"toast"}]"#,
                "`prompt[0].type` is not a known kind of content",
            ),
            (r#"[{"type":"text"}]"#, "`prompt[0].text` is missing"),
            (
                r#"[{"type":"text","text":"x"},{"type":"text","text":7}]"#,
                "`prompt[1].text` must be a string",
            ),
            (
                r#"[{"type":"text","text":"\ud83d"}]"#,
                "`prompt[0].text` is not valid",
            ),
            (
                r#"[{"type":"image","data":"x"}]"#,
                "`prompt[0].mimeType` is missing",
            ),
            (
                r#"[{"type":"resource","resource":{"uri":"u"}}]"#,
                "`prompt[0].resource` needs `text` or `blob`",
            ),
            (
                r#"[{"type":"resource","resource":7}]"#,
                "`prompt[0].resource` must be an object",
            ),
            (
                r#"[{"type":"text","text":"x","_meta":7}]"#,
                "`prompt[0]._meta` must be an object",
            ),
            (
                r#"[{"type":"text","text":"x","annotations":{"priority":"high"}}]"#,
                "`prompt[0].annotations.priority` must be a number",
            ),
            (
                r#"[{"type":"text","text":"x","annotations":{"audience":["secret"]}}]"#,
                "`prompt[0].annotations.audience` holds an unknown role",
            ),
        ] {
            assert_eq!(check(prompt).unwrap_err(), problem, "{prompt}");
        }
    }
}
