//! Keys as vendors make them, put together here so that nobody takes this file for a leak, and texts
//! that are none.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{payload, text};

/// Characters of a key: `len` of the alphabet, in an order that looks random.
fn random(alphabet: &str, len: usize) -> String {
    let letters = alphabet.as_bytes();
    let mut state = 7_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        char::from(letters[(state >> 16) as usize % letters.len()])
    };
    (0..len).map(next).collect()
}

const HEX: &str = "0123456789abcdef";
const LOWER: &str = "abcdefghijklmnopqrstuvwxyz0123456789";
const UPPER: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const MIXED: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

/// A key of each vendor, and the rule that finds it.
fn keys() -> Vec<(&'static str, String)> {
    let key = |parts: &[&str]| parts.concat();
    let mixed = |len| random(MIXED, len);
    vec![
        ("aws-access-token", key(&["AK", "IA", &random(UPPER, 16)])),
        ("github-pat", key(&["gh", "p_", &mixed(36)])),
        (
            "github-fine-grained-pat",
            key(&["github", "_pat_", &mixed(82)]),
        ),
        ("gitlab-pat", key(&["gl", "pat-", &mixed(20)])),
        (
            "openai-api-key",
            key(&["sk-", &mixed(20), "T3BlbkFJ", &mixed(20)]),
        ),
        (
            "anthropic-api-key",
            key(&["sk-ant-", "api03-", &mixed(93), "AA"]),
        ),
        (
            "huggingface-access-token",
            key(&["hf", "_", &random("abcdefghijklmnopqrstuvwxyz", 34)]),
        ),
        (
            "slack-bot-token",
            key(&["xo", "xb-", "1234567890123-1234567890123-", &mixed(24)]),
        ),
        ("stripe-access-token", key(&["sk", "_live_", &mixed(24)])),
        ("npm-access-token", key(&["np", "m_", &random(LOWER, 36)])),
        (
            "pypi-upload-token",
            key(&["pypi-", "AgEIcHlwaS5vcmc", &mixed(60)]),
        ),
        ("sendgrid-api-token", key(&["SG", ".", &random(LOWER, 66)])),
        ("digitalocean-pat", key(&["do", "p_v1_", &random(HEX, 64)])),
        ("gcp-api-key", key(&["AI", "za", &mixed(35)])),
        (
            "doppler-api-token",
            key(&["dp", ".pt.", &random(LOWER, 43)]),
        ),
        (
            "shopify-access-token",
            key(&["shp", "at_", &random(HEX, 32)]),
        ),
    ]
}

#[test]
fn keys_of_many_vendors_are_masked_wherever_they_are() {
    for (rule, key) in keys() {
        let masked = format!("[redacted {rule}]");
        for (before, after) in [
            ("", ""),
            ("export KEY='", "'\n"),
            ("Use ", " for that."),
            ("é\u{1f600} ", " é"),
        ] {
            let said = format!("{before}{key}{after}");
            assert_eq!(text(&said), format!("{before}{masked}{after}"), "{rule}");
            let written = json!({"a": [said], "n": 1.0}).to_string();
            let read: Value = serde_json::from_str(&payload(&written)).unwrap();
            assert_eq!(read["a"][0], format!("{before}{masked}{after}"), "{rule}");
        }
    }
}

#[test]
fn only_the_key_changes() {
    let (_, key) = keys().remove(1);
    let escaped = key.replacen('p', "\\u0070", 1);
    let written =
        format!(r#"{{ "n":1e400, "t":"\u00e9\/\n\ud83d\ude00 {escaped}\tend", "t":"\ud800" }}"#);
    let expected =
        r#"{ "n":1e400, "t":"\u00e9\/\n\ud83d\ude00 [redacted github-pat]\tend", "t":"\ud800" }"#;
    assert_eq!(payload(&written), expected);
}

#[test]
fn a_private_key_is_masked_as_a_whole() {
    let body = format!("{}\n{}", random(MIXED, 64), random(MIXED, 64));
    let kind = "PRIVATE KEY";
    let said = format!("a\n-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\nb");
    let written = json!({ "text": said }).to_string();
    let masked = payload(&written);
    assert!(
        masked.starts_with(r#"{"text":"a\n[redacted private-key]"#),
        "{masked}"
    );
    assert!(!masked.contains(&body[..20]));
}

#[test]
fn the_name_of_a_member_may_say_that_it_is_a_secret() {
    let secret = random(MIXED, 32);
    let written =
        json!({"env": {"SERVICE_TOKEN": secret, "NAME": secret}, "list": ["token", secret]});
    let masked: Value = serde_json::from_str(&payload(&written.to_string())).unwrap();
    assert_eq!(masked["env"]["SERVICE_TOKEN"], "[redacted generic-api-key]");
    assert_eq!(masked["env"]["NAME"], secret);
    assert_eq!(masked["list"], json!(["token", secret]));
}

#[test]
fn what_is_no_secret_stays() {
    let hash = random(HEX, 40);
    let texts = [
        format!("commit {hash}\nAuthor: A <a@example.org>"),
        format!("index {}..{} 100644", &hash[..7], &hash[7..14]),
        "session 5f0c8a52-1111-4222-8333-444455556666 is open".to_owned(),
        "let token = lexer.next_token();".to_owned(),
        "api_key = os.environ[\"API_KEY\"]".to_owned(),
        "password: ${DB_PASSWORD}".to_owned(),
        "sha256:".to_owned() + &random(HEX, 64),
        "https://example.org/api/v2/keys?page=2#access".to_owned(),
        "[redacted github-pat]".to_owned(),
        "The access token is in the key ring.".to_owned(),
    ];
    for said in texts {
        assert_eq!(text(&said), said);
        let written = json!({ "text": said }).to_string();
        assert_eq!(payload(&written), written);
    }
    let image = json!({"type": "image", "mimeType": "image/png", "data": random(&format!("{MIXED}+/"), 400_000)});
    assert_eq!(payload(&image.to_string()), image.to_string());
}

proptest! {
    /// What is masked once is not masked again, so that the same text always gives the same.
    #[test]
    fn masked_text_stays_as_it_is(parts in prop::collection::vec("[ -~\n]{0,30}|é", 0..4), which in 0_usize..16) {
        let keys = keys();
        let said = parts.join(&keys[which].1);
        let once = payload(&json!({ "password": said }).to_string()).into_owned();
        prop_assert_eq!(payload(&once), once.as_str());
        prop_assert!(serde_json::from_str::<Value>(&once).is_ok());
    }
}
