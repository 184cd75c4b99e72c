// What the theme leaves out for keyboards and screen readers.
window.addEventListener("load", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  // The inputs of a palette that follows the system: nobody can see them, so no key leads there.
  for (const hidden of document.querySelectorAll("input.md-option[aria-hidden]")) {
    hidden.tabIndex = -1;
  }
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, p:has(> img)")) {
    if (wide.scrollWidth > wide.clientWidth) {
      wide.tabIndex = 0;
    }
  }
});
