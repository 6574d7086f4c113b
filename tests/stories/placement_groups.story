# The clusters of a placement in groups, for whoever rolls something out one group after the other.

file clusters.sh
    for it in 1 2 3 4 5 6 7; do
      env=prod; [ $it -le 2 ] && env=canary
      printf '{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"c%s","labels":{"env":"%s"}},"spec":{}}' $it $env | kubectl apply -f -
      kubectl patch managedcluster c$it --subresource=status --type=merge --patch-file available.json
    done

file available.json
    {"status": {"conditions": [{"type": "ManagedClusterConditionAvailable", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}

file placement.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: waves, namespace: default}
    spec:
      decisionStrategy:
        groupStrategy:
          decisionGroups:
            - groupName: canary
              groupClusterSelector: {labelSelector: {matchLabels: {env: canary}}}
          clustersPerDecisionGroup: 3

start up $ drover up --clusters 0

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set GROUPS_={range .items[*]}{.metadata.labels.cluster\.open-cluster-management\.io/decision-group-index} {.metadata.labels.cluster\.open-cluster-management\.io/decision-group-name} {.metadata.name}:{range .status.decisions[*]} {.clusterName}{end}{"\n"}{end}

$ sh clusters.sh
...

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

$ kubectl apply -f placement.yaml
placement.cluster.open-cluster-management.io/waves created

# Named groups come first, then the others; none has more than three.
wait $ kubectl get placementdecisions -l cluster.open-cluster-management.io/placement=waves -o jsonpath="$GROUPS_"
0 canary waves-decision-1: c1 c2
1  waves-decision-2: c3 c4 c5
2  waves-decision-3: c6 c7

wait $ kubectl get placement waves -o jsonpath='{range .status.decisionGroups[*]}{.decisionGroupIndex} {.decisionGroupName} {.decisions} {.clusterCount}{"\n"}{end}'
0 canary ["waves-decision-1"] 2
1  ["waves-decision-2"] 3
2  ["waves-decision-3"] 2

# A cluster that becomes a canary changes its group.
$ kubectl label managedcluster c4 env=canary --overwrite
managedcluster.cluster.open-cluster-management.io/c4 labeled

wait $ kubectl get placementdecisions -o jsonpath="$GROUPS_"
0 canary waves-decision-1: c1 c2 c4
1  waves-decision-2: c3 c5 c6
2  waves-decision-3: c7

# Half of the seven are four.
$ kubectl patch placement waves --type=merge -p '{"spec":{"decisionStrategy":{"groupStrategy":{"clustersPerDecisionGroup":"50%"}}}}'
placement.cluster.open-cluster-management.io/waves patched

wait $ kubectl get placementdecisions -o jsonpath="$GROUPS_"
0 canary waves-decision-1: c1 c2 c4
1  waves-decision-2: c3 c5 c6 c7

# A cluster that leaves makes room; its group may be empty of others and stays first.
$ kubectl delete managedcluster c7 --wait=false
managedcluster.cluster.open-cluster-management.io "c7" deleted...

wait $ kubectl get placementdecisions -o jsonpath="$GROUPS_"
0 canary waves-decision-1: c1 c2 c4
1  waves-decision-2: c3 c5 c6

# Labels are the hub's; what somebody else writes there is put right.
$ kubectl label placementdecision waves-decision-1 cluster.open-cluster-management.io/decision-group-index=7 --overwrite
placementdecision.cluster.open-cluster-management.io/waves-decision-1 labeled

wait $ kubectl get placementdecisions -o jsonpath="$GROUPS_"
0 canary waves-decision-1: c1 c2 c4
1  waves-decision-2: c3 c5 c6

$ kubectl patch placement waves --type=merge -p '{"spec":{"decisionStrategy":null}}'
placement.cluster.open-cluster-management.io/waves patched

wait $ kubectl get placementdecisions -o jsonpath="$GROUPS_"
0  waves-decision-1: c1 c2 c3 c4 c5 c6

stop up
