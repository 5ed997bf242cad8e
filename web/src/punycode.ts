/** Takes the place of a library that converts host names: browsers do that themselves. */

export const toASCII = (host: string) => host;
export const toUnicode = toASCII;
export default { toASCII, toUnicode };
