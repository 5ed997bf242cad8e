/** Times and numbers as the reader's own language writes them. */

const minute = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(undefined, { dateStyle: "full" });
const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const short = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const number = new Intl.NumberFormat(undefined);

function date(at: string): Date | undefined {
  const time = new Date(at);
  return at && !Number.isNaN(time.getTime()) ? time : undefined;
}

export const timeOfDay = (at: string) => formatted(minute, at);
export const dayOf = (at: string) => formatted(day, at);
export const fullTime = (at: string) => formatted(full, at);
export const dateTime = (at: string) => formatted(short, at);
export const grouped = (n: number) => number.format(n);

function formatted(format: Intl.DateTimeFormat, at: string): string {
  const time = date(at);
  return time ? format.format(time) : "";
}

/** How long something took, in at most two units; empty if under a second. */
export function duration(from: string, to: string): string {
  const [start, end] = [date(from), date(to)];
  if (!start || !end) return "";
  const seconds = Math.round((end.getTime() - start.getTime()) / 1000);
  if (seconds < 1) return "";
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** An amount of money, if the currency is one; with more digits if it is small. */
export function money(amount: number, currency: string): string {
  const digits = Math.abs(amount) >= 1 || amount === 0 ? 2 : 4;
  try {
    const style = { style: "currency", currency, minimumFractionDigits: 2, maximumFractionDigits: digits } as const;
    return new Intl.NumberFormat(undefined, style).format(amount);
  } catch {
    return `${amount.toFixed(digits)} ${currency}`;
  }
}

export const plural = (n: number, thing: string) => `${grouped(n)} ${thing}${n === 1 ? "" : "s"}`;
