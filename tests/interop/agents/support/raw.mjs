// Finds a value in JSON text and returns its own text, as it stands.

/**
 * The text of the member at `path` in an object's text; undefined if there is none. The text must
 * be valid JSON.
 */
export function member(text, ...path) {
  let [from, to] = [skipSpace(text, 0), text.length];
  for (const name of path) {
    if (text[from] !== "{") return undefined;
    let found;
    for (const [key, begin, end] of members(text, from)) {
      if (key === name) found = [begin, end];
    }
    if (!found) return undefined;
    [from, to] = found;
  }
  return text.slice(from, to);
}

/** The members of an object's text by name, each as it stands there. */
export function texts(text) {
  const found = [...members(text, skipSpace(text, 0))];
  return Object.fromEntries(found.map(([name, begin, end]) => [name, text.slice(begin, end)]));
}

/** The members of the object that begins at `at`: each one's name and where its value lies. */
function* members(text, at) {
  at = skipSpace(text, at + 1);
  while (text[at] !== "}") {
    const keyEnd = valueEnd(text, at);
    const key = JSON.parse(text.slice(at, keyEnd));
    const begin = skipSpace(text, skipSpace(text, keyEnd) + 1);
    const end = valueEnd(text, begin);
    yield [key, begin, end];
    at = skipSpace(text, end);
    if (text[at] === ",") at = skipSpace(text, at + 1);
  }
}

function skipSpace(text, at) {
  while (" \t\r\n".includes(text[at]) && at < text.length) at += 1;
  return at;
}

/** Where the value that begins at `at` ends. */
function valueEnd(text, at) {
  if (text[at] === '"') return stringEnd(text, at);
  let depth = 0;
  for (; at < text.length; at += 1) {
    const mark = text[at];
    if (mark === '"') at = stringEnd(text, at) - 1;
    else if (mark === "{" || mark === "[") depth += 1;
    else if (mark === "}" || mark === "]") {
      if (depth === 0) return at;
      depth -= 1;
      if (depth === 0) return at + 1;
    } else if (depth === 0 && (mark === "," || " \t\r\n".includes(mark))) return at;
  }
  return at;
}

function stringEnd(text, at) {
  for (at += 1; text[at] !== '"'; at += 1) {
    if (text[at] === "\\") at += 1;
  }
  return at + 1;
}
