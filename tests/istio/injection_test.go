package istio

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	charts "istio.io/istio/operator/pkg/render"
	"istio.io/istio/pkg/config/mesh"
	"istio.io/istio/pkg/kube/inject"
)

// installed is a ConfigMap that Istio's charts make with these values.
func installed(t *testing.T, values string, name string) map[string]string {
	t.Helper()
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(values), &parsed); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "install.istio.io/v1alpha1", "kind": "IstioOperator", "spec": map[string]any{"values": parsed},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "operator.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	sets, _, err := charts.GenerateManifest([]string{file}, nil, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, set := range sets {
		for _, object := range set.Manifests {
			if object.GetKind() == "ConfigMap" && object.GetName() == name {
				data, _, err := unstructured.NestedStringMap(object.Object, "data")
				if err != nil {
					t.Fatal(err)
				}
				return data
			}
		}
	}
	t.Fatalf("the charts make no ConfigMap %s", name)
	return nil
}

const deployment = `{
	"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "checkout", "namespace": "shop"},
	"spec": {"template": {
		"metadata": {"labels": {"app": "checkout"}},
		"spec": {"containers": [{"name": "checkout", "image": "checkout"}]}
	}}
}`

// injected is the pod that comes of a Deployment, patched with pod-template.yaml as kubectl does, in a mesh.
func injected(t *testing.T, deployment string) corev1.PodTemplateSpec {
	t.Helper()
	patch, err := yaml.YAMLToJSON([]byte(shipped(t, "pod-template.yaml")))
	if err != nil {
		t.Fatal(err)
	}
	patched, err := strategicpatch.StrategicMergePatch([]byte(deployment), patch, appsv1.Deployment{})
	if err != nil {
		t.Fatal(err)
	}
	data := installed(t, "{}", "istio-sidecar-injector")
	config, err := inject.UnmarshalConfig([]byte(data["config"]))
	if err != nil {
		t.Fatal(err)
	}
	templates, err := inject.ParseTemplates(config.RawTemplates)
	if err != nil {
		t.Fatal(err)
	}
	values, err := inject.NewValuesConfig(data["values"])
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = inject.IntoResourceFile(nil, templates, values, "", mesh.DefaultMeshConfig(), bytes.NewReader(patched), &out, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	var result appsv1.Deployment
	if err := yaml.Unmarshal([]byte(strings.TrimSuffix(out.String(), "---\n")), &result); err != nil {
		t.Fatal(err)
	}
	return result.Spec.Template
}

// proxyOf is the proxy's container, wherever this version of Istio puts it.
func proxyOf(t *testing.T, pod corev1.PodTemplateSpec) corev1.Container {
	t.Helper()
	for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if container.Name == "istio-proxy" {
			return container
		}
	}
	t.Fatal("the pod has no proxy")
	return corev1.Container{}
}

func mountsOf(container corev1.Container, name string) []corev1.VolumeMount {
	return slices.DeleteFunc(slices.Clone(container.VolumeMounts), func(mount corev1.VolumeMount) bool { return mount.Name != name })
}

func TestIstiosInjectorMountsTheModuleAndLabelsTheStatistics(t *testing.T) {
	pod := injected(t, deployment)
	proxy := proxyOf(t, pod)
	mounts := mountsOf(proxy, "retry-budget")
	if len(mounts) != 1 || mounts[0].MountPath != "/var/local/retry-budget" || !mounts[0].ReadOnly {
		t.Errorf("the proxy has mounts %v", mounts)
	}
	volumes := slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(volume corev1.Volume) bool { return volume.Name != "retry-budget" })
	if len(volumes) != 1 || volumes[0].ConfigMap == nil || volumes[0].ConfigMap.Name != "retry-budget" {
		t.Errorf("the pod has volumes %v", volumes)
	}
	for _, variable := range proxy.Env {
		if variable.Name == "PROXY_CONFIG" && strings.Contains(variable.Value, `"extraStatTags":["upstream","reason","header"]`) {
			return
		}
	}
	t.Error("the proxy is not told of the labels")
}

// What pod-template.yaml says of gateways.
func TestIstiosInjectorMountsNothingInGateways(t *testing.T) {
	gateway := strings.NewReplacer(
		`"labels": {"app": "checkout"}`, `"labels": {"app": "gateway"}, "annotations": {"inject.istio.io/templates": "gateway"}`,
		`{"name": "checkout", "image": "checkout"}`, `{"name": "istio-proxy", "image": "auto"}`,
	).Replace(deployment)
	if mounts := mountsOf(proxyOf(t, injected(t, gateway)), "retry-budget"); len(mounts) != 0 {
		t.Errorf("the gateway has mounts %v", mounts)
	}
}

// mesh-config.yaml is for the chart that is installed.
func TestTheChartTakesTheMeshConfiguration(t *testing.T) {
	config, err := mesh.ApplyMeshConfigDefaults(installed(t, shipped(t, "mesh-config.yaml"), "istio")["mesh"])
	if err != nil {
		t.Fatal(err)
	}
	if tags := config.DefaultConfig.ExtraStatTags; !slices.Equal(tags, []string{"upstream", "reason", "header"}) {
		t.Errorf("the mesh has labels %v", tags)
	}
	if matcher := config.DefaultConfig.ProxyStatsMatcher; matcher == nil || len(matcher.InclusionRegexps) != 1 {
		t.Errorf("the mesh includes %v", matcher)
	}
}
