// What the theme leaves out for keyboards and screen readers.
window.addEventListener("load", () => {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  for (const wide of document.querySelectorAll(".md-typeset__scrollwrap, p:has(> img)")) {
    if (wide.scrollWidth > wide.clientWidth) {
      wide.tabIndex = 0;
    }
  }
});
