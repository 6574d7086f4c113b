# An identity on a cluster for a program on the hub, and what it may do there: a ManagedServiceAccount and a ClusterPermission.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file account.yaml
    apiVersion: authentication.open-cluster-management.io/v1beta1
    kind: ManagedServiceAccount
    metadata: {name: ci, namespace: cluster1}
    spec:
      rotation: {}

file permission.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: ci, namespace: cluster1}
    spec:
      clusterRoleBinding:
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
        subject: {apiGroup: authentication.open-cluster-management.io, kind: ManagedServiceAccount, name: ci}

file bad.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: bad, namespace: cluster1}
    spec:
      clusterRoleBinding: {name: nobody}

file checked.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: checked, namespace: cluster1}
    spec:
      validate: true
      roleBindings:
      - namespace: default
        roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
        subject: {apiGroup: rbac.authorization.k8s.io, kind: User, name: jo}

file nowhere.yaml
    apiVersion: rbac.open-cluster-management.io/v1alpha1
    kind: ClusterPermission
    metadata: {name: nowhere, namespace: default}
    spec:
      clusterRoleBinding:
        subject: {apiGroup: rbac.authorization.k8s.io, kind: User, name: jo}

file as-ci.sh
    #!/bin/bash
    # kubectl on the cluster, with the token that is on the hub.
    token=$(kubectl get secret -n cluster1 ci -o jsonpath='{.data.token}' | base64 -d)
    kubectl get secret -n cluster1 ci -o jsonpath='{.data.ca\.crt}' | base64 -d > ca.crt
    server=$(kubectl --kubeconfig=.drover/cluster1.kubeconfig config view -o jsonpath='{.clusters[0].cluster.server}')
    kubectl "$@" --kubeconfig=/dev/null --server="$server" --certificate-authority=ca.crt --token="$token"

start up $ drover up --clusters 1 --addons managed-serviceaccount,cluster-permission

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

$ kubectl apply -f account.yaml
managedserviceaccount.authentication.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 managedserviceaccount/ci --for=condition=TokenReported --timeout=60s
managedserviceaccount.authentication.open-cluster-management.io/ci condition met

# It is somebody there, and may do nothing.
$ bash as-ci.sh auth whoami -o jsonpath='{.status.userInfo.username}{"\n"}'
system:serviceaccount:open-cluster-management-agent-addon:ci

$ bash as-ci.sh auth can-i list pods -A
no
exit 1

$ kubectl apply -f permission.yaml
clusterpermission.rbac.open-cluster-management.io/ci created

$ kubectl wait -n cluster1 clusterpermission/ci --for=condition=AppliedRBACManifestWork --timeout=60s
clusterpermission.rbac.open-cluster-management.io/ci condition met

$ bash as-ci.sh get deployments -A
NAMESPACE                             NAME                                READY   UP-TO-DATE   AVAILABLE   AGE
open-cluster-management-agent-addon   managed-serviceaccount-addon-agent   1/1     1            1           <age>

$ bash as-ci.sh auth can-i delete pods -A
no
exit 1

$ kubectl get clusterpermission -n cluster1 ci -o jsonpath='{range .status.resourceStatus.clusterRoleBindings[*]}{.name} {.condition[0].reason}{"\n"}{end}'
ci AppliedManifestComplete

# What is taken away is restored.
let before $ kubectl get secret -n cluster1 ci -o jsonpath='{.metadata.uid}'

$ kubectl delete secret -n cluster1 ci
secret "ci" deleted

wait $ test "$(kubectl get secret -n cluster1 ci -o jsonpath='{.metadata.uid}')" != "$before" && kubectl get secret -n cluster1 ci -o jsonpath='{.type}{"\n"}'
Opaque

$ kubectl $CLUSTER delete serviceaccount -n open-cluster-management-agent-addon ci
serviceaccount "ci" deleted

wait $ bash as-ci.sh auth can-i list pods -A
yes

# Both versions are served.
$ kubectl get managedserviceaccounts.v1alpha1.authentication.open-cluster-management.io -n cluster1 -o name
...
managedserviceaccount.authentication.open-cluster-management.io/ci

# What is wrong is said.
$ kubectl apply -f bad.yaml
...Either subject or subjects has to exist in clusterRoleBinding...
exit 1

$ kubectl apply -f nowhere.yaml
clusterpermission.rbac.open-cluster-management.io/nowhere created

wait $ kubectl get clusterpermission nowhere -o jsonpath='{range .status.conditions[*]}{.type}={.status} {.message}{"\n"}{end}'
Validation=False namespace value is not a managed cluster

$ kubectl apply -f checked.yaml
clusterpermission.rbac.open-cluster-management.io/checked created

wait $ kubectl get clusterpermission -n cluster1 checked -o jsonpath='{.status.conditions[?(@.type=="ValidateRolesExist")].message}{"\n"}'
The following roles were not found: default/reader

$ kubectl $CLUSTER create role reader --verb=get --resource=pods
role.rbac.authorization.k8s.io/reader created

wait $ kubectl get clusterpermission -n cluster1 checked -o jsonpath='{.status.conditions[?(@.type=="ValidateRolesExist")].message}{"\n"}'
All referenced roles were found

# It all goes with the objects on the hub.
$ kubectl delete clusterpermission,managedserviceaccount --all -n cluster1
...

wait $ kubectl $CLUSTER get clusterrolebindings,serviceaccounts -A -o name | grep -w ci || echo none
none

wait $ kubectl get secret,manifestwork -n cluster1 -o name
manifestwork.work.open-cluster-management.io/addon-managed-serviceaccount-deploy-0
