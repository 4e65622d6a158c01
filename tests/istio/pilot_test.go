package istio

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"istio.io/istio/pilot/pkg/features"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/test"
)

// proxyVersion is what the rendered proxies say that they are.
const proxyVersion = "1.31.0"

// workload is a pod with a proxy in it, or one that is nothing else.
type workload struct {
	kind              model.NodeType
	id, namespace, ip string
	labels            map[string]string
}

// The workloads whose proxies are rendered.
var (
	caller = workload{
		kind: model.SidecarProxy, id: "checkout-0.shop", namespace: "shop", ip: "10.1.0.9",
		labels: map[string]string{"app": "checkout", "retry-budget": "mounted"},
	}
	callee = workload{
		kind: model.SidecarProxy, id: "orders-0.shop", namespace: "shop", ip: "10.1.0.1",
		labels: map[string]string{"app": "orders"},
	}
	gateway = workload{
		kind: model.Router, id: "gateway-0.istio-ingress", namespace: "istio-ingress", ip: "10.1.0.8",
		labels: map[string]string{"istio": "ingress", "retry-budget": "mounted"},
	}
	waypoint = workload{
		kind: model.Waypoint, id: "waypoint-0.shop", namespace: "shop", ip: "10.1.0.2",
		labels: map[string]string{
			"gateway.networking.k8s.io/gateway-name":       "waypoint",
			"gateway.istio.io/managed":                     "istio.io-mesh-controller",
			"gateway.networking.k8s.io/gateway-class-name": "istio-waypoint",
		},
	}
)

// rendering is what pilot sends to a proxy, as JSON with Envoy's own field names.
type rendering struct {
	Listeners  []any `json:"listeners"`
	Routes     []any `json:"routes"`
	Clusters   []any `json:"clusters"`
	Extensions []any `json:"extensions"`
}

// render has pilot configure this workload's proxy in the world of testdata, with these manifests in force.
func render(t *testing.T, of workload, manifests ...string) rendering {
	t.Helper()
	world := testdata(t, "world.yaml")
	switch of.kind {
	case model.Router:
		world += "\n---\n" + testdata(t, "gateway.yaml")
	case model.Waypoint:
		world += "\n---\n" + testdata(t, "waypoint.yaml")
	}
	// Pilot's own switches.
	for _, feature := range []*bool{&features.EnableAmbient, &features.EnableAmbientWaypoints, &features.EnableHBONESend} {
		test.SetForTest(t, feature, of.kind == model.Waypoint)
	}
	server := xds.NewFakeDiscoveryServer(t, xds.FakeOptions{
		// Each half of pilot takes of it what it knows.
		KubernetesObjectString: kubernetesOnly(world),
		ConfigString:           strings.Join(append([]string{world}, manifests...), "\n---\n"),
		MeshConfig:             mesh.DefaultMeshConfig(),
	})
	node := server.SetupProxy(&model.Proxy{
		Type: of.kind, ID: of.id, ConfigNamespace: of.namespace, IPAddresses: []string{of.ip}, Labels: of.labels,
		Metadata: &model.NodeMetadata{IstioVersion: proxyVersion, Labels: of.labels, ClusterID: "Kubernetes"},
	})

	listeners := server.Listeners(node)
	rendered := rendering{
		Listeners: jsonOf(t, listeners),
		Routes:    jsonOf(t, server.RoutesFromListeners(node, listeners)),
		Clusters:  jsonOf(t, server.Clusters(node)),
	}
	names := map[string]bool{}
	walk(rendered.Listeners, func(object map[string]any) {
		if object["config_discovery"] != nil {
			names[object["name"].(string)] = true
		}
	})
	for _, name := range sorted(names) {
		configs := server.ConfigGen.BuildExtensionConfiguration(node, server.PushContext(), []string{name}, nil)
		rendered.Extensions = append(rendered.Extensions, jsonOf[*core.TypedExtensionConfig](t, configs)...)
	}
	return rendered
}

// kubernetesOnly leaves out Istio's classic objects: the ambient controller reads those of Kubernetes' API and
// WorkloadEntry, the others come by the configuration store.
func kubernetesOnly(world string) string {
	var kept []string
	for _, document := range strings.Split(world, "\n---\n") {
		if !strings.Contains(document, "apiVersion: networking.istio.io/v1\nkind: Gateway\n") {
			kept = append(kept, document)
		}
	}
	return strings.Join(kept, "\n---\n")
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func jsonOf[M proto.Message](t *testing.T, messages []M) []any {
	t.Helper()
	list := make([]any, 0, len(messages))
	for _, message := range messages {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		list = append(list, value)
	}
	return list
}

// walk visits every object in a JSON value, outer ones first.
func walk(value any, visit func(map[string]any)) {
	switch value := value.(type) {
	case map[string]any:
		visit(value)
		for _, key := range sorted(value) {
			walk(value[key], visit)
		}
	case []any:
		for _, inner := range value {
			walk(inner, visit)
		}
	}
}
