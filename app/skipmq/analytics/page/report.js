
"use strict";
// What the page does by itself: it shows the queues that are asked for, and says the numbers of a step of a chart.
(() => {
  const MOST = 12;
  const { FLOOR, ROOM, LEFT, RIGHT, APART } = PLACES;
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  const packed = JSON.parse(one("packed").textContent);
  const field = one("queue");

  // The filter. The fragment is its state: #queue=NAME&at=SECTION.
  const state = () => new URLSearchParams(location.hash.slice(1));
  const unpacked = async ([, text]) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const matching = (wanted) => {
    const exact = packed.filter(([name]) => name === wanted);
    const part = wanted.toLowerCase();
    return exact.length ? exact : packed.filter(([name]) => name.toLowerCase().includes(part));
  };
  const said = (found) => {
    if (!found.length) return "No queue has this name.";
    if (found.length > MOST) return `The ${MOST} busiest of ${found.length} queues of that name.`;
    return found.length > 1 ? `${found.length} queues.` : "";
  };
  // Charts that stand side by side get one scale: what is drawn is moved, and the ticks are written again.
  const share = (grid) => {
    const plots = all("[data-low]", grid).map((plot) => ({ plot, low: Number(plot.dataset.low), high: Number(plot.dataset.high) }));
    if (!plots.length) return;
    const low = Math.min(...plots.map((each) => each.low));
    const high = Math.max(...plots.map((each) => each.high));
    const place = (at) => FLOOR - (ROOM * (at - low)) / (high - low);
    const longest = plots.reduce((best, each) => (each.high - each.low > best.high - best.low ? each : best));
    const axis = longest.plot.querySelector(".y").cloneNode(true);
    const within = (at) => at >= longest.low && at <= longest.high;
    for (const tick of plots.flatMap(({ plot }) => all(".y text", plot))) {
      const taken = all("text", axis).map((other) => Math.abs(place(other.dataset.at) - place(tick.dataset.at)));
      if (!within(Number(tick.dataset.at)) && Math.min(...taken) > APART) axis.append(tick.cloneNode(true));
    }
    for (const tick of all("text", axis)) tick.setAttribute("y", place(tick.dataset.at) + 4);
    const rules = all("text", axis).map((tick) => `M${LEFT} ${place(tick.dataset.at)}H${RIGHT}`);
    axis.querySelector("path").setAttribute("d", rules.join(""));
    for (const each of plots) {
      const times = (each.high - each.low) / (high - low);
      const moved = place(each.low) - FLOOR * times;
      each.plot.querySelector(".marks").setAttribute("transform", `translate(0 ${moved}) scale(1 ${times})`);
      each.plot.querySelector(".y").replaceWith(axis.cloneNode(true));
    }
  };
  let turn = 0;
  const show = async (wanted) => {
    turn += 1;
    const mine = turn;
    const found = wanted ? matching(wanted) : [];
    const parts = await Promise.all(found.slice(0, MOST).map(unpacked));
    if (mine !== turn) return;
    point(null);
    for (const place of all("[data-part]")) {
      place.innerHTML = parts.map((part) => part[place.dataset.part] ?? "").join("");
    }
    all(".grid.chosen").forEach(share);
    document.documentElement.classList.toggle("filtered", Boolean(wanted));
    one("found").textContent = wanted ? said(found) : "";
  };
  const follow = async () => {
    field.value = state().get("queue") ?? "";
    await show(field.value);
    one(state().get("at"))?.scrollIntoView();
  };

  // The numbers of a step, which are its title until somebody points at it.
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
    const lines = [first, ...rest].map((line, place) => {
      const element = document.createElement(place ? "div" : "b");
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
  const under = (event) => {
    point(document.elementFromPoint(event.clientX, event.clientY)?.closest(".steps > *") ?? null);
  };
  const KEYS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  const go = (event) => {
    const plot = document.activeElement.closest(".plot");
    if (event.key === "Escape") point(null);
    if (!plot || !(event.key in KEYS)) return;
    event.preventDefault();
    const steps = all(".steps > *", plot);
    const at = steps.indexOf(pointed) + KEYS[event.key];
    point(steps[Math.max(0, Math.min(at, steps.length - 1))] ?? null);
  };

  document.addEventListener("pointermove", under);
  document.addEventListener("pointerdown", under);
  document.addEventListener("keydown", go);
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
    if (location.hash === `#${next}`) follow();
    else location.hash = next;
  });
  addEventListener("hashchange", follow);
  follow();
})();
