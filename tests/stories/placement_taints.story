# Taints keep clusters away from placements that do not tolerate them; the hub taints clusters that it does not hear from.

file tolerant.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: tolerant, namespace: default}
    spec:
      tolerations:
        - {key: gpu, operator: Equal, value: "yes"}
        - {key: cluster.open-cluster-management.io/unreachable, operator: Exists}

file patient.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: patient, namespace: default}
    spec:
      tolerations:
        - {key: gpu, operator: Exists, tolerationSeconds: 8}

start up $ drover up --clusters 1

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CHOSEN={range .items[*]}{.metadata.name}:{range .status.decisions[*]} {.clusterName}{end}{"\n"}{end}

start second $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster2

wait $ kubectl get csr -l open-cluster-management.io/cluster-name=cluster2 --no-headers
cluster2-...   Pending

$ drover accept --clusters cluster2 --wait
...

$ kubectl patch managedcluster cluster2 --type=merge -p '{"spec":{"leaseDurationSeconds":1}}'
managedcluster.cluster.open-cluster-management.io/cluster2 patched

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

$ drover create placement plain
Placement 'plain' has been created in 'default' namespace

$ kubectl apply -f tolerant.yaml -f patient.yaml
...

wait $ kubectl get placementdecisions -o jsonpath="$CHOSEN"
patient-decision-1: cluster1 cluster2
plain-decision-1: cluster1 cluster2
tolerant-decision-1: cluster1 cluster2

# NoSelectIfNew keeps who is there, and lets nobody in.
$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"taints":[{"key":"full","effect":"NoSelectIfNew"}]}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

$ drover create placement newcomer
Placement 'newcomer' has been created in 'default' namespace

wait $ kubectl get placementdecisions -o jsonpath="$CHOSEN"
newcomer-decision-1: cluster2
patient-decision-1: cluster1 cluster2
plain-decision-1: cluster1 cluster2
tolerant-decision-1: cluster1 cluster2

# NoSelect drives away who does not tolerate it; some tolerate it for a while.
$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"taints":[{"key":"gpu","value":"yes","effect":"NoSelect"}]}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

wait $ kubectl get placementdecisions -o jsonpath="$CHOSEN"
newcomer-decision-1: cluster2
patient-decision-1: cluster1 cluster2
plain-decision-1: cluster2
tolerant-decision-1: cluster1 cluster2

$ drover why placement/plain --cluster cluster1
...
Cluster cluster1 has the taint gpu=yes:NoSelect, which is not tolerated.

wait $ kubectl get placementdecisions -o jsonpath="$CHOSEN"
newcomer-decision-1: cluster2
patient-decision-1: cluster2
plain-decision-1: cluster2
tolerant-decision-1: cluster1 cluster2

# The agent of cluster2 dies, and the cluster becomes unreachable after five of its leases.
kill second

wait $ kubectl get managedcluster cluster2 -o jsonpath='{range .spec.taints[*]}{.key}:{.effect}{end}'
cluster.open-cluster-management.io/unreachable:NoSelect

wait $ kubectl get placementdecisions -o jsonpath="$CHOSEN"
newcomer-decision-1:
patient-decision-1:
plain-decision-1:
tolerant-decision-1: cluster1 cluster2

# It comes back, and so do the decisions.
start again $ drover join --embedded --hub-kubeconfig .drover/hub.kubeconfig --cluster-name cluster2

wait $ kubectl get placementdecisions -o jsonpath="$CHOSEN"
newcomer-decision-1: cluster2
patient-decision-1: cluster2
plain-decision-1: cluster2
tolerant-decision-1: cluster1 cluster2

$ kubectl patch managedcluster cluster1 --type=merge -p '{"spec":{"taints":[]}}'
managedcluster.cluster.open-cluster-management.io/cluster1 patched

wait $ kubectl get placementdecision plain-decision-1 -o jsonpath='{.status.decisions[*].clusterName}'
cluster1 cluster2

stop again

stop up
