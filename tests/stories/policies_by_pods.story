# The policy framework as pods that `install hub-addon` makes, on any Kubernetes, and its removal.

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
          kind: UnknownPolicy
          metadata: {name: namespace-team}
          spec: {remediationAction: inform}
      - objectDefinition:
          apiVersion: policy.open-cluster-management.io/v1
          kind: ConfigurationPolicy
          metadata: {name: settings}
          spec:
            remediationAction: inform
            pruneObjectBehavior: DeleteAll
            object-templates:
            - complianceType: musthave
              objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}}
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

start up $ drover up --clusters 1 --no-examples

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

$ drover get policies
error: this hub has no policies: ...
exit 1

$ drover install hub-addon --names governance-policy-framework --create-namespace
Installing built-in governance-policy-framework add-on to the Hub cluster...
customresourcedefinition.apiextensions.k8s.io/placementbindings.policy.open-cluster-management.io created
...
deployment.apps/governance-policy-propagator created
deployment.apps/governance-policy-addon-controller created

wait $ kubectl get deployments -n open-cluster-management | grep governance
governance-policy-addon-controller   1/1     1            1           <age>
governance-policy-propagator         1/1     1            1           <age>

$ drover addon enable --names governance-policy-framework,config-policy-controller --clusters cluster1
Deploying config-policy-controller add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.
Deploying governance-policy-framework add-on to namespaces open-cluster-management-agent-addon of managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddons --all --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/config-policy-controller condition met
managedclusteraddon.addon.open-cluster-management.io/governance-policy-framework condition met

$ kubectl apply -f policy.yaml
policy.policy.open-cluster-management.io/team created
managedclustersetbinding.cluster.open-cluster-management.io/global created
placement.cluster.open-cluster-management.io/everywhere created
placementbinding.policy.open-cluster-management.io/team created

wait $ drover get policies
NAMESPACE   NAME   ACTION    COMPLIANCE     CLUSTERS   NOT COMPLIANT
default     team   enforce   NonCompliant   1          cluster1

wait $ kubectl get policy -n cluster1 default.team -o jsonpath='{.status.details[1].compliant}{"\n"}' && kubectl --kubeconfig=.drover/cluster1.kubeconfig get configmap settings -o name
Compliant
configmap/settings

$ drover why policy/default/team
Cluster cluster1: template namespace-team: NonCompliant; template-error; Mapping not found, ...

# What a controller holds by finalizers it lets go of when it is taken away, and what it has made stays.
$ kubectl --kubeconfig=.drover/cluster1.kubeconfig get configurationpolicy -n cluster1 settings -o jsonpath='{.metadata.finalizers}'
["policy.open-cluster-management.io/delete-related-objects"]

$ drover addon disable --names config-policy-controller --clusters cluster1
Undeploying config-policy-controller add-on in managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddon config-policy-controller --for=delete --timeout=90s
managedclusteraddon.addon.open-cluster-management.io/config-policy-controller condition met

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get crds -o name | grep -c configurationpolicies
0
exit 1

$ kubectl --kubeconfig=.drover/cluster1.kubeconfig get configmap settings -o name
configmap/settings

# The framework goes when no cluster has it any more; what it kept on clusters by finalizers goes first.
$ drover uninstall hub-addon --names governance-policy-framework
error: there are still addons for governance-policy-framework enabled on some clusters, run `clusteradm addon disable --names governance-policy-framework --clusters cluster1` to disable addons
exit 1

$ drover addon disable --names governance-policy-framework --clusters cluster1
Undeploying governance-policy-framework add-on in managed cluster: cluster1.

$ kubectl wait -n cluster1 managedclusteraddons --all --for=delete --timeout=90s
managedclusteraddon.addon.open-cluster-management.io/governance-policy-framework condition met

wait $ kubectl --kubeconfig=.drover/cluster1.kubeconfig get crds -o name | grep -c policy.open
0
exit 1

$ drover uninstall hub-addon --names governance-policy-framework
Uninstalling built-in governance-policy-framework add-on from the Hub cluster...
deployment.apps/governance-policy-addon-controller deleted
deployment.apps/governance-policy-propagator deleted
...
serviceaccount/governance-policy-propagator deleted

stop up
