"use strict";
(() => {
  const live = document.getElementById("live");
  // Parts that wait because somebody is selecting text in them.
  const held = new Map();
  let last = 0;

  const say = (text, bad) => {
    if (live.textContent !== text) live.textContent = text;
    live.classList.toggle("bad", bad);
  };

  const isSelected = (part) => {
    const selection = getSelection();
    return !selection.isCollapsed && part.contains(selection.anchorNode);
  };

  const replace = (part, html) => {
    const keys = (query) => [...part.querySelectorAll(query)].map((it) => it.dataset.key);
    const open = new Set(keys("details[open]"));
    const focused = part.contains(document.activeElement)
      ? document.activeElement.closest("details")?.dataset.key : undefined;
    const scrolled = [...part.querySelectorAll(".wide")].map((it) => it.scrollLeft);
    part.innerHTML = html;
    for (const it of part.querySelectorAll("details")) {
      it.open = open.has(it.dataset.key);
      if (focused !== undefined && it.dataset.key === focused) it.querySelector("summary").focus();
    }
    part.querySelectorAll(".wide").forEach((it, place) => { it.scrollLeft = scrolled[place] ?? 0; });
  };

  const show = (id, html) => {
    const part = document.getElementById(id);
    if (!part) return;
    if (isSelected(part)) held.set(id, html);
    else { held.delete(id); replace(part, html); }
  };

  document.addEventListener("selectionchange", () => held.forEach((html, id) => show(id, html)));

  const title = () => {
    const word = document.querySelector("#verdict .word")?.textContent ?? "";
    document.title = `${word} ${document.getElementById("sentence")?.textContent ?? ""} – Tiergate`;
  };

  const connect = () => {
    const source = new EventSource("/live");
    source.addEventListener("parts", (event) => {
      last = Date.now();
      Object.entries(JSON.parse(event.data)).forEach(([id, html]) => show(id, html));
      title();
      say("live", false);
    });
    source.onerror = () => {
      // It connects again by itself, unless it was refused.
      if (source.readyState === EventSource.CLOSED) setTimeout(connect, 5000);
    };
  };

  setInterval(() => {
    const age = Math.round((Date.now() - last) / 1000);
    if (last === 0) say("not live yet", false);
    else if (age > 8) say(`not live: last update ${age} s ago`, true);
  }, 1000);
  title();
  connect();
})();
