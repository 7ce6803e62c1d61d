// Enhancements of the console's pages; all forms and links work without this script.
(() => {
  "use strict";
  const SECONDS = 5;
  const find = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  // Refresh the elements with hx-trigger="refresh from:body" while the page is visible.
  const live = find("#live");
  const isLive = () => live !== null && live.getAttribute("aria-pressed") === "true" && !document.hidden;
  let due = 0;
  const refresh = () => {
    clearTimeout(due);
    if (!isLive()) return;
    htmx.trigger(document.body, "refresh");
    due = setTimeout(refresh, SECONDS * 1000);
  };
  if (live && find("[hx-trigger^='refresh']")) {
    live.hidden = false;
    if (sessionStorage.getItem("live") === "false") live.setAttribute("aria-pressed", "false");
    live.addEventListener("click", () => {
      const pressed = live.getAttribute("aria-pressed") !== "true";
      live.setAttribute("aria-pressed", String(pressed));
      sessionStorage.setItem("live", String(pressed));
      refresh();
    });
    document.addEventListener("visibilitychange", refresh);
    due = setTimeout(refresh, SECONDS * 1000);
  }

  // The section of the page that was asked for, which browsers keep in redirects.
  const signIn = find("#sign-in");
  if (signIn) signIn.action += location.hash;

  // Warn if a refresh has failed and the page is out of date.
  const offline = find("#offline");
  let seen = new Date();
  const setFailing = (failing) => {
    if (live === null) return;
    live.classList.toggle("failing", failing);
    find("span:last-child", live).textContent = failing ? "Not updating" : "Live";
  };
  const showOffline = (event) => {
    const status = event.detail.xhr ? event.detail.xhr.status : 0;
    const reason = status ? `The node returned ${status}` : "The node does not respond";
    offline.textContent = `${reason}: this page is from ${moment(seen)}. Retrying.`;
    offline.hidden = false;
    setFailing(true);
  };
  for (const each of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
    document.body.addEventListener(each, showOffline);
  }
  document.body.addEventListener("htmx:afterOnLoad", (event) => {
    if (event.detail.xhr.status >= 400) return;
    seen = new Date();
    offline.hidden = true;
    setFailing(false);
  });

  // Times are in UTC or, by choice, local; tooltips of moments have the other.
  const zone = find("#zone");
  const isLocal = () => zone !== null && localStorage.getItem("zone") === "local";
  const pad = (number) => String(number).padStart(2, "0");
  const inZone = (date, local = isLocal()) => (local ? new Date(date - date.getTimezoneOffset() * 60000) : date).toISOString();
  const zoneName = (date, local = isLocal()) => {
    const minutes = Math.abs(date.getTimezoneOffset());
    return local ? `UTC${date.getTimezoneOffset() > 0 ? "−" : "+"}${pad(Math.floor(minutes / 60))}:${pad(minutes % 60)}` : "UTC";
  };
  const moment = (date, digits = 19, local = isLocal()) => `${inZone(date, local).slice(0, digits).replace("T", " ")} ${zoneName(date, local)}`;
  const dayOf = (text) => new Date(text).toLocaleDateString("en", { month: "short", day: "numeric", timeZone: "UTC" });
  const localise = (root) => {
    const name = zoneName(new Date());
    for (const time of all("time[datetime]", root)) {
      const date = new Date(time.dateTime);
      if (time.dataset.utc === undefined) time.dataset.utc = time.textContent;
      // The age of something: its text stays, and the title is the time.
      if (time.dataset.title !== undefined) { time.title = moment(date); continue; }
      if (time.dataset.now !== undefined) {
        const text = inZone(date);
        const isToday = text.slice(0, 10) === inZone(new Date(time.dataset.now)).slice(0, 10);
        time.textContent = isToday ? text.slice(11, 19) : `${dayOf(text)} ${text.slice(11, 16)}`;
        time.title = moment(date);
        continue;
      }
      const digits = / [0-9:]+[.][0-9]/.test(time.dataset.utc) ? 23 : 19;
      time.textContent = isLocal() ? moment(date, digits) : time.dataset.utc;
      time.title = isLocal() ? time.dataset.utc : moment(date, digits, true);
    }
    for (const each of all("[data-time]", root)) {
      const text = inZone(new Date(each.dataset.time * 1000));
      const day = dayOf(text);
      const clock = text.slice(11, 16);
      each.textContent = each.dataset.days === undefined ? clock : each.closest("svg") && clock === "00:00" ? day : `${day} ${clock}`;
    }
    for (const each of all(".zone-name", root)) each.textContent = name;
    if (zone) zone.textContent = isLocal() ? "Local time" : "UTC";
  };
  if (zone) {
    zone.hidden = false;
    zone.addEventListener("click", () => {
      localStorage.setItem("zone", isLocal() ? "utc" : "local");
      localise(document);
    });
  }
  localise(document);
  document.body.addEventListener("htmx:afterSettle", () => localise(document));

  // What a person unfolded stays so when it is refreshed.
  let unfolded = [];
  document.body.addEventListener("htmx:beforeSwap", (event) => { unfolded = all("details[id][open]", event.target).map((each) => each.id); });
  document.body.addEventListener("htmx:afterSwap", () => { for (const each of all("details[id]")) each.open ||= unfolded.includes(each.id); });

  for (const each of all("nav [aria-current]")) each.scrollIntoView({ block: "nearest", inline: "center" });

  // Charts: one crosshair for all of a page, whose values are in the legends and its time in the titles.
  const point = (share) => {
    for (const chart of all(".chart")) {
      const rows = all("tbody tr", chart);
      const place = Math.floor(share * rows.length);
      const row = rows[rows.length - 1 - place];
      const at = share < 0 || row === undefined ? -9 : ((place + 0.5) / rows.length) * 100;
      for (const end of ["x1", "x2"]) find(".crosshair", chart).setAttribute(end, at < 0 ? at : `${at}%`);
      const cells = at < 0 ? [] : all("td", row);
      find(".at", chart).textContent = at < 0 ? "" : find("th", row).textContent;
      all(".legend b", chart).forEach((value, index) => {
        if (value.dataset.total === undefined) value.dataset.total = value.textContent;
        value.textContent = at < 0 ? value.dataset.total : cells[index].textContent;
      });
    }
  };
  document.addEventListener("pointermove", (event) => {
    const drawing = event.target.closest(".drawing");
    if (drawing === null && find(".crosshair[x1='-9']")) return;
    const box = drawing ? find(".plot", drawing).getBoundingClientRect() : null;
    point(box ? (event.clientX - box.left) / box.width : -1);
  });

  // The key `/` focuses the search.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input:not([type=checkbox], [type=radio]), textarea, select")) return;
    const search = find("[aria-keyshortcuts='/']");
    if (search === null) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
  // Escape leaves it, with what was typed: the next key walks through the rows.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !event.target.matches("[aria-keyshortcuts='/']")) return;
    event.preventDefault();
    event.target.blur();
  });

  // Close menus on Escape and on a click outside.
  document.addEventListener("keydown", (event) => {
    const menu = find("details.menu[open]");
    if (event.key !== "Escape" || menu === null) return;
    menu.open = false;
    find("summary", menu).focus();
  });
  document.addEventListener("click", (event) => {
    for (const menu of all("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });

  // Messages: filter the page, select all, count the selected ones. The list is replaced by each refresh.
  const boxes = () => all(".messages [name=reference]");
  const shown = () => boxes().filter((box) => !box.closest(".message").hidden);
  const count = () => {
    const chooseAll = find("[data-choose-all]");
    if (chooseAll === null) return;
    const number = boxes().filter((box) => box.checked).length;
    find("[data-chosen]").textContent = number ? `${number} selected` : "";
    const visible = shown();
    chooseAll.checked = visible.length > 0 && visible.every((box) => box.checked);
    chooseAll.indeterminate = number > 0 && !chooseAll.checked;
    showLiveness();
  };
  const filterRows = () => {
    const filter = find("[data-filter]");
    if (filter === null) return;
    const text = filter.value.toLowerCase();
    const items = all(filter.dataset.filter);
    for (const item of items) {
      item.hidden = !item.textContent.toLowerCase().includes(text);
      // Hidden messages must not be moved.
      if (item.hidden) find("[name=reference]", item).checked = false;
    }
    const left = items.filter((item) => !item.hidden).length;
    for (const link of all("[data-search]")) link.search = filter.value ? `?body=${encodeURIComponent(filter.value)}` : "";
    find("#filtered").textContent = text ? `${left} of ${items.length} shown` : "";
    count();
  };
  document.addEventListener("input", (event) => { if (event.target.matches("[data-filter]")) filterRows(); });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-choose-all]")) for (const box of shown()) box.checked = event.target.checked;
    if (event.target.closest("#transfer")) count();
  });

  // A message unfolds below its row; without this script its link leads to its page.
  const fold = (link) => {
    link.setAttribute("aria-expanded", "false");
    link.closest("tr").nextElementSibling.remove();
    showLiveness();
  };
  document.addEventListener("click", (event) => {
    const link = event.target.closest("[data-unfold]");
    if (link === null || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.getAttribute("aria-expanded") === "true") { fold(link); return; }
    link.setAttribute("aria-expanded", "true");
    const row = link.closest("tr");
    const cell = document.createElement("td");
    cell.colSpan = row.cells.length;
    row.after(Object.assign(document.createElement("tr"), { className: "unfolded" }));
    row.nextElementSibling.append(cell);
    const swap = { target: cell, select: `${link.dataset.unfold}, .empty`, swap: "innerHTML" };
    htmx.ajax("GET", link.href, swap).catch(() => {});
    showLiveness();
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.target.matches(".unfolded > td")) event.detail.target.textContent = "The message is no longer in the queue.";
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button === null) return;
    const text = find(button.dataset.copy);
    // Without HTTPS a page has no clipboard of its own.
    text.hidden = false;
    text.select();
    document.execCommand("copy");
    text.hidden = true;
    button.focus();
    button.textContent = "Copied";
  });

  // A list that is refreshed pauses while a person works on it, and says so.
  const pauses = () => {
    const list = find("[data-pauses]");
    const filter = find("[data-filter]");
    return list.contains(document.activeElement) || find(".unfolded, [name=reference]:checked, [name=release]:checked, details.second[open]", list) !== null || (filter !== null && filter.value !== "");
  };
  function showLiveness() {
    const list = find("[data-pauses][hx-get]");
    if (list === null || live === null) return;
    const paused = "Paused while messages are selected, open or filtered.";
    for (const text of all("[data-liveness]", list)) {
      text.textContent = live.getAttribute("aria-pressed") !== "true" ? "Not live." : pauses() ? paused : "Refreshed every five seconds.";
    }
  }
  document.body.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt.matches("[data-pauses]") && pauses()) event.preventDefault();
    showLiveness();
  });
  document.body.addEventListener("htmx:beforeSwap", (event) => {
    if (event.target.matches("[data-pauses]") && pauses()) event.detail.shouldSwap = false;
  });
  for (const each of ["htmx:afterSettle", "focusin", "focusout", "click"]) {
    document.body.addEventListener(each, () => setTimeout(showLiveness));
  }
  count();
  showLiveness();

  // The live tail: poll once a second while the page is visible and not paused.
  const tail = find("#tail");
  if (tail) {
    const [SECOND, MAXIMUM] = [1000, 200];
    const pause = find("#tail-pause");
    const state = find("#tail-state");
    const isPaused = () => document.hidden || pause.getAttribute("aria-pressed") === "true";
    let timer = 0;
    const poll = async () => {
      clearTimeout(timer);
      if (isPaused()) return;
      // Requested by htmx, whose events report an unavailable node; the swap is below.
      await htmx.ajax("GET", tail.dataset.next, { source: tail, swap: "none" }).catch(() => {});
      timer = setTimeout(poll, SECOND);
    };
    tail.addEventListener("htmx:beforeOnLoad", (event) => {
      if (event.detail.xhr.status !== 200) return;
      const loaded = find("#tail", new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html"));
      if (loaded === null) return;
      tail.dataset.next = loaded.dataset.next;
      const fresh = [...loaded.children].filter((item) => document.getElementById(item.id) === null);
      for (const item of fresh) item.classList.add("came");
      tail.prepend(...fresh);
      localise(tail);
      while (tail.children.length > MAXIMUM) tail.lastElementChild.remove();
      find("#tail-empty").hidden = tail.children.length > 0;
    });
    pause.addEventListener("click", () => {
      const paused = pause.getAttribute("aria-pressed") !== "true";
      pause.setAttribute("aria-pressed", String(paused));
      state.textContent = paused ? "Paused" : "";
      poll();
    });
    document.addEventListener("visibilitychange", poll);
    timer = setTimeout(poll, SECOND);
  }

  // A search continues step by step until it is stopped; what it finds is added to the page.
  const search = find("#found[data-next]");
  if (search) {
    const [RETRY, MAXIMUM] = [2000, 50];
    const stop = find("#stop-search");
    let runs = false;
    const show = () => {
      stop.hidden = !runs;
      for (const each of all("#continue-search, #search-actions", search)) each.hidden = runs;
    };
    const add = (found) => {
      const [table, more] = [find("table", search), find("table", found)];
      if (table && more) {
        const room = MAXIMUM - all(".message", table).length;
        table.tBodies[0].append(...all(".message", more).slice(0, room));
      } else if (more) find(".row", search).after(more);
      const shown = all(".message", search).length;
      const listed = find(".listed", search) || document.createElement("p");
      listed.className = "listed faint";
      listed.textContent = `The first ${shown} of them:`;
      if (shown) find(".row", search).after(listed);
      for (const part of ["[role=status]", "#search-actions"]) find(part, search).replaceWith(find(part, found));
      const progress = find("progress", found);
      for (const each of all("progress, #continue-search", search)) {
        if (progress === null) each.remove();
        else if (each.matches("form")) each.replaceWith(find("#continue-search", found));
        else Object.assign(each, { max: progress.max, value: progress.value });
      }
      search.dataset.next = found.dataset.next || "";
      show();
      localise(search);
    };
    search.addEventListener("htmx:beforeOnLoad", (event) => {
      if (event.target !== search || event.detail.xhr.status !== 200) return;
      const found = find("#found", new DOMParser().parseFromString(event.detail.xhr.responseText, "text/html"));
      if (found !== null) add(found);
    });
    // A refusal does not end by asking again.
    search.addEventListener("htmx:responseError", (event) => {
      if (event.detail.xhr.status < 500) runs = false;
    });
    const run = async () => {
      runs = true;
      show();
      while (runs && search.dataset.next) {
        const next = search.dataset.next;
        if (document.hidden) {
          await new Promise((done) => { setTimeout(done, RETRY); });
          continue;
        }
        // Requested by htmx, whose events report an unavailable node.
        await htmx.ajax("GET", next, { source: search, swap: "none" }).catch(() => {});
        if (runs && search.dataset.next === next) await new Promise((done) => { setTimeout(done, RETRY); });
      }
      runs = false;
      show();
    };
    stop.addEventListener("click", () => {
      runs = false;
      stop.hidden = true;
    });
    search.addEventListener("submit", (event) => {
      if (!event.target.matches("#continue-search")) return;
      event.preventDefault();
      if (!runs) run();
    });
    run();
  }

  // Attribute rows: hide the spare ones, and show another one on request.
  for (const button of all("[data-add]")) {
    const spare = () => all(button.dataset.add).filter((row) => row.hidden);
    for (const row of all(button.dataset.add)) row.hidden = true;
    button.addEventListener("click", () => {
      const [row] = spare();
      row.hidden = false;
      find("input", row).focus();
      button.hidden = spare().length === 0;
    });
  }

  // Enable a destructive button once the name is typed. The node checks it, too.
  for (const input of all("[data-must-be]")) {
    const button = find("button", input.form);
    if (button.disabled) continue;
    const check = () => { button.disabled = input.value.trim() !== input.dataset.mustBe; };
    input.addEventListener("input", check);
    check();
  }
})();
