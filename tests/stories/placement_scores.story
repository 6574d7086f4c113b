# Which of the clusters that fit are chosen: those with the best scores, and rather those that are chosen already.

file four.sh
    # Four clusters, each with more memory than the one before it.
    for it in a1 b2 c3 d4; do
      name=${it%?} size=${it#?}
      printf '{"apiVersion":"cluster.open-cluster-management.io/v1","kind":"ManagedCluster","metadata":{"name":"%s"},"spec":{}}' $name | kubectl apply -f -
      printf '{"status":{"capacity":{"memory":"%sGi"},"allocatable":{"memory":"%sGi"},"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"R","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}' $size $size > status.json
      kubectl patch managedcluster $name --subresource=status --type=merge --patch-file status.json
      kubectl create namespace $name
    done

file score.sh
    # Writes the score of cluster $1: $2, valid until $3.
    printf '{"apiVersion":"cluster.open-cluster-management.io/v1alpha1","kind":"AddOnPlacementScore","metadata":{"name":"usage","namespace":"%s"}}' $1 | kubectl apply -f - > /dev/null
    kubectl patch addonplacementscore -n $1 usage --subresource=status --type=merge -p '{"status":{"scores":[{"name":"cpu","value":'$2'}],"validUntil":"'$3'"}}' > /dev/null

file exact.yaml
    apiVersion: cluster.open-cluster-management.io/v1beta1
    kind: Placement
    metadata: {name: small, namespace: default}
    spec:
      numberOfClusters: 1
      prioritizerPolicy:
        mode: Exact
        configurations:
          - {scoreCoordinate: {type: BuiltIn, builtIn: ResourceAllocatableMemory}, weight: -1}

start up $ drover up --clusters 0

wait log up
...
ready in ...
...

set KUBECONFIG=.drover/hub.kubeconfig

set CHOSEN={.status.decisions[*].clusterName}

$ sh four.sh
...

$ drover clusterset bind global -n default
Clusterset global is bound to Namespace default

# More than there are: all of them, and a condition that counts what is missing.
$ drover create placement many --count 6
Placement 'many' has been created in 'default' namespace

wait $ kubectl get placement many -o jsonpath='{.status.numberOfSelectedClusters} {range .status.conditions[?(@.type=="PlacementSatisfied")]}{.status} {.reason}: {.message}{end}'
4 False NotAllDecisionsScheduled: 2 cluster decisions unscheduled

# Another number is another choice.
$ drover create placement many --count 2 --overwrite
Placement 'many' of 'default' namespace has been updated

wait $ kubectl get placement many
NAME   SUCCEEDED   REASON                  SELECTEDCLUSTERS
many   True        AllDecisionsScheduled   2

$ kubectl delete placement many
placement.cluster.open-cluster-management.io "many" deleted...

# Balance: placements of one cluster each go to different ones.
$ for it in 1 2 3 4; do drover create placement one-$it --count 1; until kubectl get placementdecision one-$it-decision-1 -o jsonpath='{.status.decisions[*].clusterName}' 2>&1 | grep -q '^[a-d]$'; do :; done; done
...

$ for it in 1 2 3 4; do kubectl get placementdecision one-$it-decision-1 -o jsonpath='{.status.decisions[*].clusterName}{"\n"}'; done | sort
a
b
c
d

# The most memory; a weight turns it round, and `Exact` counts nothing else.
$ drover create placement big --count 1 --prioritizers BuiltIn:ResourceAllocatableMemory:3
Placement 'big' has been created in 'default' namespace

wait $ kubectl get placementdecision big-decision-1 -o jsonpath="$CHOSEN"
d

$ kubectl apply -f exact.yaml
placement.cluster.open-cluster-management.io/small created

wait $ kubectl get placementdecision small-decision-1 -o jsonpath="$CHOSEN"
a

$ drover why placement/small --cluster d
4 clusters are in the sets global; 4 fit, 1 are chosen.
Cluster d fits with score -100 (ResourceAllocatableMemory 100 times -1), but 3 clusters come before it.

# What an add-on measures, as long as it is valid.
$ sh score.sh b 90 2099-01-01T00:00:00Z; sh score.sh c 40 2099-01-01T00:00:00Z

$ drover create placement measured --count 1 --prioritizers AddOn:usage:cpu:3
Placement 'measured' has been created in 'default' namespace

wait $ kubectl get placementdecision measured-decision-1 -o jsonpath="$CHOSEN"
b

# Steady: a cluster that is a little better does not take its place, one that is much better does.
$ sh score.sh c 95 2099-01-01T00:00:00Z

wait $ drover why placement/measured --cluster c
...
Cluster c fits with score ...AddOn/usage/cpu 95 times 3...

$ kubectl get placementdecision measured-decision-1 -o jsonpath="$CHOSEN"
b

$ sh score.sh b 10 2099-01-01T00:00:00Z

wait $ kubectl get placementdecision measured-decision-1 -o jsonpath="$CHOSEN"
c

# A score that is too old counts as nothing, and an event says so.
$ sh score.sh c 95 2020-01-01T00:00:00Z; sh score.sh a 100 2099-01-01T00:00:00Z

wait $ kubectl get placementdecision measured-decision-1 -o jsonpath="$CHOSEN"
a

wait $ kubectl get events -o jsonpath='{range .items[?(@.involvedObject.name=="measured")]}{.type} {.reason} {.message}{"\n"}{end}' | sort -u
Normal DecisionCreate Decision measured-decision-1 is created with placement measured in namespace default
Normal DecisionUpdate Decision measured-decision-1 is updated with placement measured in namespace default
Normal ScoreUpdate ...
...
Warning DecisionUpdate Decision measured-decision-1 is updated with placement measured in namespace default: AddOnPlacementScores c/usage expired in plugin AddOn/usage/cpu

stop up
