"use strict";
// Draws the charts, filters the page by queue, and shows the tooltips of chart steps.
(async () => {
  const MAXIMUM_QUEUES = 12;
  const STEPS = ".steps_marks path";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const one = (id) => document.getElementById(id);
  const field = one("queue");

  // A phone has only the sections of the findings that are bad open, and those that are asked for.
  const NARROW = 640;
  const open = (id) => one(id)?.querySelector(".fold")?.setAttribute("open", "");
  if (innerWidth <= NARROW) {
    for (const fold of all(".fold")) fold.open = false;
    for (const link of all(".findings.all .bad a").slice(0, 1)) open(link.hash.slice(1));
  }
  document.addEventListener("click", ({ target }) => open(target.closest('a[href^="#"]')?.hash.slice(1)));

  // The tooltip of a step.
  const tip = one("tip");
  let pointed = null;
  const point = (step) => {
    if (step === pointed) return;
    pointed?.classList.remove("on");
    pointed = step;
    tip.hidden = !step;
    if (!step) return;
    step.classList.add("on");
    const lines = step.ariaLabel.split("\n").map((line, index) => {
      const element = document.createElement(index ? "div" : "b");
      element.textContent = line;
      return element;
    });
    tip.replaceChildren(...lines);
    place();
  };
  const place = () => {
    const box = pointed.getBoundingClientRect();
    const left = box.left + box.width / 2 - tip.offsetWidth / 2;
    const above = box.top - tip.offsetHeight - 6;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${above < 4 ? box.bottom + 6 : above}px`;
  };
  const pointAtPointer = (event) => {
    point(document.elementFromPoint(event.clientX, event.clientY)?.closest(STEPS) ?? null);
  };
  const KEYS = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1, Home: -Infinity, End: Infinity };
  const pointByKey = (event) => {
    const plot = document.activeElement.closest(".plot");
    if (event.key === "Escape") point(null);
    if (!plot || !(event.key in KEYS)) return;
    event.preventDefault();
    const steps = all(STEPS, plot);
    const at = steps.indexOf(pointed) + KEYS[event.key];
    point(steps[Math.max(0, Math.min(at, steps.length - 1))] ?? null);
  };
  document.addEventListener("pointermove", pointAtPointer);
  document.addEventListener("pointerdown", pointAtPointer);
  document.addEventListener("keydown", pointByKey);
  // The focus scrolls to its chart, and the page learns of that afterwards.
  document.addEventListener("scroll", () => {
    if (pointed?.closest(".plot:focus-visible")) place();
    else point(null);
  }, true);
  document.addEventListener("focusin", ({ target }) => {
    const plot = target.closest(".plot:focus-visible");
    point(plot ? all(STEPS, plot).at(-1) ?? null : null);
  });
  if (!field || !("DecompressionStream" in window)) return;

  // The content of the page is compressed: Vega, the charts, and the parts of each queue.
  const read = (id) => JSON.parse(one(id).textContent);
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  };
  const packed = new Map(read("packed"));
  const partsOf = (queues) => Promise.all(queues.map((queue) => unpacked(packed.get(queue))));
  const charts = await unpacked(read("charts"));
  const library = document.createElement("script");
  library.textContent = await unpacked(read("library"));
  document.head.append(library);
  for (const chart of Object.values(charts)) chart.flow = vega.parse(chart.specification, null, { ast: true });

  // Draws a chart's panels of some queues, on the range of their measures.
  const draw = (place, parts) => {
    const { flow, measures, single } = charts[place.dataset.chart];
    let panels = parts.flatMap((part) => part[place.dataset.chart] ?? []);
    const rows = panels.flatMap((panel) => panel.rows);
    const values = rows.flatMap((row) => measures.map((name) => row[name])).filter(Boolean);
    const low = Math.min(...values, Infinity) === Infinity ? 0.1 : Math.min(...values);
    const high = Math.max(...values, 1e-3);
    if (single) panels = panels.slice(0, 1).map(({ note }) => ({ queue: "all queues", note, rows }));
    const figures = panels.map(({ queue, note }) => {
      const figure = one("panel").content.firstChild.cloneNode(true);
      const [name, about, plot] = all("b, span, .plot", figure);
      name.textContent = queue;
      about.textContent = note;
      plot.ariaLabel = `${queue}, ${note}: use the arrow keys to step through the values`;
      return figure;
    });
    place.replaceChildren(...figures);
    return Promise.all(all(".plot", place).map(async (plot, index) => {
      const view = new vega.View(flow, { expr: vega.expressionInterpreter, renderer: "none" });
      view.width(plot.clientWidth).signal("low", low).signal("high", high).data("rows", panels[index].rows);
      plot.innerHTML = await view.toSVG();
    }));
  };

  // The filter. Its state is in the fragment: #queue=NAME&at=SECTION.
  const state = () => new URLSearchParams(location.hash.slice(1));
  const matching = (text) => {
    const part = text.toLowerCase();
    return packed.has(text) ? [text] : [...packed.keys()].filter((name) => name.toLowerCase().includes(part));
  };
  const summary = (found) => {
    if (!found.length) return "No matching queue.";
    if (found.length > MAXIMUM_QUEUES) return `The ${MAXIMUM_QUEUES} busiest of ${found.length} matching queues.`;
    return found.length > 1 ? `${found.length} queues.` : "";
  };
  const main = document.querySelector("main");
  let latest = 0;
  const show = async (text) => {
    latest += 1;
    const number = latest;
    main.ariaBusy = "true";
    const found = text ? matching(text) : [];
    const parts = await partsOf(found.slice(0, MAXIMUM_QUEUES));
    // Another call has replaced this one.
    if (number !== latest) return;
    point(null);
    for (const target of all("[data-part]")) {
      target.innerHTML = parts.map((part) => part[target.dataset.part] ?? "").join("");
    }
    document.documentElement.classList.toggle("filtered", Boolean(text));
    one("found").textContent = text ? summary(found) : "";
    const places = all(`.fold[open] [data-chart].${text ? "chosen" : "all"}`);
    await Promise.all(places.map(async (place) => {
      const shown = text ? parts : await partsOf(charts[place.dataset.chart].queues);
      if (number === latest) await draw(place, shown);
    }));
    if (number === latest) main.ariaBusy = "false";
  };
  const applyFragment = async () => {
    field.value = state().get("queue") ?? "";
    open(state().get("at"));
    await show(field.value);
    one(state().get("at"))?.scrollIntoView();
  };
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
  for (const fold of all(".fold")) fold.addEventListener("toggle", () => show(field.value));
  // Another width, as of a phone that is turned, is drawn when it stays.
  let [width, resized] = [innerWidth, null];
  addEventListener("resize", () => {
    clearTimeout(resized);
    if (innerWidth === width) return;
    resized = setTimeout(() => {
      width = innerWidth;
      show(field.value);
    }, 100);
  });
  applyFragment();
})();
