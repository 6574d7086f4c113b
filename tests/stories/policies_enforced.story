# What a Policy says of objects is checked on its clusters and put right there, with templates of the hub and of the cluster.
# Embedded only: `up --addons` is of a hub and clusters in one process.

file hub.yaml
    apiVersion: v1
    kind: ConfigMap
    metadata: {name: palette, namespace: default}
    data: {color: red}
    ---
    apiVersion: v1
    kind: Secret
    metadata: {name: password, namespace: default}
    stringData: {word: topsecret}
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

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: team, namespace: default}
    spec:
      disabled: false
      remediationAction: enforce
      policy-templates:
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: ConfigurationPolicy
          metadata: {name: settings}
          spec:
            remediationAction: inform
            severity: low
            pruneObjectBehavior: DeleteIfCreated
            object-templates:
            - complianceType: musthave
              objectDefinition:
                apiVersion: v1
                kind: ConfigMap
                metadata: {name: settings, namespace: default}
                data:
                  cluster: '{{hub .ManagedClusterName hub}}'
                  color: '{{hub fromConfigMap "" "palette" "color" hub}}'
                  level: '{{ fromConfigMap "default" "local" "level" }}'
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: ConfigurationPolicy
          metadata: {name: password}
          spec:
            remediationAction: inform
            severity: high
            pruneObjectBehavior: DeleteIfCreated
            object-templates:
            - complianceType: musthave
              objectDefinition:
                apiVersion: v1
                kind: Secret
                metadata: {name: password, namespace: default}
                data: {word: '{{hub fromSecret "" "password" "word" hub}}'}

file settings.sh
    #!/bin/bash
    # The ConfigMap of each cluster.
    for cluster in cluster1 cluster2; do
      kubectl --kubeconfig=.drover/$cluster.kubeconfig get configmap settings -o jsonpath='{.data}{"\n"}' 2>&1
    done

start up $ drover up --clusters 2 --addons governance-policy-framework,config-policy-controller

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ kubectl get managedclusteraddons -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {.status.conditions[?(@.type=="Available")].status}{"\n"}{end}' | grep polic
cluster1/config-policy-controller True
cluster1/governance-policy-framework True
cluster2/config-policy-controller True
cluster2/governance-policy-framework True

$ for cluster in cluster1 cluster2; do kubectl --kubeconfig=.drover/$cluster.kubeconfig create configmap local --from-literal=level=low; done
configmap/local created
configmap/local created

$ kubectl apply -f hub.yaml -f policy.yaml
...
placementbinding.policy.open-cluster-management.io/team created
policy.policy.open-cluster-management.io/team created

# Both clusters have what it says, filled in for each.
wait $ bash settings.sh
{"cluster":"cluster1","color":"red","level":"low"}
{"cluster":"cluster2","color":"red","level":"low"}

wait $ kubectl get policies -A
NAMESPACE   NAME           REMEDIATION ACTION   COMPLIANCE STATE   AGE
cluster1    default.team   enforce              Compliant          <age>
cluster2    default.team   enforce              Compliant          <age>
default     team           enforce              Compliant          <age>

$ drover get policies
NAMESPACE   NAME   ACTION    COMPLIANCE   CLUSTERS   NOT COMPLIANT
default     team   enforce   Compliant    2          

$ drover why policy/default/team
policy/default/team waits for nothing.

wait $ kubectl get policy -n cluster1 default.team -o jsonpath='{range .status.details[0].history[*]}{.message}{"\n"}{end}'
Compliant; notification - configmaps [settings] found as specified in namespace default
Compliant; notification - configmaps [settings] was created successfully in namespace default
NonCompliant; violation - configmaps [settings] not found in namespace default

# What somebody changes on a cluster is put back.
$ kubectl --kubeconfig=.drover/cluster1.kubeconfig patch configmap settings --type merge -p '{"data": {"color": "mine", "own": "stays"}}'
configmap/settings patched

wait $ bash settings.sh
{"cluster":"cluster1","color":"red","level":"low","own":"stays"}
{"cluster":"cluster2","color":"red","level":"low"}

wait $ kubectl get policy -n cluster1 default.team -o jsonpath='{range .status.details[0].history[*]}{.message}{"\n"}{end}' | head -3
Compliant; notification - configmaps [settings] found as specified in namespace default
Compliant; notification - configmaps [settings] was updated successfully in namespace default
NonCompliant; violation - configmaps [settings] found but not as specified in namespace default

# What a template has looked up arrives when it changes, on the hub as on the cluster.
$ kubectl patch configmap palette --type merge -p '{"data": {"color": "blue"}}' && kubectl --kubeconfig=.drover/cluster2.kubeconfig patch configmap local --type merge -p '{"data": {"level": "high"}}'
configmap/palette patched
configmap/local patched

wait $ bash settings.sh
{"cluster":"cluster1","color":"blue","level":"low","own":"stays"}
{"cluster":"cluster2","color":"blue","level":"high"}

# A secret of the hub is on its way as only its cluster can read it.
$ kubectl get policy -n cluster1 default.team -o jsonpath='{.spec.policy-templates[1].objectDefinition.spec.object-templates[0].objectDefinition.data.word}' | cut -c1-15
$ocm_encrypted:

$ kubectl --kubeconfig=.drover/cluster1.kubeconfig get configurationpolicy -n cluster1 password -o yaml | grep -c 'word: $ocm_encrypted:'
1

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get secret password -o jsonpath='{.data.word}' | base64 --decode
topsecret

# Informed only, nothing is put right, and the Policy says what is wrong.
$ kubectl patch policy team --type merge -p '{"spec": {"remediationAction": "inform"}}'
policy.policy.open-cluster-management.io/team patched

wait $ for cluster in cluster1 cluster2; do kubectl --kubeconfig=.drover/$cluster.kubeconfig get configurationpolicy -n $cluster settings -o jsonpath='{.spec.remediationAction}{"\n"}'; done
inform
inform

$ kubectl --kubeconfig=.drover/cluster1.kubeconfig delete configmap settings
configmap "settings" deleted...

wait $ drover get policies
NAMESPACE   NAME   ACTION   COMPLIANCE     CLUSTERS   NOT COMPLIANT
default     team   inform   NonCompliant   2          cluster1

$ drover why policy/default/team
Cluster cluster1: template settings: NonCompliant; violation - configmaps [settings] not found in namespace default

$ kubectl get policy team -o jsonpath='{.status.compliant}'
NonCompliant

$ kubectl patch policy team --type merge -p '{"spec": {"remediationAction": "enforce"}}'
policy.policy.open-cluster-management.io/team patched

wait $ bash settings.sh
{"cluster":"cluster1","color":"blue","level":"low"}
{"cluster":"cluster2","color":"blue","level":"high"}

wait $ kubectl get policy team -o jsonpath='{.status.compliant}'
Compliant

# With the Policy goes what it has made, and nothing else.
$ kubectl delete policy team
policy.policy.open-cluster-management.io "team" deleted...

wait $ for cluster in cluster1 cluster2; do kubectl --kubeconfig=.drover/$cluster.kubeconfig get configmaps,secrets,configurationpolicies -A -o name | grep 'settings\|password\|local$'; done
configmap/local
configmap/local

stop up
