# What differs between clusters is filled in on the hub: `{{hub ... hub}}`.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file world.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: settings, namespace: default}
    data: {color: red}
    ---
    apiVersion: v1
    kind: Secret
    metadata: {name: password, namespace: default}
    stringData: {word: topsecret}
    ---
    apiVersion: v1
    kind: Namespace
    metadata: {name: other}
    ---
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: far, namespace: other}
    data: {key: first}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta2
    kind: ManagedClusterSetBinding
    metadata: {name: global, namespace: default}
    spec: {clusterSet: global}
    ---
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: everywhere, namespace: default}
    spec: {}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: all, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: everywhere}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: filled}
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: far}

file policies.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: filled, namespace: default}
    spec:
      disabled: false
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: UnknownPolicy
          metadata: {name: t}
          spec:
            cluster: '{{hub .ManagedClusterName hub}}'
            label: '{{hub index .ManagedClusterLabels "place" hub}}'
            color: '{{hub fromConfigMap "" "settings" "color" hub}}'
            of: '{{hub .PolicyMetadata.name hub}}'
            later: '{{ fromClusterClaim "id" }}'
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: far, namespace: default}
    spec:
      disabled: false
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: UnknownPolicy
          metadata: {name: t}
          spec: {far: '{{hub fromConfigMap "other" "far" "key" hub}}'}

file encrypted.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: filled, namespace: default}
    spec:
      disabled: false
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: UnknownPolicy
          metadata: {name: t}
          spec: {word: '{{hub fromSecret "" "password" "word" hub}}'}

file said.sh
    #!/bin/bash
    # The first template of a replica, or why it was not filled in.
    kubectl get policy -n "$1" "default.$2" -o json | python3 -c '
    import json, sys
    it = json.load(sys.stdin)["spec"]["policy-templates"][0]["objectDefinition"]
    error = it["metadata"].get("annotations", {}).get("policy.open-cluster-management.io/hub-templates-error", "")
    print(error[error.find("error calling"):] if "error calling" in error else error or json.dumps(it["spec"]))'

start up $ drover up --clusters 2 --addons governance-policy-framework

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl label managedcluster cluster1 place=here && kubectl label managedcluster cluster2 place=there
managedcluster.cluster.open-cluster-management.io/cluster1 labeled
managedcluster.cluster.open-cluster-management.io/cluster2 labeled

$ kubectl apply -f world.yaml -f policies.yaml
...
policy.policy.open-cluster-management.io/filled created
policy.policy.open-cluster-management.io/far created

# What is for the cluster to fill in stays as it is written.
wait $ bash said.sh cluster1 filled && bash said.sh cluster2 filled
{"cluster": "cluster1", "color": "red", "label": "here", "later": "{{ fromClusterClaim \"id\" }}", "of": "filled"}
{"cluster": "cluster2", "color": "red", "label": "there", "later": "{{ fromClusterClaim \"id\" }}", "of": "filled"}

# What was looked up is watched.
$ kubectl patch configmap settings --type merge -p '{"data": {"color": "blue"}}' && kubectl label managedcluster cluster2 --overwrite place=nowhere
configmap/settings patched
managedcluster.cluster.open-cluster-management.io/cluster2 labeled

wait $ bash said.sh cluster2 filled
{"cluster": "cluster2", "color": "blue", "label": "nowhere", "later": "{{ fromClusterClaim \"id\" }}", "of": "filled"}

# Another namespace is not read, and the policy says so.
wait $ bash said.sh cluster1 far
error calling fromConfigMap: failed getting the ConfigMap far from other: the namespace argument is restricted to default

$ kubectl get events --field-selector type=Warning,reason=PolicyPropagation -o jsonpath='{range .items[*]}{.message}{"\n"}{end}' | grep -c 'Failed to resolve templates for cluster cluster[12]: failed to resolve the template'
2

# With a ServiceAccount it is read as far as that may.
$ kubectl patch policy far --type merge -p '{"spec": {"hubTemplateOptions": {"serviceAccountName": "reader"}}}'
policy.policy.open-cluster-management.io/far patched

wait $ bash said.sh cluster1 far
the service account in hubTemplateOptions.serviceAccountName (default/reader) does not exist

$ kubectl create role reader -n other --verb=get,list,watch --resource=configmaps && kubectl create rolebinding reader -n other --role=reader --serviceaccount=default:reader
role.rbac.authorization.k8s.io/reader created
rolebinding.rbac.authorization.k8s.io/reader created

$ kubectl create serviceaccount reader
serviceaccount/reader created

wait $ bash said.sh cluster1 far
{"far": "first"}

$ kubectl patch configmap far -n other --type merge -p '{"data": {"key": "second"}}'
configmap/far patched

wait $ bash said.sh cluster1 far
{"far": "second"}

# Secrets are encrypted for each cluster, with a key that its cluster has and that changes.
$ kubectl apply -f encrypted.yaml
policy.policy.open-cluster-management.io/filled configured

wait $ bash said.sh cluster1 filled | cut -c1-25
{"word": "$ocm_encrypted:

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get secret -n cluster1 policy-encryption-key --no-headers
policy-encryption-key   Opaque   1     <age>

let BEFORE $ bash said.sh cluster1 filled

$ kubectl annotate secret -n cluster1 policy-encryption-key --overwrite policy.open-cluster-management.io/last-rotated=2020-01-01T00:00:00Z
secret/policy-encryption-key annotated

wait $ test "$(bash said.sh cluster1 filled)" != "$BEFORE" && kubectl get policy filled -o jsonpath='{.metadata.annotations.policy\.open-cluster-management\.io/trigger-update}' | cut -c1-21
rotate-key-cluster1-2

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get secret -n cluster1 policy-encryption-key --no-headers
policy-encryption-key   Opaque   2     <age>

stop up
