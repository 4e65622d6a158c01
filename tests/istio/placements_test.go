package istio

import (
	"maps"
	"slices"
	"strings"
)

func sorted[V any](values map[string]V) []string {
	return slices.Sorted(maps.Keys(values))
}

// isOurs tells whether this entry of a filter list is the retry budget, inline or by discovery.
func isOurs(filter any) bool {
	object, _ := filter.(map[string]any)
	if discovery, ok := object["config_discovery"].(map[string]any); ok {
		types, _ := discovery["type_urls"].([]any)
		return slices.ContainsFunc(types, isWasm)
	}
	config, _ := object["typed_config"].(map[string]any)
	return isWasm(config["@type"])
}

func isWasm(kind any) bool {
	name, _ := kind.(string)
	return strings.HasSuffix(name, "/envoy.extensions.filters.http.wasm.v3.Wasm")
}

func isType(object map[string]any, name string) bool {
	kind, _ := object["@type"].(string)
	return strings.HasSuffix(kind, "."+name)
}

// chains runs visit on each connection manager of a listener, with the name of its chain.
func chains(listener any, visit func(chain string, manager map[string]any)) {
	lists, _ := listener.(map[string]any)["filter_chains"].([]any)
	if last := listener.(map[string]any)["default_filter_chain"]; last != nil {
		lists = append(slices.Clone(lists), last)
	}
	for _, chain := range lists {
		name, _ := chain.(map[string]any)["name"].(string)
		walk(chain, func(object map[string]any) {
			if isType(object, "HttpConnectionManager") {
				visit(name, object)
			}
		})
	}
}

// placements tells, for everything rendered, where our filter stands and how often: "listener LISTENER, chain CHAIN:
// request" or "… attempt", "cluster CLUSTER: attempt".
func (r rendering) placements() []string {
	found := []string{}
	count := func(where string, list any, placement string) {
		entries, _ := list.([]any)
		for _, entry := range entries {
			if isOurs(entry) {
				found = append(found, where+": "+placement)
			}
		}
	}
	for _, listener := range r.Listeners {
		name, _ := listener.(map[string]any)["name"].(string)
		chains(listener, func(chain string, manager map[string]any) {
			where := "listener " + name
			if chain != "" {
				where += ", chain " + chain
			}
			count(where, manager["http_filters"], "request")
			walk(manager["http_filters"], func(object map[string]any) {
				count(where, object["upstream_http_filters"], "attempt")
			})
		})
	}
	for _, cluster := range r.Clusters {
		name, _ := cluster.(map[string]any)["name"].(string)
		options, _ := cluster.(map[string]any)["typed_extension_protocol_options"].(map[string]any)
		for _, key := range sorted(options) {
			count("cluster "+name, options[key].(map[string]any)["http_filters"], "attempt")
		}
	}
	return found
}

// without takes our filter out again, and what has to stand beside it: what is left must be what pilot renders
// without the manifest.
func without(value any) any {
	switch value := value.(type) {
	case map[string]any:
		object := map[string]any{}
		for key, inner := range value {
			if key == "upstream_http_filters" {
				continue // pilot sets none itself
			}
			object[key] = without(inner)
		}
		return object
	case []any:
		list := []any{}
		for _, inner := range value {
			if !isOurs(inner) {
				list = append(list, without(inner))
			}
		}
		return list
	}
	return value
}

// named keeps the resources with one of these names.
func named(resources []any, names ...string) []any {
	kept := []any{}
	for _, resource := range resources {
		if name, _ := resource.(map[string]any)["name"].(string); slices.Contains(names, name) {
			kept = append(kept, resource)
		}
	}
	return kept
}
