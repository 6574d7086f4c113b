# A hosted agent of the policy framework: the Policies of cluster `edge` are carried out on cluster1, in a namespace of
# theirs, and edge has nothing of them.

file policy.yaml
    apiVersion: policy.open-cluster-management.io/v1
    kind: Policy
    metadata: {name: team, namespace: default}
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
    metadata: {name: edge, namespace: default}
    spec:
      predicates:
      - requiredClusterSelector: {labelSelector: {matchLabels: {name: edge}}}
    ---
    apiVersion: policy.open-cluster-management.io/v1
    kind: PlacementBinding
    metadata: {name: team, namespace: default}
    placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: edge}
    subjects:
    - {apiGroup: policy.open-cluster-management.io, kind: Policy, name: team}

start up $ drover up --clusters 1 --no-examples

wait log up
...
ready in ...
...

# Another fleet, of which only the cluster is of interest: it stands for one that has no room for agents.
start other $ drover up --clusters 1 --data-dir other

wait log other
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set HOST=--kubeconfig=.drover/cluster1.kubeconfig

set EDGE=--kubeconfig=other/cluster1.kubeconfig

start agent $ drover $HOST agent --cluster-name edge --spoke-kubeconfig other/cluster1.kubeconfig --bootstrap-kubeconfig .drover/hub.kubeconfig

$ drover accept --clusters edge --wait --requesters kubernetes-admin
...
Your managed cluster edge has joined the Hub successfully.

$ kubectl label managedcluster edge name=edge
managedcluster.cluster.open-cluster-management.io/edge labeled

$ drover install hub-addon --names governance-policy-framework --create-namespace
...
deployment.apps/governance-policy-addon-controller created

$ drover addon enable --names governance-policy-framework --clusters edge --annotate addon.open-cluster-management.io/hosting-cluster-name=cluster1
Deploying governance-policy-framework add-on to namespaces open-cluster-management-agent-addon of managed cluster: edge.

$ kubectl wait -n edge managedclusteraddon/governance-policy-framework --for=condition=Available --timeout=60s
managedclusteraddon.addon.open-cluster-management.io/governance-policy-framework condition met

$ kubectl apply -f policy.yaml
policy.policy.open-cluster-management.io/team created
managedclustersetbinding.cluster.open-cluster-management.io/global created
placement.cluster.open-cluster-management.io/edge created
placementbinding.policy.open-cluster-management.io/team created

wait $ drover get policies
NAMESPACE   NAME   ACTION   COMPLIANCE     CLUSTERS   NOT COMPLIANT
default     team   inform   NonCompliant   1          edge

$ kubectl $HOST get policies.policy.open-cluster-management.io -A -o name
policy.policy.open-cluster-management.io/default.team

$ kubectl $HOST get deployments,policies.policy.open-cluster-management.io -n klusterlet-edge -o name
deployment.apps/governance-policy-framework
policy.policy.open-cluster-management.io/default.team

$ kubectl $EDGE get crds -o name | grep policy.open-cluster-management.io
exit 1

# It takes what it holds with it.
$ drover addon disable --names governance-policy-framework --clusters edge
Undeploying governance-policy-framework add-on in managed cluster: edge.

wait $ kubectl get managedclusteraddons,manifestworks -A -o name

wait $ kubectl $HOST get deployments,pods -n klusterlet-edge -o name

stop agent

stop other

stop up
