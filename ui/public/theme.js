// Runs before the first paint, so that a dark page never flashes white.
try {
  var t = localStorage.getItem('tailscope.theme');
  if (t === 'light' || t === 'dark') document.documentElement.dataset.theme = t;
} catch (e) {
  // No storage: the system's preference applies.
}
