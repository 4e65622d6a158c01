package istio

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	meshconfig "istio.io/api/mesh/v1alpha1"
	"istio.io/istio/pkg/bootstrap"
	"istio.io/istio/pkg/config/mesh"
)

// podTemplate is what pod-template.yaml patches in.
func podTemplate(t *testing.T) corev1.PodTemplateSpec {
	t.Helper()
	var patch struct {
		Spec struct{ Template corev1.PodTemplateSpec }
	}
	if err := yaml.UnmarshalStrict([]byte(shipped(t, "pod-template.yaml")), &patch); err != nil {
		t.Fatal(err)
	}
	return patch.Spec.Template
}

// statistics is the part of the proxy's bootstrap that decides what is exported and how, as the agent writes it.
func statistics(t *testing.T, config *meshconfig.ProxyConfig) any {
	t.Helper()
	node, err := bootstrap.GetNodeMetaData(bootstrap.MetadataOptions{
		ID: "sidecar~10.1.0.9~checkout-0.shop~shop.svc.cluster.local", InstanceIPs: []string{"10.1.0.9"}, ProxyConfig: config,
	})
	if err != nil {
		t.Fatal(err)
	}
	folder, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "istio.io/istio").Output()
	if err != nil {
		t.Fatal(err)
	}
	template := filepath.Join(strings.TrimSpace(string(folder)), "tools/packaging/common/envoy_bootstrap.json")
	var text bytes.Buffer
	if err := bootstrap.New(bootstrap.Config{Node: node}).WriteTo(template, &text); err != nil {
		t.Fatal(err)
	}
	var whole map[string]any
	if err := json.Unmarshal(text.Bytes(), &whole); err != nil {
		t.Fatalf("%v:\n%s", err, text.String())
	}
	return map[string]any{"stats_config": whole["stats_config"]}
}

func TestStatisticsAreLabelled(t *testing.T) {
	plain := mesh.DefaultMeshConfig()
	compare(t, "stats-default.json", statistics(t, plain.DefaultConfig))

	annotated, err := mesh.ApplyProxyConfig(podTemplate(t).Annotations["proxy.istio.io/config"], mesh.DefaultMeshConfig())
	if err != nil {
		t.Fatal(err)
	}
	labelled := statistics(t, annotated.DefaultConfig)
	compare(t, "stats.json", labelled)

	// For the whole mesh: the same.
	var values struct{ MeshConfig map[string]any }
	if err := yaml.UnmarshalStrict([]byte(shipped(t, "mesh-config.yaml")), &values); err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(values.MeshConfig)
	if err != nil {
		t.Fatal(err)
	}
	everywhere, err := mesh.ApplyMeshConfigDefaults(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(statistics(t, everywhere.DefaultConfig), labelled) {
		t.Error("mesh-config.yaml and the annotation of pod-template.yaml differ")
	}
}

func TestThePodTemplateMountsWhatTheManifestsLoad(t *testing.T) {
	pod := podTemplate(t)
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	for annotation, list := range map[string]any{
		"sidecar.istio.io/userVolume": &volumes, "sidecar.istio.io/userVolumeMount": &mounts,
	} {
		if err := yaml.UnmarshalStrict([]byte(pod.Annotations[annotation]), list); err != nil {
			t.Fatalf("%s: %v", annotation, err)
		}
	}
	if len(volumes) != 1 || len(mounts) != 1 || volumes[0].Name != mounts[0].Name {
		t.Fatalf("volumes %v, mounts %v", volumes, mounts)
	}
	for _, name := range []string{"envoyfilter.yaml", "envoyfilter-cluster.yaml"} {
		text := shipped(t, name)
		if !strings.Contains(text, "filename: "+mounts[0].MountPath+"/plugin.wasm ") {
			t.Errorf("%s loads no plugin.wasm in %s", name, mounts[0].MountPath)
		}
		for label, value := range pod.Labels {
			if !strings.Contains(text, "    labels:\n      "+label+": "+value+"\n") {
				t.Errorf("%s does not select %s: %s", name, label, value)
			}
		}
	}
}
