# An add-on of cluster1 whose agent is put on cluster2: what goes where, what is said of it, and how it comes home again.

file addon.yaml
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ClusterManagementAddOn
    metadata:
      name: helloworldhosted
    spec:
      addOnMeta:
        displayName: helloworldhosted
    ---
    apiVersion: addon.open-cluster-management.io/v1alpha1
    kind: ManagedClusterAddOn
    metadata:
      name: helloworldhosted
      namespace: cluster1
      annotations:
        addon.open-cluster-management.io/hosting-cluster-name: cluster3
    spec:
      installNamespace: hosted

start up $ drover up

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

set HOST=--kubeconfig=.drover/cluster2.kubeconfig

# There is no such cluster to host it.
$ kubectl apply -f addon.yaml
clustermanagementaddon.addon.open-cluster-management.io/helloworldhosted created
managedclusteraddon.addon.open-cluster-management.io/helloworldhosted created

wait $ kubectl -n cluster1 get managedclusteraddon helloworldhosted -o jsonpath='{range .status.conditions[?(@.type=="HostingClusterValidity")]}{.status} {.reason} {.message}{end}'
False HostingClusterInvalid hosting cluster cluster3 is not a managed cluster of the hub

# This one is there.
$ kubectl -n cluster1 annotate --overwrite managedclusteraddon helloworldhosted addon.open-cluster-management.io/hosting-cluster-name=cluster2
managedclusteraddon.addon.open-cluster-management.io/helloworldhosted annotated

$ kubectl wait -n cluster1 managedclusteraddon/helloworldhosted --for=condition=HostingManifestApplied --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/helloworldhosted condition met

$ kubectl -n cluster1 get managedclusteraddon helloworldhosted -o jsonpath='{range .status.conditions[?(@.type=="HostingClusterValidity")]}{.status} {.reason} {.message}{end}'
True HostingClusterValid hosting cluster cluster2 is a managed cluster of the hub

$ kubectl get manifestworks -A -o custom-columns='NAMESPACE:.metadata.namespace,NAME:.metadata.name,FOR:.metadata.labels.open-cluster-management\.io/addon-namespace'
NAMESPACE   NAME                                         FOR
cluster1    addon-helloworldhosted-deploy-0              <none>
cluster2    addon-helloworldhosted-deploy-hosting-cluster1-0   cluster1

$ kubectl -n cluster1 get managedclusteraddon helloworldhosted -o jsonpath='{range .metadata.finalizers[*]}{@}{"\n"}{end}'
addon.open-cluster-management.io/hosting-addon-pre-delete
addon.open-cluster-management.io/hosting-manifests-cleanup

# The agent is over there; what it needs here is here.
$ kubectl $HOST -n hosted get deployments -o name
deployment.apps/helloworldhosted-agent

$ kubectl $CLUSTER -n hosted get deployments -o name

wait $ kubectl $CLUSTER get namespace hosted -o name
namespace/hosted

# Its credential and its lease are looked after by the agent of cluster1, which runs at home and says so.
wait $ kubectl -n cluster1 get managedclusteraddon helloworldhosted -o jsonpath='{range .status.conditions[?(@.type=="Available")]}{.status} {.message}{end}'
Unknown The status of helloworldhosted add-on is unknown. No lease found on hosting cluster "cluster2"; verify it matches the cluster where this managed cluster's klusterlet actually runs.

# Brought home, everything is at home, and nothing of it is left over there.
$ kubectl -n cluster1 annotate managedclusteraddon helloworldhosted addon.open-cluster-management.io/hosting-cluster-name-
managedclusteraddon.addon.open-cluster-management.io/helloworldhosted annotated

wait $ kubectl $CLUSTER -n hosted get deployments -o name
deployment.apps/helloworldhosted-agent

wait $ kubectl $HOST -n hosted get deployments,jobs -o name

wait $ kubectl get manifestworks -A -o name
manifestwork.work.open-cluster-management.io/addon-helloworldhosted-deploy-0

wait $ kubectl -n cluster1 get managedclusteraddon helloworldhosted -o jsonpath='{range .metadata.finalizers[*]}{@}{"\n"}{end}'
addon.open-cluster-management.io/addon-pre-delete

$ kubectl -n cluster1 get managedclusteraddon helloworldhosted -o jsonpath='{range .status.conditions[*]}{.type}{"\n"}{end}' | grep Hosting
exit 1

stop up
