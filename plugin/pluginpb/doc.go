// Package pluginpb is what Regent says to other programs over gRPC: to its plugins in
// regent_plugin.proto, and to hosts that load it as a plugin in
// regent_evaluator.proto; and the Go code that is generated from both. Packages plugin
// and plugin/evaluator speak it; programs in Go do not need this one.
package pluginpb
