# Policies reach the clusters that they are bound to, and what becomes of them there comes back.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata:
      name: team
      namespace: default
      labels: {own: label}
    spec:
      disabled: false
      remediationAction: inform
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: UnknownPolicy
          metadata: {name: namespace-team}
          spec: {remediationAction: inform}
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
    metadata: {name: team, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: everywhere}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: team}

file canary.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: canary, namespace: default}
    spec:
      predicates:
      - requiredClusterSelector: {labelSelector: {matchLabels: {name: cluster1}}}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: canary, namespace: default}
    subFilter: restricted
    bindingOverrides: {remediationAction: enforce}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: canary}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: team}

file set.yaml
    apiVersion: policy.open-cluster-management.io/v1beta1
    kind: PolicySet
    metadata: {name: all, namespace: default}
    spec:
      policies: [team, missing]
      exclusions:
      - {policyName: team, clusterNames: [cluster2]}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: all, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: everywhere}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: PolicySet, name: all}

file refused.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: a-name-that-is-so-long-that-clusters-could-not-write-it-down, namespace: default}
    spec:
      disabled: false
      remediationAction: inform
      policy-templates: []
    ---
    apiVersion: policy.open-cluster-management.io/v1beta1
    kind: PolicySet
    metadata: {name: stranger, namespace: default}
    spec:
      policies: [team]
      exclusions:
      - {policyName: other, clusterNames: [cluster2]}

start up $ drover up --clusters 2 --addons governance-policy-framework

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl label managedcluster cluster1 name=cluster1
managedcluster.cluster.open-cluster-management.io/cluster1 labeled

$ kubectl apply -f policy.yaml
policy.policy.open-cluster-management.io/team created
managedclustersetbinding.cluster.open-cluster-management.io/global created
placement.cluster.open-cluster-management.io/everywhere created
placementbinding.policy.open-cluster-management.io/team created

# Its kind is none that the clusters have, and they say so.
wait $ drover get policies
NAMESPACE   NAME   ACTION   COMPLIANCE     CLUSTERS   NOT COMPLIANT
default     team   inform   NonCompliant   2          cluster1,cluster2

$ drover why policy/default/team
Cluster cluster1: template namespace-team: NonCompliant; template-error; Mapping not found, check if you have the CRD deployed: the resource version was not found: no matching kind was found: policy.open-cluster-management.io/v1, Kind=UnknownPolicy
Cluster cluster2: template namespace-team: NonCompliant; template-error; Mapping not found, check if you have the CRD deployed: the resource version was not found: no matching kind was found: policy.open-cluster-management.io/v1, Kind=UnknownPolicy

$ kubectl get policy team -o jsonpath='{.status.placement}'
[{"placement":"everywhere","placementBinding":"team"}]

$ kubectl get events --field-selector reason=PolicyPropagation -o jsonpath='{range .items[*]}{.message}{"\n"}{end}' | grep propagated | sort
Policy default/team was propagated to cluster cluster1
Policy default/team was propagated to cluster cluster2

# The replica is named after its Policy, and is put back when it is changed or deleted.
$ kubectl get policy -n cluster1 default.team -o jsonpath='{.metadata.labels}'
{"own":"label","policy.open-cluster-management.io/cluster-name":"cluster1","policy.open-cluster-management.io/cluster-namespace":"cluster1","policy.open-cluster-management.io/root-policy":"default.team"}

$ kubectl patch policy -n cluster1 default.team --type merge -p '{"spec": {"remediationAction": "enforce"}}' && kubectl delete policy -n cluster2 default.team
policy.policy.open-cluster-management.io/default.team patched
policy.policy.open-cluster-management.io "default.team" deleted...

wait $ kubectl get policies -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.remediationAction}{"\n"}{end}'
cluster1/default.team inform
cluster2/default.team inform
default/team inform

# Only the canary enforces it.
$ kubectl apply -f canary.yaml
placement.cluster.open-cluster-management.io/canary created
placementbinding.policy.open-cluster-management.io/canary created

wait $ kubectl get policies -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.remediationAction}{"\n"}{end}'
cluster1/default.team enforce
cluster2/default.team inform
default/team inform

# Bound by a PolicySet alone, it is not on the cluster that the set excludes.
$ kubectl apply -f set.yaml && kubectl delete placementbinding team canary
policyset.policy.open-cluster-management.io/all created
placementbinding.policy.open-cluster-management.io/all created
placementbinding.policy.open-cluster-management.io "team" deleted...
placementbinding.policy.open-cluster-management.io "canary" deleted...

wait $ kubectl get policies -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.spec.remediationAction}{"\n"}{end}'
cluster1/default.team inform
default/team inform

wait $ kubectl get policyset all -o jsonpath='{.status.compliant} {.status.statusMessage}{"\n"}{.status.exclusions}'
NonCompliant Deleted policies: missing; One or more policies were excluded. For details, see status.exclusions.
[{"clusters":["cluster2"],"policyName":"team"}]

# What clusters could not carry out is refused.
$ kubectl apply -f refused.yaml 2>&1
Error from server (Forbidden): error when creating "refused.yaml": admission webhook "policy.open-cluster-management.io.webhook" denied the request: the combined length of the policy namespace and name cannot exceed 62 characters
Error from server (Forbidden): error when creating "refused.yaml": admission webhook "policyset.open-cluster-management.io.webhook" denied the request: policy in spec.exclusions is not listed in spec.policies: other
exit 1

# Disabled, it leaves the clusters, and says so once.
$ kubectl patch policy team --type merge -p '{"spec": {"disabled": true}}'
policy.policy.open-cluster-management.io/team patched

wait $ kubectl get policies -A --no-headers | wc -l
1

$ kubectl get events --field-selector reason=PolicyPropagation -o jsonpath='{range .items[*]}{.message}{"\n"}{end}' | grep disabled
Policy default/team was disabled

$ drover why policy/default/team
It is disabled (spec.disabled), so no cluster has it.

stop up
