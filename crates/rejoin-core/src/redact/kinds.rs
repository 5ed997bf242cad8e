//! Rules beside those of gitleaks: what agents, their tools and their providers write into
//! conversations.
//!
//! gitleaks looks at source files. A conversation also has the tokens with which agents sign in, headers
//! of requests, cookies, addresses with passwords, and output of programs that show their settings. The
//! forms of keys are those that the providers' documents show, or, where these show none, those of keys
//! that the providers' own programs write.

use super::rules::Rule;

/// Keys that begin with letters of their own: the rule, these letters, and the pattern.
const PREFIXED: [(&str, &[&str], &str); 42] = [
    // Sign-in of Claude Code (oat, ort), sessions of claude.ai (sid), and keys of any length.
    (
        "anthropic-token",
        &["sk-ant-"],
        r"sk-ant-[a-z]{2,8}\d{0,2}-[\w-]{16,}",
    ),
    // OpenAI, OpenRouter (sk-or-v1-), DeepSeek, Moonshot, DashScope, LiteLLM, Langfuse and others.
    (
        "sk-key",
        &["sk-"],
        r"sk-(?:[a-z0-9]{1,12}-){0,3}(?:[A-Za-z0-9]{20,}[\w-]*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})",
    ),
    ("groq-api-key", &["gsk_"], r"gsk_[A-Za-z0-9]{20,}"),
    ("xai-api-key", &["xai-"], r"xai-[A-Za-z0-9]{20,}"),
    ("cerebras-api-key", &["csk-"], r"csk-[A-Za-z0-9]{24,}"),
    ("nvidia-api-key", &["nvapi-"], r"nvapi-[\w-]{40,}"),
    ("replicate-api-token", &["r8_"], r"r8_[A-Za-z0-9]{30,}"),
    ("fireworks-api-key", &["fw_"], r"fw_[A-Za-z0-9]{20,}"),
    ("huggingface-token", &["hf_"], r"hf_[A-Za-z0-9]{30,}"),
    ("elevenlabs-api-key", &["sk_"], r"sk_[0-9a-f]{40,}"),
    ("jina-api-key", &["jina_"], r"jina_[\w-]{40,}"),
    ("pinecone-api-key", &["pcsk_"], r"pcsk_[A-Za-z0-9_]{40,}"),
    ("tavily-api-key", &["tvly-"], r"tvly-[A-Za-z0-9-]{20,}"),
    ("firecrawl-api-key", &["fc-"], r"fc-[0-9a-f]{32}"),
    ("context7-api-key", &["ctx7sk-"], r"ctx7sk-[0-9a-f-]{30,}"),
    (
        "langsmith-api-key",
        &["lsv2_"],
        r"lsv2_(?:pt|sk)_[0-9a-f]{20,}_[0-9a-f]{6,}",
    ),
    ("e2b-api-key", &["e2b_"], r"e2b_[0-9a-f]{30,}"),
    ("cursor-api-key", &["key_"], r"key_[0-9a-f]{60,}"),
    ("amp-token", &["sgamp_"], r"sgamp_[a-z]+_[A-Za-z0-9_]{30,}"),
    // Sign-in of Codex.
    (
        "openai-refresh-token",
        &["rt_"],
        r"rt_[\w-]{20,}(?:\.[\w-]{20,})*",
    ),
    ("google-access-token", &["ya29."], r"ya29\.[\w-]{20,}"),
    ("google-refresh-token", &["1//0"], r"1//0[\w-]{30,}"),
    ("google-client-secret", &["gocspx-"], r"GOCSPX-[\w-]{20,}"),
    ("google-api-key", &["aq."], r"AQ\.[\w-]{30,}"),
    (
        "github-token",
        &["gho_", "ghp_", "ghs_", "ghu_", "ghr_"],
        r"gh[opsur]_[A-Za-z0-9_]{30,}",
    ),
    ("docker-token", &["dckr_"], r"dckr_[po]at_[\w-]{20,}"),
    ("bitbucket-token", &["atbb"], r"ATBB[A-Za-z0-9]{28,}"),
    ("crates-io-token", &["cio"], r"cio[A-Za-z0-9]{32}"),
    (
        "vercel-token",
        &["vca_", "vcc_", "vci_", "vcp_", "vcr_", "vck_"],
        r"vc[aciprk]_[A-Za-z0-9]{24,}",
    ),
    ("netlify-token", &["nfp_"], r"nfp_[A-Za-z0-9]{30,}"),
    ("render-api-key", &["rnd_"], r"rnd_[A-Za-z0-9]{20,}"),
    (
        "supabase-key",
        &["sbp_", "sb_secret"],
        r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,})",
    ),
    ("neon-api-key", &["napi_"], r"napi_[a-z0-9]{40,}"),
    ("figma-token", &["figd_"], r"figd_[\w-]{30,}"),
    (
        "tailscale-key",
        &["tskey-"],
        r"tskey-[a-z]+-[A-Za-z0-9]{6,}-[A-Za-z0-9]{20,}",
    ),
    (
        "webhook-secret",
        &["whsec_"],
        r"whsec_[A-Za-z0-9+/]{24,}={0,2}",
    ),
    ("telegram-token", &[":aa"], r"\d{8,10}:AA[\w-]{30,}"),
    (
        "discord-webhook",
        &["discord"],
        r"discord(?:app)?\.com/api/(?:v\d+/)?webhooks/\d{15,}/[\w-]{40,}",
    ),
    (
        "chat-webhook",
        &["/hook", "webhook"],
        r"(?:open\.(?:feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook|qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=|hooks\.zapier\.com/hooks/catch)[/\w-]{16,}",
    ),
    (
        "discord-token",
        &["bot", "token", "discord"],
        r"[MNO][A-Za-z0-9_-]{23,27}\.[\w-]{6}\.[\w-]{27,}",
    ),
    (
        "azure-key",
        &["key="],
        r"(?:Account|SharedAccess)Key=[A-Za-z0-9+/]{30,}={0,2}",
    ),
    (
        "signed-url",
        &["signature="],
        r"X-(?:Amz|Goog)-Signature=[0-9a-f]{40,}",
    ),
];

/// Texts that examples and templates have in the place of a key.
const EXAMPLES: &str = r"(?i)x{6}|\*{3}|\.{3}|0{8}|(?:your|my|test|fake)[-_]?(?:api|key|token|secret)|example|placeholder|dummy|sample|redacted|1234567890|abcdef012345|deadbeef";

/// Without a digit: names of variables, words, and whole sentences.
const NO_DIGIT: &str = "^[^0-9]+$";

/// Texts that may follow the name of a secret instead of one: references to variables and to
/// members, templates, paths, words that only say that it belongs there.
const REFERENCES: [&str; 17] = [
    r"^[$%@]\w+[%@]?$",
    r"^\$(?i:env:)\w+$",
    r"\$\{|\$\(|\{\{|<[\w -]+>",
    r"^[\[{<(]",
    r"&[lg]t;",
    r"^(?:[*.xX?_#~-]|•)+$",
    r"\.{3}|…|\*{3}|\[redacted",
    r"^(?:~|\.{0,2})/",
    r"^\w+://",
    r"^[A-Za-z_]\w{0,24}(?:(?:\.|::|->|\?\.)[A-Za-z_]\w{0,24})+$",
    r"(?i)^(?:your|insert|enter|replace|add|paste|change|set|put)[-_ ]",
    r"(?i)^[a-z_-]*(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[-_]?key|credentials?)[a-z_-]*\d{0,3}$",
    r"(?i)^(?:an?|the|bearer|basic|digest|negotiate|apikey|string|str|text|value|here|changeme|change-me|example|sample|placeholder|dummy|fake|hidden|masked|none|null|nil|undefined|true|false|yes|no|on|off|empty|required|optional|todo|tbd|test|foo|bar|baz|abc123)$",
    r"(?i)^(?:u?int|utf-?|sha-?|md|v|base|0x)[0-9a-f]+$",
    r"(?i)^(?:bcrypt|argon2\w*|pbkdf2\w*|scrypt)\b",
    r"^_?[a-z]+(?:_[a-z]+)+(?:_?\d{1,3})?$",
    r"^\d+(?:\.\d+)*$",
];

/// White space, as it is or escaped in a string within a text.
const SPACE: &str = r"(?:(?:\s|\\+[nrt])+)";
/// A quotation mark, as it is or escaped in a string within a text.
const QUOTE: &str = r#"(?:\\*["'`])?"#;
/// The separator between a name and its value in settings, code, JSON, YAML and Markdown.
const IS: &str = r"\**\s{0,3}(?::=|=>|[:=])\**\s{0,3}";
/// The separator between the name of a header and its value; both may be arguments of a call.
const HEADER: &str =
    r#"(?:(?:\\*["'`])?\**\s{0,3}(?:[:=]|=>)\**\s{0,3}|\\*["'`],\s{0,3})(?:\\*["'`])?"#;
/// The name of a cookie, and the characters of its value.
const PAIR: &str = r#"[\w.-]{1,100}=[^\s;,"'`\\]"#;
/// A character of a value without quotation marks, and one with which it may begin.
const CHAR: &str = r#"[^\s"'`<>(){}\[\]\\,;|&]"#;
const FIRST: &str = r#"[^\s"'`<>(){}\[\]\\,;|&:=]"#;
/// The characters that may follow a value; a call or an index does not.
const END: &str = r#"(?:["'`\s,;|&<>)}\]\\]|$)"#;

/// Secrets by what is around them: the rule, words of which each match has one, and the pattern, in
/// which `<QUOTE>` and the like are the parts above.
const NAMED: [(&str, &[&str], &str); 21] = [
    (
        "authorization-header",
        &["authorization"],
        r"(?i)authorization<HEADER>(?:bearer|token|api-?key|key|digest|dpop|hawk|aws4-hmac-sha256|basic)\s+([\w.~+/=:|%-]{6,})",
    ),
    (
        "authorization-header",
        &["authorization"],
        r"(?i)authorization<HEADER>([\w.~+/=|%-]{16,})<END>",
    ),
    (
        "bearer-token",
        &["bearer"],
        r"(?i)\bbearer\s+([\w.~+/=-]{16,})",
    ),
    (
        "cookie",
        &["cookie"],
        r"(?i)\b(?:set-)?cookie<HEADER>((?:<PAIR>*;\s?)*<PAIR>{8,}(?:;\s?<PAIR>*)*)",
    ),
    // A file of cookies, as curl and wget have it.
    (
        "cookie",
        &["true\t", "false\t", r"true\t", r"false\t"],
        r"(?:TRUE|FALSE)(?:\t|\\t)/[^\t\n\\]*(?:\t|\\t)(?:TRUE|FALSE)(?:\t|\\t)\d+(?:\t|\\t)[^\t\n\\]+(?:\t|\\t)(<CHAR>{8,})",
    ),
    (
        "url-password",
        &["://"],
        r#"://[^\s/?#:@"'`<>]*:([^\s/"'`<>@]{3,})@"#,
    ),
    ("url-token", &["://"], r"://([\w-]{20,})@"),
    (
        "query-secret",
        &[
            "token=",
            "key=",
            "secret=",
            "password=",
            "passwd=",
            "pwd=",
            "sig=",
            "signature=",
        ],
        r"(?i)[?&](?:[\w-]*token|api_?key|client_?secret|secret|password|passwd|pwd|sig|signature)=([^\s&\x22'`#<>(){}\\]{8,})",
    ),
    (
        "netrc-password",
        &["machine"],
        r"(?i)\bmachine<SPACE>[\w.-]+<SPACE>(?:login<SPACE><CHAR>+<SPACE>)?(?:account<SPACE><CHAR>+<SPACE>)?password<SPACE><QUOTE>(<FIRST><CHAR>{2,})",
    ),
    (
        "pgpass-password",
        &[":5432:", ":6432:", ":*:"],
        r#"(?m)(?:^|\\n|[\s"'])[\w.*-]+:(?:5432|6432|\*):[^:\s]+:[^:\s]+:([^\s:\\"']{4,})(?:[\s\\"']|$)"#,
    ),
    (
        "env-password",
        &["password", "passwd", "passphrase", "_pass", "_pwd", "_pw"],
        r"(?:PASSWORD|PASSWD|PASSPHRASE|_PASS|_PWD|_PW)=<QUOTE>(<FIRST><CHAR>{3,}(?:[,;|&]+<CHAR>+)*)<END>",
    ),
    (
        "password",
        &["password", "passwd", "passphrase"],
        r"(?i)(?:password|passwd|passphrase)<QUOTE><IS><QUOTE>(<FIRST><CHAR>{5,})<END>",
    ),
    (
        "password",
        &["pass", "pwd"],
        r#"(?i)["'](?:pass|pwd|pw)<QUOTE><IS>\\*["'](<FIRST><CHAR>{5,})\\*["']"#,
    ),
    (
        "env-secret",
        &["token", "secret", "key", "credential"],
        r"(?:TOKEN|SECRET|API_?KEY|(?:ACCESS|SECRET|PRIVATE|AUTH|MASTER|ENCRYPTION|SIGNING|ACCOUNT|ROLE)_KEY|CREDENTIALS?)<QUOTE>\s?[:=]\s?<QUOTE>(<FIRST><CHAR>{7,})<END>",
    ),
    (
        "oauth-token",
        &["token"],
        r"(?i)(?:access|refresh|id|auth|session|oauth|api|device)[_-]?token<QUOTE><IS><QUOTE>([\w.~+/=|-]{20,})<END>",
    ),
    (
        "aws-secret-key",
        &["secret_access_key", "secretaccesskey"],
        r"(?i)secret_?access_?key<QUOTE><IS><QUOTE>([A-Za-z0-9/+]{40})<END>",
    ),
    (
        "header",
        &["-key", "-token", "-secret", "apikey"],
        r"(?i)\b(?:x-[\w-]*(?:key|token|secret)|api-?key|private-token|job-token|subscription-key)<HEADER>([\w.~+/=-]{8,})<END>",
    ),
    (
        "option",
        &[
            "--pass", "--token", "--api", "--secret", "--access", "--auth", "--client",
        ],
        r"(?i)\s--(?:password|passwd|passphrase|token|api-?key|secret|access-?token|auth-?token|client-?secret|secret-?key|access-?key)(?:=|\s+)<QUOTE>(<FIRST><CHAR>{3,})<END>",
    ),
    (
        "option",
        &["sshpass", "redis-cli", "pass:", "storepass", "keypass"],
        r"(?:\bsshpass\s+-p\s*|\bredis-cli\b[^\n|;]*?\s-a\s+|-(?:pass|passin|passout)\s+pass:|-(?:storepass|keypass)\s+)<QUOTE>(<FIRST><CHAR>{2,})<END>",
    ),
    (
        "npm-token",
        &["_auth", "_password"],
        r"(?:_authToken|_auth|_password)=<QUOTE>(<FIRST><CHAR>{5,})",
    ),
    (
        "named-secret",
        &["value"],
        r"(?i)\bname<QUOTE><IS><QUOTE>[\w.-]*(?:token|secret|password|passwd|api_?key|access_?key|private_?key)<QUOTE>,?<SPACE>?<QUOTE>value<QUOTE><IS><QUOTE>(<FIRST><CHAR>{5,})<END>",
    ),
];

/// Between two parts of a key: white space, as it is or escaped, and what programs put in front of lines
/// that they show or compare.
const BREAK: &str = r#"(?:\s|\\+[nrt]|["'+,>|]|\d{1,5}(?:\t|→|:))"#;

/// A line of a key.
const LINE: &str = "[A-Za-z0-9+/=]{16,}";

/// A private key without its end, which was cut off, and one without its beginning.
const PRIVATE_KEYS: [(&str, &[&str], &str); 4] = [
    (
        "private-key",
        &["-----begin"],
        r"((?i-u:-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----)(?:<BREAK>*(?:Proc-Type|DEK-Info|Comment|Version|Hash): ?[^\n\\]{0,200})*(?:<BREAK>+<LINE>)+(?:<BREAK>+[A-Za-z0-9+/]{4,15}={0,2})?)(?:[^A-Za-z0-9+/=]|$)",
    ),
    (
        "private-key",
        &["-----end"],
        r"(?:<LINE><BREAK>+)+(?:[A-Za-z0-9+/=]{1,15}<BREAK>+)?(?i-u:-----END[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----)",
    ),
    (
        "private-key",
        &["private-lines"],
        r"Private-Lines: \d+(?:<BREAK>+<LINE>)+",
    ),
    // As settings of Kubernetes have it: the beginning of a key, in base64 again.
    (
        "private-key",
        &["ls0tls1crudjti"],
        r"LS0tLS1CRUdJTi[A-Za-z0-9+/]{0,40}(?:UFJJVkFURSBLRV|BSSVZBVEUgS0VZ|QUklWQVRFIEtFW)[A-Za-z0-9+/=]{16,}",
    ),
];

/// The parts of patterns, by their names there.
const PARTS: [(&str, &str); 10] = [
    ("<SPACE>", SPACE),
    ("<HEADER>", HEADER),
    ("<PAIR>", PAIR),
    ("<QUOTE>", QUOTE),
    ("<IS>", IS),
    ("<CHAR>", CHAR),
    ("<FIRST>", FIRST),
    ("<END>", END),
    ("<BREAK>", BREAK),
    ("<LINE>", LINE),
];

/// A login in the form in which it is sent: the user and the password, in base64.
const LOGINS: [(&str, &[&str], &str); 2] = [
    (
        "basic-login",
        &["basic"],
        r"(?i)\bbasic\s+([A-Za-z0-9+/]{6,}={0,2})",
    ),
    (
        "basic-login",
        &["auth"],
        r"(?i)\bauth<QUOTE><IS><QUOTE>([A-Za-z0-9+/]{8,}={0,2})<END>",
    ),
];

/// Rules that find passwords which somebody has chosen, and which may be words.
const CHOSEN: [&str; 3] = ["env-password", "url-password", "netrc-password"];

/// The rules.
pub(super) fn rules() -> Vec<Rule> {
    let prefixed = PREFIXED.into_iter().map(|(id, keywords, pattern)| {
        Rule::new(id, keywords, &format!(r"\b({pattern})"))
            .with_entropy(3.0)
            .allowing(&[EXAMPLES, NO_DIGIT])
    });
    let named = NAMED.into_iter().map(|(id, keywords, pattern)| {
        let rule = Rule::new(id, keywords, &whole(pattern)).allowing(&REFERENCES);
        if CHOSEN.contains(&id) {
            rule
        } else {
            rule.allowing(&[NO_DIGIT])
        }
    });
    let logins = LOGINS
        .into_iter()
        .map(|(id, keywords, pattern)| Rule::new(id, keywords, &whole(pattern)).of_logins());
    let keys = PRIVATE_KEYS
        .into_iter()
        .map(|(id, keywords, pattern)| Rule::new(id, keywords, &whole(pattern)));
    prefixed.chain(named).chain(logins).chain(keys).collect()
}

/// A pattern with its parts.
fn whole(pattern: &str) -> String {
    let parts = PARTS.into_iter();
    parts.fold(pattern.to_owned(), |pattern, (name, part)| {
        pattern.replace(name, part)
    })
}
