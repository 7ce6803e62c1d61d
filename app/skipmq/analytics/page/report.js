
"use strict";
// Filters the page by queue, and shows the tooltips of chart steps.
(() => {
  const MAXIMUM_QUEUES = 12;
  const { FLOOR, ROOM, LEFT, RIGHT, TICK_DISTANCE } = LAYOUT;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  const packed = JSON.parse(one("packed").textContent);
  const field = one("queue");

  // The filter. Its state is in the fragment: #queue=NAME&at=SECTION.
  const state = () => new URLSearchParams(location.hash.slice(1));
  const unpacked = async ([, text]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const matching = (text) => {
    const exact = packed.filter(([name]) => name === text);
    const part = text.toLowerCase();
    return exact.length ? exact : packed.filter(([name]) => name.toLowerCase().includes(part));
  };
  const summary = (found) => {
    if (!found.length) return "No matching queue.";
    if (found.length > MAXIMUM_QUEUES) return `The ${MAXIMUM_QUEUES} busiest of ${found.length} matching queues.`;
    return found.length > 1 ? `${found.length} queues.` : "";
  };
  // Rescale the charts of a grid to a common axis.
  const rescale = (grid) => {
    const plots = all("[data-low]", grid).map((plot) => ({ plot, low: Number(plot.dataset.low), high: Number(plot.dataset.high) }));
    if (!plots.length) return;
    const low = Math.min(...plots.map((each) => each.low));
    const high = Math.max(...plots.map((each) => each.high));
    const position = (at) => FLOOR - (ROOM * (at - low)) / (high - low);
    const longest = plots.reduce((best, each) => (each.high - each.low > best.high - best.low ? each : best));
    const axis = longest.plot.querySelector(".y").cloneNode(true);
    const within = (at) => at >= longest.low && at <= longest.high;
    for (const tick of plots.flatMap(({ plot }) => all(".y text", plot))) {
      const distances = all("text", axis).map((other) => Math.abs(position(other.dataset.at) - position(tick.dataset.at)));
      if (!within(Number(tick.dataset.at)) && Math.min(...distances) > TICK_DISTANCE) axis.append(tick.cloneNode(true));
    }
    for (const tick of all("text", axis)) tick.setAttribute("y", position(tick.dataset.at) + 4);
    const rules = all("text", axis).map((tick) => `M${LEFT} ${position(tick.dataset.at)}H${RIGHT}`);
    axis.querySelector("path").setAttribute("d", rules.join(""));
    for (const each of plots) {
      const factor = (each.high - each.low) / (high - low);
      const offset = position(each.low) - FLOOR * factor;
      each.plot.querySelector(".marks").setAttribute("transform", `translate(0 ${offset}) scale(1 ${factor})`);
      each.plot.querySelector(".y").replaceWith(axis.cloneNode(true));
    }
  };
  let latest = 0;
  const show = async (text) => {
    latest += 1;
    const number = latest;
    const found = text ? matching(text) : [];
    const parts = await Promise.all(found.slice(0, MAXIMUM_QUEUES).map(unpacked));
    // Another call has replaced this one.
    if (number !== latest) return;
    point(null);
    for (const target of all("[data-part]")) {
      target.innerHTML = parts.map((part) => part[target.dataset.part] ?? "").join("");
    }
    all(".grid.chosen").forEach(rescale);
    document.documentElement.classList.toggle("filtered", Boolean(text));
    one("found").textContent = text ? summary(found) : "";
  };
  const applyFragment = async () => {
    field.value = state().get("queue") ?? "";
    await show(field.value);
    one(state().get("at"))?.scrollIntoView();
  };

  // The tooltip of a step, whose <title> is its text without a script.
  const tip = one("tip");
  const texts = new WeakMap();
  let pointed = null;
  const text = (step) => {
    for (const title of all("title", step.ownerSVGElement)) {
      texts.set(title.parentNode, title.textContent);
      title.remove();
    }
    return texts.get(step);
  };
  const point = (step) => {
    if (step === pointed) return;
    pointed?.classList.remove("on");
    pointed = step;
    tip.hidden = !step;
    if (!step) return;
    step.classList.add("on");
    const [first, ...rest] = text(step).split("\n");
    const lines = [first, ...rest].map((line, index) => {
      const element = document.createElement(index ? "div" : "b");
      element.textContent = line;
      return element;
    });
    tip.replaceChildren(...lines);
    const box = step.getBoundingClientRect();
    const plot = step.ownerSVGElement.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    const above = plot.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${above < 4 ? plot.bottom + 6 : above}px`;
  };
  const pointAtPointer = (event) => {
    point(document.elementFromPoint(event.clientX, event.clientY)?.closest(".steps > *") ?? null);
  };
  const KEYS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  const pointByKey = (event) => {
    const plot = document.activeElement.closest(".plot");
    if (event.key === "Escape") point(null);
    if (!plot || !(event.key in KEYS)) return;
    event.preventDefault();
    const steps = all(".steps > *", plot);
    const at = steps.indexOf(pointed) + KEYS[event.key];
    point(steps[Math.max(0, Math.min(at, steps.length - 1))] ?? null);
  };

  document.addEventListener("pointermove", pointAtPointer);
  document.addEventListener("pointerdown", pointAtPointer);
  document.addEventListener("keydown", pointByKey);
  document.addEventListener("scroll", () => point(null), true);
  document.addEventListener("focusin", ({ target }) => {
    const plot = target.closest(".plot:focus-visible");
    point(plot ? all(".steps > *", plot).at(-1) ?? null : null);
  });
  if (!field || !("DecompressionStream" in window)) return;
  one("filter").hidden = false;
  one("filter").addEventListener("submit", (event) => event.preventDefault());
  field.addEventListener("input", () => {
    const next = new URLSearchParams(field.value ? { queue: field.value } : {});
    history.replaceState(null, "", `#${next}`);
    show(field.value);
  });
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (!link || !field.value) return;
    event.preventDefault();
    const next = new URLSearchParams({ queue: field.value, at: link.hash.slice(1) });
    if (location.hash === `#${next}`) applyFragment();
    else location.hash = next;
  });
  addEventListener("hashchange", applyFragment);
  applyFragment();
})();
