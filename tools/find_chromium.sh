#!/usr/bin/env bash
# Prints the path of a Chromium to test the report page with: $CHROMIUM, then PATH, then playwright's own.
# With "install": as root on Debian installs the system package, otherwise tries playwright's download.
find_it() {
  if [ -n "${CHROMIUM:-}" ] && [ -x "$CHROMIUM" ]; then echo "$CHROMIUM"; return 0; fi
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if command -v "$name" >/dev/null 2>&1; then command -v "$name"; return 0; fi
  done
  for path in "$HOME"/.cache/ms-playwright/chromium*/chrome-linux*/chrome; do
    if [ -x "$path" ]; then echo "$path"; return 0; fi
  done
  return 1
}

if [ "${1:-}" = install ] && ! find_it >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Chromium for the report tests" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } >/dev/null 2>&1
  fi
  find_it >/dev/null || "$(dirname "$0")/../.venv/bin/python" -m playwright install chromium >/dev/null 2>&1
  find_it >/dev/null || { echo "No Chromium found or installed: browser tests will be skipped (set \$CHROMIUM)." >&2; exit 1; }
fi
find_it || true
