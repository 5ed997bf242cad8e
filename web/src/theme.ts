/** The button for light and dark: as the system has it, or as the reader has chosen. */

import { button, icon } from "./dom";
import { ICONS } from "./icons";

const THEMES = ["auto", "light", "dark"] as const;
type Theme = (typeof THEMES)[number];
const KEY = "rejoin-theme";

export function themeButton(): HTMLButtonElement {
  const element = button("", "button");
  let theme = stored();
  const apply = () => {
    if (theme === "auto") delete document.documentElement.dataset["theme"];
    else document.documentElement.dataset["theme"] = theme;
    const label = `Colours: ${theme === "auto" ? "as the system" : theme}`;
    element.title = label;
    element.setAttribute("aria-label", label);
    element.replaceChildren(icon(ICONS[theme]));
  };
  element.addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    try {
      localStorage.setItem(KEY, theme);
    } catch {
      // A page from a file may have no storage.
    }
    apply();
  });
  apply();
  return element;
}

function stored(): Theme {
  try {
    return THEMES.find((theme) => theme === localStorage.getItem(KEY)) ?? "auto";
  } catch {
    return "auto";
  }
}
