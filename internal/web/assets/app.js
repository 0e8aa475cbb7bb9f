// What pages can do beyond reading. Every page works without it.
"use strict";
(() => {
  const said = document.getElementById("said");
  const say = (text) => { if (said) said.textContent = text; };

  // Copy buttons. On plain HTTP there is no clipboard: the text is selected instead.
  const select = (button) => {
    const before = button.previousElementSibling || button.parentElement;
    const range = document.createRange();
    range.selectNodeContents(before);
    const all = getSelection();
    all.removeAllRanges();
    all.addRange(range);
    return "press Ctrl+C";
  };
  const copy = async (button) => {
    let done = "Copied";
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
    } catch {
      done = select(button);
    }
    button.textContent = done;
    say(done);
    setTimeout(() => { button.textContent = "Copy"; }, 3000);
  };
  for (const button of document.querySelectorAll(".copy")) {
    button.hidden = false;
    const row = button.closest("tr, dd, .cmd, p");
    const label = row && (row.querySelector("th, pre") || row.previousElementSibling);
    if (label) button.setAttribute("aria-label", "Copy: " + (label.getAttribute("aria-label") || label.textContent).trim().slice(0, 80));
    button.addEventListener("click", () => copy(button));
  }

  // Live pages: one stream of events a tab, closed while the tab is hidden. Texts of
  // fields are set; changes are told to screen readers every five seconds at most.
  const topic = document.body.dataset.topic;
  if (topic && window.EventSource) {
    let stream = null;
    let spoken = 0;
    const number = (key) => Number(key.split(":")[1]);
    const newest = Math.max(0, ...[...document.querySelectorAll("[data-live]")].map((n) => number(n.dataset.live) || 0));
    const apply = (changes) => {
      let told = "";
      let fresh = 0;
      for (const [key, fields] of Object.entries(changes)) {
        const box = document.querySelector(`[data-live="${CSS.escape(key)}"]`);
        if (!box) { if (number(key) > newest) fresh++; continue; }
        for (const [name, text] of Object.entries(fields)) {
          const node = box.querySelector(`[data-field="${name}"]`);
          if (!node || node.textContent === text) continue;
          node.textContent = text;
          if (name === "state") {
            node.className = "mark " + ({ done: "ok", failed: "bad", running: "warn", answers: "ok" }[text] || "dim");
            told = key.replace(":", " ") + " is " + text;
          }
        }
      }
      const offer = document.querySelector("[data-fresh]");
      if (offer && fresh > 0) {
        const link = document.createElement("a");
        link.href = location.href;
        link.textContent = `${fresh} new, show`;
        offer.replaceChildren(link);
        offer.hidden = false;
      }
      if (told && Date.now() - spoken > 5000) { spoken = Date.now(); say(told); }
    };
    const open = () => {
      stream = new EventSource(document.body.dataset.events + "?topics=" + encodeURIComponent(topic));
      stream.onmessage = (e) => apply(JSON.parse(e.data));
    };
    const follow = () => {
      if (document.hidden && stream) { stream.close(); stream = null; }
      if (!document.hidden && !stream) open();
    };
    document.addEventListener("visibilitychange", follow);
    addEventListener("pagehide", () => { if (stream) { stream.close(); stream = null; } });
    follow();
  }

  // The key "/" leads to the search.
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.altKey || e.metaKey || document.documentElement.dataset.keys === "off") return;
    if (e.target instanceof Element && e.target.closest("input, textarea, select, [contenteditable]")) return;
    const box = document.getElementById("q");
    if (box) { e.preventDefault(); box.focus(); box.select(); }
  });
})();
