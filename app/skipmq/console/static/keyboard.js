// The keyboard: go to pages, walk through lists, show the list of keys; and buttons that copy.
(() => {
  "use strict";
  const all = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.checkVisibility());
  const list = document.querySelector("#shortcuts");
  const SECONDS = 1.5;
  let went = 0;

  const rowOf = (element) => element.closest("tbody tr, .message");
  const typed = "input:not([type=checkbox], [type=radio]), textarea, select";

  const select = () => {
    const row = rowOf(document.activeElement);
    const box = row && row.querySelector("[type=checkbox]");
    if (box) box.click();
  };

  const walk = (step) => {
    const rows = all("main tbody th a, main .message summary");
    if (rows.length === 0) return;
    const row = rowOf(document.activeElement);
    const at = rows.findIndex((each) => each === document.activeElement || (row && row.contains(each)));
    const next = at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(Math.max(at + step, 0), rows.length - 1);
    rows[next].focus();
    rows[next].scrollIntoView({ block: "nearest" });
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest(typed) || (list && list.open && event.key !== "?")) return;
    const isGoing = event.timeStamp - went < SECONDS * 1000 && went > 0;
    went = 0;
    const page = isGoing && document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
    if (page) page.click();
    else if (event.key === "g") went = event.timeStamp;
    else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
    else if (event.key === "x") select();
    else if (event.key === "?" && list) list.open ? list.close() : list.showModal();
    else return;
    event.preventDefault();
  });

  const open = document.querySelector("#show-shortcuts");
  if (open && list) {
    open.hidden = false;
    open.addEventListener("click", () => list.showModal());
  }

  // Without a secure context there is no clipboard: the text stays selectable.
  for (const button of document.querySelectorAll("[data-copy]")) {
    if (!navigator.clipboard) continue;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(document.querySelector(button.dataset.copy).textContent);
      button.textContent = "Copied";
    });
  }
})();
