// Package browser drives the built program's web interface in a real Chromium:
// the one in PATH or at GARCON_E2E_CHROMIUM (Debian's package "chromium").
//
// Every test fails when the page reports an error: a violation of its content
// security policy, an error on the console or an exception nobody caught. A
// failure keeps a screenshot and what the page had logged.
package browser
