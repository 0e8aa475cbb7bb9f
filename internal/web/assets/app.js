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

  // The key "/" leads to the search.
  document.addEventListener("keydown", (e) => {
    if (e.key !== "/" || e.ctrlKey || e.altKey || e.metaKey || document.documentElement.dataset.keys === "off") return;
    if (e.target instanceof Element && e.target.closest("input, textarea, select, [contenteditable]")) return;
    const box = document.getElementById("q");
    if (box) { e.preventDefault(); box.focus(); box.select(); }
  });
})();
