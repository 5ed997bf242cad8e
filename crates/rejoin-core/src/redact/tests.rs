//! Keys as vendors make them, put together here so that nobody takes this file for a leak, and texts
//! that are none.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Redactor, around_masks, payload, text};

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
    assert_eq!(masked["env"]["SERVICE_TOKEN"], "[redacted env-secret]");
    assert_eq!(masked["env"]["NAME"], secret);
    assert_eq!(masked["list"], json!(["token", secret]));
}

/// Secrets as agents, their tools and their providers write them: a name, the secret, and a text with
/// it.
fn kinds() -> Vec<(&'static str, String, String)> {
    let mixed = |len| random(MIXED, len);
    let hex = |len| random(HEX, len);
    let key = |parts: &[&str]| parts.concat();
    let url = |text: &str| random(&format!("{MIXED}-_"), text.len() + 40);
    let alone = |name, secret: String| (name, secret.clone(), format!("key: {secret}"));
    let within = |name, secret: String, around: &str| {
        let said = around.replace("{}", &secret);
        (name, secret, said)
    };
    let login = |user: &str| {
        use base64::Engine;
        let password = mixed(12);
        base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}"))
    };
    let password = || key(&[&mixed(11), "!", "7"]);
    let uuid = || {
        let [a, b] = [hex(8), hex(12)];
        key(&[&a, "-", &hex(4), "-4", &hex(3), "-a", &hex(3), "-", &b])
    };
    let bearer = key(&["Bea", "rer"]);
    let basic = key(&["Ba", "sic"]);
    let header = key(&["Autho", "rization"]);
    let pass = key(&["PASS", "WORD"]);
    let word = key(&["pass", "word"]);
    vec![
        // Sign-in and keys of agents and their providers.
        alone(
            "Claude sign-in",
            key(&["sk-ant", "-oat01-", &url("x"), "AA"]),
        ),
        alone(
            "Claude refresh",
            key(&["sk-ant", "-ort01-", &url("x"), "AA"]),
        ),
        alone("Claude session", key(&["sk-ant", "-sid02-", &url("x")])),
        alone(
            "short Anthropic key",
            key(&["sk-ant", "-api03-", &mixed(40)]),
        ),
        alone("OpenRouter", key(&["sk-or", "-v1-", &hex(64)])),
        alone("DeepSeek, DashScope", key(&["s", "k-", &hex(32)])),
        alone("Moonshot, StepFun", key(&["s", "k-", &mixed(48)])),
        alone("Kimi Code", key(&["s", "k-kimi-", &mixed(60)])),
        alone(
            "OpenAI project",
            key(&["sk-", "proj-", &mixed(64), "_", &mixed(40)]),
        ),
        alone("Langfuse", key(&["sk-", "lf-", &uuid()])),
        alone(
            "Codex refresh",
            key(&["rt", "_", &mixed(60), ".", &mixed(40)]),
        ),
        alone("Groq", key(&["gs", "k_", &mixed(52)])),
        alone("xAI", key(&["xa", "i-", &mixed(80)])),
        alone("Cerebras", key(&["cs", "k-", &mixed(48)])),
        alone("NVIDIA", key(&["nv", "api-", &mixed(64)])),
        alone("Replicate", key(&["r8", "_", &mixed(37)])),
        alone("Fireworks", key(&["f", "w_", &mixed(24)])),
        alone("Hugging Face", key(&["h", "f_", &mixed(34)])),
        alone("ElevenLabs", key(&["s", "k_", &hex(48)])),
        alone("Jina", key(&["ji", "na_", &mixed(60)])),
        alone("Pinecone", key(&["pc", "sk_", &mixed(64)])),
        alone("Tavily", key(&["tv", "ly-dev-", &mixed(32)])),
        alone("Firecrawl", key(&["f", "c-", &hex(32)])),
        alone("Context7", key(&["ctx", "7sk-", &uuid()])),
        alone("LangSmith", key(&["ls", "v2_pt_", &hex(32), "_", &hex(10)])),
        alone("E2B", key(&["e2", "b_", &hex(40)])),
        alone("Cursor", key(&["ke", "y_", &hex(64)])),
        alone("Amp", key(&["sg", "amp_user_", &mixed(40)])),
        alone("Google access", key(&["ya", "29.", &url("x")])),
        alone("Google refresh", key(&["1/", "/0", &url("x")])),
        alone("Google client", key(&["GOC", "SPX-", &mixed(28)])),
        alone("Gemini", key(&["A", "Q.", &mixed(50)])),
        // Services that their tools use.
        alone("GitHub, followed by text", key(&["gh", "o_", &mixed(36)])),
        alone("Docker", key(&["dck", "r_pat_", &mixed(27)])),
        alone("Bitbucket", key(&["AT", "BB", &mixed(32)])),
        alone("crates.io", key(&["ci", "o", &mixed(32)])),
        alone("Vercel", key(&["vc", "p_", &mixed(40)])),
        alone("Netlify", key(&["nf", "p_", &mixed(36)])),
        alone("Render", key(&["rn", "d_", &mixed(28)])),
        alone("Supabase", key(&["sb", "p_", &hex(40)])),
        alone("Neon", key(&["na", "pi_", &random(LOWER, 60)])),
        alone("Figma", key(&["fi", "gd_", &mixed(40)])),
        alone(
            "Tailscale",
            key(&["ts", "key-auth-", &mixed(12), "-", &mixed(32)]),
        ),
        alone("Stripe webhook", key(&["wh", "sec_", &mixed(32)])),
        alone(
            "Telegram",
            key(&[&random("123456789", 10), ":A", "A", &mixed(33)]),
        ),
        within(
            "Discord webhook",
            mixed(68),
            "https://discord.com/api/webhooks/136603653282736397/{}",
        ),
        within(
            "Feishu bot",
            uuid(),
            "https://open.feishu.cn/open-apis/bot/v2/hook/{}",
        ),
        within(
            "Discord bot",
            key(&["M", &mixed(25), ".", &mixed(6), ".", &mixed(38)]),
            "bot token {}",
        ),
        within(
            "Azure",
            key(&[&mixed(86), "=="]),
            "AccountName=x;AccountKey={};EndpointSuffix=y",
        ),
        within(
            "signed address",
            hex(64),
            "https://b.s3.amazonaws.com/o?X-Amz-Expires=60&X-Amz-Signature={}",
        ),
        // Headers, as lines, in calls and in JSON.
        within("bearer", mixed(32), &format!("{header}: {bearer} {{}}")),
        within(
            "short bearer",
            mixed(10),
            &format!("> {}: {bearer} {{}}\r\n", header.to_lowercase()),
        ),
        within(
            "bearer in JSON",
            mixed(32),
            &format!(r#"{{"{header}": "{bearer} {{}}"}}"#),
        ),
        within(
            "bearer in code",
            mixed(32),
            &format!(r#".header("{header}", "{bearer} {{}}")"#),
        ),
        within(
            "bearer without its header",
            mixed(40),
            &format!("use {bearer} {{}} for it"),
        ),
        within(
            "bearer in a variable",
            mixed(32),
            &format!("AUTH='{bearer} {{}}'"),
        ),
        within("basic", login("ada"), &format!("{header}: {basic} {{}}")),
        within(
            "basic in JSON",
            login("grace"),
            &format!(r#"\"{header}\":\"{basic} {{}}\""#),
        ),
        within(
            "proxy",
            login("ada"),
            &format!("Proxy-{header}: {basic} {{}}"),
        ),
        within("token scheme", hex(40), &format!("{header}: token {{}}")),
        within("no scheme", mixed(40), &format!("{header}: {{}}")),
        within("key header", mixed(24), "X-Api-Key: {}"),
        within(
            "key header in a call",
            mixed(24),
            r#"-H "Private-Token: {}""#,
        ),
        within("cookie", key(&["session=", &mixed(40)]), "Cookie: {}"),
        within("cookies", mixed(40), "cookie: theme=dark; sid={}; lang=en"),
        within(
            "new cookie",
            mixed(40),
            "Set-Cookie: sid={}; Path=/; HttpOnly",
        ),
        within(
            "cookie jar",
            mixed(32),
            "#HttpOnly_.example.org\tTRUE\t/\tTRUE\t1893456000\tsid\t{}",
        ),
        // Passwords.
        within(
            "PostgreSQL",
            mixed(16),
            "postgres://jam:{}@db.invalid:5432/plums",
        ),
        within("MongoDB", mixed(16), "mongodb+srv://jam:{}@c0.invalid/x"),
        within("Redis", mixed(20), "redis://:{}@cache.invalid:6379"),
        within("Git", mixed(16), "https://jam:{}@git.invalid/r.git"),
        within(
            "AMQP, a word",
            "correcthorse".to_owned(),
            "amqps://jam:{}@q.invalid",
        ),
        within("token as user", mixed(30), "https://{}@git.invalid/r.git"),
        within(
            "JDBC",
            password(),
            "jdbc:postgresql://h/db?user=a&password={}&ssl=true",
        ),
        within(
            "token in an address",
            mixed(24),
            "https://x.invalid/hook?access_token={}",
        ),
        within(
            "netrc",
            mixed(16),
            &format!("machine git.invalid login jam {word} {{}}"),
        ),
        within(
            "netrc in lines",
            mixed(16),
            &format!("machine git.invalid\n  login jam\n  {word} {{}}\n"),
        ),
        within("pgpass", mixed(16), "db.invalid:5432:*:jam:{}"),
        within("env", password(), &format!("DB_{pass}={{}}")),
        within(
            "quoted env",
            password(),
            &format!("export MYSQL_ROOT_{pass}='{{}}'"),
        ),
        within(
            "env, a word",
            "correcthorse".to_owned(),
            &format!("PG{pass}={{}} psql"),
        ),
        within("YAML", password(), &format!("  {word}: {{}}\n  user: jam")),
        within(
            "JSON",
            password(),
            &format!(r#"{{"user":"jam","{word}":"{{}}"}}"#),
        ),
        within(
            "escaped JSON",
            password(),
            &format!(r#"\"db_{word}\": \"{{}}\""#),
        ),
        within("Markdown", password(), "**Password:** `{}`"),
        within(
            "libpq",
            password(),
            &format!("host=db user=jam {word}={{}} dbname=x"),
        ),
        within(
            "variable",
            key(&[&mixed(20), "/+=", &mixed(8)]),
            "AWS_SECRET_ACCESS_KEY={}",
        ),
        within(
            "variable in a list",
            mixed(24),
            "env:\n  - name: API_TOKEN\n    value: {}",
        ),
        within(
            "token member",
            mixed(40),
            r#"{"refresh_token":"{}","expires_in":3600}"#,
        ),
        within("option", mixed(24), "tool login --token {} --verbose"),
        within("option with =", password(), &format!("tool --{word}={{}}")),
        within("sshpass", password(), "sshpass -p '{}' ssh jam@host"),
        within("redis-cli", password(), "redis-cli -h cache -a {} ping"),
        within("npmrc", mixed(36), "//registry.invalid/:_authToken={}"),
        within(
            "Docker settings",
            login("jam"),
            r#"{"auths":{"r.invalid":{"auth":"{}"}}}"#,
        ),
        within(
            "Kubernetes",
            key(&[
                "LS0tLS1CRUdJTi",
                "BSU0EgUFJJVkFURSBLRVktLS0tLQ",
                &random(&format!("{MIXED}+/"), 400),
            ]),
            "client-key-data: {}",
        ),
    ]
}

#[test]
fn what_agents_and_their_tools_write_is_masked() {
    let kinds = kinds();
    assert!(kinds.len() > 90, "{}", kinds.len());
    for (name, secret, said) in kinds {
        let parts = || {
            let part = |at| secret.get(at..at + 10);
            (0..secret.len() - 9).filter_map(part)
        };
        let inner = json!({ "output": said }).to_string();
        for (before, after) in [("", ""), ("$ cat\n", "\n$ ls\n"), ("é: ", " …")] {
            let said = format!("{before}{said}{after}");
            let masked = text(&said);
            let left: Vec<_> = parts().filter(|part| masked.contains(part)).collect();
            assert_eq!(left, Vec::<&str>::new(), "{name}: {masked}");
            assert!(masked.contains("[redacted "), "{name}");
            assert!(
                masked.starts_with(before) && masked.ends_with(after),
                "{name}: {masked}"
            );
            assert_eq!(text(&masked), masked, "{name}");
        }
        // As a string of a payload, and as JSON in one.
        for text in [&said, &inner] {
            let written = json!({ "content": [{ "type": "text", "text": text }] }).to_string();
            let masked = payload(&written).into_owned();
            let read: Value = serde_json::from_str(&masked).unwrap();
            let shown = read["content"][0]["text"].as_str().unwrap();
            let left: Vec<_> = parts().filter(|part| shown.contains(part)).collect();
            assert_eq!(left, Vec::<&str>::new(), "{name}: {shown}");
            assert_eq!(payload(&masked), masked, "{name}");
        }
    }
}

#[test]
fn keys_in_sentences_and_lists_are_masked() {
    let others = kinds().into_iter();
    let others = others.filter(|(_, secret, said)| *said == format!("key: {secret}"));
    let others = others.map(|(name, secret, _)| (name, secret));
    for (name, key) in keys().into_iter().chain(others) {
        for (before, after) in [
            ("(", ")"),
            ("[", "]"),
            ("{", "}"),
            ("`", "`"),
            ("<b>", "</b>"),
            ("KEY=", "&x"),
            ("“", "”"),
            ("It is ", ", I think"),
            ("It is ", "."),
            ("a|", "|b"),
            ("\\\"", "\\\"}"),
        ] {
            let masked = text(&format!("{before}{key}{after}")).into_owned();
            assert!(!masked.contains(&key[8..]), "{name}: {masked}");
        }
    }
}

#[test]
fn values_are_named_by_members_beside_them() {
    let secret = random(MIXED, 12);
    let written = json!({
        "env": [{ "name": "DB_PASSWORD", "value": secret }, { "name": "PLACE", "value": secret }],
        "headers": [{ "name": "X-Token", "value": secret }],
        "other": [{ "name": "API_KEY", "kind": "x", "value": secret }],
    });
    let masked: Value = serde_json::from_str(&payload(&written.to_string())).unwrap();
    assert_eq!(masked["env"][0]["value"], "[redacted env-password]");
    assert_eq!(masked["env"][1]["value"], secret);
    assert_eq!(masked["headers"][0]["value"], "[redacted header]");
    assert_eq!(masked["other"][0]["value"], secret);
}

#[test]
fn what_is_no_secret_stays() {
    let hex = |len| random(HEX, len);
    let mixed = |len| random(MIXED, len);
    let base64 = |len| random(&format!("{MIXED}+/"), len);
    let (hash, bearer, word) = (hex(40), ["Bea", "rer"].concat(), ["pass", "word"].concat());
    let header = ["Autho", "rization"].concat();
    let traps = [
        // Hashes and ids.
        format!("commit {hash}\nAuthor: A <a@example.org>"),
        format!("index {}..{} 100644", &hash[..7], &hash[7..14]),
        format!("sha256:{}", hex(64)),
        format!("{}  target/release/rejoin", hex(64)),
        format!(r#""integrity": "sha512-{}==""#, base64(86)),
        format!(r#""resolved": "https://registry.example.org/a/-/a-1.2.3.tgz#{}""#, hex(40)),
        format!("checksum = \"{}\"", hex(64)),
        format!("FROM alpine@sha256:{}", hex(64)),
        format!("uses: actions/checkout@{hash}"),
        format!("ETag: W/\"{}\"", hex(32)),
        format!("\"id\":\"toolu_01{}\"", mixed(22)),
        format!("call_{} chatcmpl-{} msg_01{}", mixed(24), mixed(29), mixed(22)),
        "session 5f0c8a52-1111-4222-8333-444455556666 is open".to_owned(),
        "sess_01a217fd-885b-728a-876b-6bff664c56bc".to_owned(),
        format!("req_{}", mixed(24)),
        format!("h1:{}=", base64(43)),
        // References to variables, members and files.
        "api_key = os.environ[\"API_KEY\"]".to_owned(),
        format!("{word}: ${{DB_PASSWORD}}"),
        format!("{header}: {bearer} $TOKEN"),
        format!("{header}: {bearer} ${{{{ secrets.GITHUB_TOKEN }}}}"),
        format!("\"{header}\": `{bearer} ${{accessToken}}`"),
        format!("\"{header}\": f\"{bearer} {{token}}\""),
        format!("-H '{header}: {bearer} <token>'"),
        "TOKEN=$(gh auth token)".to_owned(),
        "GITHUB_TOKEN: ${{ secrets.GITHUB_TOKEN }}".to_owned(),
        "DATABASE_URL=postgres://$USER:$PASS@db/x".to_owned(),
        "postgres://{user}:{password}@{host}/{db}".to_owned(),
        "https://${TOKEN}@github.com/o/r".to_owned(),
        "const token = process.env.API_TOKEN_V2;".to_owned(),
        "PASSWORD_FILE=/run/secrets/db_password_1".to_owned(),
        "DB_PASSWORD=/run/secrets/db1".to_owned(),
        "let token = lexer.next_token();".to_owned(),
        format!("{word} = config.db1.{word}"),
        format!("{word}: String, user2: String"),
        format!("{word} = hash_{word}(input2)"),
        format!("if {word} == stored{word}2 {{"),
        // Placeholders and words.
        format!("{word}: ********"),
        format!("{word}: your-{word}-1"),
        "API_KEY=your_api_key_1234".to_owned(),
        "OPENAI_API_KEY=sk-...".to_owned(),
        format!("s{}-{}", "k", "x".repeat(32)),
        "postgres://user:password@localhost/db".to_owned(),
        "https://user:***@example.org".to_owned(),
        "redis://:<password>@localhost".to_owned(),
        format!("{bearer} tokens are described in RFC6750."),
        "Basic authentication is described in RFC 7617.".to_owned(),
        "The access token is in the key ring.".to_owned(),
        "Cookie: a small piece of data".to_owned(),
        "Set-Cookie: sid=; Max-Age=0".to_owned(),
        format!("Forgot your {word}? Use 8 to 64 characters."),
        "tool --token TOKEN --api-key KEY".to_owned(),
        format!("--{word}-stdin"),
        "-----BEGIN PRIVATE KEY-----".to_owned(),
        "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n-----END PUBLIC KEY-----".to_owned(),
        "starts_with(\"-----BEGIN RSA PRIVATE KEY-----\")".to_owned(),
        // Numbers, settings, addresses, styles.
        "max_tokens=4096".to_owned(),
        "\"cacheReadInputTokens\": 391941".to_owned(),
        "tokenizer = \"cl100k_base\"".to_owned(),
        "KEY_F12=0x7b KEYCODE=113".to_owned(),
        "CACHE_KEY: linux-x86_64-stable".to_owned(),
        "https://example.org/api/v2/keys?page=2#access".to_owned(),
        "http://localhost:8080/@vite/client".to_owned(),
        "https://jam@git.invalid/r.git".to_owned(),
        "git@github.com:o/r.git".to_owned(),
        "class=\"sk-folding-cube sk-cube-12-with-a-long-name\"".to_owned(),
        "task-12345678901234567890 risk-0123456789abcdef".to_owned(),
        "src/main.rs:5432:12:error:unused".to_owned(),
        "[redacted github-pat]".to_owned(),
    ];
    assert!(traps.len() > 60);
    for said in traps {
        assert_eq!(text(&said), said);
        let written = json!({ "text": said }).to_string();
        assert_eq!(payload(&written), written);
    }
    let image = json!({"type": "image", "mimeType": "image/png", "data": base64(400_000)});
    assert_eq!(payload(&image.to_string()), image.to_string());
}

/// A private key with lines of this length.
fn private_key(kind: &str, width: usize) -> String {
    let body = random(&format!("{MIXED}+/"), 1200);
    let lines: Vec<_> = body
        .as_bytes()
        .chunks(width)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    let kind = [kind, "PRIVATE KEY"].concat();
    format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----",
        lines.join("\n")
    )
}

#[test]
fn a_part_of_a_private_key_is_masked() {
    for kind in ["", "RSA ", "OPENSSH ", "ENCRYPTED "] {
        let key = private_key(kind, 64);
        let left = |masked: &str| {
            let parts = (0..key.len() - 20).map(|at| &key[at..at + 20]);
            let parts = parts.filter(|part| !part.contains("KEY"));
            parts.filter(|part| masked.contains(part)).count()
        };
        let one_line = key.replace('\n', " ");
        let escaped = key.replace('\n', "\\n");
        let quoted = format!("> {}", key.replace('\n', "\n> "));
        let changed = format!("+{}", key.replace('\n', "\n+"));
        let numbered: Vec<_> = (1..)
            .zip(key.lines())
            .map(|(number, line)| format!("{number:>6}→{line}"))
            .collect();
        let numbered = numbered.join("\n");
        for shown in [&key, &one_line, &escaped, &quoted, &changed, &numbered] {
            for cut in [shown.len(), 1200, 500, 140, 100] {
                let beginning = &shown[..shown.floor_char_boundary(cut)];
                let said = format!("echo \"{beginning}…");
                let masked = text(&said);
                assert!(masked.contains("[redacted private-key]"), "{masked}");
                assert_eq!(left(&masked), 0, "{cut}: {masked}");
            }
            let end = &shown[shown.ceil_char_boundary(300)..];
            let masked = text(end);
            // The line that was cut is too short to be known for one.
            assert!(left(&masked) <= 45, "{masked}");
        }
        let said = format!("{}\nThe rest follows tomorrow.", &key[..700]);
        assert!(text(&said).ends_with("\nThe rest follows tomorrow."));
    }
}

#[test]
fn titles_that_end_within_a_key_are_masked() {
    let redactor = Redactor::default();
    let key = ["gh", "p_", &random(MIXED, 36)].concat();
    let command = format!("curl -H 'x: {key}' https://example.org");
    for len in 12..=command.len() {
        for end in ["", "…", "..."] {
            let call = json!({
                "sessionUpdate": "tool_call",
                "title": format!("{}{end}", &command[..len]),
                "rawInput": { "command": command },
            });
            let masked = payload(&call.to_string()).into_owned();
            let masked: Value = serde_json::from_str(&masked).unwrap();
            let title = masked["title"].as_str().unwrap();
            assert!(!title.contains(&key[..8]), "{title}");
            assert!(title.ends_with(end), "{title}");
        }
    }
    // The title of a session is in another record than the prompt.
    let prompt = json!({ "prompt": [{ "type": "text", "text": format!("Use {key} for it") }] });
    let title = json!({ "title": format!("Use {}…", &key[..20]), "other": &key[..20] });
    assert_eq!(redactor.payload(&title.to_string()), title.to_string());
    redactor.expect(&prompt.to_string());
    assert_eq!(redactor.masked(), 0);
    let masked: Value = serde_json::from_str(&redactor.payload(&title.to_string())).unwrap();
    assert_eq!(masked["title"], "Use [redacted github-pat]…");
    assert_eq!(masked["other"], &key[..20]);
    for _ in 0..3 {
        redactor.payload(&prompt.to_string());
    }
    assert_eq!(redactor.masked(), 1);
    redactor.next_conversation();
    assert_eq!(redactor.payload(&title.to_string()), title.to_string());
    assert_eq!(redactor.masked(), 1);
}

#[test]
fn masks_divide_a_text() {
    for (masked, parts) in [
        ("", vec![""]),
        ("a", vec!["a"]),
        ("a [redacted x-1] b", vec!["a ", " b"]),
        ("[redacted x][redacted y]", vec!["", "", ""]),
        (
            "[redacted by hand] [redacted x",
            vec!["[redacted by hand] [redacted x"],
        ),
    ] {
        assert_eq!(around_masks(masked), parts);
    }
}

proptest! {
    /// Masked text is not masked again, so that the same text always gives the same.
    #[test]
    fn masked_text_stays_as_it_is(parts in prop::collection::vec("[ -~\n]{0,30}|é", 0..4), which in 0_usize..110) {
        let others = kinds().into_iter().map(|(_, _, said)| said);
        let keys: Vec<_> = keys().into_iter().map(|(_, key)| key).chain(others).collect();
        let said = parts.join(&keys[which % keys.len()]);
        let once = payload(&json!({ "password": said }).to_string()).into_owned();
        prop_assert_eq!(payload(&once), once.as_str());
        prop_assert!(serde_json::from_str::<Value>(&once).is_ok());
    }
}
