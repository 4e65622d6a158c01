package istio

import (
	"encoding/json"
	"os"
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

// plugins finds every `config` of our filter in a text, without the module's origin.
func plugins(t *testing.T, text string) []map[string]any {
	t.Helper()
	var document any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	var found []map[string]any
	walk(document, func(object map[string]any) {
		if config, ok := object["config"].(map[string]any); ok && config["root_id"] != nil {
			if machine, ok := config["vm_config"].(map[string]any); ok {
				delete(machine, "code")
			}
			found = append(found, config)
		}
	})
	return found
}

// The filter is the same in Istio as in a plain Envoy: names, failure policy, VM, policy.
func TestThePluginIsThatOfTheRecommendedConfiguration(t *testing.T) {
	text, err := os.ReadFile("../../envoy/two-placements.yaml")
	if err != nil {
		t.Fatal(err)
	}
	recommended := plugins(t, string(text))
	if len(recommended) != 2 {
		t.Fatalf("%d placements", len(recommended))
	}
	want := recommended[0]
	for name, places := range map[string]int{
		"envoyfilter.yaml": 4, "envoyfilter-oci.yaml": 1, "envoyfilter-cluster.yaml": 1, "waypoint.yaml": 1,
	} {
		found := plugins(t, shipped(t, name))
		if len(found) != places {
			t.Errorf("%s has %d plugins", name, len(found))
		}
		for _, plugin := range found {
			if !reflect.DeepEqual(plugin, want) {
				t.Errorf("%s: %v, should be %v", name, plugin, want)
			}
		}
	}

	// Where Istio has words of its own.
	var policy map[string]any
	if err := json.Unmarshal([]byte(want["configuration"].(map[string]any)["value"].(string)), &policy); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"wasmplugin.yaml", "trafficextension.yaml"} {
		var object struct {
			Spec struct {
				PluginName   string
				PluginConfig map[string]any
				Wasm         *struct {
					PluginName   string
					PluginConfig map[string]any
				}
			}
		}
		if err := yaml.Unmarshal([]byte(shipped(t, name)), &object); err != nil {
			t.Fatal(err)
		}
		root, config := object.Spec.PluginName, object.Spec.PluginConfig
		if object.Spec.Wasm != nil {
			root, config = object.Spec.Wasm.PluginName, object.Spec.Wasm.PluginConfig
		}
		if root != want["root_id"] || !reflect.DeepEqual(config, policy) {
			t.Errorf("%s: %s with %v", name, root, config)
		}
	}
}
