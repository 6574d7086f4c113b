# managed-serviceaccount as an AddOnTemplate: nothing runs on the hub for it.
# Embedded only: the agent is a pod, and there is no kubelet elsewhere.

file account.yaml
    apiVersion: authentication.open-cluster-management.io/v1beta1
    kind: ManagedServiceAccount
    metadata: {name: ci, namespace: cluster1}
    spec:
      rotation: {}

file short.yaml
    apiVersion: authentication.open-cluster-management.io/v1beta1
    kind: ManagedServiceAccount
    metadata: {name: short, namespace: cluster1}
    spec:
      rotation: {}
      ttlSecondsAfterCreation: 1

start up $ drover up --clusters 1 --no-examples

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl apply -f $STORY_SOURCES/crds/authentication.open-cluster-management.io_managedserviceaccounts.yaml
customresourcedefinition.apiextensions.k8s.io/managedserviceaccounts.authentication.open-cluster-management.io created

$ kubectl apply -f $STORY_SOURCES/addons/managed-serviceaccount/deploy/template.yaml
...
clustermanagementaddon.addon.open-cluster-management.io/managed-serviceaccount created

$ kubectl apply -f account.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created

# What it waits for is said.
$ drover why managedserviceaccount/cluster1/ci
...Nothing has been said of it: it waits for the agent of the add-on.
...Cluster cluster1 has no add-on managed-serviceaccount: `drover addon enable --names managed-serviceaccount --clusters cluster1`.

$ drover addon enable --names managed-serviceaccount --clusters cluster1
Deploying managed-serviceaccount add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedserviceaccount/ci --for=condition=TokenReported --timeout=60s
managedserviceaccount.authentication.open-cluster-management.io/ci condition met

$ drover why managedserviceaccount/cluster1/ci
managedserviceaccount/cluster1/ci waits for nothing...

$ kubectl wait -n cluster1 managedclusteraddon/managed-serviceaccount --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/managed-serviceaccount condition met

# The agent ends one whose time is over.
$ kubectl apply -f short.yaml
managedserviceaccount.authentication.open-cluster-management.io/short created

wait $ kubectl get managedserviceaccounts -n cluster1 -o name
managedserviceaccount.authentication.open-cluster-management.io/ci

$ drover addon disable --names managed-serviceaccount --clusters cluster1
...

stop up
