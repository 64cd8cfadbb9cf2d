package check

import (
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/discovery/dns"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

type deployment = appsv1.Deployment

// kinds are all that deploy/kubernetes holds.
var kinds = map[string]func() metav1.Object{
	"v1 Namespace":                           func() metav1.Object { return new(corev1.Namespace) },
	"v1 ServiceAccount":                      func() metav1.Object { return new(corev1.ServiceAccount) },
	"v1 ConfigMap":                           func() metav1.Object { return new(corev1.ConfigMap) },
	"v1 Service":                             func() metav1.Object { return new(corev1.Service) },
	"apps/v1 Deployment":                     func() metav1.Object { return new(appsv1.Deployment) },
	"autoscaling/v2 HorizontalPodAutoscaler": func() metav1.Object { return new(autoscalingv2.HorizontalPodAutoscaler) },
	"policy/v1 PodDisruptionBudget":          func() metav1.Object { return new(policyv1.PodDisruptionBudget) },
	"networking.k8s.io/v1 NetworkPolicy":     func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	"networking.k8s.io/v1 Ingress":           func() metav1.Object { return new(networkingv1.Ingress) },
}

// objects are what kustomize makes of a folder of deploy/kubernetes, decoded
// with nothing left over.
func objects(t *testing.T, folder string) (all []metav1.Object) {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(deploy, "kubernetes", folder))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resources.Resources() {
		kind := r.GetGvk().ApiVersion() + " " + r.GetKind()
		make, ok := kinds[kind]
		if !ok {
			t.Fatalf("%s: %s is not checked", folder, kind)
		}
		text, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		o := make()
		if err := yaml.UnmarshalStrict(text, o); err != nil {
			t.Errorf("%s: %s %s: %v", folder, kind, r.GetName(), err)
		}
		if kind != "v1 Namespace" && o.GetNamespace() != "marketdata" {
			t.Errorf("%s: %s %s is in namespace %q", folder, kind, r.GetName(), o.GetNamespace())
		}
		all = append(all, o)
	}
	return all
}

// of are the objects of one type by their names.
func of[T metav1.Object](all []metav1.Object) map[string]T {
	found := map[string]T{}
	for _, o := range all {
		if o, ok := o.(T); ok {
			found[o.GetName()] = o
		}
	}
	return found
}

func TestKubernetes(t *testing.T) {
	for _, folder := range []string{"base", "example"} {
		t.Run(folder, func(t *testing.T) {
			all := objects(t, folder)
			deployments := of[*deployment](all)
			if got := slices.Sorted(maps.Keys(deployments)); !slices.Equal(got, []string{"builder", "edge"}) {
				t.Fatalf("deployments %v", got)
			}
			for name, d := range deployments {
				if !selects(d.Spec.Selector, d) {
					t.Errorf("%s does not select its own pods", name)
				}
				checkRestricted(t, d)
				checkProbes(t, d)
				checkContainer(t, d, of[*corev1.ConfigMap](all))
				if _, ok := of[*corev1.ServiceAccount](all)[d.Spec.Template.Spec.ServiceAccountName]; !ok {
					t.Errorf("%s: no service account %s", name, d.Spec.Template.Spec.ServiceAccountName)
				}
			}
			if b := deployments["builder"].Spec; *b.Replicas != 1 || b.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
				t.Errorf("builder: %d, %v", *b.Replicas, b.Strategy)
			}
			checkEdge(t, deployments["edge"])
			checkServices(t, all)
			checkNetwork(t, all)
			checkScrapes(t, of[*corev1.Service](all))

			for _, h := range of[*autoscalingv2.HorizontalPodAutoscaler](all) {
				d := deployments[h.Spec.ScaleTargetRef.Name]
				if d == nil || d.Spec.Replicas != nil || *h.Spec.MinReplicas < 2 || *h.Spec.MinReplicas >= h.Spec.MaxReplicas {
					t.Errorf("autoscaler %+v", h.Spec)
				}
			}
			for _, p := range of[*policyv1.PodDisruptionBudget](all) {
				if !selects(p.Spec.Selector, deployments["edge"]) || p.Spec.MaxUnavailable.IntValue() != 1 {
					t.Errorf("disruption budget %+v", p.Spec)
				}
			}
			if len(of[*autoscalingv2.HorizontalPodAutoscaler](all)) != 1 || len(of[*policyv1.PodDisruptionBudget](all)) != 1 {
				t.Error("no autoscaler, or no disruption budget")
			}
		})
	}
}

// selects reports whether a selector takes the pods of a deployment. Selectors
// here are of labels alone.
func selects(s *metav1.LabelSelector, d *deployment) bool {
	if s == nil || len(s.MatchExpressions) > 0 {
		return false
	}
	for name, value := range s.MatchLabels {
		if d.Spec.Template.Labels[name] != value {
			return false
		}
	}
	return true
}

// checkRestricted checks what the Pod Security Standard "restricted" asks for,
// and a root that is read-only.
func checkRestricted(t *testing.T, d *deployment) {
	t.Helper()
	spec := d.Spec.Template.Spec
	if s := spec.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 ||
		s.SeccompProfile == nil || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
		t.Errorf("%s: security context %+v", d.Name, s)
	}
	if spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || spec.HostNetwork || spec.HostPID {
		t.Errorf("%s has more of its node or cluster than it needs", d.Name)
	}
	for _, c := range spec.Containers {
		s := c.SecurityContext
		if s == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) || len(s.Capabilities.Add) > 0 {
			t.Errorf("%s: security context %+v", c.Name, s)
		}
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			t.Errorf("%s: resources %+v", c.Name, c.Resources)
		}
	}
}

// checkProbes checks that probes ask the admin listener, for what it has.
func checkProbes(t *testing.T, d *deployment) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	want := map[string]string{"live": "/livez"}
	if d.Name == "edge" {
		want["ready"] = "/readyz"
	}
	got := map[string]string{}
	for kind, p := range map[string]*corev1.Probe{"live": c.LivenessProbe, "ready": c.ReadinessProbe} {
		if p == nil {
			continue
		}
		got[kind] = p.HTTPGet.Path
		if p.HTTPGet.Port.StrVal != "admin" {
			t.Errorf("%s: probe asks port %v", d.Name, p.HTTPGet.Port.String())
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s: probes %v, want %v", d.Name, got, want)
	}
	flags := map[string]map[string]string{"edge": {"http": "listen", "admin": "admin"}, "builder": {"admin": "metrics"}}[d.Name]
	if len(c.Ports) != len(flags) {
		t.Errorf("%s: ports %v", d.Name, c.Ports)
	}
	for _, p := range c.Ports {
		if _, port, err := net.SplitHostPort(flag(t, c.Args, flags[p.Name])); err != nil || port != strconv.Itoa(int(p.ContainerPort)) {
			t.Errorf("%s: port %s is %d, --%s says %s, %v", d.Name, p.Name, p.ContainerPort, flags[p.Name], port, err)
		}
	}
}

// checkContainer checks the command line, and that all that is referred to is
// there.
func checkContainer(t *testing.T, d *deployment, configs map[string]*corev1.ConfigMap) {
	t.Helper()
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom == nil {
			continue
		}
		ref := e.ValueFrom.ConfigMapKeyRef
		config, ok := configs[ref.Name]
		if !ok || config.Data[ref.Key] == "" {
			t.Errorf("%s: %s: nothing at %s in %s", d.Name, e.Name, ref.Key, ref.Name)
			continue
		}
		env[e.Name] = config.Data[ref.Key]
	}
	checkCommand(t, d.Name, c.Args, env)
	volumes := map[string]bool{}
	for _, v := range spec.Volumes {
		volumes[v.Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("%s: no volume %s", d.Name, m.Name)
		}
		delete(volumes, m.Name)
		if file, ok := env["BUILDER_SIGN_KEY"]; ok && filepath.Dir(file) != m.MountPath {
			t.Errorf("%s: no volume for %s", d.Name, file)
		}
	}
	for name := range volumes {
		t.Errorf("%s: volume %s is not mounted", d.Name, name)
	}
}

// checkEdge checks that sizes and times fit each other.
func checkEdge(t *testing.T, d *deployment) {
	t.Helper()
	spec := d.Spec.Template.Spec
	c := spec.Containers[0]
	if grace := time.Duration(*spec.TerminationGracePeriodSeconds) * time.Second; grace <= draining(t, c.Args) {
		t.Errorf("killed after %v, drains for %v", grace, draining(t, c.Args))
	}
	size := func(name string) int64 {
		q, err := resource.ParseQuantity(strings.TrimSuffix(flag(t, c.Args, name), "B"))
		if err != nil {
			t.Fatalf("--%s: %v", name, err)
		}
		return q.Value()
	}
	memory := c.Resources.Limits.Memory().Value()
	if soft := size("cache-size")*3/2 + 160<<20; memory < soft*5/4 {
		t.Errorf("memory: %d, the soft limit of an edge with that --cache-size is %d", memory, soft)
	}
	cache := spec.Volumes[0].EmptyDir
	if disk, limit, pod := size("cache-dir-size"), cache.SizeLimit.Value(), c.Resources.Limits.StorageEphemeral().Value(); disk >= limit || limit > pod {
		t.Errorf("disk copy %d, volume %d, pod %d", disk, limit, pod)
	}
	if c.VolumeMounts[0].Name != spec.Volumes[0].Name || c.VolumeMounts[0].MountPath != flag(t, c.Args, "cache-dir") {
		t.Errorf("the cache folder is no volume: %v", c.VolumeMounts)
	}
	if *d.Spec.Strategy.RollingUpdate.MaxUnavailable != intstr.FromInt32(0) {
		t.Errorf("a rollout takes edges away: %v", d.Spec.Strategy)
	}
}

// checkServices checks that services and ingresses lead somewhere.
func checkServices(t *testing.T, all []metav1.Object) {
	t.Helper()
	services, deployments := of[*corev1.Service](all), of[*deployment](all)
	for name, s := range services {
		found := false
		for _, d := range deployments {
			if !selects(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}, d) {
				continue
			}
			found = true
			for _, p := range s.Spec.Ports {
				if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool {
					return c.Name == p.TargetPort.StrVal && (s.Spec.ClusterIP != corev1.ClusterIPNone || c.ContainerPort == p.Port)
				}) {
					t.Errorf("service %s: %s has no port %s", name, d.Name, p.TargetPort.String())
				}
			}
		}
		if !found {
			t.Errorf("service %s selects nothing", name)
		}
	}
	for name, i := range of[*networkingv1.Ingress](all) {
		for _, r := range i.Spec.Rules {
			for _, p := range r.HTTP.Paths {
				s := services[p.Backend.Service.Name]
				if s == nil || !slices.ContainsFunc(s.Spec.Ports, func(q corev1.ServicePort) bool { return q.Name == p.Backend.Service.Port.Name }) {
					t.Errorf("ingress %s: %+v leads nowhere", name, p.Backend.Service)
				}
			}
			if !slices.ContainsFunc(i.Spec.TLS, func(tls networkingv1.IngressTLS) bool { return slices.Contains(tls.Hosts, r.Host) }) {
				t.Errorf("ingress %s: %s has no TLS", name, r.Host)
			}
		}
	}
}

// checkNetwork checks that everything is forbidden at first, and that the admin
// ports are not open to all.
func checkNetwork(t *testing.T, all []metav1.Object) {
	t.Helper()
	policies := of[*networkingv1.NetworkPolicy](all)
	both := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	if d := policies["default"]; d == nil || len(d.Spec.PodSelector.MatchLabels) > 0 || len(d.Spec.Ingress) > 0 || !slices.Equal(d.Spec.PolicyTypes, both) {
		t.Error("what is not allowed is not forbidden")
	}
	for name, d := range of[*deployment](all) {
		p := policies[name]
		if p == nil || !selects(&p.Spec.PodSelector, d) {
			t.Errorf("no policy for %s", name)
			continue
		}
		for _, in := range p.Spec.Ingress {
			for _, port := range in.Ports {
				if !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Ports, func(c corev1.ContainerPort) bool { return c.Name == port.Port.StrVal }) {
					t.Errorf("%s: no port %s", name, port.Port)
				}
				if port.Port.StrVal == "admin" && len(in.From) == 0 {
					t.Errorf("%s: the admin port is open to all", name)
				}
			}
			if len(in.Ports) == 0 {
				t.Errorf("%s: all ports are open", name)
			}
		}
	}
}

// checkScrapes checks that Prometheus finds the admin ports by the services'
// names.
func checkScrapes(t *testing.T, services map[string]*corev1.Service) {
	t.Helper()
	jobs := map[string]bool{}
	for _, c := range scrapeConfigs(t, "kubernetes.yml") {
		jobs[c.JobName] = true
		for _, d := range c.ServiceDiscoveryConfigs {
			d := d.(*dns.SDConfig)
			for _, name := range d.Names {
				service, rest, _ := strings.Cut(name, ".")
				s := services[service]
				if s == nil || rest != "marketdata.svc" || s.Spec.ClusterIP != corev1.ClusterIPNone || !s.Spec.PublishNotReadyAddresses || int(s.Spec.Ports[0].Port) != d.Port ||
					!strings.HasPrefix(service, c.JobName) {
					t.Errorf("job %s asks %s, port %d", c.JobName, name, d.Port)
				}
			}
		}
	}
	if !maps.Equal(jobs, map[string]bool{"edge": true, "builder": true}) {
		t.Errorf("jobs %v", jobs)
	}
}
