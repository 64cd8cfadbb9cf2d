package check

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/dns"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// objects returns the objects that kustomize builds from a folder of deploy/kubernetes, decoded
// strictly as Kubernetes does.
func objects(t *testing.T, folder string) (all []runtime.Object) {
	t.Helper()
	dir := filepath.Join(deploy, "kubernetes", folder)
	if folder == podmonitor { // a component can only be built together with something else
		dir = withComponent(t, dir)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := monitoringv1.AddToScheme(scheme.Scheme); err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, r := range resources.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%s: %s: %v", folder, r.GetName(), err)
		}
		all = append(all, o)
	}
	return all
}

const podmonitor = "podmonitor"

// withComponent returns a folder that adds the given component to base.
func withComponent(t *testing.T, component string) string {
	t.Helper()
	dir := t.TempDir()
	of := func(folder string) string {
		abs, err := filepath.Abs(folder)
		if err == nil {
			abs, err = filepath.Rel(dir, abs)
		}
		if err != nil {
			t.Fatal(err)
		}
		return abs
	}
	text := fmt.Sprintf("namespace: marketdata\nresources: [%s]\ncomponents: [%s]\n",
		of(filepath.Join(component, "../base")), of(component))
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func kubernetesProcesses(t *testing.T, folder string) (all []process) {
	config := map[string]string{}
	for _, o := range objects(t, folder) {
		if c, ok := o.(*corev1.ConfigMap); ok {
			for key, value := range c.Data {
				config[c.Name+" "+key] = value
			}
		}
	}
	for _, o := range objects(t, folder) {
		pod := podOf(o)
		if pod == nil {
			continue
		}
		spec := pod.Spec
		c := spec.Containers[0]
		p := process{where: "kubernetes/" + folder + ": " + c.Name, args: c.Args, env: map[string]string{},
			memory: c.Resources.Limits.Memory().String()}
		for _, e := range c.Env {
			if p.env[e.Name] = e.Value; e.ValueFrom != nil {
				ref := e.ValueFrom.ConfigMapKeyRef
				p.env[e.Name] = config[ref.Name+" "+ref.Key]
			}
			if p.env[e.Name] == "" {
				t.Errorf("%s: nothing for %s", p.where, e.Name)
			}
		}
		for _, port := range c.Ports {
			p.ports = append(p.ports, fmt.Sprint(port.ContainerPort))
		}
		for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
			if probe != nil {
				p.probes = append(p.probes, probe.HTTPGet.Path)
			}
		}
		for _, m := range c.VolumeMounts {
			p.writable = append(p.writable, m.MountPath)
		}
		if s := spec.TerminationGracePeriodSeconds; s != nil {
			p.grace = time.Duration(*s) * time.Second
		}
		for _, v := range spec.Volumes {
			if v.EmptyDir != nil && sizeOf(t, p.flag(t, "cache-dir-size")) >= v.EmptyDir.SizeLimit.Value() {
				t.Errorf("%s: the disk copy fills volume %s", p.where, v.Name)
			}
		}
		all = append(all, p)
	}
	return all
}

// podOf returns the pod template of an object, or nil if it has none.
func podOf(o runtime.Object) *corev1.PodTemplateSpec {
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &o.Spec.Template
	case *batchv1.CronJob:
		return &o.Spec.JobTemplate.Spec.Template
	}
	return nil
}

// TestKubernetes: the Pod Security Standard of the namespace admits the pods, and everything that
// one object names exists in another.
func TestKubernetes(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"base", "example", "plain", podmonitor} {
		named := map[string]string{} // named things, by the object that names them
		there := map[string]bool{}
		all := objects(t, folder)
		for _, o := range all {
			m := o.(metav1.Object)
			kind := o.GetObjectKind().GroupVersionKind().Kind
			there[kind+" "+m.GetName()] = true
			name := func(format string, args ...any) { named[fmt.Sprintf(format, args...)] = kind + " " + m.GetName() }
			if pod := podOf(o); pod != nil {
				pods := podsOf(pod.Labels)
				there[pods] = true
				name("ServiceAccount %s", pod.Spec.ServiceAccountName)
				for _, r := range evaluator.EvaluatePod(api.LevelVersion{
					Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
					if !r.Allowed {
						t.Errorf("%s: %s: %s: %s", folder, m.GetName(), r.ForbiddenReason, r.ForbiddenDetail)
					}
				}
				for _, v := range pod.Spec.Volumes {
					if claim := v.PersistentVolumeClaim; claim != nil {
						name("PersistentVolumeClaim %s", claim.ClaimName)
					}
				}
				for _, c := range pod.Spec.Containers {
					for _, p := range c.Ports {
						there[pods+" port "+
							p.Name], there[fmt.Sprintf("%s port %s %d", pods, p.Name, p.ContainerPort)] = true, true
					}
					for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
						if p != nil {
							name("%s port %s", pods, p.HTTPGet.Port.String())
						}
					}
				}
			}
			switch o := o.(type) {
			case *appsv1.Deployment:
				name("%s", podsOf(o.Spec.Selector.MatchLabels))
			case *corev1.Service:
				pods := podsOf(o.Spec.Selector)
				for _, p := range o.Spec.Ports {
					there["Service "+o.Name+" port "+p.Name] = true
					if name("%s port %s", pods, p.TargetPort.String()); o.Spec.ClusterIP == corev1.ClusterIPNone {
						there[fmt.Sprintf("address %s.%s.svc %d", o.Name, o.Namespace, p.Port)] = true
						name("%s port %s %d", pods, p.TargetPort.String(), p.Port)
					}
				}
			case *networkingv1.NetworkPolicy:
				pods := podsOf(o.Spec.PodSelector.MatchLabels)
				if len(o.Spec.PodSelector.MatchLabels) > 0 {
					name("%s", pods)
				}
				for _, in := range o.Spec.Ingress {
					for _, p := range in.Ports {
						if name("%s port %s", pods, p.Port.String()); p.Port.StrVal == "admin" && in.From == nil {
							t.Errorf("%s: the admin port of %s is open to all", folder, pods)
						}
					}
				}
			case *networkingv1.Ingress:
				for _, r := range o.Spec.Rules {
					for _, p := range r.HTTP.Paths {
						name("Service %s port %s", p.Backend.Service.Name, p.Backend.Service.Port.Name)
					}
				}
			case *autoscalingv2.HorizontalPodAutoscaler:
				name("%s %s", o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name)
			case *monitoringv1.PodMonitor:
				if o.Namespace != "marketdata" || o.Spec.JobLabel != nameLabel {
					t.Errorf("%s: in %s, with the jobs of label %s", o.Name, o.Namespace, o.Spec.JobLabel)
				}
				for _, e := range o.Spec.Selector.MatchExpressions {
					for _, value := range e.Values {
						pods := podsOf(map[string]string{e.Key: value})
						there["job "+value] = true
						for _, endpoint := range o.Spec.PodMetricsEndpoints {
							name("%s port %s", pods, *endpoint.Port)
						}
					}
				}
				for _, m := range regexp.MustCompile(`job="(\w+)"`).FindAllStringSubmatch(
					read(t, deploy, "prometheus", "rules.yml"), -1) {
					name("job %s", m[1])
				}
			case *rbacv1.RoleBinding:
				name("%s %s", o.RoleRef.Kind, o.RoleRef.Name)
				if s := o.Subjects[0]; o.Namespace != "marketdata" || len(o.Subjects) != 1 ||
					s.Name != "prometheus-k8s" || s.Namespace != "monitoring" {
					t.Errorf("%s/%s binds %v", o.Namespace, o.Name, o.Subjects)
				}
			case *policyv1.PodDisruptionBudget:
				name("%s", podsOf(o.Spec.Selector.MatchLabels))
			}
		}
		cfg, err := promconfig.LoadFile(
			filepath.Join(deploy, "prometheus", "kubernetes.yml"), false, promslog.NewNopLogger())
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range cfg.ScrapeConfigs {
			for _, d := range c.ServiceDiscoveryConfigs {
				for _, name := range d.(*dns.SDConfig).Names {
					named[fmt.Sprintf("address %s %d", name, d.(*dns.SDConfig).Port)] = "Prometheus"
				}
			}
		}
		for what, who := range named {
			if !there[what] {
				t.Errorf("%s: %s names %s, which is not there", folder, who, what)
			}
		}
	}
}

// TestNamespaceRights: DNS queries are also allowed to the port of the DNS pods, which is 5353 in
// OpenShift (nmstate 1570). Prometheus has the rights in the namespace that kube-prometheus gives
// it in each namespace that it watches (its prometheus-roleSpecificNamespaces.yaml; issue 2300).
func TestNamespaceRights(t *testing.T) {
	may := map[string]bool{}
	for _, o := range objects(t, podmonitor) {
		switch o := o.(type) {
		case *networkingv1.NetworkPolicy:
			for _, out := range o.Spec.Egress {
				for _, p := range out.Ports {
					if o.Name == "default" && len(o.Spec.PodSelector.MatchLabels) == 0 && out.To == nil {
						may[fmt.Sprint(*p.Protocol, " ", p.Port)] = true
					}
				}
			}
		case *rbacv1.Role:
			for _, rule := range o.Rules {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						may[verb+" "+rule.APIGroups[0]+resource] = true
					}
				}
			}
		}
	}
	want := []string{"UDP 53", "TCP 53", "UDP 5353", "TCP 5353"}
	for _, verb := range []string{"get", "list", "watch"} {
		want = append(want, verb+" pods", verb+" services", verb+" endpoints")
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(may)); !slices.Equal(got, want) {
		t.Errorf("allowed are %q, want %q", got, want)
	}
}

// nameLabel is the label that selectors use.
const nameLabel = "app.kubernetes.io/name"

// podsOf describes pods by this label.
func podsOf(labels map[string]string) string { return "pods " + labels[nameLabel] }
