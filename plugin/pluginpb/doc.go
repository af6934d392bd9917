// Package pluginpb is the protocol between Regent and its plugins: regent_plugin.proto,
// and the Go code that is generated from it. Package plugin speaks it; authors of
// plugins in Go do not need this one.
package pluginpb
