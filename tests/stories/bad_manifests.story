# A manifest that cannot be applied says so in its own condition. The others of its work are applied, and what the work no
# longer has is pruned all the same.

file work.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: w}
    spec:
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: first, namespace: default}, data: {color: red}}
          - {apiVersion: example.com/v1, kind: Unicorn, metadata: {name: one, namespace: default}}
          - apiVersion: apps/v1
            kind: Deployment
            metadata: {name: unselective, namespace: default}
            spec: {template: {spec: {containers: [{name: c, image: i}]}}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: mistyped, namespace: default}, data: [1, 2]}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: homeless, namespace: nowhere}}
          - {apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: "example:viewer"}, rules: []}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: last, namespace: default}, data: {color: red}}

file no-object.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: no-object}
    spec:
      workload:
        manifests:
          - just a text

file executor.yaml
    apiVersion: work.open-cluster-management.io/v1
    kind: ManifestWork
    metadata: {namespace: cluster1, name: limited}
    spec:
      executor: {subject: {type: ServiceAccount, serviceAccount: {namespace: default, name: deployer}}}
      workload:
        manifests:
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: old, namespace: default}}
          - {apiVersion: v1, kind: Secret, metadata: {name: forbidden, namespace: default}}
          - {apiVersion: v1, kind: ConfigMap, metadata: {name: allowed, namespace: default}}

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CLUSTER=--kubeconfig=.drover/cluster1.kubeconfig

# What is no object does not get past the hub's door.
$ kubectl apply -f no-object.yaml 2>&1
The ManifestWork "no-object" is invalid:...
...
exit 1

$ kubectl apply -f work.yaml
manifestwork.work.open-cluster-management.io/w created

wait $ kubectl get -n cluster1 manifestwork w -o jsonpath='{range .status.resourceStatus.manifests[*]}{.resourceMeta.kind} {.resourceMeta.name}: {.conditions[?(@.type=="Applied")].status} {.conditions[?(@.type=="Applied")].message}{"\n"}{end}'
ConfigMap first: True Apply manifest complete
Unicorn one: False Failed to apply manifest: the server doesn't have a resource type "Unicorn"
Deployment unselective: False Failed to apply manifest: Deployment.apps "unselective" is invalid: ...spec.selector: Required value...
ConfigMap mistyped: False Failed to apply manifest: ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal array into Go struct field ConfigMap.data of type map[string]string
ConfigMap homeless: False Failed to apply manifest: namespaces "nowhere" not found
ClusterRole example:viewer: True Apply manifest complete
ConfigMap last: True Apply manifest complete

$ kubectl get -n cluster1 manifestwork w -o jsonpath='{range .status.conditions[*]}{.type}={.status}{"\n"}{end}'
Applied=False
Available=False

$ drover why manifestwork/cluster1/w
Manifest 1 (Unicorn default/one) is not applied: the server doesn't have a resource type "Unicorn".
...
Manifest 2 (Deployment default/unselective) is not applied: ...
...
Manifest 3 (ConfigMap default/mistyped) is not applied: ...
...
Manifest 4 (ConfigMap nowhere/homeless) is not applied: namespaces "nowhere" not found.
Manifest 4 (ConfigMap nowhere/homeless) is not on the cluster.

$ kubectl $CLUSTER get configmaps,deployments -o name
configmap/first
configmap/kube-root-ca.crt
configmap/last

# The first manifest goes, and so does its object, whatever the others say.
$ kubectl patch -n cluster1 manifestwork w --type=json -p '[{"op":"remove","path":"/spec/workload/manifests/0"}]'
manifestwork.work.open-cluster-management.io/w patched

wait $ kubectl $CLUSTER get configmaps -o name
configmap/kube-root-ca.crt
configmap/last

# Once the cluster is ready for it, a manifest that failed is applied with no hand.
$ kubectl $CLUSTER create namespace nowhere
namespace/nowhere created

wait $ kubectl $CLUSTER get configmap homeless -n nowhere -o name
configmap/homeless

$ kubectl delete manifestwork -n cluster1 w
manifestwork.work.open-cluster-management.io "w" deleted...

$ kubectl $CLUSTER get configmaps -o name
configmap/kube-root-ca.crt

# An executor that may do less than the work wants.
$ kubectl $CLUSTER create serviceaccount deployer
serviceaccount/deployer created

$ kubectl $CLUSTER create role deployer --verb='*' --resource=configmaps
role.rbac.authorization.k8s.io/deployer created

$ kubectl $CLUSTER create rolebinding deployer --role=deployer --serviceaccount=default:deployer
rolebinding.rbac.authorization.k8s.io/deployer created

$ kubectl apply -f executor.yaml
manifestwork.work.open-cluster-management.io/limited created

wait $ kubectl get -n cluster1 manifestwork limited -o jsonpath='{range .status.resourceStatus.manifests[*]}{.resourceMeta.kind} {.resourceMeta.name}: {.conditions[?(@.type=="Applied")].status} {.conditions[?(@.type=="Applied")].message}{"\n"}{end}'
ConfigMap old: True Apply manifest complete
Secret forbidden: False Failed to apply manifest: not allowed to apply the resource  secrets, default forbidden, will try again in 1m0s
ConfigMap allowed: True Apply manifest complete

$ kubectl patch -n cluster1 manifestwork limited --type=json -p '[{"op":"remove","path":"/spec/workload/manifests/0"}]'
manifestwork.work.open-cluster-management.io/limited patched

wait $ kubectl $CLUSTER get configmaps,secrets -o name
configmap/allowed
configmap/kube-root-ca.crt

stop up
