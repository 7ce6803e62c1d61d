// Returns what is wrong with a page as it is shown: texts that are too faint, parts that are too wide, controls without
// a name, ids that are there twice. Sources: WCAG 2.2, success criteria 1.4.3, 1.4.10 and 4.1.2.
const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
const known = new Map();
const rgba = (colour) => {
  if (known.has(colour)) return known.get(colour);
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = colour;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  known.set(colour, [r, g, b, a / 255]);
  return known.get(colour);
};
const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
const grounds = new Map([[null, [255, 255, 255, 1]]]);
const behind = (element) => {
  if (!grounds.has(element)) {
    grounds.set(element, over(rgba(getComputedStyle(element).backgroundColor), behind(element.parentElement)));
  }
  return grounds.get(element);
};
const luminance = (colour) => {
  const [r, g, b] = colour.slice(0, 3).map((part) => {
    const share = part / 255;
    return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const all = (selector) => [...document.querySelectorAll(selector)].filter((e) => e.checkVisibility());
const shown = (what, e) => `${what}: ${e.outerHTML.slice(0, 120)}`;

const hasText = (e) => [...e.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
const contrast = (e) => {
  const below = behind(e);
  const both = [luminance(over(rgba(getComputedStyle(e).color), below)), luminance(below)];
  return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
};
const faint = all("body *")
  .filter((e) => !e.closest(".hidden, .skip, :disabled") && hasText(e) && contrast(e) < 4.5)
  .map((e) => shown(`contrast ${contrast(e).toFixed(2)}`, e));

// What has a scroll bar of its own, or is cut off with dots, may be wider.
const width = document.documentElement.clientWidth;
const wide = all("body *")
  .filter((e) => !e.closest(".hidden, .skip, pre, .preview, .tabs, .top nav, .chips, .wide, .scrolled") && e.getBoundingClientRect().right > width + 1)
  .map((e) => shown("too wide", e));

const isNamed = (e) => e.getAttribute("aria-label") || e.textContent.trim()
  || [...(e.labels ?? [])].some((label) => label.textContent.trim());
const nameless = all("a, button, input:not([type=hidden]), textarea, summary")
  .concat(all("select").filter((e) => !e.labels.length && !e.getAttribute("aria-label")))
  .filter((e) => !isNamed(e) || e.tagName === "SELECT")
  .map((e) => shown("no name", e));

const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
const twice = ids.filter((id, place) => ids.indexOf(id) !== place).map((id) => `id twice: ${id}`);
return [...faint, ...wide, ...nameless, ...twice];
