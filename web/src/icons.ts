/** The lines of the icons, in a square of 16 by 16. */

const KINDS: Record<string, string> = {
  read: "M3 2.5h6l4 4v7H3zM9 2.5v4h4M5.5 9h5M5.5 11.2h5",
  edit: "M2.5 13.5l.8-3.2 7.6-7.6 2.4 2.4-7.6 7.6zM9.5 4.1l2.4 2.4",
  delete: "M3 4.5h10M6.5 4.5v-2h3v2M4.2 4.5l.7 9h6.2l.7-9M6.8 7v4M9.2 7v4",
  move: "M2.5 8h11M10 4.5L13.5 8 10 11.5",
  search: "M7 2.5a4.5 4.5 0 100 9 4.5 4.5 0 000-9zM10.3 10.3l3.2 3.2",
  execute: "M2 3h12v10H2zM4.5 6l2.2 2-2.2 2M8 10.2h3",
  think: "M8 2.2a4 4 0 00-2.2 7.3v1.7h4.4V9.5A4 4 0 008 2.2zM6.3 13.7h3.4",
  fetch: "M8 2a6 6 0 100 12A6 6 0 008 2zM2 8h12M8 2c2.2 2 2.2 10 0 12M8 2c-2.2 2-2.2 10 0 12",
  switch_mode: "M3 5.5h9M9.5 3L12 5.5 9.5 8M13 10.5H4M6.5 8L4 10.5 6.5 13",
};
const OTHER = "M9.8 2.3a3.7 3.7 0 00-3.6 5l-4 4 2.5 2.5 4-4a3.7 3.7 0 005-4.2L11.5 7.8 8.2 7.3l-.6-3.3z";

export const kindIcon = (kind: string) => KINDS[kind] ?? OTHER;
export const ICONS = {
  search: KINDS["search"] ?? "",
  up: "M3.5 10L8 5.5 12.5 10",
  down: "M3.5 6L8 10.5 12.5 6",
  light: "M8 5a3 3 0 100 6 3 3 0 000-6zM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1M11.9 11.9L13 13M13 3l-1.1 1.1M4.1 11.9L3 13",
  dark: "M13 9.5A5.5 5.5 0 016.5 3a5.5 5.5 0 106.5 6.5z",
  auto: "M8 2a6 6 0 100 12A6 6 0 008 2zM8 2v12M10 4.5v7M12 6v4",
  menu: "M2.5 4h11M2.5 8h11M2.5 12h7",
  close: "M4 4l8 8M12 4l-8 8",
  agents: "M8 2.5v3M4 8.5h8M4 8.5v3M12 8.5v3M8 5.5v3M2.5 11.5h3v2h-3zM10.5 11.5h3v2h-3z",
};
