package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// The add-on that this manages, and the signer of its own that it has beside Kubernetes'.
const (
	addOnName  = "go-addon"
	signerName = "go-addon.example.com/client"
)

const (
	addOnLabel      = "open-cluster-management.io/addon-name"
	clusterLabel    = "open-cluster-management.io/cluster-name"
	specHashes      = "open-cluster-management.io/config-spec-hash"
	agentsNamespace = "open-cluster-management-agent-addon"
)

var deploymentConfigs = metav1.GroupResource{Group: addOnGroup.Group, Resource: "addondeploymentconfigs"}

// Runs the hub's half until it is told to stop.
func addonManager(ctx context.Context, arguments []string) error {
	flags := flag.NewFlagSet("addon-manager", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "an administrator's kubeconfig of a hub")
	image := flags.String("image", "example.com/go-addon:v1", "the agent's image")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	log.SetLogger(klog.Background())
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	manager, err := ctrl.NewManager(config, ctrl.Options{Scheme: addOnScheme(), Metrics: server.Options{BindAddress: "0"}})
	if err != nil {
		return err
	}
	authority, err := newAuthority()
	if err != nil {
		return err
	}
	hub := manager.GetClient()
	ours := predicate.NewPredicateFuncs(func(it client.Object) bool { return it.GetName() == addOnName })
	labelled := predicate.NewPredicateFuncs(func(it client.Object) bool { return it.GetLabels()[addOnLabel] == addOnName })
	offers := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: types.NamespacedName{Name: addOnName}}}
	})
	if err := ctrl.NewControllerManagedBy(manager).Named("add-on").For(&ManagedClusterAddOn{}, onlyIf(ours)).
		Owns(&ManifestWork{}).Owns(&rbacv1.RoleBinding{}).Complete(&addOns{hub, *image}); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).Named("configuration").For(&ClusterManagementAddOn{}, onlyIf(ours)).
		Watches(&AddOnDeploymentConfig{}, offers).Complete(&configurations{hub}); err != nil {
		return err
	}
	if err := ctrl.NewControllerManagedBy(manager).Named("request").
		For(&certificatesv1.CertificateSigningRequest{}, onlyIf(labelled)).Complete(&requests{hub, authority}); err != nil {
		return err
	}
	return manager.Start(ctx)
}

// One add-on on one cluster: who its agent is, what it may, and what is deployed.
type addOns struct {
	client.Client
	image string
}

func (m *addOns) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	addOn := &ManagedClusterAddOn{}
	if err := m.Get(ctx, request.NamespacedName, addOn); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// The hub says that it knows the add-on by owning it.
	known := slices.ContainsFunc(addOn.OwnerReferences, func(it metav1.OwnerReference) bool {
		return it.Kind == "ClusterManagementAddOn" && it.Name == addOnName
	})
	if !known || !addOn.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	before := copied(addOn)
	if supported := []metav1.GroupResource{deploymentConfigs}; !slices.Equal(addOn.Status.SupportedConfigs, supported) {
		addOn.Status.SupportedConfigs = supported
		return ctrl.Result{}, m.patchStatus(ctx, before, addOn)
	}
	if err := m.permit(ctx, addOn); err != nil {
		return ctrl.Result{}, err
	}
	registered(addOn)
	// Deployed as configured, once that is decided.
	if apimeta.IsStatusConditionTrue(addOn.Status.Conditions, "Configured") {
		work, err := m.deploy(ctx, addOn)
		if err != nil {
			return ctrl.Result{}, err
		}
		if applied := apimeta.FindStatusCondition(work.Status.Conditions, "Applied"); applied != nil {
			condition := metav1.Condition{Type: "ManifestApplied", Status: applied.Status, Reason: "AddonManifestApplied",
				Message: "manifests of addon are applied successfully"}
			if applied.Status != metav1.ConditionTrue {
				condition.Reason, condition.Message = "AddonManifestAppliedFailed", "failed to apply the manifests of addon"
			}
			apimeta.SetStatusCondition(&addOn.Status.Conditions, condition)
		}
	}
	return ctrl.Result{}, m.patchStatus(ctx, before, addOn)
}

func (m *addOns) patchStatus(ctx context.Context, before, after *ManagedClusterAddOn) error {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return nil
	}
	// Several write into these lists.
	return m.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func agentsUser(cluster string) (string, []string) {
	group := fmt.Sprintf("system:open-cluster-management:cluster:%s:addon:%s", cluster, addOnName)
	return group + ":agent:go", []string{group, "system:open-cluster-management:addon:" + addOnName}
}

// The agent may read the ConfigMaps of its cluster's namespace.
func (m *addOns) permit(ctx context.Context, addOn *ManagedClusterAddOn) error {
	meta := metav1.ObjectMeta{Namespace: addOn.Namespace, Name: addOnName + "-agent"}
	role, binding := &rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta}
	_, groups := agentsUser(addOn.Namespace)
	if _, err := controllerutil.CreateOrUpdate(ctx, m, role, func() error {
		role.Labels = map[string]string{addOnLabel: addOnName}
		role.Rules = []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "list", "watch"}}}
		return controllerutil.SetControllerReference(addOn, role, m.Scheme())
	}); err != nil {
		return err
	}
	_, err := controllerutil.CreateOrUpdate(ctx, m, binding, func() error {
		binding.Labels = map[string]string{addOnLabel: addOnName}
		binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}
		binding.Subjects = []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: groups[0]}}
		return controllerutil.SetControllerReference(addOn, binding, m.Scheme())
	})
	return err
}

// How the agent is let in: by a certificate of Kubernetes for the hub's API, and by one of a signer of our own.
func registered(addOn *ManagedClusterAddOn) {
	user, groups := agentsUser(addOn.Namespace)
	driver := ""
	for _, it := range addOn.Status.Registrations {
		if it.KubeClient != nil {
			driver = it.KubeClient.Driver // the cluster's agent chooses it
		}
	}
	addOn.Status.Registrations = []Registration{
		{Type: "kubeClient", KubeClient: &KubeClient{Subject: Subject{User: user, Groups: groups}, Driver: driver}},
		{Type: "customSigner", CustomSigner: &CustomSigner{SignerName: signerName, Subject: Subject{User: "go-addon", Groups: []string{"go"}}}},
	}
	addOn.Status.Namespace = agentsNamespace
	apimeta.SetStatusCondition(&addOn.Status.Conditions, metav1.Condition{Type: "RegistrationApplied", Status: metav1.ConditionTrue,
		Reason: "SetPermissionApplied", Message: "Registration of the addon agent is configured"})
}

// The work with what runs on the cluster, made for the configuration that the hub has decided on.
func (m *addOns) deploy(ctx context.Context, addOn *ManagedClusterAddOn) (*ManifestWork, error) {
	hashes, values := map[string]string{}, map[string]any{}
	for _, it := range addOn.Status.ConfigReferences {
		if it.DesiredConfig == nil || it.Group != deploymentConfigs.Group || it.Resource != deploymentConfigs.Resource {
			continue
		}
		config := &AddOnDeploymentConfig{}
		if err := m.Get(ctx, types.NamespacedName{Namespace: it.DesiredConfig.Namespace, Name: it.DesiredConfig.Name}, config); err != nil {
			return nil, err
		}
		key := fmt.Sprintf("%s.%s/%s/%s", it.Resource, it.Group, config.Namespace, config.Name)
		hashes[key], values = it.DesiredConfig.SpecHash, config.Spec
	}
	work := &ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: addOn.Namespace, Name: "addon-" + addOnName + "-deploy-0"}}
	_, err := controllerutil.CreateOrUpdate(ctx, m, work, func() error {
		work.Labels = map[string]string{addOnLabel: addOnName}
		work.Annotations = nil
		if len(hashes) > 0 {
			text, err := json.Marshal(hashes)
			if err != nil {
				return err
			}
			work.Annotations = map[string]string{specHashes: string(text)}
		}
		work.Spec.Workload.Manifests = nil
		for _, it := range m.manifests(addOn.Namespace, values) {
			raw, err := json.Marshal(it)
			if err != nil {
				return err
			}
			work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, runtime.RawExtension{Raw: raw})
		}
		return controllerutil.SetControllerReference(addOn, work, m.Scheme())
	})
	return work, err
}

func (m *addOns) manifests(cluster string, values map[string]any) []any {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: agentsNamespace, Name: name} }
	kind := func(version, kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: version, Kind: kind} }
	name := addOnName + "-agent"
	const rbac = "rbac.authorization.k8s.io/v1"
	every := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	rule := func(group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: every}
	}
	var environment []corev1.EnvVar
	variables, _ := values["customizedVariables"].([]any)
	for _, it := range variables {
		if it, ok := it.(map[string]any); ok {
			environment = append(environment, corev1.EnvVar{Name: fmt.Sprint(it["name"]), Value: fmt.Sprint(it["value"])})
		}
	}
	secret := func(name string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
	}
	hub, own := addOnName+"-hub-kubeconfig", addOnName+"-go-addon.example.com-client-client-cert"
	ownVolume := secret(own)
	ownVolume.Name = "own"
	deployment := &appsv1.Deployment{TypeMeta: kind("apps/v1", "Deployment"), ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{
			ServiceAccountName: name,
			Volumes:            []corev1.Volume{secret(hub), ownVolume},
			Containers: []corev1.Container{{Name: "agent", Image: m.image, Env: environment,
				Args: []string{"addon-agent", "--hub-kubeconfig=/var/run/hub/kubeconfig", "--certificate=/var/run/own/tls.crt",
					"--cluster-name=" + cluster, "--namespace=" + agentsNamespace, "--addon-name=" + addOnName},
				VolumeMounts: []corev1.VolumeMount{{Name: hub, MountPath: "/var/run/hub", ReadOnly: true},
					{Name: "own", MountPath: "/var/run/own", ReadOnly: true}}}},
		}},
	}}
	return []any{
		&corev1.ServiceAccount{TypeMeta: kind("v1", "ServiceAccount"), ObjectMeta: meta(name)},
		&rbacv1.Role{TypeMeta: kind(rbac, "Role"), ObjectMeta: meta(name), Rules: []rbacv1.PolicyRule{
			rule("", "configmaps"), rule("coordination.k8s.io", "leases"), rule("apps", "deployments")}},
		&rbacv1.RoleBinding{TypeMeta: kind(rbac, "RoleBinding"), ObjectMeta: meta(name),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: agentsNamespace, Name: name}}},
		deployment,
	}
}

// What configurations say now, as hashes where the add-on is configured.
type configurations struct{ client.Client }

func (m *configurations) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	offer := &ClusterManagementAddOn{}
	if err := m.Get(ctx, request.NamespacedName, offer); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := copied(offer)
	lists := [][]ConfigReference{offer.Status.DefaultConfigReferences}
	for _, it := range offer.Status.InstallProgressions {
		lists = append(lists, it.ConfigReferences)
	}
	for _, list := range lists {
		for i := range list {
			if err := m.hash(ctx, &list[i]); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	if equality.Semantic.DeepEqual(before.Status, offer.Status) {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, m.Status().Patch(ctx, offer, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (m *configurations) hash(ctx context.Context, reference *ConfigReference) error {
	wanted := reference.DesiredConfig
	if wanted == nil || reference.Resource != deploymentConfigs.Resource {
		return nil
	}
	config := &AddOnDeploymentConfig{}
	err := m.Get(ctx, types.NamespacedName{Namespace: wanted.Namespace, Name: wanted.Name}, config)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	wanted.SpecHash = ""
	if err == nil {
		text, err := json.Marshal(map[string]any{"spec": config.Spec})
		if err != nil {
			return err
		}
		sum := sha256.Sum256(text)
		wanted.SpecHash = hex.EncodeToString(sum[:])
	}
	return nil
}
