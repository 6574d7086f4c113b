# managed-serviceaccount and cluster-permission as pods on the hub, by the manifests that come with them: what these allow is
# all they need.
# Embedded only: the managers and the agent are pods, and there is no kubelet elsewhere.

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

file permission.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: ci, namespace: cluster1}
    spec:
      clusterRole:
        rules:
        - {apiGroups: [""], resources: [configmaps], verbs: [get, list]}
      clusterRoleBinding:
        subject: {apiGroup: authentication.open-cluster-management.io, kind: ManagedServiceAccount, name: ci}

start up $ drover up --clusters 1 --no-examples

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f $STORY_SOURCES/crds/authentication.open-cluster-management.io_managedserviceaccounts.yaml -f $STORY_SOURCES/crds/rbac.open-cluster-management.io_clusterpermissions.yaml
customresourcedefinition.apiextensions.k8s.io/managedserviceaccounts.authentication.open-cluster-management.io created
customresourcedefinition.apiextensions.k8s.io/clusterpermissions.rbac.open-cluster-management.io created

$ for name in managed-serviceaccount cluster-permission; do kubectl apply -k $STORY_SOURCES/addons/$name/deploy; done
...
deployment.apps/cluster-permission created

wait $ kubectl get deployments -n open-cluster-management
NAME                                   READY   UP-TO-DATE   AVAILABLE   AGE
cluster-permission                     1/1     1            1           <age>
managed-serviceaccount-addon-manager   1/1     1            1           <age>

$ drover addon enable --names managed-serviceaccount --clusters cluster1
Deploying managed-serviceaccount add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddon/managed-serviceaccount --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/managed-serviceaccount condition met

$ kubectl apply -f account.yaml -f short.yaml -f permission.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created
managedserviceaccount.authentication.open-cluster-management.io/short created
clusterpermission.rbac.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 clusterpermission/ci --for=condition=AppliedRBACManifestWork --timeout=60s
clusterpermission.rbac.open-cluster-management.io/ci condition met

$ kubectl $CLUSTER auth can-i list configmaps -A --as=system:serviceaccount:open-cluster-management-agent-addon:ci
yes

# Its time is over.
wait $ kubectl get managedserviceaccounts -n cluster1 -o name
managedserviceaccount.authentication.open-cluster-management.io/ci

# The manager leads.
$ kubectl get leases -n open-cluster-management managed-serviceaccount-addon-manager -o name
lease.coordination.k8s.io/managed-serviceaccount-addon-manager

$ drover addon disable --names managed-serviceaccount --clusters cluster1
Undeploying managed-serviceaccount add-on in managed cluster: cluster1.

wait $ kubectl get managedclusteraddons -A -o name

stop up
