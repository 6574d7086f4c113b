package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
)

// What all typed clients have.
type typed[T, L any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Update(context.Context, T, metav1.UpdateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
	DeleteCollection(context.Context, metav1.DeleteOptions, metav1.ListOptions) error
}

type typedObject interface {
	runtime.Object
	metav1.Object
}

// Made, changed and deleted by a client that speaks protobuf; what it sees is what a client that speaks JSON sees.
func builtin[T typedObject, L runtime.Object](kind string, client func(kubernetes.Interface) typed[T, L], it T) check {
	return both(kind, func(w *world) (typed[T, L], typed[T, L]) { return client(w.kube), client(w.kubeJSON) }, it)
}

func both[T typedObject, L runtime.Object](kind string, clients func(*world) (typed[T, L], typed[T, L]), it T) check {
	return check{"built-in " + kind + ": typed client with protobuf", func(ctx context.Context, w *world) error {
		protobuf, json := clients(w)
		it.SetName("gc-" + it.GetName())
		it.SetLabels(map[string]string{mark: "built-in"})
		selected := metav1.ListOptions{LabelSelector: mark + "=built-in", FieldSelector: "metadata.name=" + it.GetName()}
		list, err := protobuf.List(ctx, selected)
		if err != nil {
			return fmt.Errorf("list: %w", err)
		}
		before, err := meta.ListAccessor(list)
		if err != nil {
			return err
		}
		begun := selected
		begun.ResourceVersion, begun.AllowWatchBookmarks = before.GetResourceVersion(), true
		watching, err := protobuf.Watch(ctx, begun)
		if err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		defer watching.Stop()
		if _, err := protobuf.Create(ctx, it, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create: %w", err)
		}
		if err := same(ctx, protobuf, json, it.GetName()); err != nil {
			return err
		}
		patch := []byte(`{"metadata":{"annotations":{"patched":"yes"}}}`)
		if _, err := protobuf.Patch(ctx, it.GetName(), types.StrategicMergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return fmt.Errorf("patch: %w", err)
		}
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			now, err := protobuf.Get(ctx, it.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			annotations := now.GetAnnotations()
			annotations["updated"] = "yes"
			now.SetAnnotations(annotations)
			_, err = protobuf.Update(ctx, now, metav1.UpdateOptions{})
			return err
		}); err != nil {
			return fmt.Errorf("update: %w", err)
		}
		if list, err = protobuf.List(ctx, selected); err != nil || meta.LenList(list) != 1 {
			return fmt.Errorf("a list has %d: %w", meta.LenList(list), err)
		}
		zero := int64(0)
		if err := protobuf.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &zero}, selected); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		return story(ctx, watching)
	}}
}

// Both clients read the same of one state.
func same[T typedObject, L any](ctx context.Context, protobuf, json typed[T, L], name string) error {
	for {
		one, err := protobuf.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get with protobuf: %w", err)
		}
		other, err := json.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("get with JSON: %w", err)
		}
		// Somebody wrote between the two.
		if one.GetResourceVersion() != other.GetResourceVersion() && ctx.Err() == nil {
			continue
		}
		for _, it := range []T{one, other} {
			it.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
		}
		if !equality.Semantic.DeepEqual(one, other) {
			return fmt.Errorf("protobuf and JSON tell two things:\n%s", diff.Diff(one, other))
		}
		return nil
	}
}

// Added, changed by the last writer, deleted, in this order; others may change it in between.
func story(ctx context.Context, watching watch.Interface) error {
	added, updated := false, false
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the watch never told all: added %v, updated %v", added, updated)
		case event, open := <-watching.ResultChan():
			if !open {
				return errors.New("the watch ended")
			}
			it, _ := event.Object.(metav1.Object)
			switch event.Type {
			case watch.Added:
				added = true
			case watch.Modified:
				updated = updated || it.GetAnnotations()["updated"] == "yes" && it.GetAnnotations()["patched"] == "yes"
			case watch.Error:
				return fmt.Errorf("the watch: %w", apierrors.FromObject(event.Object))
			case watch.Deleted:
				if !added || !updated {
					return fmt.Errorf("deleted before all was told: added %v, updated %v", added, updated)
				}
				return nil
			}
		}
	}
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

func pointer[T any](it T) *T { return &it }

func certificateRequest(commonName string, organizations ...string) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	subject := pkix.Name{CommonName: commonName, Organization: organizations}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return nil, nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), key, nil
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "one", Image: "example.com/nobody/has/it:v1", Args: []string{"a", "b"},
			Env: []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "N", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}},
			Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{"memory": resource.MustParse("1Gi")},
			},
			LivenessProbe: &corev1.Probe{PeriodSeconds: 7, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromString("http")}}},
			VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}},
		}},
		Volumes: []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: pointer(resource.MustParse("1Mi"))}}}},
		Tolerations: []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
			TolerationSeconds: pointer(int64(3))}},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: pointer(true)},
		NodeSelector:    map[string]string{"nobody": "has"},
	}
}

func podTemplate() (metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": "go-clients"}
	return metav1.LabelSelector{MatchLabels: labels},
		corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()}
}

func deployment(name string) *appsv1.Deployment {
	selector, template := podTemplate()
	return &appsv1.Deployment{ObjectMeta: named(name), Spec: appsv1.DeploymentSpec{Replicas: pointer(int32(0)), Selector: &selector,
		Template: template}}
}

func builtinChecks() []check {
	type kube = kubernetes.Interface
	selector, template := podTemplate()
	once := template
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	request, _, err := certificateRequest("go-client")
	if err != nil {
		panic(err)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 678901000, time.UTC)
	quantity := resource.MustParse("1500m")
	about := corev1.ObjectReference{Kind: "ConfigMap", APIVersion: "v1", Namespace: namespace, Name: "one"}
	rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}
	subject := rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: "one"}
	port := intstr.FromInt32(8080)
	hook := admissionv1.WebhookClientConfig{URL: pointer("https://127.0.0.1:1/never")}
	// Of a resource that nobody has.
	hookRules := []admissionv1.RuleWithOperations{{Operations: []admissionv1.OperationType{"CREATE"}, Rule: admissionv1.Rule{
		APIGroups: []string{"nobody.example.com"}, APIVersions: []string{"v1"}, Resources: []string{"nothings"}}}}
	return []check{
		builtin("ConfigMap", func(k kube) typed[*corev1.ConfigMap, *corev1.ConfigMapList] {
			return k.CoreV1().ConfigMaps(namespace)
		}, &corev1.ConfigMap{ObjectMeta: named("one"), Data: map[string]string{"a": "b", "empty": ""},
			BinaryData: map[string][]byte{"raw": {0, 1, 255}}}),
		builtin("Secret", func(k kube) typed[*corev1.Secret, *corev1.SecretList] { return k.CoreV1().Secrets(namespace) },
			&corev1.Secret{ObjectMeta: named("one"), StringData: map[string]string{"a": "b"}, Data: map[string][]byte{"c": {0, 200}},
				Immutable: pointer(false)}),
		builtin("ServiceAccount", func(k kube) typed[*corev1.ServiceAccount, *corev1.ServiceAccountList] {
			return k.CoreV1().ServiceAccounts(namespace)
		}, &corev1.ServiceAccount{ObjectMeta: named("one"), ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}}}),
		builtin("Service", func(k kube) typed[*corev1.Service, *corev1.ServiceList] {
			return services{k.CoreV1().Services(namespace)}
		},
			&corev1.Service{ObjectMeta: named("one"), Spec: corev1.ServiceSpec{Selector: selector.MatchLabels,
				Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromString("http")}}}}),
		builtin("Endpoints", func(k kube) typed[*corev1.Endpoints, *corev1.EndpointsList] { return k.CoreV1().Endpoints(namespace) },
			// Not the name of the Service before: those are Kubernetes' own, and go when it has noticed that the Service has gone.
			&corev1.Endpoints{ObjectMeta: named("lone"), Subsets: []corev1.EndpointSubset{{
				Addresses: []corev1.EndpointAddress{{IP: "192.0.2.1"}}, Ports: []corev1.EndpointPort{{Port: 80}}}}}),
		builtin("Pod", func(k kube) typed[*corev1.Pod, *corev1.PodList] { return k.CoreV1().Pods(namespace) },
			&corev1.Pod{ObjectMeta: named("one"), Spec: podSpec()}),
		builtin("PersistentVolumeClaim", func(k kube) typed[*corev1.PersistentVolumeClaim, *corev1.PersistentVolumeClaimList] {
			return k.CoreV1().PersistentVolumeClaims(namespace)
		}, &corev1.PersistentVolumeClaim{ObjectMeta: named("one"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce"}, StorageClassName: pointer("none"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse("1Gi")}}}}),
		builtin("Event", func(k kube) typed[*corev1.Event, *corev1.EventList] { return k.CoreV1().Events(namespace) },
			&corev1.Event{ObjectMeta: named("one"), InvolvedObject: about, Reason: "Tried", Message: "by a Go client", Type: "Normal",
				FirstTimestamp: metav1.NewTime(now), LastTimestamp: metav1.NewTime(now), Count: 3,
				Source: corev1.EventSource{Component: "go-clients"}}),
		builtin("Event of events.k8s.io", func(k kube) typed[*eventsv1.Event, *eventsv1.EventList] {
			return k.EventsV1().Events(namespace)
		}, &eventsv1.Event{ObjectMeta: named("two"), EventTime: metav1.NewMicroTime(now), ReportingController: "example.com/go",
			ReportingInstance: "one", Action: "Try", Reason: "Tried", Regarding: about, Note: "by a Go client", Type: "Normal",
			Series: &eventsv1.EventSeries{Count: 2, LastObservedTime: metav1.NewMicroTime(now)}}),
		builtin("Deployment", func(k kube) typed[*appsv1.Deployment, *appsv1.DeploymentList] {
			return k.AppsV1().Deployments(namespace)
		}, &appsv1.Deployment{ObjectMeta: named("one"), Spec: appsv1.DeploymentSpec{Replicas: pointer(int32(1)), Selector: &selector,
			Template: template, Strategy: appsv1.DeploymentStrategy{Type: "RollingUpdate", RollingUpdate: &appsv1.RollingUpdateDeployment{
				MaxSurge: pointer(intstr.FromString("30%"))}}}}),
		builtin("ReplicaSet", func(k kube) typed[*appsv1.ReplicaSet, *appsv1.ReplicaSetList] {
			return k.AppsV1().ReplicaSets(namespace)
		}, &appsv1.ReplicaSet{ObjectMeta: named("own"), Spec: appsv1.ReplicaSetSpec{Replicas: pointer(int32(0)), Selector: &selector,
			Template: template}}),
		builtin("StatefulSet", func(k kube) typed[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
			return k.AppsV1().StatefulSets(namespace)
		}, &appsv1.StatefulSet{ObjectMeta: named("one"), Spec: appsv1.StatefulSetSpec{Replicas: pointer(int32(0)), Selector: &selector,
			Template: template, ServiceName: "one"}}),
		builtin("DaemonSet", func(k kube) typed[*appsv1.DaemonSet, *appsv1.DaemonSetList] { return k.AppsV1().DaemonSets(namespace) },
			&appsv1.DaemonSet{ObjectMeta: named("one"), Spec: appsv1.DaemonSetSpec{Selector: &selector, Template: template}}),
		builtin("ControllerRevision", func(k kube) typed[*appsv1.ControllerRevision, *appsv1.ControllerRevisionList] {
			return k.AppsV1().ControllerRevisions(namespace)
		}, &appsv1.ControllerRevision{ObjectMeta: named("one"), Revision: 5, Data: runtime.RawExtension{Raw: []byte(`{"a":{"b":1}}`)}}),
		builtin("Job", func(k kube) typed[*batchv1.Job, *batchv1.JobList] { return k.BatchV1().Jobs(namespace) },
			&batchv1.Job{ObjectMeta: named("one"), Spec: batchv1.JobSpec{Suspend: pointer(true), Template: once}}),
		builtin("CronJob", func(k kube) typed[*batchv1.CronJob, *batchv1.CronJobList] { return k.BatchV1().CronJobs(namespace) },
			&batchv1.CronJob{ObjectMeta: named("one"), Spec: batchv1.CronJobSpec{Schedule: "0 0 1 1 *", Suspend: pointer(true),
				JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: once}}}}),
		builtin("Lease", func(k kube) typed[*coordinationv1.Lease, *coordinationv1.LeaseList] {
			return k.CoordinationV1().Leases(namespace)
		}, &coordinationv1.Lease{ObjectMeta: named("one"), Spec: coordinationv1.LeaseSpec{HolderIdentity: pointer("one"),
			LeaseDurationSeconds: pointer(int32(15)), RenewTime: &metav1.MicroTime{Time: now}}}),
		builtin("CertificateSigningRequest", func(k kube) typed[*certificatesv1.CertificateSigningRequest, *certificatesv1.CertificateSigningRequestList] {
			return k.CertificatesV1().CertificateSigningRequests()
		}, &certificatesv1.CertificateSigningRequest{ObjectMeta: named("go-clients"), Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: request, SignerName: "example.com/nobody", Usages: []certificatesv1.KeyUsage{"client auth"},
			ExpirationSeconds: pointer(int32(600))}}),
		builtin("Role", func(k kube) typed[*rbacv1.Role, *rbacv1.RoleList] { return k.RbacV1().Roles(namespace) },
			&rbacv1.Role{ObjectMeta: named("one"), Rules: []rbacv1.PolicyRule{rule}}),
		builtin("RoleBinding", func(k kube) typed[*rbacv1.RoleBinding, *rbacv1.RoleBindingList] {
			return k.RbacV1().RoleBindings(namespace)
		}, &rbacv1.RoleBinding{ObjectMeta: named("one"), Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "one"}}),
		builtin("ClusterRole", func(k kube) typed[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList] { return k.RbacV1().ClusterRoles() },
			&rbacv1.ClusterRole{ObjectMeta: named("go-clients"), Rules: []rbacv1.PolicyRule{rule, {NonResourceURLs: []string{"/x"},
				Verbs: []string{"get"}}}}),
		builtin("ClusterRoleBinding", func(k kube) typed[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList] {
			return k.RbacV1().ClusterRoleBindings()
		}, &rbacv1.ClusterRoleBinding{ObjectMeta: named("go-clients"), Subjects: []rbacv1.Subject{subject},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "one"}}),
		builtin("PodDisruptionBudget", func(k kube) typed[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList] {
			return k.PolicyV1().PodDisruptionBudgets(namespace)
		}, &policyv1.PodDisruptionBudget{ObjectMeta: named("one"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: pointer(intstr.FromString("50%")), Selector: &selector}}),
		builtin("HorizontalPodAutoscaler", func(k kube) typed[*autoscalingv2.HorizontalPodAutoscaler, *autoscalingv2.HorizontalPodAutoscalerList] {
			return k.AutoscalingV2().HorizontalPodAutoscalers(namespace)
		}, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: named("one"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "one"}, MaxReplicas: 3,
			Metrics: []autoscalingv2.MetricSpec{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu",
				Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: &quantity}}}}}}),
		builtin("HorizontalPodAutoscaler of v1", func(k kube) typed[*autoscalingv1.HorizontalPodAutoscaler, *autoscalingv1.HorizontalPodAutoscalerList] {
			return k.AutoscalingV1().HorizontalPodAutoscalers(namespace)
		}, &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: named("older"), Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "one"}, MaxReplicas: 3,
			TargetCPUUtilizationPercentage: pointer(int32(50))}}),
		builtin("NetworkPolicy", func(k kube) typed[*networkingv1.NetworkPolicy, *networkingv1.NetworkPolicyList] {
			return k.NetworkingV1().NetworkPolicies(namespace)
		}, &networkingv1.NetworkPolicy{ObjectMeta: named("one"), Spec: networkingv1.NetworkPolicySpec{PodSelector: selector,
			Ingress: []networkingv1.NetworkPolicyIngressRule{{Ports: []networkingv1.NetworkPolicyPort{{Port: &port}}}}}}),
		builtin("Ingress", func(k kube) typed[*networkingv1.Ingress, *networkingv1.IngressList] {
			return k.NetworkingV1().Ingresses(namespace)
		}, &networkingv1.Ingress{ObjectMeta: named("one"), Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "one", Port: networkingv1.ServiceBackendPort{Number: 80}}}}}),
		builtin("EndpointSlice", func(k kube) typed[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
			return k.DiscoveryV1().EndpointSlices(namespace)
		}, &discoveryv1.EndpointSlice{ObjectMeta: named("one"), AddressType: "IPv4", Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"192.0.2.1"}, Conditions: discoveryv1.EndpointConditions{Ready: pointer(true)}}},
			Ports: []discoveryv1.EndpointPort{{Port: pointer(int32(80))}}}),
		builtin("Namespace", func(k kube) typed[*corev1.Namespace, *corev1.NamespaceList] {
			return namespaces{k.CoreV1().Namespaces()}
		},
			&corev1.Namespace{ObjectMeta: named("another")}),
		builtin("PriorityClass", func(k kube) typed[*schedulingv1.PriorityClass, *schedulingv1.PriorityClassList] {
			return k.SchedulingV1().PriorityClasses()
		}, &schedulingv1.PriorityClass{ObjectMeta: named("go-clients"), Value: -5}),
		builtin("StorageClass", func(k kube) typed[*storagev1.StorageClass, *storagev1.StorageClassList] {
			return k.StorageV1().StorageClasses()
		}, &storagev1.StorageClass{ObjectMeta: named("go-clients"), Provisioner: "example.com/none", Parameters: map[string]string{"a": "b"}}),
		builtin("CSIDriver", func(k kube) typed[*storagev1.CSIDriver, *storagev1.CSIDriverList] { return k.StorageV1().CSIDrivers() },
			&storagev1.CSIDriver{ObjectMeta: named("go-clients.example.com")}),
		builtin("CSINode", func(k kube) typed[*storagev1.CSINode, *storagev1.CSINodeList] { return k.StorageV1().CSINodes() },
			&storagev1.CSINode{ObjectMeta: named("go-clients"), Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
				Name: "one.example.com", NodeID: "one"}}}}),
		builtin("CSIStorageCapacity", func(k kube) typed[*storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList] {
			return k.StorageV1().CSIStorageCapacities(namespace)
		}, &storagev1.CSIStorageCapacity{ObjectMeta: named("one"), StorageClassName: "one", Capacity: &quantity}),
		builtin("VolumeAttachment", func(k kube) typed[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList] {
			return k.StorageV1().VolumeAttachments()
		}, &storagev1.VolumeAttachment{ObjectMeta: named("go-clients"), Spec: storagev1.VolumeAttachmentSpec{Attacher: "one.example.com",
			NodeName: "one", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: pointer("one")}}}),
		builtin("RuntimeClass", func(k kube) typed[*nodev1.RuntimeClass, *nodev1.RuntimeClassList] { return k.NodeV1().RuntimeClasses() },
			&nodev1.RuntimeClass{ObjectMeta: named("go-clients"), Handler: "one"}),
		builtin("ValidatingWebhookConfiguration", func(k kube) typed[*admissionv1.ValidatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfigurationList] {
			return k.AdmissionregistrationV1().ValidatingWebhookConfigurations()
		}, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: named("go-clients"), Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "one.example.com", ClientConfig: hook, Rules: hookRules, SideEffects: pointer(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: pointer(int32(3))}}}),
		builtin("MutatingWebhookConfiguration", func(k kube) typed[*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingWebhookConfigurationList] {
			return k.AdmissionregistrationV1().MutatingWebhookConfigurations()
		}, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: named("go-clients"), Webhooks: []admissionv1.MutatingWebhook{{
			Name: "one.example.com", ClientConfig: hook, Rules: hookRules, SideEffects: pointer(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}}}}),
		both("CustomResourceDefinition", func(w *world) (
			typed[*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinitionList],
			typed[*apiextensionsv1.CustomResourceDefinition, *apiextensionsv1.CustomResourceDefinitionList],
		) {
			definitions := w.crds.ApiextensionsV1().CustomResourceDefinitions()
			return definitions, definitions
		}, definition()),
	}
}

func definition() *apiextensionsv1.CustomResourceDefinition {
	number := apiextensionsv1.JSONSchemaProps{Type: "integer", Minimum: pointer(1.0), Default: &apiextensionsv1.JSON{Raw: []byte("7")}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: named("tries.go-clients.example.com"),
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "go-clients.example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "gc-tries", Singular: "gc-try", Kind: "Try", ListKind: "TryList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"number": number}},
					},
				}},
			}},
		},
	}
}

// The clients of namespaces and services cannot delete several at once: these list, and delete one after the other.
type namespaces struct {
	corev1client.NamespaceInterface
}

func (n namespaces) DeleteCollection(ctx context.Context, how metav1.DeleteOptions, which metav1.ListOptions) error {
	list, err := n.List(ctx, which)
	for i := 0; err == nil && i < len(list.Items); i++ {
		err = n.Delete(ctx, list.Items[i].Name, how)
	}
	return err
}

type services struct{ corev1client.ServiceInterface }

func (s services) DeleteCollection(ctx context.Context, how metav1.DeleteOptions, which metav1.ListOptions) error {
	list, err := s.List(ctx, which)
	for i := 0; err == nil && i < len(list.Items); i++ {
		err = s.Delete(ctx, list.Items[i].Name, how)
	}
	return err
}
